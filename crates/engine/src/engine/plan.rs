//! Plans: the net changes of a trial, and how the engine carries them out.

use std::collections::BTreeMap;

use crate::command::{Command, PodRef};
use crate::cycle::decide::check_node;
use crate::index::{NodeIdx, PodIdx};
use crate::object::Text;
use crate::state::State;

use super::Engine;
use super::attempt::Failure;
use super::core::Core;
use super::extenders::AttemptOutcome;
use super::nominations::Nomination;

/// The net changes of a trial, in the order of the last change of each pod. By name, since they may
/// be carried out later and by another engine than that of the trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// One entry for each pod whose node differs.
    pub moves: Vec<Move>,
}

/// A pod that changes its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The pod.
    pub pod: PodRef,
    /// The node that it leaves; empty for a waiting pod.
    pub from: Text,
    /// The node to which it goes; empty if it is only removed. A pod that leaves a node cannot be
    /// bound again, so this is where the pod that its controller creates is expected.
    pub to: Text,
}

/// What became of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// Pods that have to be evicted, and are still where the plan has them.
    pub evictions: Vec<Move>,
    /// Moves that no longer apply: the pod is gone, gated, being deleted or bound elsewhere, the
    /// node is gone, or an extender has a say.
    pub refused: Vec<Move>,
}

impl Plan {
    /// Collects the net changes; `moves` has pods with their nodes before each change.
    pub(super) fn of(state: &State, moves: &[(PodIdx, NodeIdx)]) -> Self {
        let mut changed: BTreeMap<PodIdx, (usize, NodeIdx)> = BTreeMap::new();
        for (position, (pod, before)) in moves.iter().enumerate() {
            changed.entry(*pod).or_insert((position, *before)).0 = position;
        }
        let mut in_order: Vec<_> = changed.into_iter().collect();
        in_order.sort_unstable_by_key(|(_, (position, _))| *position);
        let name = |node: NodeIdx| {
            if node.is_some() { Text::from(state.nodes.name(node)) } else { Text::default() }
        };
        let moves = in_order.into_iter().filter_map(|(pod, (_, before))| {
            let to = state.pods.get(pod).node;
            (to != before).then(|| Move {
                pod: state.pod_ref(pod),
                from: name(before),
                to: name(to),
            })
        });
        Self { moves: moves.collect() }
    }
}

impl Engine {
    /// Carries out a plan at time `now`: appends the commands of all placements and returns the
    /// pods to evict.
    ///
    /// A waiting pod that fits on its node now is assumed there and goes through Reserve, Permit and
    /// bind as in an attempt. One that does not fit yet is nominated for the node, which keeps the
    /// space of the pods to evict free for it, and is tried again when they are gone.
    pub fn commit(&mut self, plan: &Plan, now: i64, commands: &mut Vec<Command>) -> Committed {
        self.core.state.set_now(now);
        std::mem::swap(&mut self.commands, commands);
        let mut committed = Committed::default();
        for change in &plan.moves {
            let applies = if change.from.is_empty() {
                self.place_planned(change)
            } else {
                let evicts = self.is_on(change);
                committed.evictions.extend(evicts.then(|| change.clone()));
                evicts
            };
            if !applies {
                committed.refused.push(change.clone());
            }
        }
        self.apply_effects();
        std::mem::swap(&mut self.commands, commands);
        committed
    }

    /// Returns `true` if a pod is still on the node that it is to leave.
    fn is_on(&self, change: &Move) -> bool {
        let Some(pod) = self.core.state.pods.find(&change.pod.uid) else { return false };
        let record = self.core.state.pods.get(pod);
        let is_there =
            record.node.is_some() && *self.core.state.nodes.name(record.node) == *change.from;
        is_there && !record.terminating
    }

    /// Makes the attempt of a waiting pod with the planned node as its outcome. Returns `false` if
    /// that is not possible.
    fn place_planned(&mut self, change: &Move) -> bool {
        let Some(pod) = self.core.state.pods.find(&change.pod.uid) else { return false };
        let Some(node) = self.core.state.nodes.find(&change.to) else { return false };
        if self.core.state.pods.get(pod).terminating || self.core.preemptions.contains_key(&pod) {
            return false;
        }
        let asks = |engine: &Self| {
            let queued = engine.queue.get(pod)?;
            Some(engine.extenders_for(queued, |extender| extender.filters || extender.scores))
        };
        if asks(self).is_none_or(|extenders| !extenders.is_empty()) {
            return false;
        }
        let Some(queued) = self.queue.take(&self.core, pod) else { return false };
        self.with_evaluation(&queued, |engine, evaluation| {
            let Core { state, nominator, profiles, .. } = &mut engine.core;
            let profile = &profiles[queued.profile()];
            evaluation.refresh(profile, state);
            let failure = match check_node(profile, evaluation, state, nominator, pod, node) {
                Ok(()) => match engine.assume_and_reserve(&queued, node) {
                    Ok(()) => return AttemptOutcome::InProgress,
                    Err(failure) => failure,
                },
                Err(rejected) => Failure {
                    nomination: Nomination::Override(node),
                    ..Failure::on_chosen_node(rejected.plugin, &rejected.rejection)
                },
            };
            AttemptOutcome::Failed(failure)
        });
        true
    }
}
