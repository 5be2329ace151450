//! Counts of pods per topology domain, kept current by following tallies.

use crate::bitset::NodeSet;
use crate::index::{DomainIdx, KeyIdx, NodeIdx};

use super::State;
use super::tallies::{TallyRef, TallySource};

/// Weighted counts of pods in the domains of one label key.
#[derive(Clone, Debug)]
pub struct DomainSums {
    key: KeyIdx,
    /// Only pods on these nodes are counted; `None` counts all.
    counted: Option<NodeSet>,
    sums: Vec<i64>,
    pods: i64,
    cursors: Vec<TallyCursor>,
}

#[derive(Clone, Debug)]
struct TallyCursor {
    tally: TallyRef,
    position: u64,
    weight: i64,
}

impl DomainSums {
    /// Creates sums that are zero in all domains. Valid for one version of [`super::Areas::NODES`].
    pub fn new(state: &mut State, topology_key: &str, counted: Option<NodeSet>) -> Self {
        let key = state.label_column(topology_key);
        let sums = vec![0; state.topology.column(key).domain_count()];
        Self { key, counted, sums, pods: 0, cursors: Vec::new() }
    }

    /// Returns the label column that defines the domains.
    pub fn key(&self) -> KeyIdx {
        self.key
    }

    /// Counts the pods of a source now and follows its tally from here on.
    pub fn follow(&mut self, state: &mut State, source: &TallySource, weight: i64) {
        let tally = state.tally(source);
        let position = state.tallies.end(tally).expect("the tally was found or created above");
        state.for_each_counted_pod(source, |_, node| {
            if self.add(state, node, weight).is_some() {
                self.pods += 1;
            }
        });
        self.cursors.push(TallyCursor { tally, position, weight });
    }

    /// Follows the tallies and calls `changed` for each domain whose sum may have changed, possibly
    /// repeatedly. Returns `false` if a log no longer reaches back far enough; the sums must then
    /// be prepared again.
    pub fn refresh(&mut self, state: &State, mut changed: impl FnMut(DomainIdx)) -> bool {
        let column = state.topology.column(self.key);
        for cursor in &mut self.cursors {
            let Some(changes) = state.tallies.since(cursor.tally, cursor.position) else {
                return false;
            };
            for (node, change) in changes {
                let counted = self.counted.as_ref().is_none_or(|nodes| nodes.contains(*node));
                let domain = column.domain(*node);
                if counted && domain.is_some() {
                    self.sums[domain.at()] += cursor.weight * i64::from(*change);
                    self.pods += i64::from(*change);
                    changed(domain);
                }
            }
            cursor.position += changes.len() as u64;
        }
        true
    }

    /// Returns the sum of a domain.
    pub fn sum(&self, domain: DomainIdx) -> i64 {
        self.sums[domain.at()]
    }

    /// Returns the sums by domain.
    pub fn sums(&self) -> &[i64] {
        &self.sums
    }

    /// Returns the number of counted pods, once per source that contains them, without those that
    /// [`Self::add`] added.
    pub fn pods(&self) -> i64 {
        self.pods
    }

    /// Returns `true` if no source is followed.
    pub fn is_unused(&self) -> bool {
        self.cursors.is_empty()
    }

    /// Adds to the sum of a node's domain, for a what-if. Returns the domain if the node is
    /// counted.
    pub fn add(&mut self, state: &State, node: NodeIdx, change: i64) -> Option<DomainIdx> {
        let counted = self.counted.as_ref().is_none_or(|nodes| nodes.contains(node));
        let domain = state.topology.column(self.key).domain(node);
        if !counted || !domain.is_some() {
            return None;
        }
        self.sums[domain.at()] += change;
        Some(domain)
    }
}

#[cfg(test)]
mod tests;
