//! Filters: the nodes on which pods of a class may run.

use crate::bitset::NodeSet;
use crate::index::{NodeIdx, PodIdx};
use crate::state::State;

use super::rejection::Rejection;

/// Result of a filter for one node: zero means pass; other numbers are private codes of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeVerdict(pub u32);

impl NodeVerdict {
    /// The node passes.
    pub const PASS: Self = Self(0);

    /// Returns `true` if the node passes.
    pub fn passes(self) -> bool {
        self == Self::PASS
    }
}

/// Result of [`Filter::refresh`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// No node changed its verdict.
    Same,
    /// The passing nodes changed.
    Changed,
    /// The filter cannot catch up and must be prepared again.
    Stale,
}

/// A filter prepared for one class.
///
/// # Guarantees of the engine
///
/// - The filter is dropped when something changes that its plugin named while preparing it: an
///   area, a plugin's state, or the time.
/// - It is also dropped at the time of [`Filter::valid_until`].
/// - If [`Filter::reads_pods`] returns `true`, [`Filter::check`] is called again for each node
///   whose pods changed. What pods of *other* nodes change is left to [`Filter::refresh`].
pub trait Filter: Send {
    /// Returns the verdict on one node.
    fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict;

    /// Returns the rejection that a verdict other than [`NodeVerdict::PASS`] means.
    fn rejection(&self, state: &State, node: NodeIdx, answer: NodeVerdict) -> Rejection;

    /// Returns `true` if the same verdict may mean different rejections on different nodes.
    /// Otherwise the rejection is created once for all nodes with this verdict.
    fn rejection_varies(&self, _answer: NodeVerdict) -> bool {
        false
    }

    /// Removes the nodes that do not pass from a set.
    fn filter(&mut self, state: &State, nodes: &mut NodeSet) {
        nodes.retain(|node| self.check(state, node).passes());
    }

    /// Returns the earliest time at which verdicts given so far change without an event, in
    /// nanoseconds since the epoch: the [`Rejection::until`] of those that have one. What is known
    /// while preparing belongs to
    /// [`Preparation::valid_until`](super::Preparation::valid_until).
    fn valid_until(&self) -> Option<i64> {
        None
    }

    /// Returns `true` if the verdict on a node depends on the pods there.
    fn reads_pods(&self) -> bool {
        false
    }

    /// Returns `true` if the verdict on a node, after [`Filter::add_pod`] or
    /// [`Filter::remove_pod`], may depend on pods of other nodes.
    fn reads_other_nodes(&self) -> bool {
        false
    }

    /// Returns `true` if a verdict may mean [`super::Code::Error`], which fails the attempt.
    fn can_fail(&self) -> bool {
        false
    }

    /// Follows the pods that were placed or removed anywhere in the cluster since the last call.
    ///
    /// `passing` holds the passing nodes among all existing nodes.
    fn refresh(&mut self, _state: &State, _passing: &mut NodeSet) -> Freshness {
        Freshness::Same
    }

    /// Supposes that a pod is on a node as well; [`Filter::remove_pod`] undoes it before the next
    /// refresh.
    fn add_pod(&mut self, _state: &State, _pod: PodIdx, _node: NodeIdx) {}

    /// Supposes that a pod is not on a node; [`Filter::add_pod`] undoes it before the next refresh.
    fn remove_pod(&mut self, _state: &State, _pod: PodIdx, _node: NodeIdx) {}
}
