//! Persistent volumes, claims, classes and what drivers say of nodes.

use super::{Labels, NodeTerm, Selector, Text, Uid};

/// Ways in which a volume may be mounted, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccessModes(u8);

impl AccessModes {
    /// No mode at all.
    pub const NONE: Self = Self(0);
    /// `ReadWriteOnce`.
    pub const READ_WRITE_ONCE: Self = Self(1);
    /// `ReadOnlyMany`.
    pub const READ_ONLY_MANY: Self = Self(2);
    /// `ReadWriteMany`.
    pub const READ_WRITE_MANY: Self = Self(4);
    /// `ReadWriteOncePod`.
    pub const READ_WRITE_ONCE_POD: Self = Self(8);

    /// This set and the other together.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether every mode of the other set is in this one.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// How a volume is presented to a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VolumeMode {
    /// As a directory; also when unset.
    #[default]
    Filesystem,
    /// As a raw device.
    Block,
}

/// `status.phase` of a persistent volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VolumePhase {
    /// Not usable yet; also when unset.
    #[default]
    Pending,
    /// Free for a claim.
    Available,
    /// In use by a claim.
    Bound,
    /// Its claim is gone, the data is still there.
    Released,
    /// Reclaiming it failed.
    Failed,
}

/// `status.phase` of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClaimPhase {
    /// Not bound yet; also when unset.
    #[default]
    Pending,
    /// Bound to a volume.
    Bound,
    /// Its volume is gone.
    Lost,
}

/// The claim that a volume belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimRef {
    /// Namespace of the claim.
    pub namespace: Text,
    /// Name of the claim.
    pub name: Text,
    /// Uid of the claim; empty when any claim of that name will do.
    pub uid: Text,
}

/// Where the data of a persistent volume lives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VolumeSource {
    /// `csi`.
    Csi {
        /// Name of the driver.
        driver: Text,
        /// The driver's name for the volume.
        handle: Text,
    },
    /// `gcePersistentDisk`, migrated to a driver.
    GcePersistentDisk {
        /// `pdName`.
        name: Text,
    },
    /// `awsElasticBlockStore`, migrated to a driver.
    AwsElasticBlockStore {
        /// `volumeID`.
        id: Text,
    },
    /// `azureDisk`, migrated to a driver.
    AzureDisk {
        /// `diskURI`.
        uri: Text,
        /// `kind` is unset or `Managed`; other kinds cannot be migrated.
        managed: bool,
    },
    /// `cinder`, migrated to a driver.
    Cinder {
        /// `volumeID`.
        id: Text,
    },
    /// `portworxVolume`, migrated to a driver.
    PortworxVolume {
        /// `volumeID`.
        id: Text,
    },
    /// Anything else (`local`, `nfs`, `azureFile`, `vsphereVolume`, …), which scheduling does not look into.
    #[default]
    Other,
}

/// A PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistentVolume {
    /// `metadata.name`.
    pub name: Text,
    /// `metadata.labels`; those of zones and regions restrict nodes.
    pub labels: Labels,
    /// `metadata.resourceVersion`, carried for preconditions.
    pub resource_version: Text,
    /// `spec.capacity.storage` in bytes.
    pub capacity: i64,
    /// `spec.accessModes`.
    pub access_modes: AccessModes,
    /// Class: the beta annotation, else `spec.storageClassName`; empty when none.
    pub storage_class: Text,
    /// `spec.volumeMode`.
    pub volume_mode: VolumeMode,
    /// `spec.volumeAttributesClassName`, empty when none.
    pub attributes_class: Text,
    /// `spec.claimRef`.
    pub claim_ref: Option<ClaimRef>,
    /// `spec.nodeAffinity.required.nodeSelectorTerms`; one of them must match.
    pub node_affinity: Option<Box<[NodeTerm]>>,
    /// `status.phase`.
    pub phase: VolumePhase,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Annotation `pv.kubernetes.io/bound-by-controller` is set.
    pub bound_by_controller: bool,
    /// Where the data lives.
    pub source: VolumeSource,
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistentVolumeClaim {
    /// `metadata.namespace`.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: Text,
    /// `metadata.uid`.
    pub uid: Text,
    /// `metadata.resourceVersion`, carried for preconditions.
    pub resource_version: Text,
    /// `spec.volumeName`, empty while unbound.
    pub volume_name: Text,
    /// Class: the beta annotation, else `spec.storageClassName`; an empty one is not the same as none.
    pub storage_class: Option<Text>,
    /// `spec.accessModes`.
    pub access_modes: AccessModes,
    /// `spec.resources.requests.storage` in bytes.
    pub request: Option<i64>,
    /// `spec.selector`; `None` when any volume will do.
    pub selector: Option<Selector>,
    /// `spec.volumeMode`.
    pub volume_mode: VolumeMode,
    /// `spec.volumeAttributesClassName`, empty when none.
    pub attributes_class: Text,
    /// `status.phase`.
    pub phase: ClaimPhase,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Annotation `pv.kubernetes.io/bind-completed` is set.
    pub bind_completed: bool,
    /// Annotation `pv.kubernetes.io/bound-by-controller` is set.
    pub bound_by_controller: bool,
    /// Annotation `volume.kubernetes.io/selected-node`.
    pub selected_node: Option<Text>,
    /// Uid of the owner reference with `controller: true`, which is the pod for ephemeral volumes.
    pub owner_uid: Option<Uid>,
}

impl PersistentVolumeClaim {
    /// Name of the class, empty when none.
    pub fn class(&self) -> &str {
        self.storage_class.as_deref().unwrap_or("")
    }

    /// Whether it is bound for good: it names a volume and binding was completed.
    pub fn is_bound(&self) -> bool {
        !self.volume_name.is_empty() && self.bind_completed
    }
}

/// When a claim is bound to a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BindingMode {
    /// As soon as the claim exists.
    Immediate,
    /// When a pod that uses the claim is placed.
    WaitForFirstConsumer,
}

/// A StorageClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageClass {
    /// `metadata.name`.
    pub name: Text,
    /// `provisioner`.
    pub provisioner: Text,
    /// `volumeBindingMode`.
    pub binding_mode: Option<BindingMode>,
    /// `allowedTopologies`, one of which must match; an empty list allows every node.
    pub allowed_topologies: Box<[NodeTerm]>,
}

/// A driver as it is registered on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeDriver {
    /// Name of the driver.
    pub name: Text,
    /// `allocatable.count`: how many volumes fit; `None` means no limit.
    pub limit: Option<i32>,
    /// `topologyKeys`.
    pub topology_keys: Box<[Text]>,
}

/// A CSINode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiNode {
    /// `metadata.name`, which is the node's.
    pub name: Text,
    /// `spec.drivers`.
    pub drivers: Box<[NodeDriver]>,
    /// Names in annotation `storage.alpha.kubernetes.io/migrated-plugins`, sorted.
    pub migrated_plugins: Box<[Text]>,
}

/// A CSIDriver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiDriver {
    /// `metadata.name`.
    pub name: Text,
    /// `spec.storageCapacity`: it publishes what is left.
    pub storage_capacity: bool,
    /// `spec.attachRequired`, true when unset.
    pub attach_required: bool,
    /// `spec.preventPodSchedulingIfMissing`.
    pub prevents_if_missing: bool,
}

/// A CSIStorageCapacity: how much a driver can still provision for some nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiStorageCapacity {
    /// `metadata.namespace`.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: Text,
    /// `storageClassName`.
    pub storage_class: Text,
    /// `nodeTopology`; `None` matches no node.
    pub node_topology: Option<Selector>,
    /// `capacity` in bytes.
    pub capacity: Option<i64>,
    /// `maximumVolumeSize` in bytes.
    pub maximum_volume_size: Option<i64>,
}

/// A VolumeAttachment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeAttachment {
    /// `metadata.name`.
    pub name: Text,
    /// `spec.attacher`, the driver.
    pub attacher: Text,
    /// `spec.nodeName`.
    pub node: Text,
    /// `spec.source.persistentVolumeName`; `None` for volumes named in the pod itself.
    pub volume_name: Option<Text>,
}

#[cfg(test)]
mod tests;
