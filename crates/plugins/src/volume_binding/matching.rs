//! Matching of unbound claims with existing volumes.

use engine::index::NodeIdx;
use engine::map::Map;
use engine::object::{
    ClaimRef, NodeTerm, PersistentVolume, PersistentVolumeClaim, Text, VolumePhase,
};
use engine::state::State;
use engine::state::volumes::Volumes;

use crate::volume_topology::NodeLabels;

/// Volumes that at most this many nodes can use are looked up by node instead of being tried on each.
const LOCAL_VOLUME_NODES_MAX: usize = 16;

/// The candidate volumes for the claims of a pod, each once.
#[derive(Default)]
pub(super) struct CandidateVolumes {
    volumes: Vec<CandidateVolume>,
    by_volume: Map<Text, usize>,
}

/// An existing volume that may fit a claim.
pub(super) struct CandidateVolume {
    pub(super) volume: Text,
    pub(super) version: Text,
    affinity: Option<Box<[NodeTerm]>>,
    /// `None` if the volume can be used on all nodes.
    labels: Option<NodeLabels>,
}

impl CandidateVolumes {
    pub(super) fn get(&self, candidate: usize) -> &CandidateVolume {
        &self.volumes[candidate]
    }

    fn add(&mut self, volume: &PersistentVolume) -> usize {
        if let Some(known) = self.by_volume.get(&volume.name) {
            return *known;
        }
        self.by_volume.insert(volume.name.clone(), self.volumes.len());
        self.volumes.push(CandidateVolume {
            volume: volume.name.clone(),
            version: volume.resource_version.clone(),
            affinity: volume.node_affinity.clone(),
            labels: None,
        });
        self.volumes.len() - 1
    }

    /// Resolves the labels of all affinities to label columns.
    pub(super) fn resolve(&mut self, state: &mut State) {
        for candidate in &mut self.volumes {
            let affinity = candidate.affinity.take();
            candidate.labels = affinity.map(|terms| NodeLabels::of_terms(&terms, state));
        }
    }

    fn is_usable(&self, candidate: usize, state: &State, node: NodeIdx) -> bool {
        let labels = self.volumes[candidate].labels.as_ref();
        labels.is_none_or(|labels| labels.accept(state, node))
    }
}

/// The candidate volumes for one claim, by their index in [`CandidateVolumes`].
#[derive(Default)]
pub(super) struct ClaimCandidates {
    /// Volumes whose `claimRef` names the claim, which precede all others, by name.
    prebound: Vec<usize>,
    /// Other volumes, smallest first, then by name.
    free: Vec<usize>,
    /// Positions in `free` by node, for volumes that few nodes can use.
    local: Vec<(NodeIdx, usize)>,
    /// Positions in `free` of the other volumes.
    shared: Vec<usize>,
}

impl ClaimCandidates {
    /// Finds the candidates for a claim, independent of the node.
    pub(super) fn new(
        claim: &PersistentVolumeClaim,
        volumes: &Volumes,
        candidate_volumes: &mut CandidateVolumes,
    ) -> Self {
        let mut candidates = Self::default();
        let mut free: Vec<&PersistentVolume> = Vec::new();
        let of_class = volumes.volumes.values().filter(|v| *v.storage_class == *claim.class());
        for volume in of_class.filter(|volume| is_suitable(claim, volume)) {
            match volumes.claim_ref(volume) {
                Some(owner) if is_reserved_for(owner, claim) => {
                    candidates.prebound.push(candidate_volumes.add(volume));
                }
                Some(_) => {}
                None if is_free(claim, volume) => free.push(volume),
                None => {}
            }
        }
        free.sort_by_key(|volume| volume.capacity);
        candidates.free = free.into_iter().map(|volume| candidate_volumes.add(volume)).collect();
        candidates
    }

    /// Separates the volumes that are looked up by node from the others; affinities must be resolved.
    pub(super) fn resolve(&mut self, candidate_volumes: &CandidateVolumes, state: &State) {
        for (position, candidate) in self.free.iter().enumerate() {
            let labels = candidate_volumes.get(*candidate).labels.as_ref();
            match labels.and_then(|labels| labels.matching_at_most(state, LOCAL_VOLUME_NODES_MAX)) {
                Some(nodes) => self.local.extend(nodes.into_iter().map(|node| (node, position))),
                None => self.shared.push(position),
            }
        }
        self.local.sort_unstable();
    }

    /// Returns the volume for the claim on a node; those already chosen are skipped.
    pub(super) fn best(
        &self,
        candidate_volumes: &CandidateVolumes,
        state: &State,
        node: NodeIdx,
        is_chosen: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if let Some(candidate) =
            self.prebound.iter().copied().find(|candidate| !is_chosen(*candidate))
        {
            return candidate_volumes.is_usable(candidate, state, node).then_some(candidate);
        }
        let start = self.local.partition_point(|(other, _)| *other < node);
        let local = self.local[start..].iter().take_while(|(other, _)| *other == node);
        let local = local.map(|(_, position)| *position).find(|p| !is_chosen(self.free[*p]));
        let smaller =
            self.shared.iter().copied().take_while(|p| local.is_none_or(|local| *p < local));
        let shared = smaller.into_iter().find(|position| {
            let candidate = self.free[*position];
            !is_chosen(candidate) && candidate_volumes.is_usable(candidate, state, node)
        });
        shared.or(local).map(|position| self.free[position])
    }
}

/// Returns `true` if the volume meets the conditions that also apply if its `claimRef` names the claim.
fn is_suitable(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    volume.capacity >= claim.request.unwrap_or(0)
        && volume.volume_mode == claim.volume_mode
        && volume.attributes_class == claim.attributes_class
        && !volume.deleting
}

/// Returns `true` if the volume meets the further conditions for volumes without `claimRef`.
fn is_free(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    volume.phase == VolumePhase::Available
        && claim.selector.as_ref().is_none_or(|selector| selector.matches(&volume.labels))
        && volume.access_modes.contains(claim.access_modes)
}

/// Returns `true` if the `claimRef` of a volume names the claim.
fn is_reserved_for(owner: &ClaimRef, claim: &PersistentVolumeClaim) -> bool {
    owner.name == claim.name
        && owner.namespace == claim.namespace
        && (owner.uid.is_empty() || owner.uid == claim.uid)
}
