//! Which existing volume an unbound claim gets on a node.

use engine::index::NodeIdx;
use engine::map::Map;
use engine::object::{
    ClaimRef, NodeTerm, PersistentVolume, PersistentVolumeClaim, Text, VolumePhase,
};
use engine::state::State;
use engine::state::volumes::Volumes;

use crate::volume_topology::NodeLabels;

/// Volumes within reach of at most this many nodes are found by node instead of being tried on each.
const LOCAL_VOLUME_NODES_MAX: usize = 16;

/// The volumes that come into question for the claims of a pod, each once.
#[derive(Default)]
pub(super) struct CandidateVolumes {
    volumes_found: Vec<CandidateVolume>,
    by_volume: Map<Text, usize>,
}

/// A volume that comes into question.
pub(super) struct CandidateVolume {
    pub(super) volume: Text,
    pub(super) version: Text,
    affinity: Option<Box<[NodeTerm]>>,
    /// `None` when the volume is within reach of all nodes.
    labels: Option<NodeLabels>,
}

impl CandidateVolumes {
    pub(super) fn get(&self, candidate: usize) -> &CandidateVolume {
        &self.volumes_found[candidate]
    }

    fn add(&mut self, volume: &PersistentVolume) -> usize {
        if let Some(known) = self.by_volume.get(&volume.name) {
            return *known;
        }
        self.by_volume.insert(volume.name.clone(), self.volumes_found.len());
        self.volumes_found.push(CandidateVolume {
            volume: volume.name.clone(),
            version: volume.resource_version.clone(),
            affinity: volume.node_affinity.clone(),
            labels: None,
        });
        self.volumes_found.len() - 1
    }

    /// Looks the labels of all affinities up.
    pub(super) fn resolve(&mut self, state: &mut State) {
        for candidate in &mut self.volumes_found {
            let affinity = candidate.affinity.take();
            candidate.labels = affinity.map(|terms| NodeLabels::of_terms(&terms, state));
        }
    }

    fn is_reachable(&self, candidate: usize, state: &State, node: NodeIdx) -> bool {
        self.volumes_found[candidate]
            .labels
            .as_ref()
            .is_none_or(|labels| labels.accept(state, node))
    }
}

/// The volumes that come into question for one claim.
#[derive(Default)]
pub(super) struct ClaimCandidates {
    /// Those that name the claim, which go before all others, by name.
    prebound: Vec<usize>,
    /// The others, smallest first, then by name.
    free: Vec<usize>,
    /// Positions in `free` by node, for volumes that matching_at_most nodes can reach.
    local: Vec<(NodeIdx, usize)>,
    /// Positions in `free` of the rest.
    shared: Vec<usize>,
}

impl ClaimCandidates {
    /// Finds what comes into question for a claim wherever the pod goes.
    pub(super) fn new(
        claim: &PersistentVolumeClaim,
        volumes: &Volumes,
        volumes_found: &mut CandidateVolumes,
    ) -> Self {
        let mut candidates = Self::default();
        let mut free: Vec<&PersistentVolume> = Vec::new();
        let of_class = volumes.volumes.values().filter(|v| *v.storage_class == *claim.class());
        for volume in of_class.filter(|volume| is_suitable(claim, volume)) {
            match volumes.claim_ref(volume) {
                Some(owner) if is_reserved_for(owner, claim) => {
                    candidates.prebound.push(volumes_found.add(volume));
                }
                Some(_) => {}
                None if is_free(claim, volume) => free.push(volume),
                None => {}
            }
        }
        free.sort_by_key(|volume| volume.capacity);
        candidates.free = free.into_iter().map(|volume| volumes_found.add(volume)).collect();
        candidates
    }

    /// Works out which volumes are found by node, once the affinities are resolved.
    pub(super) fn resolve(&mut self, volumes_found: &CandidateVolumes, state: &State) {
        for (position, candidate) in self.free.iter().enumerate() {
            let labels = volumes_found.get(*candidate).labels.as_ref();
            match labels.and_then(|labels| labels.matching_at_most(state, LOCAL_VOLUME_NODES_MAX)) {
                Some(nodes) => self.local.extend(nodes.into_iter().map(|node| (node, position))),
                None => self.shared.push(position),
            }
        }
        self.local.sort_unstable();
    }

    /// The volume that the claim gets on a node, those chosen already left out.
    pub(super) fn best(
        &self,
        volumes_found: &CandidateVolumes,
        state: &State,
        node: NodeIdx,
        is_chosen: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if let Some(candidate) =
            self.prebound.iter().copied().find(|candidate| !is_chosen(*candidate))
        {
            return volumes_found.is_reachable(candidate, state, node).then_some(candidate);
        }
        let start = self.local.partition_point(|(other, _)| *other < node);
        let local = self.local[start..].iter().take_while(|(other, _)| *other == node);
        let local = local.map(|(_, position)| *position).find(|p| !is_chosen(self.free[*p]));
        let smaller =
            self.shared.iter().copied().take_while(|p| local.is_none_or(|local| *p < local));
        let shared = smaller.into_iter().find(|position| {
            let candidate = self.free[*position];
            !is_chosen(candidate) && volumes_found.is_reachable(candidate, state, node)
        });
        shared.or(local).map(|position| self.free[position])
    }
}

/// What holds whether or not the volume is_reserved_for the claim.
fn is_suitable(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    volume.capacity >= claim.request.unwrap_or(0)
        && volume.volume_mode == claim.volume_mode
        && volume.attributes_class == claim.attributes_class
        && !volume.deleting
}

/// What must hold besides for a volume that nobody has.
fn is_free(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    volume.phase == VolumePhase::Available
        && claim.selector.as_ref().is_none_or(|selector| selector.matches(&volume.labels))
        && volume.access_modes.contains(claim.access_modes)
}

/// Whether a volume is meant for the claim.
fn is_reserved_for(owner: &ClaimRef, claim: &PersistentVolumeClaim) -> bool {
    owner.name == claim.name
        && owner.namespace == claim.namespace
        && (owner.uid.is_empty() || owner.uid == claim.uid)
}
