package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	resourcev1client "k8s.io/client-go/kubernetes/typed/resource/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// A panic in a goroutine that upstream starts must not end the process. It
// cannot be attributed to a case, so panics are counted, and the cases that ran
// at that time are repeated one at a time (see explain).
var (
	panics    atomic.Int64
	lastPanic atomic.Value // string
	alone     sync.RWMutex
)

func init() {
	klog.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil // the default ones sleep
	utilruntime.ReallyCrash = false
	utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, r any) {
		lastPanic.Store(fmt.Sprint(r))
		panics.Add(1)
	}}
}

// explain answers one input line.
func explain(line []byte) *answer {
	before := panics.Load()
	alone.RLock()
	a := explainOnce(line)
	alone.RUnlock()
	if panics.Load() == before {
		return a
	}
	alone.Lock()
	defer alone.Unlock()
	before = panics.Load()
	a = explainOnce(line)
	if panics.Load() != before {
		a.Error = fmt.Sprintf("panic: %v", lastPanic.Load())
	}
	return a
}

func explainOnce(line []byte) (a *answer) {
	a = &answer{ID: rawID(line)}
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(os.Stderr, "case %s: panic: %v\n%s", a.ID, r, debug.Stack())
			a = &answer{ID: a.ID, Error: fmt.Sprintf("panic: %v", r)}
		}
	}()
	c, err := decodeCase(line)
	if err != nil {
		a.Error = err.Error()
		return a
	}
	cfg, err := loadConfig(c.config)
	if err != nil {
		a.ConfigErrors = errorList(err)
		return a
	}
	evaluate(a, c, cfg)
	return a
}

var (
	defaultConfig = sync.OnceValues(func() (*config.KubeSchedulerConfiguration, error) {
		return parseConfig([]byte(`{"apiVersion":"` + configv1.SchemeGroupVersion.String() + `","kind":"KubeSchedulerConfiguration"}`))
	})
	lastConfig struct {
		sync.Mutex
		raw []byte
		cfg *config.KubeSchedulerConfiguration
	}
)

// loadConfig returns the effective configuration; raw nil means the default.
func loadConfig(raw []byte) (*config.KubeSchedulerConfiguration, error) {
	if raw == nil {
		cfg, err := defaultConfig()
		return cfg.DeepCopy(), err
	}
	lastConfig.Lock()
	defer lastConfig.Unlock()
	if !bytes.Equal(raw, lastConfig.raw) || lastConfig.cfg == nil {
		cfg, err := parseConfig(raw)
		if err != nil {
			return nil, err
		}
		lastConfig.raw, lastConfig.cfg = bytes.Clone(raw), cfg
	}
	return lastConfig.cfg.DeepCopy(), nil
}

// parseConfig decodes strictly, sets defaults and validates as kube-scheduler
// does, and then sets the fields that make decisions reproducible.
func parseConfig(raw []byte) (*config.KubeSchedulerConfiguration, error) {
	obj, gvk, err := configscheme.Codecs.UniversalDecoder().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	cfg, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("couldn't decode as KubeSchedulerConfiguration, got %s: ", gvk)
	}
	cfg.APIVersion = gvk.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		return nil, err
	}
	var given struct {
		PercentageOfNodesToScore *int32 `json:"percentageOfNodesToScore"`
	}
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, err
	}
	if given.PercentageOfNodesToScore == nil {
		all := int32(100)
		cfg.PercentageOfNodesToScore = &all
	}
	cfg.Parallelism = 1
	return cfg, nil
}

func errorList(err error) []string {
	var agg utilerrors.Aggregate
	if !errors.As(err, &agg) {
		return []string{err.Error()}
	}
	var out []string
	for _, e := range utilerrors.Flatten(agg).Errors() {
		out = append(out, e.Error())
	}
	return out
}

func newScheduler(ctx context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory, cfg *config.KubeSchedulerConfiguration) (*scheduler.Scheduler, error) {
	// Every scheduler subscribes to SIGUSR2 for its cache debugger and never unsubscribes.
	defer signal.Reset(syscall.SIGUSR2)
	return scheduler.New(ctx, client, factory, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithComponentConfigVersion(cfg.APIVersion),
		scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithPercentageOfNodesToScore(cfg.PercentageOfNodesToScore),
		scheduler.WithExtenders(cfg.Extenders...),
		scheduler.WithParallelism(cfg.Parallelism),
	)
}

// evaluate runs one scheduling cycle of the upstream scheduler, up to and
// including PostFilter.
func evaluate(a *answer, c *parsed, cfg *config.KubeSchedulerConfiguration) {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	defer cancel()
	client := writeSink{Interface: readOnly()}
	cl := newCluster(client)
	sched, err := newScheduler(ctx, client, cl.factory, cfg)
	if err != nil {
		a.ConfigErrors = errorList(err)
		return
	}
	defer sched.Profiles.Close()

	if err := load(cl, c); err != nil {
		a.Error = err.Error()
		return
	}
	decide(ctx, a, sched, c.pod)
}

// decide runs the cycle on a scheduler that has seen the whole case.
func decide(ctx context.Context, a *answer, sched *scheduler.Scheduler, pod *v1.Pod) {
	name := pod.Spec.SchedulerName
	d := &decision{
		Pod:            pod.Namespace + "/" + pod.Name,
		Scheduler:      name,
		Feasible:       []string{},
		Nodes:          map[string]nodeAnswer{},
		PreemptionTies: []candidate{},
	}
	a.decision = d
	profile, ok := sched.Profiles[name]
	if !ok {
		a.Error = fmt.Sprintf("profile not found for scheduler name %q", name)
		return
	}
	for _, pl := range profile.PreEnqueuePlugins() {
		if s := pl.PreEnqueue(ctx, pod); !s.IsSuccess() {
			d.PreEnqueue = pl.Name() + ": " + s.Message()
			break
		}
	}

	// The snapshot the plugins read is the one SchedulePod reads.
	snapshot, ok := profile.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		a.Error = "oracle bug: unexpected snapshot type"
		return
	}
	if err := sched.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot); err != nil {
		a.Error = err.Error()
		return
	}

	w := &recorder{Framework: profile, statuses: map[string]*fwk.Status{}}
	victims := recordVictims(profile)
	state := framework.NewCycleState()
	state.SetRecordPluginMetrics(false)
	state.Write(framework.PodsToActivateKey, framework.NewPodsToActivate())
	// Like the queue, ignore affinity terms that do not parse.
	podInfo, _ := framework.NewPodInfo(pod)
	result, err := sched.SchedulePod(ctx, w, state, &framework.QueuedPodInfo{PodInfo: podInfo})

	d.Selected = result.SuggestedHost
	feasible := w.scored
	if feasible == nil && err == nil {
		feasible = []string{result.SuggestedHost}
	}
	d.Feasible = append(d.Feasible, feasible...)
	slices.Sort(d.Feasible)
	w.fill(d, err == nil)

	var fit *framework.FitError
	switch {
	case err == nil:
		return
	case !errors.As(err, &fit):
		a.Error = err.Error()
		return
	}
	if profile.HasPostFilterPlugins() {
		res, status := profile.RunPostFilterPlugins(ctx, state, pod, fit.Diagnosis.NodeToStatus)
		fit.Diagnosis.PostFilterMsg = status.Message()
		if status.IsSuccess() && victims != nil && res != nil && res.NominatingInfo != nil && res.NominatedNodeName != "" {
			d.Preemption, d.PreemptionTies, err = victims.result(res.NominatedNodeName)
			if d.Preemption == nil {
				a.Error = err.Error()
			}
		}
	}
	d.Message = fit.Error()
}

// load adds the objects of a case, pods last, because the handler of a pending
// pod reads the other objects.
func load(cl *cluster, c *parsed) error {
	for _, obj := range c.objects {
		if _, ok := obj.(*v1.Pod); ok {
			continue
		}
		if err := cl.add(obj); err != nil {
			return err
		}
	}
	for _, obj := range c.objects {
		pod, ok := obj.(*v1.Pod)
		// The scheduler does not watch terminated pods.
		if !ok || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			continue
		}
		if err := cl.add(pod); err != nil {
			return err
		}
	}
	return cl.store(c.pod)
}

// recorder delegates a scheduling cycle to the profile and records the outcome
// of each node.
type recorder struct {
	framework.Framework
	mu       sync.Mutex
	statuses map[string]*fwk.Status
	scored   []string // the feasible nodes, when scoring was reached
	scores   []fwk.NodePluginScores
}

func (w *recorder) RunFilterPluginsWithNominatedPods(ctx context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	status := w.Framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.statuses[info.Node().Name] = status
	return status
}

func (w *recorder) RunPreScorePlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	w.scored = make([]string, 0, len(nodes))
	for _, n := range nodes {
		w.scored = append(w.scored, n.Node().Name)
	}
	return w.Framework.RunPreScorePlugins(ctx, state, pod, nodes)
}

func (w *recorder) RunScorePlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	scores, status := w.Framework.RunScorePlugins(ctx, state, pod, nodes)
	// The caller turns its slice into a heap.
	w.scores = slices.Clone(scores)
	return scores, status
}

// fill writes the per-node part of the answer, without nodes that passed the
// filters after enough feasible nodes had been found.
func (w *recorder) fill(d *decision, scheduled bool) {
	for name, s := range w.statuses {
		if s.IsSuccess() && (scheduled || w.scored != nil) && !slices.Contains(d.Feasible, name) {
			continue
		}
		n := nodeAnswer{Code: s.Code().String(), Reasons: []string{}, Scores: map[string]int64{}}
		if !s.IsSuccess() {
			n.Plugin = s.Plugin()
			n.Reasons = append(n.Reasons, s.Reasons()...)
		}
		d.Nodes[name] = n
	}
	for _, name := range d.Feasible {
		if _, ok := d.Nodes[name]; !ok {
			d.Nodes[name] = nodeAnswer{Code: fwk.Success.String(), Reasons: []string{}, Scores: map[string]int64{}}
		}
	}
	for _, ns := range w.scores {
		n := d.Nodes[ns.Name]
		n.Total = ns.TotalScore
		for _, s := range ns.Scores {
			n.Scores[s.Name] = s.Score
		}
		d.Nodes[ns.Name] = n
	}
}

var readOnly = sync.OnceValue(func() kubernetes.Interface { return fake.NewSimpleClientset() })

// writeSink accepts the writes of PostFilter plugins and discards them.
type writeSink struct{ kubernetes.Interface }

func (c writeSink) CoreV1() corev1client.CoreV1Interface {
	return coreSink{c.Interface.CoreV1()}
}

func (c writeSink) ResourceV1() resourcev1client.ResourceV1Interface {
	return resourceSink{c.Interface.ResourceV1()}
}

type coreSink struct{ corev1client.CoreV1Interface }

func (c coreSink) Pods(ns string) corev1client.PodInterface {
	return podSink{c.CoreV1Interface.Pods(ns)}
}

type podSink struct{ corev1client.PodInterface }

func (podSink) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*v1.Pod, error) {
	return &v1.Pod{}, nil
}

func (podSink) Delete(context.Context, string, metav1.DeleteOptions) error { return nil }

type resourceSink struct {
	resourcev1client.ResourceV1Interface
}

func (c resourceSink) ResourceClaims(ns string) resourcev1client.ResourceClaimInterface {
	return claimSink{c.ResourceV1Interface.ResourceClaims(ns)}
}

type claimSink struct {
	resourcev1client.ResourceClaimInterface
}

func (claimSink) Update(_ context.Context, claim *resourcev1.ResourceClaim, _ metav1.UpdateOptions) (*resourcev1.ResourceClaim, error) {
	return claim, nil
}

func (claimSink) UpdateStatus(_ context.Context, claim *resourcev1.ResourceClaim, _ metav1.UpdateOptions) (*resourcev1.ResourceClaim, error) {
	return claim, nil
}

func (claimSink) Delete(context.Context, string, metav1.DeleteOptions) error { return nil }
