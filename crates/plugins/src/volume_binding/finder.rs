//! The filter: finds the volumes of a pod on a node, or what keeps it from having them there.

use engine::bitset::NodeSet;
use engine::framework::{Code, Filter, NodeVerdict, Reason, Rejection};
use engine::index::NodeIdx;
use engine::object::{ClaimRef, NodeTerm, PersistentVolumeClaim, Text};
use engine::state::State;
use engine::state::volumes::{ReservedBinding, ReservedProvision, ReservedVolumes};

use crate::csi_migration;
use crate::volume_claims::Consumer;
use crate::volume_topology::NodeLabels;

use super::claims::classify;
use super::matching::{CandidateVolumes, ClaimCandidates};
use super::provisioning::{ProvisioningOutcome, ProvisioningRules, ResolvedProvisioning};

/// Reasons of one node, in upstream's order; an answer is the sum of those that hold.
const REASONS: [(u32, &str); 4] = [
    (NODE_CONFLICT, "node(s) didn't match PersistentVolume's node affinity"),
    (BIND_CONFLICT, "node(s) didn't find available persistent volumes to bind"),
    (NOT_ENOUGH_SPACE, "node(s) did not have enough free storage"),
    (VOLUME_MISSING, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
];
const NODE_CONFLICT: u32 = 1;
const BIND_CONFLICT: u32 = 2;
const NOT_ENOUGH_SPACE: u32 = 4;
const VOLUME_MISSING: u32 = 8;
/// Answers from here on are positions of bound claims whose volume cannot be translated.
const TRANSLATION_FAILED: u32 = 16;

/// Finds the volumes of a pod.
pub(super) struct VolumeFinder {
    bound: Vec<BoundClaim>,
    delayed: Vec<DelayedClaim>,
    /// Positions of delayed claims that a volume is being made for.
    selected: Vec<usize>,
    /// Positions of the other delayed claims, smallest request first.
    unselected: Vec<usize>,
    volumes_found: CandidateVolumes,
    /// Of the last node: pairs of delayed claim and candidate.
    bindings: Vec<(usize, usize)>,
    /// Of the last node: delayed claims that volumes are made for.
    provisions: Vec<usize>,
}

/// A bound claim.
enum BoundClaim {
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
struct DelayedClaim {
    claim: ClaimRef,
    version: Text,
    request: i64,
    /// The node that a volume is being made for; `NodeIdx::NONE` when it does not exist.
    selected: Option<NodeIdx>,
    candidates: ClaimCandidates,
    provisioning: ResolvedProvisioning,
}

/// A bound claim as it is found, before labels are looked up.
struct UnresolvedBoundClaim {
    affinity: Affinity,
    /// Nodes with a migrated plugin, and the affinity there or why the volume cannot be translated.
    migrated: Option<(NodeSet, Result<Affinity, String>)>,
}

/// Node affinity of a volume; `None` when it is within reach of all nodes.
type Affinity = Option<Box<[NodeTerm]>>;

impl VolumeFinder {
    /// Prepares for the claims of a pod, or says why it cannot be placed.
    pub(super) fn new(consumer: &Consumer, state: &mut State) -> Result<Self, Rejection> {
        let claims = classify(consumer, &state.volumes)?;
        let bound: Vec<_> = claims.bound.iter().map(|claim| find_bound(claim, state)).collect();
        let mut volumes_found = CandidateVolumes::default();
        let delayed: Vec<_> = claims
            .delayed
            .iter()
            .map(|claim| find_delayed(claim, state, &mut volumes_found))
            .collect();
        volumes_found.resolve(state);
        let bound = bound.into_iter().filter_map(|bound| resolve_bound(bound, state)).collect();
        let delayed: Vec<_> = delayed
            .into_iter()
            .map(|found| resolve_delayed(found, &volumes_found, state))
            .collect();
        let (selected, mut unselected): (Vec<_>, Vec<_>) =
            (0..delayed.len()).partition(|position| delayed[*position].selected.is_some());
        unselected.sort_by_key(|position| delayed[*position].request);
        let (bindings, provisions) = (Vec::new(), Vec::new());
        Ok(Self { bound, delayed, selected, unselected, volumes_found, bindings, provisions })
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
        let binding = |(claim, candidate): &(usize, usize)| {
            let candidate = self.volumes_found.get(*candidate);
            ReservedBinding {
                volume: candidate.volume.clone(),
                version: candidate.version.clone(),
                claim: self.delayed[*claim].claim.clone(),
            }
        };
        let provision = |claim: &usize| {
            let delayed = &self.delayed[*claim];
            ReservedProvision {
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
            if labels.is_none_or(|labels| labels.accept(state, node)) { 0 } else { NODE_CONFLICT }
        };
        let check = |(position, bound): (usize, &BoundClaim)| match bound {
            BoundClaim::Missing => VOLUME_MISSING,
            BoundClaim::Within(labels) => within(Some(labels)),
            BoundClaim::Migrated { nodes, there, elsewhere } => match there {
                _ if !nodes.contains(node) => within(elsewhere.as_ref()),
                Ok(labels) => within(labels.as_ref()),
                Err(_) => TRANSLATION_FAILED + position as u32,
            },
        };
        self.bound.iter().enumerate().map(check).find(|answer| *answer != 0).unwrap_or(0)
    }

    fn check_delayed(&mut self, state: &State, node: NodeIdx) -> u32 {
        self.bindings.clear();
        self.provisions.clear();
        if self.selected.iter().any(|claim| self.delayed[*claim].selected != Some(node)) {
            return BIND_CONFLICT;
        }
        self.provisions.extend(&self.selected);
        for position in &self.unselected {
            let bindings = &self.bindings;
            let is_chosen = |candidate| bindings.iter().any(|(_, chosen)| *chosen == candidate);
            let candidates = &self.delayed[*position].candidates;
            match candidates.best(&self.volumes_found, state, node, is_chosen) {
                Some(candidate) => self.bindings.push((*position, candidate)),
                None => self.provisions.push(*position),
            }
        }
        for claim in &self.provisions {
            match self.delayed[*claim].provisioning.outcome(state, node) {
                ProvisioningOutcome::Possible => {}
                ProvisioningOutcome::NotThere => return BIND_CONFLICT,
                ProvisioningOutcome::NoStorage => return NOT_ENOUGH_SPACE,
            }
        }
        0
    }
}

impl Filter for VolumeFinder {
    fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict {
        let bound = self.check_bound(state, node);
        if bound >= TRANSLATION_FAILED || self.delayed.is_empty() {
            return NodeVerdict(bound);
        }
        NodeVerdict(bound | self.check_delayed(state, node))
    }

    fn rejection(&self, _state: &State, _node: NodeIdx, answer: NodeVerdict) -> Rejection {
        if let Some(position) = answer.0.checked_sub(TRANSLATION_FAILED)
            && let BoundClaim::Migrated { there: Err(problem), .. } = &self.bound[position as usize]
        {
            return Rejection::error(format!("could not translate pv: {problem}"));
        }
        let reasons = REASONS.iter().filter(|(reason, _)| answer.0 & reason != 0);
        let reasons = reasons.map(|(_, text)| Reason::Borrowed(*text)).collect();
        Rejection { code: Code::UnschedulableAndUnresolvable, reasons }
    }
}

fn find_bound(claim: &PersistentVolumeClaim, state: &State) -> Option<UnresolvedBoundClaim> {
    let volume = state.volumes.volumes.get(&claim.volume_name)?;
    let affinity = volume.node_affinity.clone();
    let migrated = csi_migration::of_source(&volume.source).and_then(|migration| {
        let there = csi_migration::handle(volume)
            .map(|_| csi_migration::translated_affinity(migration, volume));
        let differs = there.as_ref() != Ok(&affinity);
        differs.then(|| (nodes_with_migrated(migration.plugin, state), there))
    });
    Some(UnresolvedBoundClaim { affinity, migrated })
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
fn resolve_bound(found: Option<UnresolvedBoundClaim>, state: &mut State) -> Option<BoundClaim> {
    let Some(UnresolvedBoundClaim { affinity, migrated }) = found else {
        return Some(BoundClaim::Missing);
    };
    let mut labels = |terms: Affinity| terms.map(|terms| NodeLabels::of_terms(&terms, state));
    let elsewhere = labels(affinity);
    match migrated {
        None => elsewhere.map(BoundClaim::Within),
        Some((nodes, there)) => {
            Some(BoundClaim::Migrated { nodes, there: there.map(labels), elsewhere })
        }
    }
}

/// A delayed claim and its rules, before labels are looked up.
struct UnresolvedDelayedClaim {
    claim: ClaimRef,
    version: Text,
    request: i64,
    selected: Option<NodeIdx>,
    candidates: ClaimCandidates,
    rules: ProvisioningRules,
}

fn find_delayed(
    claim: &PersistentVolumeClaim,
    state: &State,
    volumes_found: &mut CandidateVolumes,
) -> UnresolvedDelayedClaim {
    let volumes = &state.volumes;
    let selected = volumes.selected_node(claim);
    let candidates = match selected {
        None => ClaimCandidates::new(claim, volumes, volumes_found),
        Some(_) => ClaimCandidates::default(),
    };
    UnresolvedDelayedClaim {
        claim: ClaimRef {
            namespace: claim.namespace.clone(),
            name: claim.name.clone(),
            uid: claim.uid.clone(),
        },
        version: claim.resource_version.clone(),
        request: claim.request.unwrap_or(0),
        selected: selected.map(|name| state.nodes.find(name).unwrap_or(NodeIdx::NONE)),
        candidates,
        rules: ProvisioningRules::new(claim, volumes),
    }
}

fn resolve_delayed(
    found: UnresolvedDelayedClaim,
    volumes_found: &CandidateVolumes,
    state: &mut State,
) -> DelayedClaim {
    let UnresolvedDelayedClaim { claim, version, request, selected, mut candidates, rules } = found;
    candidates.resolve(volumes_found, state);
    let provisioning = ResolvedProvisioning::new(&rules, state);
    DelayedClaim { claim, version, request, selected, candidates, provisioning }
}
