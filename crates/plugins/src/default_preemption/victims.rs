//! The victims on one node: the pods to evict so that the preemptor fits.

use std::cmp::Reverse;

use engine::cycle::what_if::{Candidate, PostFilter, WhatIf};
use engine::framework::Rejection;
use engine::index::{NodeIdx, PodIdx};
use engine::state::State;
use engine::state::pods::PodRecord;

use super::budgets::DisruptionBudgets;

/// The preemptor does not fit on a node even without the pods of lower priority there; with the reason if
/// it was requested.
pub(super) struct InfeasibleNode(pub(super) Option<Rejection>);

/// The search for victims, one node after the other. Its buffers are reused for each.
pub(super) struct VictimSearch {
    now: i64,
    priority: i32,
    budgets: DisruptionBudgets,
    /// Pods of lower priority on the node.
    potential: Vec<PodIdx>,
    violating: Vec<PodIdx>,
    non_violating: Vec<PodIdx>,
    victims: Vec<PodIdx>,
    ranks: Vec<(Rank, PodIdx)>,
}

impl VictimSearch {
    pub(super) fn new(cycle: &PostFilter) -> Self {
        Self {
            now: cycle.now,
            priority: cycle.state().pods.get(cycle.pod).priority,
            budgets: DisruptionBudgets::default(),
            potential: Vec::new(),
            violating: Vec::new(),
            non_violating: Vec::new(),
            victims: Vec::new(),
            ranks: Vec::new(),
        }
    }

    /// Removes all pods of lower priority (at least one), then puts back as many as possible, the most
    /// important first, and returns the others as victims.
    pub(super) fn victims(
        &mut self,
        cycle: &mut PostFilter,
        node: NodeIdx,
        needs_reason: bool,
    ) -> Result<Candidate, InfeasibleNode> {
        let has_lower_priority =
            |pod: &PodIdx| cycle.state().pods.get(*pod).priority < self.priority;
        let pods = cycle.state().nodes.pods(node).iter().copied();
        self.potential.clear();
        self.potential.extend(pods.filter(has_lower_priority));
        let mut what_if = cycle.what_if(node);
        for pod in &self.potential {
            what_if.remove(*pod);
        }
        if needs_reason {
            what_if.fits().map_err(|rejection| InfeasibleNode(Some(rejection)))?;
        } else if !what_if.passes() {
            return Err(InfeasibleNode(None));
        }
        let violations = self.reprieve(&mut what_if);
        drop(what_if);
        if self.victims.is_empty() {
            let name = cycle.state().nodes.name(node);
            let text = format!("expected at least one victim pod on node {name:?}");
            return Err(InfeasibleNode(Some(Rejection::error(text))));
        }
        Ok(Candidate { node, victims: self.victims.clone(), violations })
    }

    /// Puts pods back as long as the preemptor still fits, and returns the number of victims that violate a
    /// budget.
    fn reprieve(&mut self, what_if: &mut WhatIf) -> usize {
        let Self { now, budgets, potential, violating, non_violating, victims, ranks, .. } = self;
        sort_by_importance(potential, ranks, what_if.state(), *now);
        violating.clear();
        non_violating.clear();
        budgets.reset();
        for pod in potential.iter() {
            let list = if budgets.violates(what_if.state(), *pod) {
                &mut *violating
            } else {
                &mut *non_violating
            };
            list.push(*pod);
        }
        victims.clear();
        let mut is_victim = |pod: &PodIdx| {
            what_if.put_back(*pod);
            let is_victim = !what_if.passes();
            if is_victim {
                what_if.remove(*pod);
            }
            is_victim
        };
        victims.extend(violating.iter().filter(|pod| is_victim(pod)));
        let violations = victims.len();
        victims.extend(non_violating.iter().filter(|pod| is_victim(pod)));
        if !violating.is_empty() && !non_violating.is_empty() {
            sort_by_importance(victims, ranks, what_if.state(), *now);
        }
        violations
    }
}

/// Returns the start time of a pod; `now` if it has not started.
pub(super) fn start_time(pod: &PodRecord, now: i64) -> i64 {
    if pod.start_time == i64::MAX { now } else { pod.start_time }
}

/// Rank in the order of importance: priority, then start time, then position in the list.
type Rank = (Reverse<i32>, i64, i64);

/// Sorts by importance, with equal pods in upstream's order.
///
/// Upstream's sort is stable for up to 12 pods (the order of equal pods in longer lists is not
/// reproduced). It reads the clock in each comparison, so that of two pods that have not started the one
/// compared first counts as older: their order is reversed.
fn sort_by_importance(
    pods: &mut [PodIdx],
    ranks: &mut Vec<(Rank, PodIdx)>,
    state: &State,
    now: i64,
) {
    ranks.clear();
    ranks.extend(pods.iter().zip(0..).map(|(pod, position)| {
        let record = state.pods.get(*pod);
        let position = if record.start_time == i64::MAX { -position } else { position };
        ((Reverse(record.priority), start_time(record, now), position), *pod)
    }));
    ranks.sort_unstable();
    for (slot, (_, pod)) in pods.iter_mut().zip(ranks) {
        *slot = *pod;
    }
}
