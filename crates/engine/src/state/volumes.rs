//! Volumes, claims, classes and what drivers say of nodes, by name.

use std::collections::BTreeMap;

use crate::map::Map;
use crate::object::volume::{
    ClaimRef, CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim,
    StorageClass, VolumeAttachment,
};
use crate::object::{Text, Uid, Volume};

use super::specs::SpecRecord;

/// Namespace and name.
pub type NamespacedName = (Text, Text);

/// A volume that is to be bound to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedBinding {
    /// Name of the volume.
    pub volume: Text,
    /// `resourceVersion` of the volume when this was decided; a newer one overrides the decision.
    pub version: Text,
    /// The claim.
    pub claim: ClaimRef,
}

/// A claim for which a volume is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedProvision {
    /// Namespace and name of the claim.
    pub claim: NamespacedName,
    /// `resourceVersion` of the claim when this was decided; a newer one overrides the decision.
    pub version: Text,
    /// Name of the node that is selected.
    pub node: Text,
}

/// What must happen to volumes before a pod can be bound to its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservedVolumes {
    /// Volumes to be bound.
    pub bindings: Box<[ReservedBinding]>,
    /// Volumes to be made.
    pub provisions: Box<[ReservedProvision]>,
}

impl ReservedVolumes {
    fn claims(&self) -> impl Iterator<Item = NamespacedName> {
        let bound = self.bindings.iter().map(|b| (b.claim.namespace.clone(), b.claim.name.clone()));
        bound.chain(self.provisions.iter().map(|provision| provision.claim.clone()))
    }
}

/// All storage objects. Ordered maps: some plugins walk them, and the order shows in decisions.
#[derive(Clone, Debug, Default)]
pub struct Volumes {
    /// `PersistentVolume` by name.
    pub volumes: BTreeMap<Text, PersistentVolume>,
    /// `PersistentVolumeClaim` by namespace and name.
    pub claims: BTreeMap<NamespacedName, PersistentVolumeClaim>,
    /// `StorageClass` by name.
    pub classes: BTreeMap<Text, StorageClass>,
    /// `CSINode` by node name.
    pub csi_nodes: BTreeMap<Text, CsiNode>,
    /// `CSIDriver` by name.
    pub drivers: BTreeMap<Text, CsiDriver>,
    /// `CSIStorageCapacity` by namespace and name.
    pub capacities: BTreeMap<NamespacedName, CsiStorageCapacity>,
    /// `VolumeAttachment` by name.
    pub attachments: BTreeMap<Text, VolumeAttachment>,
    /// How many pods on nodes use each claim, by `namespace/name`.
    users: Map<Text, u32>,
    /// Work that pods wait for before they can be bound, by uid.
    reserved: BTreeMap<Uid, ReservedVolumes>,
    /// Claims that volumes are going to belong to, by volume, with the volume's version.
    assumed_claims: BTreeMap<Text, (Text, ClaimRef)>,
    /// Nodes that claims are going to name, by claim, with the claim's version.
    assumed_nodes: BTreeMap<NamespacedName, (Text, Text)>,
}

impl Volumes {
    /// Looks a claim up.
    pub fn claim(&self, namespace: &str, name: &str) -> Option<&PersistentVolumeClaim> {
        self.claims.get(&(Text::from(namespace), Text::from(name)))
    }

    /// How many pods on nodes name a claim in `spec.volumes`.
    pub fn claim_users(&self, namespace: &str, name: &str) -> u32 {
        self.users.get(&*format!("{namespace}/{name}")).copied().unwrap_or(0)
    }

    /// The claim that a volume belongs to, or is going to by our own decision.
    pub fn claim_ref<'a>(&'a self, volume: &'a PersistentVolume) -> Option<&'a ClaimRef> {
        match self.assumed_claims.get(&volume.name) {
            Some((version, claim)) if *version == volume.resource_version => Some(claim),
            _ => volume.claim_ref.as_ref(),
        }
    }

    /// The node that a claim names for its volume to be made for, or is going to by our own decision.
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

    /// What a pod waits for before it can be bound.
    pub fn reserved(&self, uid: &Uid) -> Option<&ReservedVolumes> {
        self.reserved.get(uid)
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

    /// Whether there was something to forget.
    pub(crate) fn forget(&mut self, uid: &Uid) -> bool {
        let Some(reserved) = self.reserved.remove(uid) else { return false };
        for binding in &reserved.bindings {
            // A later decision about a newer version is not ours to take back.
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

    /// Drops decisions that newer objects override and work that is done. Whether there were any.
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
            claims.get(key).is_some_and(|claim| claim.resource_version == *version)
        });
        self.reserved.retain(|_, reserved| {
            reserved.claims().any(|key| claims.get(&key).is_some_and(|claim| !claim.is_bound()))
        });
        before != count(self)
    }

    /// Counts the claims of a pod that came to a node or left it.
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

#[cfg(test)]
mod tests;
