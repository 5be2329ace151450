//! The filter: finds the volumes of a pod on a node, or the reasons against the node.

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

/// Reasons against a node, in upstream's order; a verdict is the sum of those that apply.
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
/// Verdicts from here on: position of the bound claim whose volume cannot be translated to CSI.
const TRANSLATION_FAILED: u32 = 16;

/// Finds the volumes of a pod.
pub(super) struct VolumeFinder {
    bound: Vec<BoundClaim>,
    delayed: Vec<DelayedClaim>,
    /// Positions of delayed claims for which a volume is being provisioned.
    selected: Vec<usize>,
    /// Positions of the other delayed claims, smallest request first.
    unselected: Vec<usize>,
    candidates: CandidateVolumes,
    /// For the last node checked: pairs of delayed claim and candidate.
    bindings: Vec<(usize, usize)>,
    /// For the last node checked: delayed claims for which volumes are provisioned.
    provisions: Vec<usize>,
}

/// A bound claim.
enum BoundClaim {
    /// Its volume does not exist.
    Missing,
    /// Its volume has node affinity.
    WithAffinity(NodeLabels),
    /// Its in-tree volume has another node affinity on nodes whose plugin is migrated to CSI.
    Migrated {
        /// Nodes with the migrated plugin.
        nodes: NodeSet,
        /// The affinity there; or the error of translating the volume.
        translated: Result<Option<NodeLabels>, String>,
        /// The affinity on other nodes.
        in_tree: Option<NodeLabels>,
    },
}

/// A claim that is bound when the pod is placed.
struct DelayedClaim {
    claim: ClaimRef,
    version: Text,
    request: i64,
    /// Node for which a volume is being provisioned; `NodeIdx::NONE` if it does not exist.
    selected: Option<NodeIdx>,
    candidates: ClaimCandidates,
    provisioning: ResolvedProvisioning,
}

/// A bound claim before its labels are resolved to label columns.
struct UnresolvedBoundClaim {
    affinity: Affinity,
    /// Nodes with the migrated plugin, and the affinity there or the error of translating the volume.
    migrated: Option<(NodeSet, Result<Affinity, String>)>,
}

/// Node affinity of a volume; `None` if it matches all nodes.
type Affinity = Option<Box<[NodeTerm]>>;

impl VolumeFinder {
    /// Prepares the claims of a pod, or returns the rejection of the pod if one is unusable.
    pub(super) fn new(consumer: &Consumer, state: &mut State) -> Result<Self, Rejection> {
        let claims = classify(consumer, &state.volumes)?;
        let bound: Vec<_> = claims.bound.iter().map(|claim| find_bound(claim, state)).collect();
        let mut candidates = CandidateVolumes::default();
        let delayed: Vec<_> = claims
            .delayed
            .iter()
            .map(|claim| find_delayed(claim, state, &mut candidates))
            .collect();
        candidates.resolve(state);
        let bound = bound.into_iter().filter_map(|bound| resolve_bound(bound, state)).collect();
        let delayed: Vec<_> =
            delayed.into_iter().map(|found| resolve_delayed(found, &candidates, state)).collect();
        let (selected, mut unselected): (Vec<_>, Vec<_>) =
            (0..delayed.len()).partition(|position| delayed[*position].selected.is_some());
        unselected.sort_by_key(|position| delayed[*position].request);
        let (bindings, provisions) = (Vec::new(), Vec::new());
        Ok(Self { bound, delayed, selected, unselected, candidates, bindings, provisions })
    }

    /// Returns `true` if there are claims that are bound when the pod is placed.
    pub(super) fn has_delayed(&self) -> bool {
        !self.delayed.is_empty()
    }

    /// Returns `true` if every node passes.
    pub(super) fn passes_everywhere(&self) -> bool {
        self.bound.is_empty() && self.delayed.is_empty()
    }

    /// Returns the volumes for the last node checked, which must have passed.
    pub(super) fn reserved(&self, node: &str) -> ReservedVolumes {
        let binding = |(claim, candidate): &(usize, usize)| {
            let candidate = self.candidates.get(*candidate);
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

    /// Returns the verdict of the first bound claim that rejects the node; zero if none does.
    fn check_bound(&self, state: &State, node: NodeIdx) -> u32 {
        let verdict = |labels: Option<&NodeLabels>| {
            if labels.is_none_or(|labels| labels.accept(state, node)) { 0 } else { NODE_CONFLICT }
        };
        let check = |(position, bound): (usize, &BoundClaim)| match bound {
            BoundClaim::Missing => VOLUME_MISSING,
            BoundClaim::WithAffinity(labels) => verdict(Some(labels)),
            BoundClaim::Migrated { nodes, translated, in_tree } => match translated {
                _ if !nodes.contains(node) => verdict(in_tree.as_ref()),
                Ok(labels) => verdict(labels.as_ref()),
                Err(_) => TRANSLATION_FAILED + position as u32,
            },
        };
        self.bound.iter().enumerate().map(check).find(|verdict| *verdict != 0).unwrap_or(0)
    }

    /// Finds volumes for the delayed claims, or returns the reason against the node; zero if it passes.
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
            match candidates.best(&self.candidates, state, node, is_chosen) {
                Some(candidate) => self.bindings.push((*position, candidate)),
                None => self.provisions.push(*position),
            }
        }
        for claim in &self.provisions {
            match self.delayed[*claim].provisioning.outcome(state, node) {
                ProvisioningOutcome::Possible => {}
                ProvisioningOutcome::Impossible => return BIND_CONFLICT,
                ProvisioningOutcome::NotEnoughSpace => return NOT_ENOUGH_SPACE,
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

    fn rejection(&self, _state: &State, _node: NodeIdx, verdict: NodeVerdict) -> Rejection {
        if let Some(position) = verdict.0.checked_sub(TRANSLATION_FAILED)
            && let BoundClaim::Migrated { translated: Err(problem), .. } =
                &self.bound[position as usize]
        {
            return Rejection::error(format!("could not translate pv: {problem}"));
        }
        let reasons = REASONS.iter().filter(|(reason, _)| verdict.0 & reason != 0);
        let reasons = reasons.map(|(_, text)| Reason::Borrowed(*text)).collect();
        Rejection::new(Code::UnschedulableAndUnresolvable, reasons)
    }
}

fn find_bound(claim: &PersistentVolumeClaim, state: &State) -> Option<UnresolvedBoundClaim> {
    let volume = state.volumes.volumes.get(&claim.volume_name)?;
    let affinity = volume.node_affinity.clone();
    let migrated = csi_migration::of_source(&volume.source).and_then(|migration| {
        let translated = csi_migration::handle(volume)
            .map(|_| csi_migration::translated_affinity(migration, volume));
        let differs = translated.as_ref() != Ok(&affinity);
        differs.then(|| (nodes_with_migrated(migration.plugin, state), translated))
    });
    Some(UnresolvedBoundClaim { affinity, migrated })
}

/// Returns the nodes whose CSINode lists the plugin as migrated.
fn nodes_with_migrated(plugin: &str, state: &State) -> NodeSet {
    let mut nodes = NodeSet::new(state.nodes.slots());
    for csi_node in state.volumes.csi_nodes.values() {
        if csi_node.migrated_plugins.iter().any(|migrated| **migrated == *plugin)
            && let Some(node) = state.nodes.find(&csi_node.name)
        {
            nodes.insert(node);
        }
    }
    nodes
}

/// Resolves labels to label columns; `None` if the volume can be used on all nodes.
fn resolve_bound(found: Option<UnresolvedBoundClaim>, state: &mut State) -> Option<BoundClaim> {
    let Some(UnresolvedBoundClaim { affinity, migrated }) = found else {
        return Some(BoundClaim::Missing);
    };
    let mut labels = |terms: Affinity| terms.map(|terms| NodeLabels::of_terms(&terms, state));
    let in_tree = labels(affinity);
    match migrated {
        None => in_tree.map(BoundClaim::WithAffinity),
        Some((nodes, translated)) => {
            Some(BoundClaim::Migrated { nodes, translated: translated.map(labels), in_tree })
        }
    }
}

/// A delayed claim and its rules before their labels are resolved to label columns.
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
    candidate_volumes: &mut CandidateVolumes,
) -> UnresolvedDelayedClaim {
    let volumes = &state.volumes;
    let selected = volumes.selected_node(claim);
    let candidates = match selected {
        None => ClaimCandidates::new(claim, volumes, candidate_volumes),
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
    candidate_volumes: &CandidateVolumes,
    state: &mut State,
) -> DelayedClaim {
    let UnresolvedDelayedClaim { claim, version, request, selected, mut candidates, rules } = found;
    candidates.resolve(candidate_volumes, state);
    let provisioning = ResolvedProvisioning::new(&rules, state);
    DelayedClaim { claim, version, request, selected, candidates, provisioning }
}
