//! Nodes for which pods are nominated, and which feasible nodes these leave to a class.
//!
//! A pod may go to a node only if it fits there together with the equally and more important pods
//! nominated for that node, and without them. The second is what the feasible nodes of the class are. The
//! first is found out once per node with such pods and cached until something changes that may change
//! the answer: the pods on the node, its nominations, or, for filters that read them, other nodes.

use crate::bitset::NodeSet;
use crate::framework::Code;
use crate::index::NodeIdx;
use crate::state::State;

use super::evaluation::Evaluation;
use super::rivals::Rivals;

/// How far a reader has followed everything that may change what filters say of a node and its rivals.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Priority of the pods for which it is followed.
    priority: i32,
    /// Of the evaluation; see [`Evaluation::rebuilds`].
    rebuilds: u64,
    usage: u64,
    nominations: u64,
}

impl Cursor {
    pub(super) fn now(evaluation: &Evaluation, state: &State, rivals: Rivals) -> Self {
        Self {
            priority: rivals.priority(),
            rebuilds: evaluation.rebuilds(),
            usage: state.nodes.usage_changes().end(),
            nominations: rivals.nominator().changes().end(),
        }
    }

    /// Nodes whose pods or rivals changed between here and there, each once; `None` when all may have.
    pub(super) fn changes(&self, to: &Self, state: &State, rivals: Rivals) -> Option<Vec<NodeIdx>> {
        if self.rebuilds != to.rebuilds {
            return None;
        }
        let nominator = rivals.nominator();
        let mut nodes = state.nodes.usage_changes().since(self.usage)?.to_vec();
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

/// What the nominations of others mean to the pods of a class that are not nominated themselves.
#[derive(Default)]
pub(crate) struct Claims {
    cursor: Option<Cursor>,
    /// Nodes with rivals.
    claimed: NodeSet,
    /// Feasible nodes that filters turn down once the rivals are there.
    closed: NodeSet,
    /// Those of them for which pods on other nodes make no difference.
    settled: NodeSet,
    /// Those of them where a filter failed, which fails the attempt.
    failing: NodeSet,
    /// Feasible nodes that are not closed, if any is.
    open: NodeSet,
    /// How many feasible nodes are closed.
    closed_count: usize,
    /// Counts changes of the open nodes.
    version: u64,
    feasible_seen: u64,
}

impl Claims {
    /// No pod is nominated for any node.
    fn none(&mut self) {
        self.cursor = None;
        self.closed_count = 0;
    }

    fn refresh(&mut self, evaluation: &mut Evaluation, state: &mut State, rivals: Rivals) {
        let now = Cursor::now(evaluation, state, rivals);
        let before = self.cursor.replace(now);
        let stale = before.and_then(|before| before.changes(&now, state, rivals));
        let caught_up = stale.is_some();
        let mut stale = stale.unwrap_or_else(|| {
            let claimed = rivals.nodes(state);
            self.reset(&claimed);
            claimed.iter().collect()
        });
        if caught_up && evaluation.reads_other_nodes() {
            let mut unsettled = self.claimed.clone();
            unsettled.intersect(evaluation.feasible());
            unsettled.subtract(&self.settled);
            stale.extend(unsettled.iter());
            stale.sort_unstable();
            stale.dedup();
        }
        let mut changed = !caught_up || self.feasible_seen != evaluation.feasible_version();
        for node in stale {
            changed |= self.judge(evaluation, state, rivals, node);
        }
        if changed {
            self.open.copy_from(evaluation.feasible());
            self.open.subtract(&self.closed);
            self.closed_count = evaluation.feasible_count() - self.open.count();
            self.version += 1;
            self.feasible_seen = evaluation.feasible_version();
        }
    }

    fn reset(&mut self, claimed: &NodeSet) {
        self.claimed.copy_from(claimed);
        for set in [&mut self.closed, &mut self.settled, &mut self.failing] {
            set.copy_from(claimed);
            set.clear();
        }
    }

    /// Runs the filters on one node anew. True if it was closed or opened.
    fn judge(
        &mut self,
        evaluation: &mut Evaluation,
        state: &mut State,
        rivals: Rivals,
        node: NodeIdx,
    ) -> bool {
        self.claimed.set(node, rivals.any_on(state, node));
        let read = |evaluation: &Evaluation, state: &State, (position, answer)| {
            let (_, rejection) = evaluation.rejection(state, node, (position, answer));
            let failed = rejection.code == Code::Error;
            (failed, !failed && !evaluation.filters[position].filter.reads_other_nodes())
        };
        let asked = self.claimed.contains(node) && evaluation.feasible().contains(node);
        let closed = if asked { rivals.first_pass(evaluation, state, node, read) } else { None };
        let (failing, settled) = closed.unwrap_or((false, false));
        let was_closed = self.closed.contains(node);
        self.closed.set(node, closed.is_some());
        self.settled.set(node, settled);
        self.failing.set(node, failing);
        was_closed != closed.is_some()
    }
}

impl Evaluation {
    /// Takes the nominations of others into account: see [`Self::open`].
    ///
    /// Returns false when [`Self::open`] is not true of the pod: a filter fails on a node, or the pod's own
    /// nomination counts against others on a node that is feasible.
    pub(crate) fn follow_claims(&mut self, state: &mut State, rivals: Rivals) -> bool {
        if rivals.are_none() {
            self.claims.none();
            return true;
        }
        let mut claims = std::mem::take(&mut self.claims);
        claims.refresh(self, state, rivals.of_others());
        self.claims = claims;
        let own = rivals.own_node();
        self.claims.failing.is_empty() && !own.is_some_and(|own| self.feasible().contains(own))
    }

    /// The nodes that [`Self::follow_claims`] left to the pod, and their version.
    pub(crate) fn open(&self) -> (&NodeSet, u64) {
        match self.claims.closed_count {
            0 => self.all_feasible(),
            _ => (&self.claims.open, self.claims.version << 1 | 1),
        }
    }

    /// How many these are.
    pub(crate) fn open_count(&self) -> usize {
        self.feasible_count() - self.claims.closed_count
    }

    /// The feasible nodes, and their version among those of [`Self::open`].
    pub(crate) fn all_feasible(&self) -> (&NodeSet, u64) {
        (self.feasible(), self.feasible_version() << 1)
    }
}
