package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
)

type got struct {
	ID             string                `json:"id"`
	ConfigErrors   []string              `json:"configErrors"`
	Selected       string                `json:"selected"`
	Feasible       []string              `json:"feasible"`
	Nodes          map[string]nodeAnswer `json:"nodes"`
	Message        string                `json:"message"`
	Preemption     *candidate            `json:"preemption"`
	PreemptionTies []candidate           `json:"preemptionTies"`
	Error          string                `json:"error"`
}

func readSmoke(t *testing.T) [][]byte {
	t.Helper()
	data, err := os.ReadFile("testdata/smoke.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(data), []byte("\n"))
}

func TestSmoke(t *testing.T) {
	lines := readSmoke(t)
	var out bytes.Buffer
	if err := serve(bytes.NewReader(bytes.Join(lines, []byte("\n"))), &out, 3); err != nil {
		t.Fatal(err)
	}
	answers := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	if len(answers) != len(lines) {
		t.Fatalf("%d answers for %d cases", len(answers), len(lines))
	}
	byID := map[string]got{}
	for i, raw := range answers {
		var g got
		if err := json.Unmarshal(raw, &g); err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		var in struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(lines[i], &in); err != nil {
			t.Fatal(err)
		}
		if in.ID != g.ID {
			t.Fatalf("answer %d is for %q, want %q", i, g.ID, in.ID)
		}
		byID[g.ID] = g
	}

	// Expectations come from upstream's sources, not from this program's output.
	checks := map[string]func(t *testing.T, g got){
		"insufficient-cpu": func(t *testing.T, g got) {
			eq(t, g.Message, "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, "+
				"preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.")
			eq(t, g.Nodes["n1"].Code, "UnschedulableAndUnresolvable")
		},
		"no-victims": func(t *testing.T, g got) {
			eq(t, g.Message, "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, "+
				"preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.")
			eq(t, g.Nodes["n1"].Code, "Unschedulable")
			eq(t, g.Nodes["n1"].Plugin, "NodeResourcesFit")
			eq(t, g.Preemption, (*candidate)(nil))
		},
		"one-feasible": func(t *testing.T, g got) {
			eq(t, g.Selected, "n1")
			eq(t, g.Nodes["n1"].Scores, map[string]int64{})
			eq(t, g.Nodes["n2"].Plugin, "TaintToleration")
		},
		"heap-tie": func(t *testing.T, g got) {
			for node, total := range map[string]int64{"n0": 50, "n1": 50, "n2": 75, "n3": 75} {
				eq(t, g.Nodes[node].Total, total)
			}
			eq(t, g.Selected, "n3")
		},
		// The node order is a1 b1 a2 b2; only b1 and b2 have the best total,
		// at positions 1 and 3, and position 1 wins.
		"zones-round-robin": func(t *testing.T, g got) { eq(t, g.Selected, "b1") },
		"preemption": func(t *testing.T, g got) {
			eq(t, g.Preemption, &candidate{Node: "n0", Victims: []string{"default/low-b"}})
			eq(t, g.Message, "0/2 nodes are available: 2 Insufficient cpu.")
		},
		"preemption-ties": func(t *testing.T, g got) {
			eq(t, g.PreemptionTies, []candidate{
				{Node: "n0", Victims: []string{"default/v0"}},
				{Node: "n1", Victims: []string{"default/v1"}},
				{Node: "n2", Victims: []string{"default/v2"}},
			})
		},
		"preemption-pdb": func(t *testing.T, g got) {
			eq(t, g.Preemption, &candidate{Node: "n1", Victims: []string{"default/b"}})
		},
		"unbound-immediate-pvc": func(t *testing.T, g got) {
			eq(t, g.Message, "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found")
			eq(t, len(g.Nodes), 0)
		},
		"wait-for-first-consumer": func(t *testing.T, g got) { eq(t, g.Feasible, []string{"n1"}) },
		"nominated-two-pass":      func(t *testing.T, g got) { eq(t, g.Feasible, []string{"n1"}) },
		"narrowed": func(t *testing.T, g got) {
			eq(t, len(g.Nodes), 1)
			eq(t, g.Message, "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. "+
				"no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.")
		},
		"default-spread":  func(t *testing.T, g got) { eq(t, g.Selected, "n1") },
		"dra":             func(t *testing.T, g got) { eq(t, g.Feasible, []string{"n1"}) },
		"bad-config":      func(t *testing.T, g got) { eq(t, len(g.ConfigErrors), 2) },
		"unknown-profile": func(t *testing.T, g got) { eq(t, g.Error, `profile not found for scheduler name "other"`) },
		"no-nodes":        func(t *testing.T, g got) { eq(t, g.Error, scheduler.ErrNoNodesAvailable.Error()) },
		"unknown-field":   func(t *testing.T, g got) { eq(t, g.Error, `pod: unknown field "sepc"`) },
	}
	for id, check := range checks {
		t.Run(id, func(t *testing.T) {
			g, ok := byID[id]
			if !ok {
				t.Fatal("no such case")
			}
			check(t, g)
		})
	}
}

func eq[T any](t *testing.T, have, want T) {
	t.Helper()
	if !reflect.DeepEqual(have, want) {
		t.Errorf("have %+v\nwant %+v", have, want)
	}
}

// TestSameAsInformers repeats every case with the informers of client-go on a
// fake API server instead of the synchronous ones.
func TestSameAsInformers(t *testing.T) {
	t.Setenv("KUBE_FEATURE_WatchListClient", "false")
	for _, line := range readSmoke(t) {
		want := explain(line)
		if want.decision == nil {
			continue
		}
		t.Run(string(want.ID), func(t *testing.T) {
			c, err := decodeCase(line)
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := loadConfig(c.config)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), logr.Discard()), time.Minute)
			defer cancel()
			client := fake.NewSimpleClientset(append([]runtime.Object{c.pod}, c.objects...)...)
			factory := scheduler.NewInformerFactory(client, 0)
			sched, err := newScheduler(ctx, client, factory, cfg)
			if err != nil {
				t.Fatal(err)
			}
			factory.Start(ctx.Done())
			factory.WaitForCacheSync(ctx.Done())
			if err := sched.WaitForHandlersSync(ctx); err != nil {
				t.Fatal(err)
			}
			have := &answer{ID: want.ID}
			decide(ctx, have, sched, c.pod)
			h, _ := encode(have)
			w, _ := encode(want)
			if !bytes.Equal(h, w) {
				t.Errorf("with informers    %s\nwithout informers %s", h, w)
			}
		})
	}
}
