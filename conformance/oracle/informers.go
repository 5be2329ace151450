package main

import (
	"reflect"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
)

// The kinds the scheduler reads, cluster-scoped ones first.
var (
	clusterKinds = []runtime.Object{
		&v1.Node{}, &v1.Namespace{}, &v1.PersistentVolume{},
		&storagev1.StorageClass{}, &storagev1.CSINode{}, &storagev1.CSIDriver{}, &storagev1.VolumeAttachment{},
		&resourcev1.DeviceClass{}, &resourcev1.ResourceSlice{},
	}
	namespacedKinds = []runtime.Object{
		&v1.Pod{}, &v1.Service{}, &v1.ReplicationController{}, &v1.PersistentVolumeClaim{},
		&appsv1.ReplicaSet{}, &appsv1.StatefulSet{},
		&storagev1.CSIStorageCapacity{}, &policyv1.PodDisruptionBudget{}, &resourcev1.ResourceClaim{},
	}
	known     = map[schema.GroupVersionKind]bool{}
	isCluster = map[reflect.Type]bool{}
)

func init() {
	for _, obj := range clusterKinds {
		isCluster[reflect.TypeOf(obj)] = true
	}
	for _, obj := range append(append([]runtime.Object{}, clusterKinds...), namespacedKinds...) {
		gvks, _, err := scheme.Scheme.ObjectKinds(obj)
		if err != nil {
			panic(err)
		}
		for _, gvk := range gvks {
			known[gvk] = true
		}
	}
}

func clusterScoped(obj runtime.Object) bool { return isCluster[reflect.TypeOf(obj)] }

// cluster replaces the API server's watches. Its informers have no goroutines:
// add stores an object and calls the handlers before it returns, so that no
// synchronisation is needed.
type cluster struct {
	factory   informers.SharedInformerFactory
	informers map[reflect.Type]*informer
}

func newCluster(client kubernetes.Interface) *cluster {
	c := &cluster{
		factory:   informers.NewSharedInformerFactory(client, 0),
		informers: map[reflect.Type]*informer{},
	}
	for _, kinds := range [][]runtime.Object{clusterKinds, namespacedKinds} {
		for _, obj := range kinds {
			inf := &informer{store: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
				cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
			})}
			c.informers[reflect.TypeOf(obj)] = inf
			// The factory keeps the first informer it gets for a type.
			c.factory.InformerFor(obj, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return inf })
		}
	}
	return c
}

// store makes an object visible to listers only.
func (c *cluster) store(obj runtime.Object) error {
	return c.informers[reflect.TypeOf(obj)].store.Add(obj)
}

// add makes an object visible to listers and calls the event handlers.
func (c *cluster) add(obj runtime.Object) error {
	inf := c.informers[reflect.TypeOf(obj)]
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return err
	}
	old, exists, err := inf.store.GetByKey(key)
	if err != nil {
		return err
	}
	if err := inf.store.Add(obj); err != nil {
		return err
	}
	for _, h := range inf.handlers {
		if exists {
			h.OnUpdate(old, obj)
		} else {
			h.OnAdd(obj, true)
		}
	}
	return nil
}

// informer implements the part of cache.SharedIndexInformer that the
// scheduler uses; every other method panics, since the embedded interface is nil.
type informer struct {
	cache.SharedIndexInformer
	mu       sync.Mutex
	store    cache.Indexer
	handlers []cache.ResourceEventHandler
}

func (i *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = append(i.handlers, h)
	for _, obj := range i.store.List() {
		h.OnAdd(obj, true)
	}
	return synced{}, nil
}

func (i *informer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

func (i *informer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

func (i *informer) AddIndexers(indexers cache.Indexers) error { return i.store.AddIndexers(indexers) }
func (i *informer) GetIndexer() cache.Indexer                 { return i.store }
func (i *informer) GetStore() cache.Store                     { return i.store }
func (i *informer) HasSynced() bool                           { return true }
func (i *informer) HasSyncedChecker() cache.DoneChecker       { return synced{} }

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

type synced struct{}

func (synced) HasSynced() bool                     { return true }
func (synced) HasSyncedChecker() cache.DoneChecker { return synced{} }
func (synced) Name() string                        { return "case" }
func (synced) Done() <-chan struct{}               { return closed }
