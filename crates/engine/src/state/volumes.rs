//! Storage objects, and the reservations of assumed pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::index::PodIdx;
use crate::map::Map;
use crate::object::{
    ClaimRef, CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim,
    StorageClass, Text, Uid, Volume, VolumeAttachment,
};

use super::driver_limits::DriverLimits;
use super::specs::SpecRecord;
use super::table::Table;
use super::undo::UndoStep;
use super::{Areas, State};

/// Namespace and name.
pub type NamespacedName = (Text, Text);

/// Version of a volume and the claim to which it will be bound.
type AssumedClaim = (Text, ClaimRef);

/// Version of a claim and the node that will be selected for it.
type AssumedNode = (Text, Text);

/// A volume that will be bound to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedBinding {
    /// Name of the volume.
    pub volume: Text,
    /// `resourceVersion` of the volume at the decision; a newer version invalidates it.
    pub version: Text,
    /// The claim that will be bound.
    pub claim: ClaimRef,
}

/// A claim for which a volume will be provisioned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedProvision {
    /// Namespace and name of the claim.
    pub claim: NamespacedName,
    /// `resourceVersion` of the claim at the decision; a newer version invalidates it.
    pub version: Text,
    /// Name of the selected node.
    pub node: Text,
}

/// Volume operations that precede the binding of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservedVolumes {
    /// Volumes to bind.
    pub bindings: Box<[ReservedBinding]>,
    /// Volumes to provision.
    pub provisions: Box<[ReservedProvision]>,
}

impl ReservedVolumes {
    fn claims(&self) -> impl Iterator<Item = NamespacedName> {
        let bound = self.bindings.iter().map(|b| (b.claim.namespace.clone(), b.claim.name.clone()));
        bound.chain(self.provisions.iter().map(|provision| provision.claim.clone()))
    }
}

/// All storage objects.
#[derive(Clone, Debug, Default)]
pub struct Volumes {
    /// `PersistentVolume` by name.
    pub volumes: Table<PersistentVolume>,
    /// `PersistentVolumeClaim` by namespace and name.
    pub claims: Table<PersistentVolumeClaim>,
    /// `StorageClass` by name.
    pub classes: Table<StorageClass>,
    /// `CSINode` by node name.
    pub csi_nodes: Table<CsiNode>,
    /// `CSIDriver` by name.
    pub drivers: Table<CsiDriver>,
    /// `CSIStorageCapacity` by namespace and name.
    pub capacities: Table<CsiStorageCapacity>,
    /// `VolumeAttachment` by name.
    pub attachments: Table<VolumeAttachment>,
    /// Number of pods with a node that use each claim, by `namespace/name`.
    pub(super) users: Map<Text, u32>,
    /// Pending volume operations by pod UID.
    pub(super) reserved: BTreeMap<Uid, ReservedVolumes>,
    /// Claims to which volumes will be bound, by volume.
    pub(super) assumed_claims: BTreeMap<Text, AssumedClaim>,
    /// Nodes that will be selected for claims, by claim.
    pub(super) assumed_nodes: BTreeMap<NamespacedName, AssumedNode>,
}

impl Volumes {
    /// Returns a claim by namespace and name.
    pub fn claim(&self, namespace: &str, name: &str) -> Option<&PersistentVolumeClaim> {
        self.claims.get_in(namespace, name)
    }

    /// Returns the number of pods with a node that name the claim in `spec.volumes`.
    pub fn claim_users(&self, namespace: &str, name: &str) -> u32 {
        self.users.get(&*format!("{namespace}/{name}")).copied().unwrap_or(0)
    }

    /// Returns the claim to which a volume is bound or, by a reservation, will be.
    pub fn claim_ref<'a>(&'a self, volume: &'a PersistentVolume) -> Option<&'a ClaimRef> {
        match self.assumed_claims.get(&volume.name) {
            Some((version, claim)) if *version == volume.resource_version => Some(claim),
            _ => volume.claim_ref.as_ref(),
        }
    }

    /// Returns the node that is selected for provisioning a claim or, by a reservation, will be.
    pub fn selected_node<'a>(&'a self, claim: &'a PersistentVolumeClaim) -> Option<&'a str> {
        let stored = claim.selected_node.as_deref();
        if self.assumed_nodes.is_empty() {
            return stored;
        }
        match self.assumed_nodes.get(&(claim.namespace.clone(), claim.name.clone())) {
            Some((version, node)) if *version == claim.resource_version => Some(node),
            _ => stored,
        }
    }

    /// Returns the pending volume operations of a pod.
    pub fn reserved(&self, uid: &Uid) -> Option<&ReservedVolumes> {
        self.reserved.get(uid)
    }

    /// Saves what a new reservation for a pod replaces; `None` stands for no reservation.
    fn mark(&self, uid: &Uid, new: Option<&ReservedVolumes>) -> ReservationMark {
        let old = self.reserved.get(uid);
        let mut mark = ReservationMark {
            uid: uid.clone(),
            reserved: old.cloned(),
            claims: Vec::new(),
            nodes: Vec::new(),
        };
        for reserved in old.into_iter().chain(new) {
            for ReservedBinding { volume, .. } in &reserved.bindings {
                mark.claims.push((volume.clone(), self.assumed_claims.get(volume).cloned()));
            }
            for ReservedProvision { claim, .. } in &reserved.provisions {
                mark.nodes.push((claim.clone(), self.assumed_nodes.get(claim).cloned()));
            }
        }
        mark
    }

    /// Restores the reservations that a mark has saved.
    fn restore(&mut self, mark: ReservationMark) {
        set(&mut self.reserved, mark.uid, mark.reserved);
        for (volume, assumed) in mark.claims {
            set(&mut self.assumed_claims, volume, assumed);
        }
        for (claim, assumed) in mark.nodes {
            set(&mut self.assumed_nodes, claim, assumed);
        }
    }

    pub(crate) fn reserve(&mut self, uid: Uid, reserved: ReservedVolumes) {
        self.forget(&uid);
        for binding in &reserved.bindings {
            let assumed = (binding.version.clone(), binding.claim.clone());
            self.assumed_claims.insert(binding.volume.clone(), assumed);
        }
        for provision in &reserved.provisions {
            let assumed = (provision.version.clone(), provision.node.clone());
            self.assumed_nodes.insert(provision.claim.clone(), assumed);
        }
        self.reserved.insert(uid, reserved);
    }

    /// Drops the reservation of a pod. Returns `true` if there was one.
    pub(crate) fn forget(&mut self, uid: &Uid) -> bool {
        let Some(reserved) = self.reserved.remove(uid) else { return false };
        for binding in &reserved.bindings {
            // Leave a later decision on a newer version in place.
            let assumed = self.assumed_claims.get(&binding.volume);
            if assumed.is_some_and(|(version, _)| *version == binding.version) {
                self.assumed_claims.remove(&binding.volume);
            }
        }
        for provision in &reserved.provisions {
            let assumed = self.assumed_nodes.get(&provision.claim);
            if assumed.is_some_and(|(version, _)| *version == provision.version) {
                self.assumed_nodes.remove(&provision.claim);
            }
        }
        true
    }

    /// Drops reservations that newer objects invalidate or that are complete. Returns `true` if
    /// there were any.
    pub(crate) fn drop_outdated(&mut self) -> bool {
        let count =
            |all: &Self| all.assumed_claims.len() + all.assumed_nodes.len() + all.reserved.len();
        let before = count(self);
        if before == 0 {
            return false;
        }
        let (volumes, claims) = (&self.volumes, &self.claims);
        self.assumed_claims.retain(|name, (version, _)| {
            volumes.get(name).is_some_and(|volume| volume.resource_version == *version)
        });
        self.assumed_nodes.retain(|key, (version, _)| {
            claims.get_in(&key.0, &key.1).is_some_and(|claim| claim.resource_version == *version)
        });
        self.reserved.retain(|_, reserved| {
            let claim = |(namespace, name): NamespacedName| claims.get_in(&namespace, &name);
            reserved.claims().filter_map(claim).any(|claim| !claim.is_bound())
        });
        before != count(self)
    }

    /// Updates the users of claims for a pod that was placed on a node or removed from it.
    pub(crate) fn count_users(&mut self, namespace: &str, spec: &SpecRecord, added: bool) {
        for volume in &spec.spec.volumes {
            let Volume::Claim { name } = volume else { continue };
            let key: Text = format!("{namespace}/{name}").into();
            if added {
                *self.users.get_or_insert_with(key, || 0) += 1;
            } else if let Some(count) = self.users.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.users.remove(&key);
                }
            }
        }
    }
}

/// What an undo restores of the reservations.
#[derive(Clone, Debug)]
pub(super) struct ReservationMark {
    uid: Uid,
    reserved: Option<ReservedVolumes>,
    claims: Vec<(Text, Option<AssumedClaim>)>,
    nodes: Vec<(NamespacedName, Option<AssumedNode>)>,
}

fn set<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key, value)),
        None => drop(map.remove(&key)),
    }
}

impl State {
    /// Returns the limits and attachments of CSI drivers by node.
    pub fn driver_limits(&mut self) -> Arc<DriverLimits> {
        let make = || Arc::new(DriverLimits::new(&self.nodes, &self.volumes));
        Arc::clone(self.driver_limits.get_or_insert_with(make))
    }

    /// Reserves the volumes and claims that an assumed pod will use, until
    /// [`State::forget_volumes`] or the binding of all claims.
    pub fn reserve_volumes(&mut self, pod: PodIdx, reserved: ReservedVolumes) {
        let uid = self.pods.get(pod).uid.clone();
        self.record(|state| UndoStep::Volumes(state.volumes.mark(&uid, Some(&reserved))));
        self.volumes.reserve(uid, reserved);
        self.bump(Areas::CLAIMS_IN_USE);
    }

    /// Drops the reservation made by [`State::reserve_volumes`], if any.
    pub fn forget_volumes(&mut self, pod: PodIdx) {
        let uid = &self.pods.get(pod).uid;
        if self.volumes.reserved(uid).is_some() {
            let uid = uid.clone();
            self.record(|state| UndoStep::Volumes(state.volumes.mark(&uid, None)));
            self.volumes.forget(&uid);
            self.bump(Areas::CLAIMS_IN_USE);
        }
    }

    /// Undoes a reservation or the end of one.
    pub(super) fn restore_volumes(&mut self, mark: ReservationMark) {
        self.volumes.restore(mark);
        self.bump(Areas::CLAIMS_IN_USE);
    }
}

#[cfg(test)]
mod tests;
