//! The filter: finds the volumes of a pod on a node, or what keeps it from having them there.

use engine::bitset::NodeSet;
use engine::framework::{Answer, Code, Filter, Reason, Rejection};
use engine::index::NodeIdx;
use engine::object::{ClaimRef, NodeTerm, PersistentVolumeClaim, Text};
use engine::state::State;
use engine::state::volumes::{Binding, Provision, ReservedVolumes};

use crate::csi_migration;
use crate::volume_claims::Consumer;
use crate::volume_topology::NodeLabels;

use super::claims::classify;
use super::matching::{Candidates, Offers};
use super::provisioning::{Outcome, Provisioning, Rules};

/// Reasons of one node, in upstream's order; an answer is the sum of those that hold.
const REASONS: [(u32, &str); 4] = [
    (OUT_OF_REACH, "node(s) didn't match PersistentVolume's node affinity"),
    (NOTHING_TO_BIND, "node(s) didn't find available persistent volumes to bind"),
    (NO_STORAGE, "node(s) did not have enough free storage"),
    (MISSING, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
];
const OUT_OF_REACH: u32 = 1;
const NOTHING_TO_BIND: u32 = 2;
const NO_STORAGE: u32 = 4;
const MISSING: u32 = 8;
/// Answers from here on are positions of bound claims whose volume cannot be translated.
const BROKEN: u32 = 16;

/// Finds the volumes of a pod.
pub(super) struct Finder {
    bound: Vec<Bound>,
    delayed: Vec<Delayed>,
    /// Positions of delayed claims that a volume is being made for.
    selected: Vec<usize>,
    /// Positions of the other delayed claims, smallest request first.
    unselected: Vec<usize>,
    offers: Offers,
    /// Of the last node: pairs of delayed claim and offer.
    bindings: Vec<(usize, usize)>,
    /// Of the last node: delayed claims that volumes are made for.
    provisions: Vec<usize>,
}

/// A bound claim.
enum Bound {
    /// Its volume does not exist.
    Missing,
    /// Its volume is within reach of some nodes.
    Within(NodeLabels),
    /// Its volume is within reach of some nodes, in other words on nodes with a migrated plugin.
    Migrated {
        /// Nodes with the migrated plugin.
        nodes: NodeSet,
        /// There; or why the volume cannot be translated.
        there: Result<Option<NodeLabels>, String>,
        /// Elsewhere.
        elsewhere: Option<NodeLabels>,
    },
}

/// A claim that is bound when the pod is placed.
struct Delayed {
    claim: ClaimRef,
    version: Text,
    request: i64,
    /// The node that a volume is being made for; `NodeIdx::NONE` when it does not exist.
    selected: Option<NodeIdx>,
    candidates: Candidates,
    provisioning: Provisioning,
}

/// A bound claim as it is found, before labels are looked up.
struct FoundBound {
    affinity: Affinity,
    /// Nodes with a migrated plugin, and the affinity there or why the volume cannot be translated.
    migrated: Option<(NodeSet, Result<Affinity, String>)>,
}

/// Node affinity of a volume; `None` when it is within reach of all nodes.
type Affinity = Option<Box<[NodeTerm]>>;

impl Finder {
    /// Prepares for the claims of a pod, or says why it cannot be placed.
    pub(super) fn new(consumer: &Consumer, state: &mut State) -> Result<Self, Rejection> {
        let claims = classify(consumer, &state.volumes)?;
        let bound: Vec<_> = claims.bound.iter().map(|claim| find_bound(claim, state)).collect();
        let mut offers = Offers::default();
        let delayed: Vec<_> =
            claims.delayed.iter().map(|claim| find_delayed(claim, state, &mut offers)).collect();
        offers.resolve(state);
        let bound = bound.into_iter().filter_map(|bound| resolve_bound(bound, state)).collect();
        let delayed: Vec<_> =
            delayed.into_iter().map(|found| resolve_delayed(found, &offers, state)).collect();
        let (selected, mut unselected): (Vec<_>, Vec<_>) =
            (0..delayed.len()).partition(|position| delayed[*position].selected.is_some());
        unselected.sort_by_key(|position| delayed[*position].request);
        let (bindings, provisions) = (Vec::new(), Vec::new());
        Ok(Self { bound, delayed, selected, unselected, offers, bindings, provisions })
    }

    /// Whether there are claims that are bound when the pod is placed.
    pub(super) fn has_delayed(&self) -> bool {
        !self.delayed.is_empty()
    }

    /// Whether every node passes.
    pub(super) fn passes_everywhere(&self) -> bool {
        self.bound.is_empty() && self.delayed.is_empty()
    }

    /// What was found on the last node that was checked and passed.
    pub(super) fn reserved(&self, node: &str) -> ReservedVolumes {
        let binding = |(claim, offer): &(usize, usize)| {
            let offer = self.offers.get(*offer);
            Binding {
                volume: offer.volume.clone(),
                version: offer.version.clone(),
                claim: self.delayed[*claim].claim.clone(),
            }
        };
        let provision = |claim: &usize| {
            let delayed = &self.delayed[*claim];
            Provision {
                claim: (delayed.claim.namespace.clone(), delayed.claim.name.clone()),
                version: delayed.version.clone(),
                node: node.into(),
            }
        };
        ReservedVolumes {
            bindings: self.bindings.iter().map(binding).collect(),
            provisions: self.provisions.iter().map(provision).collect(),
        }
    }

    /// The first bound claim that is in the way decides.
    fn check_bound(&self, state: &State, node: NodeIdx) -> u32 {
        let within = |labels: Option<&NodeLabels>| {
            if labels.is_none_or(|labels| labels.accept(state, node)) { 0 } else { OUT_OF_REACH }
        };
        let check = |(position, bound): (usize, &Bound)| match bound {
            Bound::Missing => MISSING,
            Bound::Within(labels) => within(Some(labels)),
            Bound::Migrated { nodes, there, elsewhere } => match there {
                _ if !nodes.contains(node) => within(elsewhere.as_ref()),
                Ok(labels) => within(labels.as_ref()),
                Err(_) => BROKEN + position as u32,
            },
        };
        self.bound.iter().enumerate().map(check).find(|answer| *answer != 0).unwrap_or(0)
    }

    fn check_delayed(&mut self, state: &State, node: NodeIdx) -> u32 {
        self.bindings.clear();
        self.provisions.clear();
        if self.selected.iter().any(|claim| self.delayed[*claim].selected != Some(node)) {
            return NOTHING_TO_BIND;
        }
        self.provisions.extend(&self.selected);
        for position in &self.unselected {
            let bindings = &self.bindings;
            let is_chosen = |offer| bindings.iter().any(|(_, chosen)| *chosen == offer);
            let candidates = &self.delayed[*position].candidates;
            match candidates.best(&self.offers, state, node, is_chosen) {
                Some(offer) => self.bindings.push((*position, offer)),
                None => self.provisions.push(*position),
            }
        }
        for claim in &self.provisions {
            match self.delayed[*claim].provisioning.outcome(state, node) {
                Outcome::Possible => {}
                Outcome::NotThere => return NOTHING_TO_BIND,
                Outcome::NoStorage => return NO_STORAGE,
            }
        }
        0
    }
}

impl Filter for Finder {
    fn check(&mut self, state: &State, node: NodeIdx) -> Answer {
        let bound = self.check_bound(state, node);
        if bound >= BROKEN || self.delayed.is_empty() {
            return Answer(bound);
        }
        Answer(bound | self.check_delayed(state, node))
    }

    fn rejection(&self, _state: &State, _node: NodeIdx, answer: Answer) -> Rejection {
        if let Some(position) = answer.0.checked_sub(BROKEN)
            && let Bound::Migrated { there: Err(problem), .. } = &self.bound[position as usize]
        {
            return Rejection::error(format!("could not translate pv: {problem}"));
        }
        let reasons = REASONS.iter().filter(|(reason, _)| answer.0 & reason != 0);
        let reasons = reasons.map(|(_, text)| Reason::Borrowed(*text)).collect();
        Rejection { code: Code::UnschedulableAndUnresolvable, reasons }
    }
}

fn find_bound(claim: &PersistentVolumeClaim, state: &State) -> Option<FoundBound> {
    let volume = state.volumes.volumes.get(&claim.volume_name)?;
    let affinity = volume.node_affinity.clone();
    let migrated = csi_migration::of_source(&volume.source).and_then(|migration| {
        let there = csi_migration::handle(volume)
            .map(|_| csi_migration::translated_affinity(migration, volume));
        let differs = there.as_ref() != Ok(&affinity);
        differs.then(|| (nodes_with_migrated(migration.plugin, state), there))
    });
    Some(FoundBound { affinity, migrated })
}

fn nodes_with_migrated(plugin: &str, state: &State) -> NodeSet {
    let mut nodes = NodeSet::new(state.nodes.slots());
    for (name, csi_node) in &state.volumes.csi_nodes {
        if csi_node.migrated_plugins.iter().any(|migrated| **migrated == *plugin)
            && let Some(node) = state.nodes.find(name)
        {
            nodes.insert(node);
        }
    }
    nodes
}

/// Looks labels up; `None` when the volume is within reach of all nodes.
fn resolve_bound(found: Option<FoundBound>, state: &mut State) -> Option<Bound> {
    let Some(FoundBound { affinity, migrated }) = found else { return Some(Bound::Missing) };
    let mut labels = |terms: Affinity| terms.map(|terms| NodeLabels::of_terms(&terms, state));
    let elsewhere = labels(affinity);
    match migrated {
        None => elsewhere.map(Bound::Within),
        Some((nodes, there)) => {
            Some(Bound::Migrated { nodes, there: there.map(labels), elsewhere })
        }
    }
}

/// A delayed claim and its rules, before labels are looked up.
struct FoundDelayed {
    claim: ClaimRef,
    version: Text,
    request: i64,
    selected: Option<NodeIdx>,
    candidates: Candidates,
    rules: Rules,
}

fn find_delayed(claim: &PersistentVolumeClaim, state: &State, offers: &mut Offers) -> FoundDelayed {
    let volumes = &state.volumes;
    let selected = volumes.selected_node(claim);
    let candidates = match selected {
        None => Candidates::new(claim, volumes, offers),
        Some(_) => Candidates::default(),
    };
    FoundDelayed {
        claim: ClaimRef {
            namespace: claim.namespace.clone(),
            name: claim.name.clone(),
            uid: claim.uid.clone(),
        },
        version: claim.resource_version.clone(),
        request: claim.request.unwrap_or(0),
        selected: selected.map(|name| state.nodes.find(name).unwrap_or(NodeIdx::NONE)),
        candidates,
        rules: Rules::new(claim, volumes),
    }
}

fn resolve_delayed(found: FoundDelayed, offers: &Offers, state: &mut State) -> Delayed {
    let FoundDelayed { claim, version, request, selected, mut candidates, rules } = found;
    candidates.resolve(offers, state);
    let provisioning = Provisioning::new(&rules, state);
    Delayed { claim, version, request, selected, candidates, provisioning }
}
