//! Hard constraints (DoNotSchedule): rejects domains in which one more pod would exceed the skew.

use std::collections::BTreeMap;

use engine::bitset::NodeSet;
use engine::framework::{Class, Filter, Freshness, NodeVerdict, Rejection};
use engine::index::{DomainIdx, NodeIdx, PodIdx};
use engine::map::Map;
use engine::object::{Selector, SpreadConstraint, Text};
use engine::state::State;
use engine::state::domains::DomainSums;

use super::constraints::{counted_nodes, counted_pods, nodes_with_all_keys};

const LABEL_MISSING: NodeVerdict = NodeVerdict(1);
const SKEW_EXCEEDED: NodeVerdict = NodeVerdict(2);

/// Largest domain, in nodes, whose nodes are marked one by one; larger ones flip as a cached set.
const SMALL_DOMAIN_NODES_MAX: usize = 64;

/// The hard constraints of a class.
pub(super) struct SpreadFilter {
    namespace: Text,
    constraints: Vec<HardConstraint>,
    /// Nodes with the keys of all constraints; no others can pass.
    with_all_keys: NodeSet,
}

/// One hard constraint.
struct HardConstraint {
    selector: Option<Selector>,
    counts: DomainSums,
    /// The counts that `domains_by_count` and `full_nodes` reflect.
    last_counts: Vec<i64>,
    /// For each domain, `true` if it has a counted node. Only these count for the minimum.
    is_counted: Vec<bool>,
    /// Number of counted domains by count.
    domains_by_count: BTreeMap<i64, usize>,
    /// `true` if there are fewer domains than `minDomains`: the minimum is then zero.
    below_min_domains: bool,
    /// Largest excess over the minimum at which a domain still accepts the pod.
    skew_allowed: i64,
    /// The limit that `full_nodes` reflects.
    limit: i64,
    /// Nodes of domains with counts above the limit.
    full_nodes: NodeSet,
    /// Domains that changed in this refresh; a buffer.
    changed: Vec<DomainIdx>,
    /// Cached sets of the nodes of large domains.
    large_domains: Map<DomainIdx, NodeSet>,
}

impl SpreadFilter {
    pub(super) fn new(class: &Class, constraints: &[SpreadConstraint], state: &mut State) -> Self {
        let with_all_keys = nodes_with_all_keys(constraints, state);
        let constraints = constraints
            .iter()
            .map(|c| HardConstraint::new(c, class, &with_all_keys, state))
            .collect();
        Self { namespace: class.namespace.clone(), constraints, with_all_keys }
    }

    fn count(&mut self, state: &State, pod: PodIdx, node: NodeIdx, change: i64) {
        if *state.namespace(pod) != *self.namespace || !self.with_all_keys.contains(node) {
            return;
        }
        for constraint in &mut self.constraints {
            // As upstream, a terminating pod counts here, and an empty selector matches all pods.
            if constraint.matches(state.labels(pod))
                && let Some(domain) = constraint.counts.add(state, node, change)
            {
                constraint.update_count(domain);
            }
        }
    }
}

impl Filter for SpreadFilter {
    fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict {
        for constraint in &self.constraints {
            let domain = state.topology.column(constraint.counts.key()).domain(node);
            if !domain.is_some() {
                return LABEL_MISSING;
            }
            if constraint.counts.sum(domain) > constraint.current_limit() {
                return SKEW_EXCEEDED;
            }
        }
        NodeVerdict::PASS
    }

    fn rejection(&self, _state: &State, _node: NodeIdx, verdict: NodeVerdict) -> Rejection {
        if verdict == LABEL_MISSING {
            Rejection::unresolvable(
                "node(s) didn't match pod topology spread constraints (missing required label)",
            )
        } else {
            Rejection::unschedulable("node(s) didn't match pod topology spread constraints")
        }
    }

    fn filter(&mut self, _state: &State, nodes: &mut NodeSet) {
        nodes.intersect(&self.with_all_keys);
        for constraint in &self.constraints {
            nodes.subtract(&constraint.full_nodes);
        }
    }

    fn refresh(&mut self, state: &State, passing: &mut NodeSet) -> Freshness {
        let mut flipped = false;
        for constraint in &mut self.constraints {
            match constraint.refresh(state) {
                Freshness::Same => {}
                Freshness::Changed => flipped = true,
                Freshness::Stale => return Freshness::Stale,
            }
        }
        if !flipped {
            return Freshness::Same;
        }
        passing.copy_from(state.nodes.present());
        self.filter(state, passing);
        Freshness::Changed
    }

    fn reads_other_nodes(&self) -> bool {
        true
    }

    fn add_pod(&mut self, state: &State, pod: PodIdx, node: NodeIdx) {
        self.count(state, pod, node, 1);
    }

    fn remove_pod(&mut self, state: &State, pod: PodIdx, node: NodeIdx) {
        self.count(state, pod, node, -1);
    }
}

impl HardConstraint {
    fn new(
        constraint: &SpreadConstraint,
        class: &Class,
        with_all_keys: &NodeSet,
        state: &mut State,
    ) -> Self {
        let counted = counted_nodes(constraint, class, with_all_keys.clone(), state);
        let mut counts = DomainSums::new(state, &constraint.topology_key, Some(counted.clone()));
        if let Some(subject) = counted_pods(constraint, class) {
            counts.follow(state, &subject, 1);
        }
        let column = state.topology.column(counts.key());
        let mut is_counted = vec![false; column.domain_count()];
        for node in counted.iter() {
            is_counted[column.domain(node).at()] = true;
        }
        let last_counts = counts.sums().to_vec();
        let mut domains_by_count = BTreeMap::new();
        for (count, is_counted) in last_counts.iter().zip(&is_counted) {
            if *is_counted {
                *domains_by_count.entry(*count).or_default() += 1;
            }
        }
        let domain_count = is_counted.iter().filter(|is_counted| **is_counted).count() as i64;
        let mut hard = Self {
            selector: constraint.selector.clone(),
            counts,
            last_counts,
            is_counted,
            domains_by_count,
            below_min_domains: domain_count < i64::from(constraint.min_domains),
            skew_allowed: i64::from(constraint.max_skew),
            limit: i64::MAX,
            full_nodes: NodeSet::new(state.nodes.slots()),
            changed: Vec::new(),
            large_domains: Map::default(),
        };
        hard.skew_allowed -= i64::from(hard.matches(&class.labels));
        hard.update_all_domains(state);
        hard
    }

    fn matches(&self, labels: &engine::object::Labels) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }

    /// Returns the highest count at which a domain accepts one more pod.
    fn current_limit(&self) -> i64 {
        let minimum = match self.domains_by_count.first_key_value() {
            _ if self.below_min_domains => 0,
            Some((minimum, _)) => *minimum,
            None => i64::from(i32::MAX),
        };
        minimum + self.skew_allowed
    }

    /// Applies the new count of a domain.
    fn update_count(&mut self, domain: DomainIdx) {
        let new = self.counts.sum(domain);
        let old = std::mem::replace(&mut self.last_counts[domain.at()], new);
        if new == old || !self.is_counted[domain.at()] {
            return;
        }
        *self.domains_by_count.entry(new).or_default() += 1;
        if let Some(domains) = self.domains_by_count.get_mut(&old) {
            *domains -= 1;
            if *domains == 0 {
                self.domains_by_count.remove(&old);
            }
        }
    }

    fn refresh(&mut self, state: &State) -> Freshness {
        let mut changed = std::mem::take(&mut self.changed);
        changed.clear();
        let current = self.counts.refresh(state, |domain| changed.push(domain));
        if !current {
            return Freshness::Stale;
        }
        for domain in &changed {
            self.update_count(*domain);
        }
        let flipped = if self.current_limit() == self.limit {
            changed
                .iter()
                .fold(false, |flipped, domain| self.update_domain(state, *domain) | flipped)
        } else {
            self.update_all_domains(state)
        };
        self.changed = changed;
        if flipped { Freshness::Changed } else { Freshness::Same }
    }

    /// Applies the current limit to all domains. Returns `true` if a verdict changed.
    fn update_all_domains(&mut self, state: &State) -> bool {
        self.limit = self.current_limit();
        let domains = (0..self.last_counts.len()).map(DomainIdx::from);
        domains.fold(false, |flipped, domain| self.update_domain(state, domain) | flipped)
    }

    /// Applies the limit to a domain. Returns `true` if its verdict changed.
    fn update_domain(&mut self, state: &State, domain: DomainIdx) -> bool {
        let is_full = self.last_counts[domain.at()] > self.limit;
        let nodes = state.topology.column(self.counts.key()).nodes(domain);
        // All nodes of a domain share its verdict.
        let was_full = nodes.first().is_some_and(|node| self.full_nodes.contains(*node));
        if is_full == was_full || nodes.is_empty() {
            return false;
        }
        if nodes.len() <= SMALL_DOMAIN_NODES_MAX {
            for node in nodes {
                self.full_nodes.set(*node, is_full);
            }
            return true;
        }
        let whole = self.large_domains.get_or_insert_with(domain, || {
            let mut whole = NodeSet::new(state.nodes.slots());
            for node in nodes {
                whole.insert(*node);
            }
            whole
        });
        self.full_nodes.toggle(whole);
        true
    }
}
