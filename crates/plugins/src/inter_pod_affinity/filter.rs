//! Required terms: where a class may not go because of the pods that are, or are not, there.

use engine::bitset::NodeSet;
use engine::framework::{Answer, Class, Filter, Freshness, Rejection};
use engine::index::{DomainIdx, KeyIdx, NodeIdx, PodIdx, TermIdx};
use engine::object::Labels;
use engine::state::State;
use engine::state::domains::DomainSums;
use engine::state::tallies::{Matcher, Subject};
use engine::state::terms::TermKind;

use super::terms::{ExistingTerms, common_matchers, matcher, matching};

const SOUGHT_PODS_MISSING: Answer = Answer(1);
const AVOIDED_PODS_THERE: Answer = Answer(2);
const AVOIDED_BY_PODS_THERE: Answer = Answer(3);

/// The required terms of a class, and those of existing pods against it.
pub(super) struct Company {
    existing: ExistingTerms,
    /// The pods that the class seeks match all of these; `None` when no pod can.
    sought_matchers: Option<Box<[Matcher]>>,
    /// The class would be its own company.
    seeks_itself: bool,
    /// Where sought pods are, for each key.
    sought: Vec<Presence>,
    /// Where pods are that the class avoids, for each key.
    avoided: Vec<(Vec<Matcher>, Presence)>,
    /// Where pods are that avoid the class, for each key.
    avoiding: Vec<(Vec<TermIdx>, Presence)>,
    /// Upstream would have skipped the plugin, so that it does not hear of what-if either.
    idle: bool,
    flipped: Vec<(KeyIdx, DomainIdx)>,
}

/// Whether the class would be its own company.
pub(super) fn seeks_itself(class: &Class, state: &State) -> bool {
    let sought = common_matchers(&class.spec.pod_affinity.required, state);
    matches_all(sought.as_deref(), &class.namespace, &class.labels)
}

impl Company {
    pub(super) fn new(class: &Class, state: &mut State) -> Self {
        let own = &class.spec.pod_affinity;
        let existing = ExistingTerms::new(class, |kind| kind == TermKind::RequiredAnti, state);
        let sought_matchers = common_matchers(&own.required, state);
        let seeks_itself = matches_all(sought_matchers.as_deref(), &class.namespace, &class.labels);
        let mut company = Self {
            existing,
            sought_matchers,
            seeks_itself,
            sought: Vec::new(),
            avoided: Vec::new(),
            avoiding: Vec::new(),
            idle: false,
            flipped: Vec::new(),
        };
        for term in &own.required {
            company.seek(&term.topology_key, state);
        }
        for term in &own.required_anti {
            company.avoid(&term.topology_key, matcher(term, state), state);
        }
        for term in company.existing.terms().to_vec() {
            company.be_avoided(term, state);
        }
        company.presences().for_each(Presence::settle_all);
        company.note_idle();
        company
    }

    fn seek(&mut self, topology_key: &str, state: &mut State) {
        let key = state.label_column(topology_key);
        if self.sought.iter().any(|presence| presence.key() == key) {
            return;
        }
        let mut presence = Presence::new(topology_key, state);
        if let Some(matchers) = &self.sought_matchers {
            presence.sums.follow(state, &matching(matchers.clone()), 1);
        }
        self.sought.push(presence);
    }

    fn avoid(&mut self, topology_key: &str, matcher: Option<Matcher>, state: &mut State) {
        let (matchers, presence) = group(&mut self.avoided, topology_key, state);
        if let Some(matcher) = matcher {
            presence.sums.follow(state, &matching(Box::new([matcher.clone()])), 1);
            matchers.push(matcher);
        }
    }

    fn be_avoided(&mut self, term: TermIdx, state: &mut State) {
        let topology_key = state.terms.get(term).term.topology_key.clone();
        let (terms, presence) = group(&mut self.avoiding, &topology_key, state);
        presence.sums.follow(state, &Subject::Carrying(term), 1);
        terms.push(term);
    }

    fn presences(&mut self) -> impl Iterator<Item = &mut Presence> {
        let avoided = self.avoided.iter_mut().map(|(_, presence)| presence);
        let avoiding = self.avoiding.iter_mut().map(|(_, presence)| presence);
        self.sought.iter_mut().chain(avoided).chain(avoiding)
    }

    fn note_idle(&mut self) {
        self.idle = self.sought.is_empty()
            && self.avoided.is_empty()
            && self.avoiding.iter().all(|(_, presence)| presence.occupied_count == 0);
    }

    /// No sought pod is in any domain, and the class may begin by itself.
    fn begins_group(&self) -> bool {
        self.seeks_itself && self.sought.iter().all(|presence| presence.occupied_count == 0)
    }

    fn finds_company(&self, state: &State, node: NodeIdx) -> bool {
        let mut complete = true;
        for presence in &self.sought {
            let domain = state.topology.column(presence.key()).domain(node);
            if !domain.is_some() {
                return false;
            }
            complete &= presence.occupied[domain.at()];
        }
        complete || self.begins_group()
    }

    fn count(&mut self, state: &State, pod: PodIdx, node: NodeIdx, change: i64) {
        if self.idle {
            return;
        }
        let (namespace, labels) = (state.namespace(pod), state.labels(pod));
        if matches_all(self.sought_matchers.as_deref(), namespace, labels) {
            self.sought.iter_mut().for_each(|presence| presence.add(state, node, change));
        }
        for (matchers, presence) in &mut self.avoided {
            let matched = matchers.iter().filter(|m| m.matches(namespace, labels)).count();
            presence.add(state, node, change * matched as i64);
        }
        let carried = &state.specs.get(state.pods.get(pod).spec).terms;
        for (terms, presence) in &mut self.avoiding {
            let matched = carried.iter().filter(|term| terms.contains(term)).count();
            presence.add(state, node, change * matched as i64);
        }
    }
}

impl Filter for Company {
    fn check(&mut self, state: &State, node: NodeIdx) -> Answer {
        if !self.sought.is_empty() && !self.finds_company(state, node) {
            return SOUGHT_PODS_MISSING;
        }
        if self.avoided.iter().any(|(_, presence)| presence.reaches(state, node)) {
            return AVOIDED_PODS_THERE;
        }
        if self.avoiding.iter().any(|(_, presence)| presence.reaches(state, node)) {
            return AVOIDED_BY_PODS_THERE;
        }
        Answer::PASS
    }

    fn rejection(&self, _state: &State, _node: NodeIdx, answer: Answer) -> Rejection {
        match answer {
            SOUGHT_PODS_MISSING => {
                Rejection::unresolvable("node(s) didn't match pod affinity rules")
            }
            AVOIDED_PODS_THERE => {
                Rejection::unschedulable("node(s) didn't match pod anti-affinity rules")
            }
            _ => {
                Rejection::unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
            }
        }
    }

    fn filter(&mut self, state: &State, nodes: &mut NodeSet) {
        let begins_group = self.begins_group();
        for presence in &self.sought {
            if begins_group {
                let domains = state.topology.column(presence.key()).domains();
                nodes.retain(|node| domains[node.at()].is_some());
            } else {
                let mut reached = NodeSet::new(state.nodes.slots());
                presence.for_each_node(state, |node| reached.insert(node));
                nodes.intersect(&reached);
            }
        }
        let avoided = self.avoided.iter().map(|(_, presence)| presence);
        let avoiding = self.avoiding.iter().map(|(_, presence)| presence);
        for presence in avoided.chain(avoiding) {
            presence.for_each_node(state, |node| nodes.remove(node));
        }
    }

    fn refresh(&mut self, state: &State, passing: &mut NodeSet) -> Freshness {
        if !self.existing.are_current(state) {
            return Freshness::Stale;
        }
        let began_group = self.begins_group();
        let mut flipped = std::mem::take(&mut self.flipped);
        flipped.clear();
        let current = self.presences().all(|presence| presence.refresh(state, &mut flipped));
        if !current {
            return Freshness::Stale;
        }
        self.note_idle();
        if self.begins_group() == began_group {
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

/// In which domains of a key certain pods are.
struct Presence {
    sums: DomainSums,
    occupied: Vec<bool>,
    occupied_count: usize,
}

impl Presence {
    fn new(topology_key: &str, state: &mut State) -> Self {
        let sums = DomainSums::new(state, topology_key, None);
        let occupied = vec![false; sums.sums().len()];
        Self { sums, occupied, occupied_count: 0 }
    }

    fn key(&self) -> KeyIdx {
        self.sums.key()
    }

    fn settle_all(&mut self) {
        for domain in 0..self.occupied.len() {
            self.settle(domain.into());
        }
    }

    /// Takes note of the new sum of a domain. True if pods appeared or disappeared.
    fn settle(&mut self, domain: DomainIdx) -> bool {
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
            if self.settle(flipped[at].1) {
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
            self.settle(domain);
        }
    }

    fn reaches(&self, state: &State, node: NodeIdx) -> bool {
        let domain = state.topology.column(self.key()).domain(node);
        domain.is_some() && self.occupied[domain.at()]
    }

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

/// The group of a topology key, made if it is new.
fn group<'a, T>(
    groups: &'a mut Vec<(Vec<T>, Presence)>,
    topology_key: &str,
    state: &mut State,
) -> &'a mut (Vec<T>, Presence) {
    let key = state.label_column(topology_key);
    let found = groups.iter().position(|(_, presence)| presence.key() == key);
    let position = found.unwrap_or_else(|| {
        groups.push((Vec::new(), Presence::new(topology_key, state)));
        groups.len() - 1
    });
    &mut groups[position]
}

fn matches_all(matchers: Option<&[Matcher]>, namespace: &str, labels: &Labels) -> bool {
    matchers.is_some_and(|matchers| matchers.iter().all(|m| m.matches(namespace, labels)))
}
