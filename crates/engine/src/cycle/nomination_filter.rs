//! Nodes with nominated pods, and the feasible nodes of a class that these nominations leave open.
//!
//! As upstream (`RunFilterPluginsWithNominatedPods`), a pod may go to a node only if it fits there
//! both together with the nominated pods of equal or higher priority and without them. The second is
//! what the feasible set of the class holds. The first is evaluated once per node with such pods and
//! cached until something changes that it may depend on: the pods on the node, its nominations, or,
//! for filters that read them, other nodes.

use crate::bitset::NodeSet;
use crate::framework::Code;
use crate::index::NodeIdx;
use crate::state::State;

use super::evaluation::Evaluation;
use super::rivals::Rivals;

/// A reader's position in the changes that filter results with rivals depend on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ChangeCursor {
    /// Priority of the pods that the results are for.
    priority: i32,
    /// See [`Evaluation::rebuilds`].
    rebuilds: u64,
    pod_changes: u64,
    nominations: u64,
}

impl ChangeCursor {
    pub(super) fn now(evaluation: &Evaluation, state: &State, rivals: Rivals) -> Self {
        Self {
            priority: rivals.priority(),
            rebuilds: evaluation.rebuilds(),
            pod_changes: state.nodes.pod_changes().end(),
            nominations: rivals.nominator().changes().end(),
        }
    }

    /// Returns the nodes whose pods or rivals changed between two cursors, sorted and each once;
    /// `None` if any node may have been affected.
    pub(super) fn changes(&self, to: &Self, state: &State, rivals: Rivals) -> Option<Vec<NodeIdx>> {
        if self.rebuilds != to.rebuilds {
            return None;
        }
        let nominator = rivals.nominator();
        let mut nodes = state.nodes.pod_changes().since(self.pod_changes)?.to_vec();
        nodes.extend_from_slice(nominator.changes().since(self.nominations)?);
        if self.priority != to.priority {
            let between = self.priority.min(to.priority)..self.priority.max(to.priority);
            let pods = nominator.all().iter().copied();
            let pods = pods.filter(|pod| between.contains(&state.pods.get(*pod).priority));
            nodes.extend(pods.filter_map(|pod| nominator.node_of(pod)));
        }
        nodes.retain(|node| state.nodes.present().contains(*node));
        nodes.sort_unstable();
        nodes.dedup();
        Some(nodes)
    }
}

/// Removes from the feasible nodes of a class those that nominated pods block, for the pods of the
/// class that are not nominated themselves.
#[derive(Default)]
pub(crate) struct NominationFilter {
    cursor: Option<ChangeCursor>,
    /// Nodes with rivals.
    nominated: NodeSet,
    /// Feasible nodes that filters reject once the rivals are on them.
    blocked: NodeSet,
    /// The part of `blocked` where pods on other nodes cannot change the result.
    local: NodeSet,
    /// The part of `blocked` where a filter failed, which fails the attempt.
    failing: NodeSet,
    /// Feasible nodes that are not blocked; current only if `blocked_count` is not zero.
    open: NodeSet,
    blocked_count: usize,
    /// Counts changes of the open nodes.
    version: u64,
    feasible_seen: u64,
}

impl NominationFilter {
    /// Resets the filter for a cluster without nominations.
    fn clear(&mut self) {
        self.cursor = None;
        self.blocked_count = 0;
    }

    fn refresh(&mut self, evaluation: &mut Evaluation, state: &mut State, rivals: Rivals) {
        let now = ChangeCursor::now(evaluation, state, rivals);
        let before = self.cursor.replace(now);
        let stale = before.and_then(|before| before.changes(&now, state, rivals));
        let caught_up = stale.is_some();
        let mut stale = stale.unwrap_or_else(|| {
            let nominated = rivals.nodes(state);
            self.reset(&nominated);
            nominated.iter().collect()
        });
        if caught_up && evaluation.reads_other_nodes() {
            let mut not_local = self.nominated.clone();
            not_local.intersect(evaluation.feasible());
            not_local.subtract(&self.local);
            stale.extend(not_local.iter());
            stale.sort_unstable();
            stale.dedup();
        }
        let mut changed = !caught_up || self.feasible_seen != evaluation.feasible_version();
        for node in stale {
            changed |= self.evaluate(evaluation, state, rivals, node);
        }
        if changed {
            self.open.copy_from(evaluation.feasible());
            self.open.subtract(&self.blocked);
            self.blocked_count = evaluation.feasible_count() - self.open.count();
            self.version += 1;
            self.feasible_seen = evaluation.feasible_version();
        }
    }

    fn reset(&mut self, nominated: &NodeSet) {
        self.nominated.copy_from(nominated);
        for set in [&mut self.blocked, &mut self.local, &mut self.failing] {
            set.copy_from(nominated);
            set.clear();
        }
    }

    /// Runs the filters on one node with its rivals. Returns `true` if the node became blocked or
    /// ceased to be.
    fn evaluate(
        &mut self,
        evaluation: &mut Evaluation,
        state: &mut State,
        rivals: Rivals,
        node: NodeIdx,
    ) -> bool {
        self.nominated.set(node, rivals.any_on(state, node));
        let read = |evaluation: &Evaluation, state: &State, (position, answer)| {
            let (_, rejection) = evaluation.rejection(state, node, (position, answer));
            let failed = rejection.code == Code::Error;
            (failed, !failed && !evaluation.filters[position].filter.reads_other_nodes())
        };
        let is_relevant = self.nominated.contains(node) && evaluation.feasible().contains(node);
        let blocked =
            if is_relevant { rivals.first_pass(evaluation, state, node, read) } else { None };
        let (failing, local) = blocked.unwrap_or((false, false));
        let was_blocked = self.blocked.contains(node);
        self.blocked.set(node, blocked.is_some());
        self.local.set(node, local);
        self.failing.set(node, failing);
        was_blocked != blocked.is_some()
    }
}

impl Evaluation {
    /// Applies the nominations of other pods, so that [`Self::open`] is current.
    ///
    /// Returns `false` if [`Self::open`] does not hold for this pod: a filter fails on a node, or the
    /// pod itself is nominated for a feasible node, where its own nomination must not count.
    pub(crate) fn apply_nominations(&mut self, state: &mut State, rivals: Rivals) -> bool {
        if rivals.are_none() {
            self.nomination_filter.clear();
            return true;
        }
        let mut filter = std::mem::take(&mut self.nomination_filter);
        filter.refresh(self, state, rivals.of_others());
        self.nomination_filter = filter;
        let own = rivals.own_node();
        self.nomination_filter.failing.is_empty()
            && !own.is_some_and(|own| self.feasible().contains(own))
    }

    /// Returns the feasible nodes that [`Self::apply_nominations`] left open, and their version.
    pub(crate) fn open(&self) -> (&NodeSet, u64) {
        match self.nomination_filter.blocked_count {
            0 => self.all_feasible(),
            _ => (&self.nomination_filter.open, self.nomination_filter.version << 2 | 1),
        }
    }

    /// Returns the number of open nodes.
    pub(crate) fn open_count(&self) -> usize {
        self.feasible_count() - self.nomination_filter.blocked_count
    }

    /// Returns the feasible nodes, and their version in the numbering of [`Self::open`].
    pub(crate) fn all_feasible(&self) -> (&NodeSet, u64) {
        (self.feasible(), self.feasible_version() << 2)
    }
}

#[cfg(test)]
mod tests;
