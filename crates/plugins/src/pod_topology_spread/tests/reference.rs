//! Reference implementation of the rules of PodTopologySpread.

use std::collections::{BTreeMap, BTreeSet};

use engine::bitset::NodeSet;
use engine::framework::Class;
use engine::index::{NodeIdx, PodIdx};
use engine::object::{Selector, SpreadConstraint};
use engine::state::State;

use super::super::HOSTNAME;
use crate::node_affinity::RequiredNodeAffinity;
use crate::tolerations::tolerates_all_hard;

/// Reference implementation of the rules: maps of strings, visiting all pods each time.
pub(super) struct Reference<'a> {
    pub(super) state: &'a State,
    pub(super) class: &'a Class,
    pub(super) constraints: &'a [SpreadConstraint],
}

impl Reference<'_> {
    fn label(&self, node: NodeIdx, key: &str) -> Option<&str> {
        self.state.nodes.object(node).labels.get(key)
    }

    fn has_all_keys(&self, node: NodeIdx) -> bool {
        self.constraints.iter().all(|c| self.label(node, &c.topology_key).is_some())
    }

    fn counts(&self, node: NodeIdx, constraint: &SpreadConstraint) -> bool {
        let object = self.state.nodes.object(node);
        let spec = &self.class.spec;
        (!constraint.honor_affinity || RequiredNodeAffinity::new(spec).matches(object))
            && (!constraint.honor_taints || tolerates_all_hard(&spec.tolerations, &object.taints))
    }

    fn pods_on(&self, node: NodeIdx, constraint: &SpreadConstraint) -> i64 {
        let Some(selector) = constraint.selector.as_ref().filter(|s| !s.is_empty()) else {
            return 0;
        };
        let counted = self.state.nodes.pods(node).iter().filter(|pod| {
            !self.state.pods.get(**pod).terminating
                && *self.state.namespace(**pod) == *self.class.namespace
                && selector.matches(self.state.labels(**pod))
        });
        counted.count() as i64
    }

    /// Returns the verdicts of the filter if these pods were added to (1) or removed from (-1) these nodes.
    pub(super) fn verdicts(&self, supposed: &[(PodIdx, NodeIdx, i64)]) -> Vec<u32> {
        let mut maps = vec![BTreeMap::new(); self.constraints.len()];
        let nodes: Vec<NodeIdx> = self.state.nodes.present().iter().collect();
        for node in nodes.iter().filter(|node| self.has_all_keys(**node)) {
            for (map, constraint) in maps.iter_mut().zip(self.constraints) {
                if !self.counts(*node, constraint) {
                    continue;
                }
                let value = self.label(*node, &constraint.topology_key).unwrap().to_owned();
                let mut count = self.pods_on(*node, constraint);
                for (pod, at, change) in supposed {
                    let matches = |s: &Selector| s.matches(self.state.labels(*pod));
                    if at == node
                        && *self.state.namespace(*pod) == *self.class.namespace
                        && constraint.selector.as_ref().is_some_and(matches)
                    {
                        count += change;
                    }
                }
                *map.entry(value).or_insert(0) += count;
            }
        }
        let verdict = |node: NodeIdx| {
            for (map, constraint) in maps.iter().zip(self.constraints) {
                let Some(value) = self.label(node, &constraint.topology_key) else { return 1 };
                let minimum = if (map.len() as i64) < i64::from(constraint.min_domains) {
                    0
                } else {
                    map.values().min().copied().unwrap_or(i64::from(i32::MAX))
                };
                let matches = |s: &Selector| s.matches(&self.class.labels);
                let itself = i64::from(constraint.selector.as_ref().is_some_and(matches));
                let count = map.get(value).copied().unwrap_or(0);
                if count + itself - minimum > i64::from(constraint.max_skew) {
                    return 2;
                }
            }
            0
        };
        nodes.into_iter().map(verdict).collect()
    }

    /// Returns the final scores of feasible nodes by slot, zero for others.
    pub(super) fn scores(&self, feasible: &NodeSet, all_keys_needed: bool) -> Vec<i64> {
        let scored: Vec<NodeIdx> =
            feasible.iter().filter(|node| !all_keys_needed || self.has_all_keys(*node)).collect();
        let mut raw: BTreeMap<NodeIdx, f64> = scored.iter().map(|node| (*node, 0.0)).collect();
        for constraint in self.constraints {
            let key = &constraint.topology_key;
            let value = |node| self.label(node, key).unwrap_or("");
            let values: BTreeSet<&str> = scored.iter().map(|node| value(*node)).collect();
            let hostname = **key == *HOSTNAME;
            let size = if hostname { scored.len() } else { values.len() };
            let weight = ((size + 2) as f64).ln();
            let total = |wanted: &str| -> i64 {
                let nodes = self.state.nodes.present().iter();
                nodes
                    .filter(|n| !all_keys_needed || self.has_all_keys(*n))
                    .filter(|n| self.counts(*n, constraint) && value(*n) == wanted)
                    .map(|n| self.pods_on(n, constraint))
                    .sum()
            };
            for (node, raw) in &mut raw {
                let Some(value) = self.label(*node, key) else { continue };
                let count = if hostname { self.pods_on(*node, constraint) } else { total(value) };
                *raw += count as f64 * weight + f64::from(constraint.max_skew - 1);
            }
        }
        let raw: BTreeMap<NodeIdx, i64> =
            raw.into_iter().map(|(node, raw)| (node, raw.round() as i64)).collect();
        let min = raw.values().min().copied().unwrap_or(0);
        let max = raw.values().max().copied().unwrap_or(0);
        let mut scores = vec![0; self.state.nodes.slots()];
        for (node, raw) in raw {
            scores[node.at()] = if max == 0 { 100 } else { 100 * (max + min - raw) / max };
        }
        scores
    }
}
