//! The nodes among which a decision chooses: feasible nodes, without those that nominated pods block
//! and those that the decision excludes.
//!
//! Both are applied on top of the feasible nodes of the cached evaluation, which stays as it is.

use crate::bitset::NodeSet;

use super::evaluation::Evaluation;

/// The nodes among which a decision chooses.
#[derive(Clone, Copy)]
pub(crate) enum Candidates {
    /// All feasible nodes.
    AllFeasible,
    /// The nodes of [`Evaluation::open`].
    Open,
    /// The nodes that [`Evaluation::exclude`] left.
    NotExcluded,
}

/// Open nodes without those that one decision excludes.
#[derive(Default)]
pub(super) struct Exclusion {
    left: NodeSet,
    /// Number of nodes in `left`.
    count: usize,
    /// Incremented by every exclusion.
    version: u64,
}

impl Evaluation {
    /// Excludes nodes from the next decision.
    pub(super) fn exclude(&mut self, nodes: &NodeSet) -> Candidates {
        let mut exclusion = std::mem::take(&mut self.exclusion);
        exclusion.left.copy_from(self.open().0);
        exclusion.left.subtract(nodes);
        exclusion.count = exclusion.left.count();
        exclusion.version += 1;
        self.exclusion = exclusion;
        Candidates::NotExcluded
    }

    /// Returns the candidates, and a version that differs whenever they may differ.
    pub(super) fn candidates(&self, which: Candidates) -> (&NodeSet, u64) {
        match which {
            Candidates::AllFeasible => self.all_feasible(),
            Candidates::Open => self.open(),
            Candidates::NotExcluded => (&self.exclusion.left, self.exclusion.version << 2 | 2),
        }
    }

    /// Returns the number of candidates.
    pub(super) fn candidate_count(&self, which: Candidates) -> usize {
        match which {
            Candidates::AllFeasible => self.feasible_count(),
            Candidates::Open => self.open_count(),
            Candidates::NotExcluded => self.exclusion.count,
        }
    }
}
