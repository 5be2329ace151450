//! Pods nominated for nodes, as far as they count against one pod, and the two passes that follow.

use crate::bitset::NodeSet;
use crate::framework::NodeVerdict;
use crate::index::{NodeIdx, PodIdx};
use crate::queue::Nominator;
use crate::state::State;

use super::evaluation::Evaluation;
use super::what_if::WhatIf;

/// Pods nominated for nodes that are at least as important as one pod.
#[derive(Clone, Copy)]
pub(crate) struct Rivals<'a> {
    nominator: &'a Nominator,
    /// The pod, whose own nomination does not count; `NONE` stands for all pods that have none.
    pod: PodIdx,
    /// Its priority.
    priority: i32,
}

impl<'a> Rivals<'a> {
    pub(crate) fn of(nominator: &'a Nominator, state: &State, pod: PodIdx) -> Self {
        Self { nominator, pod, priority: state.pods.get(pod).priority }
    }

    /// Those of any pod of a priority that is not nominated itself.
    pub(crate) fn of_any(nominator: &'a Nominator, priority: i32) -> Self {
        Self { nominator, pod: PodIdx::NONE, priority }
    }

    /// Those of other pods of the same priority, as long as they are not nominated themselves.
    pub(crate) fn of_others(self) -> Self {
        Self::of_any(self.nominator, self.priority)
    }

    pub(crate) fn nominator(&self) -> &'a Nominator {
        self.nominator
    }

    pub(crate) fn priority(&self) -> i32 {
        self.priority
    }

    /// Whether no pod is nominated at all.
    pub(crate) fn are_none(&self) -> bool {
        self.nominator.all().is_empty()
    }

    /// The node that the pod itself is nominated for.
    pub(crate) fn own_node(&self) -> Option<NodeIdx> {
        self.nominator.node_of(self.pod)
    }

    /// Whether any of them is nominated for a node.
    pub(crate) fn any_on(&self, state: &State, node: NodeIdx) -> bool {
        self.nominator.on(node).iter().any(|rival| self.contain(state, *rival))
    }

    /// Those nominated for a node, in order of nomination.
    pub(crate) fn on(&self, state: &State, node: NodeIdx) -> Vec<PodIdx> {
        let pods = self.nominator.on(node).iter().copied();
        pods.filter(|rival| self.contain(state, *rival)).collect()
    }

    /// The nodes that exist and that any of them is nominated for.
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

    /// What the filters say of a node with the rivals on it, and if there are any and it passes, what
    /// they say without them. `read` sees the first answer that is no pass, as it was given.
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

    /// What the filters say of a node with the rivals on it, if there are any.
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
