//! Which pods must leave a node so that another one fits.

use std::cmp::Reverse;

use engine::cycle::what_if::{Candidate, PostFilter, WhatIf};
use engine::framework::Rejection;
use engine::index::{NodeIdx, PodIdx};
use engine::state::State;
use engine::state::pods::PodRecord;

use super::budgets::DisruptionBudgets;

/// The pod does not fit on a node even without the less important pods there; the reason is there if it
/// was asked for.
pub(super) struct InfeasibleNode(pub(super) Option<Rejection>);

/// The search for victims, one node after the other. Its lists are used again for each.
pub(super) struct VictimSearch {
    now: i64,
    priority: i32,
    budgets: DisruptionBudgets,
    /// Pods that are less important.
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

    /// Takes all less important pods away, of which there are some, then puts back as many as possible,
    /// important ones first.
    pub(super) fn victims(
        &mut self,
        cycle: &mut PostFilter,
        node: NodeIdx,
        needs_reason: bool,
    ) -> Result<Candidate, InfeasibleNode> {
        let less_important = |pod: &PodIdx| cycle.state().pods.get(*pod).priority < self.priority;
        let pods = cycle.state().nodes.pods(node).iter().copied();
        self.potential.clear();
        self.potential.extend(pods.filter(less_important));
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

    /// Puts pods back while the other one still fits, and returns how many victims break a budget.
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
        let mut must_go = |pod: &PodIdx| {
            what_if.put_back(*pod);
            let must_go = !what_if.passes();
            if must_go {
                what_if.remove(*pod);
            }
            must_go
        };
        victims.extend(violating.iter().filter(|pod| must_go(pod)));
        let violations = victims.len();
        victims.extend(non_violating.iter().filter(|pod| must_go(pod)));
        if !violating.is_empty() && !non_violating.is_empty() {
            sort_by_importance(victims, ranks, what_if.state(), *now);
        }
        violations
    }
}

/// When a pod started; pods that have not are taken to start now.
pub(super) fn start_time(pod: &PodRecord, now: i64) -> i64 {
    if pod.start_time == i64::MAX { now } else { pod.start_time }
}

/// Place in the order of importance: priority, then age, then place in the list.
type Rank = (Reverse<i32>, i64, i64);

/// Sorts by importance, equals as upstream leaves them.
///
/// Upstream's sort keeps the order of equals in lists of up to 12 pods (longer ones it may mix, which
/// is not followed). "Now" is read anew for each comparison, so that of two pods that have not
/// started the one asked about first is the older: their order is reversed.
fn sort_by_importance(
    pods: &mut [PodIdx],
    ranks: &mut Vec<(Rank, PodIdx)>,
    state: &State,
    now: i64,
) {
    ranks.clear();
    ranks.extend(pods.iter().zip(0..).map(|(pod, place)| {
        let record = state.pods.get(*pod);
        let place = if record.start_time == i64::MAX { -place } else { place };
        ((Reverse(record.priority), start_time(record, now), place), *pod)
    }));
    ranks.sort_unstable();
    for (place, (_, pod)) in pods.iter_mut().zip(ranks) {
        *place = *pod;
    }
}
