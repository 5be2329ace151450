//! The filter: required affinity and anti-affinity of the class, and anti-affinity of existing pods.

use engine::bitset::NodeSet;
use engine::framework::{Class, Filter, Freshness, NodeVerdict, Rejection};
use engine::index::{DomainIdx, KeyIdx, NodeIdx, PodIdx, TermIdx};
use engine::object::Labels;
use engine::state::State;
use engine::state::domains::DomainSums;
use engine::state::tallies::{Matcher, TallySource};
use engine::state::terms::TermKind;

use super::terms::{ExistingTerms, common_matchers, matcher, matching};

const AFFINITY_UNSATISFIED: NodeVerdict = NodeVerdict(1);
const ANTI_AFFINITY_VIOLATED: NodeVerdict = NodeVerdict(2);
const EXISTING_ANTI_AFFINITY_VIOLATED: NodeVerdict = NodeVerdict(3);

/// The required terms of a class, and the anti-affinity terms of existing pods that match it.
pub(super) struct AffinityFilter {
    existing: ExistingTerms,
    /// A pod satisfies the affinity of the class if it matches all of these; `None` if no pod can.
    affinity_matchers: Option<Box<[Matcher]>>,
    /// `true` if pods of the class match its own affinity terms.
    matches_itself: bool,
    /// Domains with pods that satisfy the affinity, for each topology key.
    affinity: Vec<DomainPresence>,
    /// Domains with pods that match anti-affinity terms of the class, for each topology key.
    anti_affinity: Vec<(Vec<Matcher>, DomainPresence)>,
    /// Domains with pods whose anti-affinity terms match the class, for each topology key.
    existing_anti_affinity: Vec<(Vec<TermIdx>, DomainPresence)>,
    /// `true` if upstream would skip the plugin, which then ignores what-ifs as well.
    is_skipped: bool,
    flipped: Vec<(KeyIdx, DomainIdx)>,
}

/// Returns `true` if pods of the class match its own affinity terms.
pub(super) fn matches_itself(class: &Class, state: &State) -> bool {
    let affinity = common_matchers(&class.spec.pod_affinity.required, state);
    matches_all(affinity.as_deref(), &class.namespace, &class.labels)
}

impl AffinityFilter {
    pub(super) fn new(class: &Class, state: &mut State) -> Self {
        let own = &class.spec.pod_affinity;
        let existing = ExistingTerms::new(class, |kind| kind == TermKind::RequiredAnti, state);
        let affinity_matchers = common_matchers(&own.required, state);
        let matches_itself =
            matches_all(affinity_matchers.as_deref(), &class.namespace, &class.labels);
        let mut filter = Self {
            existing,
            affinity_matchers,
            matches_itself,
            affinity: Vec::new(),
            anti_affinity: Vec::new(),
            existing_anti_affinity: Vec::new(),
            is_skipped: false,
            flipped: Vec::new(),
        };
        for term in &own.required {
            filter.add_affinity(&term.topology_key, state);
        }
        for term in &own.required_anti {
            filter.add_anti_affinity(&term.topology_key, matcher(term, state), state);
        }
        for term in filter.existing.terms().to_vec() {
            filter.add_existing_anti_affinity(term, state);
        }
        filter.presences().for_each(DomainPresence::update_all_occupied);
        filter.update_skipped();
        filter
    }

    fn add_affinity(&mut self, topology_key: &str, state: &mut State) {
        let key = state.label_column(topology_key);
        if self.affinity.iter().any(|presence| presence.key() == key) {
            return;
        }
        let mut presence = DomainPresence::new(topology_key, state);
        if let Some(matchers) = &self.affinity_matchers {
            presence.sums.follow(state, &matching(matchers.clone()), 1);
        }
        self.affinity.push(presence);
    }

    fn add_anti_affinity(
        &mut self,
        topology_key: &str,
        matcher: Option<Matcher>,
        state: &mut State,
    ) {
        let (matchers, presence) = key_entry(&mut self.anti_affinity, topology_key, state);
        if let Some(matcher) = matcher {
            presence.sums.follow(state, &matching(Box::new([matcher.clone()])), 1);
            matchers.push(matcher);
        }
    }

    fn add_existing_anti_affinity(&mut self, term: TermIdx, state: &mut State) {
        let topology_key = state.terms.get(term).term.topology_key.clone();
        let (terms, presence) = key_entry(&mut self.existing_anti_affinity, &topology_key, state);
        presence.sums.follow(state, &TallySource::Carrying(term), 1);
        terms.push(term);
    }

    fn presences(&mut self) -> impl Iterator<Item = &mut DomainPresence> {
        let anti_affinity = self.anti_affinity.iter_mut().map(|(_, presence)| presence);
        let existing_anti_affinity =
            self.existing_anti_affinity.iter_mut().map(|(_, presence)| presence);
        self.affinity.iter_mut().chain(anti_affinity).chain(existing_anti_affinity)
    }

    fn update_skipped(&mut self) {
        self.is_skipped = self.affinity.is_empty()
            && self.anti_affinity.is_empty()
            && self.existing_anti_affinity.iter().all(|(_, presence)| presence.occupied_count == 0);
    }

    /// Returns `true` if a pod of the class may go to any domain as the first match: it matches its own affinity
    /// terms, and no pod in any domain does.
    fn may_be_first_match(&self) -> bool {
        self.matches_itself && self.affinity.iter().all(|presence| presence.occupied_count == 0)
    }

    fn satisfies_affinity(&self, state: &State, node: NodeIdx) -> bool {
        let mut complete = true;
        for presence in &self.affinity {
            let domain = state.topology.column(presence.key()).domain(node);
            if !domain.is_some() {
                return false;
            }
            complete &= presence.occupied[domain.at()];
        }
        complete || self.may_be_first_match()
    }

    fn count(&mut self, state: &State, pod: PodIdx, node: NodeIdx, change: i64) {
        if self.is_skipped {
            return;
        }
        let (namespace, labels) = (state.namespace(pod), state.labels(pod));
        if matches_all(self.affinity_matchers.as_deref(), namespace, labels) {
            self.affinity.iter_mut().for_each(|presence| presence.add(state, node, change));
        }
        for (matchers, presence) in &mut self.anti_affinity {
            let matched = matchers.iter().filter(|m| m.matches(namespace, labels)).count();
            presence.add(state, node, change * matched as i64);
        }
        let carried = &state.specs.get(state.pods.get(pod).spec).terms;
        for (terms, presence) in &mut self.existing_anti_affinity {
            let matched = carried.iter().filter(|term| terms.contains(term)).count();
            presence.add(state, node, change * matched as i64);
        }
    }
}

impl Filter for AffinityFilter {
    fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict {
        if !self.affinity.is_empty() && !self.satisfies_affinity(state, node) {
            return AFFINITY_UNSATISFIED;
        }
        if self.anti_affinity.iter().any(|(_, presence)| presence.covers(state, node)) {
            return ANTI_AFFINITY_VIOLATED;
        }
        if self.existing_anti_affinity.iter().any(|(_, presence)| presence.covers(state, node)) {
            return EXISTING_ANTI_AFFINITY_VIOLATED;
        }
        NodeVerdict::PASS
    }

    fn rejection(&self, _state: &State, _node: NodeIdx, verdict: NodeVerdict) -> Rejection {
        match verdict {
            AFFINITY_UNSATISFIED => {
                Rejection::unresolvable("node(s) didn't match pod affinity rules")
            }
            ANTI_AFFINITY_VIOLATED => {
                Rejection::unschedulable("node(s) didn't match pod anti-affinity rules")
            }
            _ => {
                Rejection::unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
            }
        }
    }

    fn filter(&mut self, state: &State, nodes: &mut NodeSet) {
        let may_be_first_match = self.may_be_first_match();
        for presence in &self.affinity {
            if may_be_first_match {
                let domains = state.topology.column(presence.key()).domains();
                nodes.retain(|node| domains[node.at()].is_some());
            } else {
                let mut reached = NodeSet::new(state.nodes.slots());
                presence.for_each_node(state, |node| reached.insert(node));
                nodes.intersect(&reached);
            }
        }
        let anti_affinity = self.anti_affinity.iter().map(|(_, presence)| presence);
        let existing_anti_affinity =
            self.existing_anti_affinity.iter().map(|(_, presence)| presence);
        for presence in anti_affinity.chain(existing_anti_affinity) {
            presence.for_each_node(state, |node| nodes.remove(node));
        }
    }

    fn refresh(&mut self, state: &State, passing: &mut NodeSet) -> Freshness {
        if !self.existing.are_current(state) {
            return Freshness::Stale;
        }
        let could_be_first_match = self.may_be_first_match();
        let mut flipped = std::mem::take(&mut self.flipped);
        flipped.clear();
        let current = self.presences().all(|presence| presence.refresh(state, &mut flipped));
        if !current {
            return Freshness::Stale;
        }
        self.update_skipped();
        if self.may_be_first_match() == could_be_first_match {
            for (key, domain) in &flipped {
                for node in state.topology.column(*key).nodes(*domain) {
                    passing.set(*node, self.check(state, *node).passes());
                }
            }
        } else {
            passing.copy_from(state.nodes.present());
            self.filter(state, passing);
        }
        let freshness = if flipped.is_empty() { Freshness::Same } else { Freshness::Changed };
        self.flipped = flipped;
        freshness
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

/// Domains of a topology key that certain pods occupy.
struct DomainPresence {
    sums: DomainSums,
    occupied: Vec<bool>,
    occupied_count: usize,
}

impl DomainPresence {
    fn new(topology_key: &str, state: &mut State) -> Self {
        let sums = DomainSums::new(state, topology_key, None);
        let occupied = vec![false; sums.sums().len()];
        Self { sums, occupied, occupied_count: 0 }
    }

    fn key(&self) -> KeyIdx {
        self.sums.key()
    }

    fn update_all_occupied(&mut self) {
        for domain in 0..self.occupied.len() {
            self.update_occupied(domain.into());
        }
    }

    /// Applies the new sum of a domain. Returns `true` if it became occupied or empty.
    fn update_occupied(&mut self, domain: DomainIdx) -> bool {
        let now = self.sums.sum(domain) > 0;
        let before = std::mem::replace(&mut self.occupied[domain.at()], now);
        match (before, now) {
            (false, true) => self.occupied_count += 1,
            (true, false) => self.occupied_count -= 1,
            _ => return false,
        }
        true
    }

    fn refresh(&mut self, state: &State, flipped: &mut Vec<(KeyIdx, DomainIdx)>) -> bool {
        let (start, key) = (flipped.len(), self.key());
        if !self.sums.refresh(state, |domain| flipped.push((key, domain))) {
            return false;
        }
        let mut kept = start;
        for at in start..flipped.len() {
            if self.update_occupied(flipped[at].1) {
                flipped[kept] = flipped[at];
                kept += 1;
            }
        }
        flipped.truncate(kept);
        true
    }

    fn add(&mut self, state: &State, node: NodeIdx, change: i64) {
        if change != 0
            && let Some(domain) = self.sums.add(state, node, change)
        {
            self.update_occupied(domain);
        }
    }

    /// Returns `true` if the node is in an occupied domain.
    fn covers(&self, state: &State, node: NodeIdx) -> bool {
        let domain = state.topology.column(self.key()).domain(node);
        domain.is_some() && self.occupied[domain.at()]
    }

    /// Calls the function for each node of the occupied domains.
    fn for_each_node(&self, state: &State, mut each: impl FnMut(NodeIdx)) {
        if self.occupied_count == 0 {
            return;
        }
        let column = state.topology.column(self.key());
        for (domain, occupied) in self.occupied.iter().enumerate() {
            if *occupied {
                column.nodes(domain.into()).iter().for_each(|node| each(*node));
            }
        }
    }
}

/// Returns the entry of a topology key, which is added if it is new.
fn key_entry<'a, T>(
    entries: &'a mut Vec<(Vec<T>, DomainPresence)>,
    topology_key: &str,
    state: &mut State,
) -> &'a mut (Vec<T>, DomainPresence) {
    let key = state.label_column(topology_key);
    let found = entries.iter().position(|(_, presence)| presence.key() == key);
    let position = found.unwrap_or_else(|| {
        entries.push((Vec::new(), DomainPresence::new(topology_key, state)));
        entries.len() - 1
    });
    &mut entries[position]
}

fn matches_all(matchers: Option<&[Matcher]>, namespace: &str, labels: &Labels) -> bool {
    matchers.is_some_and(|matchers| matchers.iter().all(|m| m.matches(namespace, labels)))
}
