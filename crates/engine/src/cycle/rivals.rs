//! Rivals: nominated pods that count against a pod, and upstream's two filter passes.

use crate::bitset::NodeSet;
use crate::framework::NodeVerdict;
use crate::index::{NodeIdx, PodIdx};
use crate::queue::Nominator;
use crate::state::State;

use super::evaluation::Evaluation;
use super::what_if::WhatIf;

/// Nominated pods of equal or higher priority than one pod.
#[derive(Clone, Copy)]
pub(crate) struct Rivals<'a> {
    nominator: &'a Nominator,
    /// The pod, which is not its own rival; `NONE` stands for all pods without a nomination.
    pod: PodIdx,
    /// Priority of the pod.
    priority: i32,
}

impl<'a> Rivals<'a> {
    pub(crate) fn of(nominator: &'a Nominator, state: &State, pod: PodIdx) -> Self {
        Self { nominator, pod, priority: state.pods.get(pod).priority }
    }

    /// Returns the rivals of any pod of this priority without a nomination.
    pub(crate) fn of_any(nominator: &'a Nominator, priority: i32) -> Self {
        Self { nominator, pod: PodIdx::NONE, priority }
    }

    /// Returns the rivals of pods of the same priority without a nomination.
    pub(crate) fn of_others(self) -> Self {
        Self::of_any(self.nominator, self.priority)
    }

    pub(crate) fn nominator(&self) -> &'a Nominator {
        self.nominator
    }

    pub(crate) fn priority(&self) -> i32 {
        self.priority
    }

    /// Returns `true` if no pod is nominated at all.
    pub(crate) fn are_none(&self) -> bool {
        self.nominator.all().is_empty()
    }

    /// Returns the nominated node of the pod itself.
    pub(crate) fn own_node(&self) -> Option<NodeIdx> {
        self.nominator.node_of(self.pod)
    }

    /// Returns `true` if the node has rivals.
    pub(crate) fn any_on(&self, state: &State, node: NodeIdx) -> bool {
        self.nominator.on(node).iter().any(|rival| self.contain(state, *rival))
    }

    /// Returns the rivals on a node, in order of nomination.
    pub(crate) fn on(&self, state: &State, node: NodeIdx) -> Vec<PodIdx> {
        let pods = self.nominator.on(node).iter().copied();
        pods.filter(|rival| self.contain(state, *rival)).collect()
    }

    /// Returns the existing nodes that have rivals.
    pub(crate) fn nodes(&self, state: &State) -> NodeSet {
        let mut nodes = NodeSet::new(state.nodes.slots());
        for rival in self.nominator.all().iter().filter(|rival| self.contain(state, **rival)) {
            nodes.extend(self.nominator.node_of(*rival));
        }
        nodes.intersect(state.nodes.present());
        nodes
    }

    fn contain(&self, state: &State, pod: PodIdx) -> bool {
        pod != self.pod && state.pods.get(pod).priority >= self.priority
    }

    /// Runs the filters on a node with its rivals, if any, and then without them. Passes the first
    /// rejecting verdict to `read` before the what-if is undone.
    pub(crate) fn two_passes<T>(
        &self,
        evaluation: &mut Evaluation,
        state: &mut State,
        node: NodeIdx,
        mut read: impl FnMut(&Evaluation, &State, (usize, NodeVerdict)) -> T,
    ) -> Option<T> {
        self.first_pass(evaluation, state, node, &mut read).or_else(|| {
            let verdict = evaluation.check(state, node)?;
            Some(read(evaluation, state, verdict))
        })
    }

    /// Runs the filters on a node with its rivals, if there are any.
    pub(crate) fn first_pass<T>(
        &self,
        evaluation: &mut Evaluation,
        state: &mut State,
        node: NodeIdx,
        read: impl FnOnce(&Evaluation, &State, (usize, NodeVerdict)) -> T,
    ) -> Option<T> {
        let rivals = self.on(state, node);
        if rivals.is_empty() {
            return None;
        }
        let mut with_rivals = WhatIf::new(state, evaluation, *self, node);
        for rival in rivals {
            with_rivals.add(rival);
        }
        with_rivals.check_and_read(read)
    }
}

#[cfg(test)]
mod tests;
