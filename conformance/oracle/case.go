package main

import (
	"encoding/json"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
)

// input is one line of standard input.
type input struct {
	ID      json.RawMessage   `json:"id"`
	Config  json.RawMessage   `json:"config"`
	Objects []json.RawMessage `json:"objects"`
	Pod     json.RawMessage   `json:"pod"`
}

// answer is one line of standard output.
type answer struct {
	ID           json.RawMessage `json:"id"`
	ConfigErrors []string        `json:"configErrors,omitempty"`
	*decision
	Error string `json:"error,omitempty"`
}

// decision is the part of an answer that exists if a scheduling cycle was run.
type decision struct {
	Pod            string                `json:"pod"`
	Scheduler      string                `json:"scheduler"`
	Selected       string                `json:"selected"`
	Feasible       []string              `json:"feasible"`
	Nodes          map[string]nodeAnswer `json:"nodes"`
	Message        string                `json:"message"`
	Preemption     *candidate            `json:"preemption"`
	PreemptionTies []candidate           `json:"preemptionTies"`
	// PreEnqueue is the plugin that gates the pod in upstream's queue, and its reason.
	PreEnqueue string `json:"preEnqueue,omitempty"`
}

type nodeAnswer struct {
	Code    string           `json:"code"`
	Plugin  string           `json:"plugin"`
	Reasons []string         `json:"reasons"`
	Scores  map[string]int64 `json:"scores"`
	Total   int64            `json:"total"`
}

// candidate is a node that becomes feasible without the victims.
type candidate struct {
	Node    string   `json:"node"`
	Victims []string `json:"victims"`
}

// parsed is a decoded case.
type parsed struct {
	config  []byte // nil: default configuration
	objects []runtime.Object
	pod     *v1.Pod
}

// rawID returns the id of a line, even if the rest of the case is invalid.
func rawID(line []byte) json.RawMessage {
	var in struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(line, &in) != nil || len(in.ID) == 0 {
		return json.RawMessage("null")
	}
	return in.ID
}

// decodeCase decodes objects strictly: an unknown field is an error, because
// a misspelt field would otherwise make a case test nothing.
func decodeCase(line []byte) (*parsed, error) {
	var in input
	if err := json.Unmarshal(line, &in); err != nil {
		return nil, err
	}
	p := &parsed{}
	if s := string(in.Config); s != "" && s != "null" {
		p.config = in.Config
	}
	if len(in.Pod) == 0 || string(in.Pod) == "null" {
		return nil, errors.New("the case has no pod")
	}
	p.pod = &v1.Pod{}
	if err := strict(in.Pod, p.pod); err != nil {
		return nil, fmt.Errorf("pod: %w", err)
	}
	complete(p.pod)
	for i, raw := range in.Objects {
		obj, err := decodeObject(raw)
		if err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		// The pod to explain may be listed among the objects as well.
		if pod, ok := obj.(*v1.Pod); ok && pod.Namespace == p.pod.Namespace && pod.Name == p.pod.Name {
			continue
		}
		p.objects = append(p.objects, obj)
	}
	return p, nil
}

func decodeObject(raw []byte) (runtime.Object, error) {
	var tm runtime.TypeMeta
	if err := json.Unmarshal(raw, &tm); err != nil {
		return nil, err
	}
	gvk := schema.FromAPIVersionAndKind(tm.APIVersion, tm.Kind)
	if !known[gvk] {
		return nil, fmt.Errorf("%s is not one of the kinds the scheduler reads", gvk)
	}
	obj, err := scheme.Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	if err := strict(raw, obj); err != nil {
		return nil, fmt.Errorf("%s: %w", tm.Kind, err)
	}
	complete(obj)
	return obj, nil
}

func strict(raw []byte, into any) error {
	problems, err := kjson.UnmarshalStrict(raw, into)
	return errors.Join(append([]error{err}, problems...)...)
}

// complete adds what the API server always sets: a namespace for
// namespaced objects, a UID, a resource version and the name of the scheduler.
// There is no other defaulting.
func complete(obj runtime.Object) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	if m.GetNamespace() == "" && !clusterScoped(obj) {
		m.SetNamespace("default")
	}
	if pod, ok := obj.(*v1.Pod); ok && pod.Spec.SchedulerName == "" {
		pod.Spec.SchedulerName = v1.DefaultSchedulerName
	}
	if m.GetUID() == "" {
		uid := "uid-" + m.GetName()
		if ns := m.GetNamespace(); ns != "" {
			uid = "uid-" + ns + "-" + m.GetName()
		}
		m.SetUID(types.UID(uid))
	}
	if m.GetResourceVersion() == "" {
		m.SetResourceVersion("1")
	}
}
