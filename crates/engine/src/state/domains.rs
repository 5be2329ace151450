//! Pods counted per topology domain, kept up to date by following tallies.

use crate::bitset::NodeSet;
use crate::index::{DomainIdx, KeyIdx, NodeIdx};

use super::State;
use super::tallies::{TallyRef, TallySource};

/// Weighted numbers of pods in the domains of one label key.
#[derive(Clone, Debug)]
pub struct DomainSums {
    key: KeyIdx,
    /// Pods on other nodes are left out; `None` counts all.
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
    /// Zero everywhere. Valid for one version of [`super::Areas::NODES`].
    pub fn new(state: &mut State, topology_key: &str, counted: Option<NodeSet>) -> Self {
        let key = state.label_column(topology_key);
        let sums = vec![0; state.topology.column(key).domain_count()];
        Self { key, counted, sums, pods: 0, cursors: Vec::new() }
    }

    /// The label column that makes the domains.
    pub fn key(&self) -> KeyIdx {
        self.key
    }

    /// Counts the pods of a source, now and from now on.
    pub fn follow(&mut self, state: &mut State, source: &TallySource, weight: i64) {
        let tally = state.tally(source);
        let position = state.tallies.end(tally).expect("the tally was asked for just now");
        state.for_each_counted_pod(source, |_, node| {
            if self.add(state, node, weight).is_some() {
                self.pods += 1;
            }
        });
        self.cursors.push(TallyCursor { tally, position, weight });
    }

    /// Catches up and calls `changed` for each domain whose sum may have changed, perhaps several times.
    /// False when that is not possible: then prepare anew.
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

    /// Sum of a domain.
    pub fn sum(&self, domain: DomainIdx) -> i64 {
        self.sums[domain.at()]
    }

    /// ExactSums by domain.
    pub fn sums(&self) -> &[i64] {
        &self.sums
    }

    /// How many pods are counted, each once for every source it belongs to; what-if left out.
    pub fn pods(&self) -> i64 {
        self.pods
    }

    /// Whether nothing is followed.
    pub fn is_unused(&self) -> bool {
        self.cursors.is_empty()
    }

    /// Changes the sum of a node's domain by hand, for what-if. Returns the domain if it counts.
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
