//! Filters: which nodes a class may go to.

use crate::bitset::NodeSet;
use crate::index::{NodeIdx, PodIdx};
use crate::state::State;

use super::rejection::Rejection;

/// What a filter says of one node: zero is "yes", any other number means something to that filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeVerdict(pub u32);

impl NodeVerdict {
    /// The node passes.
    pub const PASS: Self = Self(0);

    /// Whether the node passes.
    pub fn passes(self) -> bool {
        self == Self::PASS
    }
}

/// Result of bringing a filter up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Nothing changed for any node: each answer is as before.
    Same,
    /// Some bits were changed.
    Changed,
    /// It cannot catch up and must be prepared anew.
    Stale,
}

/// A filter prepared for one class.
///
/// # Guarantees of the engine
///
/// - A filter lives no longer than the areas that its plugin named while preparing it.
/// - Whenever the pods of a node change, [`Filter::check`] is asked again for that node if
///   [`Filter::reads_pods`] says so. Everything else that pods of *other* nodes can change
///   is brought in by [`Filter::refresh`].
pub trait Filter {
    /// Judges one node.
    fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict;

    /// Tells what an answer other than [`NodeVerdict::PASS`] means.
    fn rejection(&self, state: &State, node: NodeIdx, answer: NodeVerdict) -> Rejection;

    /// Whether an answer may mean another rejection on another node. If not, the rejection is made once
    /// for all nodes with this answer.
    fn rejection_varies(&self, _answer: NodeVerdict) -> bool {
        false
    }

    /// Judges all nodes of the set and removes those that do not pass.
    fn filter(&mut self, state: &State, nodes: &mut NodeSet) {
        nodes.retain(|node| self.check(state, node).passes());
    }

    /// Whether the answer for a node depends on the pods on it.
    fn reads_pods(&self) -> bool {
        false
    }

    /// Whether the answer for a node, with [`Filter::add_pod`] and [`Filter::remove_pod`] in effect on it,
    /// may depend on the pods on other nodes.
    fn reads_other_nodes(&self) -> bool {
        false
    }

    /// Whether an answer may mean [`super::Code::Error`], which fails the whole attempt.
    fn can_fail(&self) -> bool {
        false
    }

    /// Catches up with pods that came and went since the last call, anywhere in the cluster.
    ///
    /// `passing` holds the nodes that pass, over all nodes that exist.
    fn refresh(&mut self, _state: &State, _passing: &mut NodeSet) -> Freshness {
        Freshness::Same
    }

    /// What if this pod were on that node as well? Undone by [`Filter::remove_pod`] before the next refresh.
    fn add_pod(&mut self, _state: &State, _pod: PodIdx, _node: NodeIdx) {}

    /// What if this pod were not on that node? Undone by [`Filter::add_pod`] before the next refresh.
    fn remove_pod(&mut self, _state: &State, _pod: PodIdx, _node: NodeIdx) {}
}
