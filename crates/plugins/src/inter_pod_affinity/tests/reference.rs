//! Reference implementation of the rules of InterPodAffinity.

use std::collections::BTreeMap;

use engine::bitset::NodeSet;
use engine::framework::Class;
use engine::index::{NodeIdx, PodIdx};
use engine::object::{Labels, PodTerm, Text};
use engine::state::State;

/// Reference implementation of the rules: maps of strings, visiting all pods each time.
pub(super) struct Reference<'a> {
    pub(super) state: &'a State,
    pub(super) class: &'a Class,
}

type Pairs = BTreeMap<(Text, Text), i64>;

impl Reference<'_> {
    /// Returns `true` if a term of the class matches a pod.
    fn own_matches(&self, term: &PodTerm, namespace: &str, labels: &Labels) -> bool {
        let named = term.namespaces.iter().any(|name| **name == *namespace);
        let selected = term.namespace_selector.as_ref().is_some_and(|selector| {
            let mut namespaces = self.state.namespaces();
            selector.matches(&Labels::default())
                || namespaces.any(|n| *n.name == *namespace && selector.matches(&n.labels))
        });
        (named || selected) && term.selector.as_ref().is_some_and(|s| s.matches(labels))
    }

    /// Returns `true` if a term of an existing pod matches the class.
    fn others_match(&self, term: &PodTerm) -> bool {
        let Class { namespace, labels, .. } = self.class;
        let namespace_labels = self.state.namespace_labels(namespace);
        let named = term.namespaces.iter().any(|name| name == namespace);
        let selected =
            term.namespace_selector.as_ref().is_some_and(|s| s.matches(namespace_labels));
        (named || selected) && term.selector.as_ref().is_some_and(|s| s.matches(labels))
    }

    fn note(&self, map: &mut Pairs, node: NodeIdx, key: &Text, weight: i64) {
        if let Some(value) = self.state.nodes.object(node).labels.get(key) {
            *map.entry((key.clone(), value.into())).or_insert(0) += weight;
        }
    }

    fn placed(&self) -> Vec<(PodIdx, NodeIdx)> {
        let pods = self.state.pods.iter().map(|(pod, record)| (pod, record.node));
        pods.filter(|(_, node)| self.state.nodes.present().contains(*node)).collect()
    }

    /// Returns the verdicts on all nodes, with these pods on these nodes as well (1) or not (-1).
    pub(super) fn verdicts(&self, supposed: &[(PodIdx, NodeIdx, i64)]) -> Vec<u32> {
        let own = &self.class.spec.pod_affinity;
        let matches_all = |namespace: &str, labels: &Labels| {
            let all = |term| self.own_matches(term, namespace, labels);
            !own.required.is_empty() && own.required.iter().all(all)
        };
        let [mut affinity, mut anti_affinity, mut existing] =
            [Pairs::new(), Pairs::new(), Pairs::new()];
        let mut count = |pod: PodIdx, node: NodeIdx, change: i64| {
            let (namespace, labels) = (self.state.namespace(pod), self.state.labels(pod));
            if matches_all(namespace, labels) {
                own.required
                    .iter()
                    .for_each(|t| self.note(&mut affinity, node, &t.topology_key, change));
            }
            for term in own.required_anti.iter().filter(|t| self.own_matches(t, namespace, labels))
            {
                self.note(&mut anti_affinity, node, &term.topology_key, change);
            }
            for term in &self.state.spec(pod).pod_affinity.required_anti {
                if self.others_match(term) {
                    self.note(&mut existing, node, &term.topology_key, change);
                }
            }
            for map in [&mut affinity, &mut anti_affinity, &mut existing] {
                map.retain(|_, count| *count != 0);
            }
            existing.is_empty()
        };
        let mut no_existing = true;
        for (pod, node) in self.placed() {
            no_existing = count(pod, node, 1);
        }
        let skipped = no_existing && own.required.is_empty() && own.required_anti.is_empty();
        if !skipped {
            for (pod, node, change) in supposed {
                count(*pod, *node, *change);
            }
        }
        let verdict = |node: NodeIdx| {
            let labels = &self.state.nodes.object(node).labels;
            let pair = |term: &PodTerm| {
                let key = &term.topology_key;
                labels.get(key).map(|value| (key.clone(), Text::from(value)))
            };
            let in_domains = own.required.iter().all(|term| pair(term).is_some());
            let found =
                own.required.iter().all(|t| pair(t).is_some_and(|p| affinity.contains_key(&p)));
            let may_be_first_match =
                affinity.is_empty() && matches_all(&self.class.namespace, &self.class.labels);
            if !in_domains || !found && !may_be_first_match {
                1
            } else if own
                .required_anti
                .iter()
                .any(|t| pair(t).is_some_and(|p| anti_affinity.contains_key(&p)))
            {
                2
            } else if labels.iter().any(|(k, v)| existing.contains_key(&(k.into(), v.into()))) {
                3
            } else {
                0
            }
        };
        self.state.nodes.present().iter().map(verdict).collect()
    }

    /// Returns the final scores of feasible nodes by slot, zero for others; `None` if skipped.
    pub(super) fn scores(&self, feasible: &NodeSet) -> Option<Vec<i64>> {
        let own = &self.class.spec.pod_affinity;
        let mut map = Pairs::new();
        for (pod, node) in self.placed() {
            let (namespace, labels) = (self.state.namespace(pod), self.state.labels(pod));
            let theirs = &self.state.spec(pod).pod_affinity;
            for (sign, terms) in [(1, &own.preferred), (-1, &own.preferred_anti)] {
                for (weight, term) in terms {
                    if self.own_matches(term, namespace, labels) {
                        self.note(&mut map, node, &term.topology_key, i64::from(sign * weight));
                    }
                }
            }
            let required = theirs.required.iter().map(|term| (1, term));
            let preferred = theirs.preferred.iter().map(|(weight, term)| (*weight, term));
            let anti = theirs.preferred_anti.iter().map(|(weight, term)| (-weight, term));
            for (weight, term) in required.chain(preferred).chain(anti) {
                if self.others_match(term) {
                    self.note(&mut map, node, &term.topology_key, i64::from(weight));
                }
            }
        }
        if map.is_empty() {
            return None;
        }
        let raw: BTreeMap<NodeIdx, i64> = feasible
            .iter()
            .map(|node| {
                let labels = self.state.nodes.object(node).labels.iter();
                let found = labels.filter_map(|(k, v)| map.get(&(k.into(), v.into())));
                (node, found.sum())
            })
            .collect();
        let min = raw.values().min().copied().unwrap_or(0);
        let range = raw.values().max().copied().unwrap_or(0) - min;
        let mut scores = vec![0; self.state.nodes.slots()];
        for (node, raw) in raw {
            if range > 0 {
                scores[node.at()] = (100.0 * ((raw - min) as f64 / range as f64)) as i64;
            }
        }
        Some(scores)
    }
}
