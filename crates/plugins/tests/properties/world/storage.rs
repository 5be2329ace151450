//! Claims, volumes and the other storage objects of the API server, and what controllers do with them.

use engine::change::Change;
use engine::framework::VolumeRequest;
use engine::object::{
    ClaimPhase, ClaimRef, ClusterObject, ObjectKind, PersistentVolume, PersistentVolumeClaim, Pod,
    Text, Volume, VolumeAttachment, VolumePhase,
};

use super::{World, gone, nth};
use crate::generators::node_name;
use crate::generators::storage::{self, DRIVER, VOLUMES};
use crate::steps::Step;

impl World {
    /// Carries out a step that concerns storage objects.
    pub(super) fn change_storage(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Class(class) => {
                self.apply(Change::Object(ClusterObject::StorageClass(class.into())))
            }
            Step::ClassGone(class) => {
                self.apply_without_event(gone(ObjectKind::StorageClass, "", &class.name))
            }
            Step::Claim(claim) => {
                let key = (claim.namespace.clone(), claim.name.clone());
                // The request of a claim cannot be changed.
                if self.claims.contains_key(&key) { Ok(()) } else { self.set_claim(claim) }
            }
            Step::EphemeralClaim(which) => {
                let with_ephemeral = |pod: &&Pod| {
                    pod.spec.volumes.iter().any(|v| matches!(v, Volume::Ephemeral { .. }))
                };
                let pods: Vec<&Pod> = self.pods.values().filter(with_ephemeral).collect();
                let Some(which) = which.checked_rem(pods.len()) else { return Ok(()) };
                let claim = storage::ephemeral_claim(pods[which]);
                let key = (claim.namespace.clone(), claim.name.clone());
                if self.claims.contains_key(&key) { Ok(()) } else { self.set_claim(claim) }
            }
            Step::ClaimGone(which) => {
                let Some((namespace, name)) = nth(&self.claims, which) else { return Ok(()) };
                self.claims.remove(&(namespace.clone(), name.clone()));
                let kind = ObjectKind::PersistentVolumeClaim;
                self.apply_without_event(gone(kind, &namespace, &name))
            }
            Step::Volume(volume) => match self.volumes.get(&volume.name) {
                // Only the labels of a volume can be changed.
                Some(old) => {
                    let old = old.clone();
                    self.set_volume(PersistentVolume { labels: volume.labels, ..old })
                }
                None => self.set_volume(*volume),
            },
            Step::VolumeGone(which) => {
                let Some(name) = nth(&self.volumes, which) else { return Ok(()) };
                self.volumes.remove(&name);
                self.apply_without_event(gone(ObjectKind::PersistentVolume, "", &name))
            }
            Step::Join(claim, volume) => {
                let (Some(claim), Some(volume)) =
                    (nth(&self.claims, claim), nth(&self.volumes, volume))
                else {
                    return Ok(());
                };
                if self.claims[&claim].is_bound() || self.volumes[&volume].claim_ref.is_some() {
                    return Ok(());
                }
                self.bind_claim(&claim, &volume)
            }
            Step::CsiNode(node) => self.apply(Change::Object(ClusterObject::CsiNode(node.into()))),
            Step::CsiNodeGone(which) => {
                self.apply_without_event(gone(ObjectKind::CsiNode, "", &node_name(which)))
            }
            Step::Driver(driver) => {
                self.apply(Change::Object(ClusterObject::CsiDriver(driver.into())))
            }
            Step::DriverGone => self.apply_without_event(gone(ObjectKind::CsiDriver, "", DRIVER)),
            Step::Capacity(capacity) => {
                self.apply(Change::Object(ClusterObject::CsiStorageCapacity(capacity.into())))
            }
            Step::CapacityGone(capacity) => {
                let (namespace, name) = (&capacity.namespace, &capacity.name);
                self.apply_without_event(gone(ObjectKind::CsiStorageCapacity, namespace, name))
            }
            Step::Attach(volume, node) => {
                let volume_name = VOLUMES[volume % VOLUMES.len()];
                let attachment = VolumeAttachment {
                    name: attachment_name(volume_name, node),
                    attacher: DRIVER.into(),
                    node: node_name(node),
                    volume_name: Some(volume_name.into()),
                };
                self.apply(Change::Object(ClusterObject::VolumeAttachment(attachment.into())))
            }
            Step::Detach(volume, node) => {
                let name = attachment_name(VOLUMES[volume % VOLUMES.len()], node);
                self.apply(gone(ObjectKind::VolumeAttachment, "", &name))
            }
            _ => unreachable!("`apply_step` handles the other steps"),
        }
    }

    fn set_claim(&mut self, mut claim: PersistentVolumeClaim) -> Result<(), String> {
        claim.resource_version = self.next_version().to_string().into();
        self.claims.insert((claim.namespace.clone(), claim.name.clone()), claim.clone());
        self.apply(Change::Object(ClusterObject::PersistentVolumeClaim(claim.into())))
    }

    fn set_volume(&mut self, mut volume: PersistentVolume) -> Result<(), String> {
        volume.resource_version = self.next_version().to_string().into();
        self.volumes.insert(volume.name.clone(), volume.clone());
        self.apply(Change::Object(ClusterObject::PersistentVolume(volume.into())))
    }

    /// Binds a claim and a volume to each other, as the volume controller does.
    fn bind_claim(&mut self, claim: &(Text, Text), volume: &Text) -> Result<(), String> {
        let (Some(mut claim), Some(mut volume)) =
            (self.claims.get(claim).cloned(), self.volumes.get(volume).cloned())
        else {
            return Ok(());
        };
        volume.claim_ref = Some(ClaimRef {
            namespace: claim.namespace.clone(),
            name: claim.name.clone(),
            uid: claim.uid.clone(),
        });
        volume.phase = VolumePhase::Bound;
        claim.volume_name = volume.name.clone();
        claim.phase = ClaimPhase::Bound;
        claim.bind_completed = true;
        self.set_volume(volume)?;
        self.set_claim(claim)
    }

    /// Binds and provisions volumes, as the volume controller and the driver do.
    pub(super) fn prepare(&mut self, requests: &[VolumeRequest]) -> Result<(), String> {
        for request in requests {
            match request {
                VolumeRequest::BindVolume { volume, namespace, claim } => {
                    self.bind_claim(&(namespace.clone(), claim.clone()), volume)?;
                }
                VolumeRequest::Provision { namespace, claim, node } => {
                    let key = (namespace.clone(), claim.clone());
                    let Some(mut claim) = self.claims.get(&key).cloned() else { continue };
                    claim.selected_node = Some(node.clone());
                    let volume = storage::provisioned(&claim);
                    let name = volume.name.clone();
                    self.set_claim(claim)?;
                    self.set_volume(volume)?;
                    self.bind_claim(&key, &name)?;
                }
            }
        }
        Ok(())
    }
}

fn attachment_name(volume: &str, node: usize) -> Text {
    format!("{volume}-{}", node_name(node)).into()
}
