package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// victimRecorder wraps the interface between the upstream preemption evaluator
// and the DefaultPreemption plugin and records the victims found on each node.
type victimRecorder struct {
	preemption.Interface
	found []foundCandidate
}

type foundCandidate struct {
	node    string
	victims *extenderv1.Victims
}

// recordVictims installs a recorder in the profile's DefaultPreemption plugin
// and prevents evictions. It returns nil if the profile does not have the plugin.
func recordVictims(f framework.Framework) *victimRecorder {
	// These are all enabled plugins that can reject a pod, at any extension point.
	for _, ext := range f.EnqueueExtensions() {
		pl, ok := ext.(*defaultpreemption.DefaultPreemption)
		if !ok {
			continue
		}
		r := &victimRecorder{Interface: pl.Evaluator.Interface}
		pl.Evaluator.Interface = r
		pl.Executor.PreemptPod = func(context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *v1.Pod, string) error {
			return nil
		}
		return r
	}
	return nil
}

// GetOffsetAndNumCandidates replaces the random offset by the first node.
func (r *victimRecorder) GetOffsetAndNumCandidates(nodes int32) (int32, int32) {
	_, n := r.Interface.GetOffsetAndNumCandidates(nodes)
	return 0, n
}

func (r *victimRecorder) SelectVictimsOnNode(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeInfo fwk.NodeInfo, pdbs []*policyv1.PodDisruptionBudget) ([]*v1.Pod, int, *fwk.Status) {
	victims, violations, status := r.Interface.SelectVictimsOnNode(ctx, state, pod, nodeInfo, pdbs)
	if status.IsSuccess() && len(victims) > 0 {
		r.found = append(r.found, foundCandidate{
			node:    nodeInfo.Node().Name,
			victims: &extenderv1.Victims{Pods: victims, NumPDBViolations: int64(violations)},
		})
	}
	return victims, violations, status
}

// result returns the best candidates by node name. Upstream chooses one of them
// at random (chosen); the first one is returned instead, so that answers are
// reproducible.
func (r *victimRecorder) result(chosen string) (*candidate, []candidate, error) {
	var ties []candidate
	ok := false
	for _, c := range bestCandidates(r.found) {
		names := make([]string, 0, len(c.victims.Pods))
		for _, p := range c.victims.Pods {
			names = append(names, p.Namespace+"/"+p.Name)
		}
		slices.Sort(names)
		ties = append(ties, candidate{Node: c.node, Victims: names})
		ok = ok || c.node == chosen
	}
	slices.SortFunc(ties, func(a, b candidate) int { return strings.Compare(a.Node, b.Node) })
	if !ok {
		return nil, nil, fmt.Errorf("oracle bug: upstream preempts on %q, which is not among the best candidates %v", chosen, ties)
	}
	return &ties[0], ties, nil
}

// bestCandidates returns the candidates that are best, and equal, by the five
// criteria that upstream compares before it falls back to map order.
func bestCandidates(left []foundCandidate) []foundCandidate {
	criteria := []func(*extenderv1.Victims) int64{
		func(v *extenderv1.Victims) int64 { return -v.NumPDBViolations },
		func(v *extenderv1.Victims) int64 { return -int64(corev1helpers.PodPriority(v.Pods[0])) },
		func(v *extenderv1.Victims) int64 {
			var sum int64
			for _, p := range v.Pods {
				sum -= int64(corev1helpers.PodPriority(p)) + math.MaxInt32 + 1
			}
			return sum
		},
		func(v *extenderv1.Victims) int64 { return -int64(len(v.Pods)) },
		func(v *extenderv1.Victims) int64 { return util.GetEarliestPodStartTime(v).UnixNano() },
	}
	for _, score := range criteria {
		var best []foundCandidate
		high := int64(math.MinInt64)
		for _, c := range left {
			s := score(c.victims)
			if s > high {
				high, best = s, nil
			}
			if s == high {
				best = append(best, c)
			}
		}
		left = best
	}
	return left
}
