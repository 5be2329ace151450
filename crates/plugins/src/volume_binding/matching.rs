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
const NEAR_NODES_MAX: usize = 16;

/// The volumes that come into question for the claims of a pod, each once.
#[derive(Default)]
pub(super) struct Offers {
    offers: Vec<Offer>,
    by_volume: Map<Text, usize>,
}

/// A volume that comes into question.
pub(super) struct Offer {
    pub(super) volume: Text,
    pub(super) version: Text,
    affinity: Option<Box<[NodeTerm]>>,
    /// `None` when the volume is within reach of all nodes.
    labels: Option<NodeLabels>,
}

impl Offers {
    pub(super) fn get(&self, offer: usize) -> &Offer {
        &self.offers[offer]
    }

    fn add(&mut self, volume: &PersistentVolume) -> usize {
        if let Some(known) = self.by_volume.get(&volume.name) {
            return *known;
        }
        self.by_volume.insert(volume.name.clone(), self.offers.len());
        self.offers.push(Offer {
            volume: volume.name.clone(),
            version: volume.resource_version.clone(),
            affinity: volume.node_affinity.clone(),
            labels: None,
        });
        self.offers.len() - 1
    }

    /// Looks the labels of all affinities up.
    pub(super) fn resolve(&mut self, state: &mut State) {
        for offer in &mut self.offers {
            let affinity = offer.affinity.take();
            offer.labels = affinity.map(|terms| NodeLabels::of_terms(&terms, state));
        }
    }

    fn is_near(&self, offer: usize, state: &State, node: NodeIdx) -> bool {
        self.offers[offer].labels.as_ref().is_none_or(|labels| labels.accept(state, node))
    }
}

/// The volumes that come into question for one claim.
#[derive(Default)]
pub(super) struct Candidates {
    /// Those that name the claim, which go before all others, by name.
    prebound: Vec<usize>,
    /// The others, smallest first, then by name.
    free: Vec<usize>,
    /// Positions in `free` by node, for volumes that few nodes can reach.
    near: Vec<(NodeIdx, usize)>,
    /// Positions in `free` of the rest.
    far: Vec<usize>,
}

impl Candidates {
    /// Finds what comes into question for a claim wherever the pod goes.
    pub(super) fn new(
        claim: &PersistentVolumeClaim,
        volumes: &Volumes,
        offers: &mut Offers,
    ) -> Self {
        let mut candidates = Self::default();
        let mut free: Vec<&PersistentVolume> = Vec::new();
        let of_class = volumes.volumes.values().filter(|v| *v.storage_class == *claim.class());
        for volume in of_class.filter(|volume| is_suitable(claim, volume)) {
            match volumes.claim_ref(volume) {
                Some(owner) if names(owner, claim) => candidates.prebound.push(offers.add(volume)),
                Some(_) => {}
                None if is_free(claim, volume) => free.push(volume),
                None => {}
            }
        }
        free.sort_by_key(|volume| volume.capacity);
        candidates.free = free.into_iter().map(|volume| offers.add(volume)).collect();
        candidates
    }

    /// Works out which volumes are found by node, once the affinities are resolved.
    pub(super) fn resolve(&mut self, offers: &Offers, state: &State) {
        for (position, offer) in self.free.iter().enumerate() {
            let labels = offers.get(*offer).labels.as_ref();
            match labels.and_then(|labels| labels.few(state, NEAR_NODES_MAX)) {
                Some(nodes) => self.near.extend(nodes.into_iter().map(|node| (node, position))),
                None => self.far.push(position),
            }
        }
        self.near.sort_unstable();
    }

    /// The volume that the claim gets on a node, those chosen already left out.
    pub(super) fn best(
        &self,
        offers: &Offers,
        state: &State,
        node: NodeIdx,
        is_chosen: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if let Some(offer) = self.prebound.iter().copied().find(|offer| !is_chosen(*offer)) {
            return offers.is_near(offer, state, node).then_some(offer);
        }
        let start = self.near.partition_point(|(other, _)| *other < node);
        let near = self.near[start..].iter().take_while(|(other, _)| *other == node);
        let near = near.map(|(_, position)| *position).find(|p| !is_chosen(self.free[*p]));
        let smaller = self.far.iter().copied().take_while(|p| near.is_none_or(|near| *p < near));
        let far = smaller.into_iter().find(|position| {
            let offer = self.free[*position];
            !is_chosen(offer) && offers.is_near(offer, state, node)
        });
        far.or(near).map(|position| self.free[position])
    }
}

/// What holds whether or not the volume names the claim.
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
fn names(owner: &ClaimRef, claim: &PersistentVolumeClaim) -> bool {
    owner.name == claim.name
        && owner.namespace == claim.namespace
        && (owner.uid.is_empty() || owner.uid == claim.uid)
}
