//! Persistent volumes, claims, storage classes and the state of CSI drivers.

use super::{Labels, NodeTerm, Selector, Stored, Text, Uid};

/// Set of access modes of a volume or claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccessModes(u8);

impl AccessModes {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// `ReadWriteOnce`.
    pub const READ_WRITE_ONCE: Self = Self(1);
    /// `ReadOnlyMany`.
    pub const READ_ONLY_MANY: Self = Self(2);
    /// `ReadWriteMany`.
    pub const READ_WRITE_MANY: Self = Self(4);
    /// `ReadWriteOncePod`.
    pub const READ_WRITE_ONCE_POD: Self = Self(8);

    /// Returns the union of both sets.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns `true` if this set contains every mode of the other.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Form in which a pod sees a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VolumeMode {
    /// A directory; the default.
    #[default]
    Filesystem,
    /// A raw block device.
    Block,
}

/// `status.phase` of a persistent volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VolumePhase {
    /// Not usable yet; the default.
    #[default]
    Pending,
    /// Not bound to a claim.
    Available,
    /// Bound to a claim.
    Bound,
    /// The claim was deleted; the data still exists.
    Released,
    /// Reclaiming failed.
    Failed,
}

/// `status.phase` of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClaimPhase {
    /// Not bound yet; the default.
    #[default]
    Pending,
    /// Bound to a volume.
    Bound,
    /// The volume was deleted.
    Lost,
}

/// `spec.claimRef` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimRef {
    /// Namespace of the claim.
    pub namespace: Text,
    /// Name of the claim.
    pub name: Text,
    /// UID of the claim; empty if any claim of that name may be bound.
    pub uid: Text,
}

/// Storage behind a persistent volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VolumeSource {
    /// `csi`.
    Csi {
        /// Name of the driver.
        driver: Text,
        /// `volumeHandle`.
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
    /// Any other source (`local`, `nfs`, `azureFile`, `vsphereVolume`, …), which scheduling does
    /// not read.
    #[default]
    Other,
}

/// A PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistentVolume {
    /// `metadata.name`.
    pub name: Text,
    /// `metadata.labels`; zone and region labels restrict the nodes.
    pub labels: Labels,
    /// `metadata.resourceVersion`, carried for preconditions.
    pub resource_version: Text,
    /// `spec.capacity.storage` in bytes.
    pub capacity: i64,
    /// `spec.accessModes`.
    pub access_modes: AccessModes,
    /// Storage class: the beta annotation, else `spec.storageClassName`; empty if unset.
    pub storage_class: Text,
    /// `spec.volumeMode`.
    pub volume_mode: VolumeMode,
    /// `spec.volumeAttributesClassName`, empty if unset.
    pub attributes_class: Text,
    /// `spec.claimRef`.
    pub claim_ref: Option<ClaimRef>,
    /// `spec.nodeAffinity.required.nodeSelectorTerms`, combined by OR.
    pub node_affinity: Option<Box<[NodeTerm]>>,
    /// `status.phase`.
    pub phase: VolumePhase,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Annotation `pv.kubernetes.io/bound-by-controller` is set.
    pub bound_by_controller: bool,
    /// Storage behind the volume.
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
    /// Storage class: the beta annotation, else `spec.storageClassName`; empty and unset differ.
    pub storage_class: Option<Text>,
    /// `spec.accessModes`.
    pub access_modes: AccessModes,
    /// `spec.resources.requests.storage` in bytes.
    pub request: Option<i64>,
    /// `spec.selector`; `None` accepts every volume.
    pub selector: Option<Selector>,
    /// `spec.volumeMode`.
    pub volume_mode: VolumeMode,
    /// `spec.volumeAttributesClassName`, empty if unset.
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
    /// UID of the owner reference with `controller: true`; for ephemeral volumes that is the pod.
    pub owner_uid: Option<Uid>,
}

impl PersistentVolumeClaim {
    /// Returns the name of the storage class, empty if unset.
    pub fn class(&self) -> &str {
        self.storage_class.as_deref().unwrap_or("")
    }

    /// Returns `true` if binding is complete: the claim names a volume and has the `bind-completed`
    /// annotation.
    pub fn is_bound(&self) -> bool {
        !self.volume_name.is_empty() && self.bind_completed
    }
}

/// `volumeBindingMode` of a storage class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BindingMode {
    /// Claims are bound as soon as they exist.
    Immediate,
    /// Claims are bound when a pod that uses them is placed.
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
    /// `allowedTopologies`, combined by OR; an empty list allows every node.
    pub allowed_topologies: Box<[NodeTerm]>,
}

/// A CSI driver registered on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeDriver {
    /// Name of the driver.
    pub name: Text,
    /// `allocatable.count`: maximum number of volumes; `None` means no limit.
    pub limit: Option<i32>,
    /// `topologyKeys`.
    pub topology_keys: Box<[Text]>,
}

/// A CSINode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiNode {
    /// `metadata.name`, equal to the node's name.
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
    /// `spec.storageCapacity`: the driver publishes its remaining capacity.
    pub storage_capacity: bool,
    /// `spec.attachRequired`, true when unset.
    pub attach_required: bool,
    /// `spec.preventPodSchedulingIfMissing`.
    pub prevents_if_missing: bool,
}

/// A CSIStorageCapacity: capacity that a driver can still provision on a set of nodes.
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
    /// `spec.attacher`, the name of the driver.
    pub attacher: Text,
    /// `spec.nodeName`.
    pub node: Text,
    /// `spec.source.persistentVolumeName`; `None` for inline volumes.
    pub volume_name: Option<Text>,
}

impl Stored for PersistentVolume {
    fn key(&self) -> (Text, Text) {
        (Text::default(), self.name.clone())
    }
}

impl Stored for PersistentVolumeClaim {
    fn key(&self) -> (Text, Text) {
        (self.namespace.clone(), self.name.clone())
    }
}

impl Stored for StorageClass {
    fn key(&self) -> (Text, Text) {
        (Text::default(), self.name.clone())
    }
}

impl Stored for CsiNode {
    fn key(&self) -> (Text, Text) {
        (Text::default(), self.name.clone())
    }
}

impl Stored for CsiDriver {
    fn key(&self) -> (Text, Text) {
        (Text::default(), self.name.clone())
    }
}

impl Stored for CsiStorageCapacity {
    fn key(&self) -> (Text, Text) {
        (self.namespace.clone(), self.name.clone())
    }
}

impl Stored for VolumeAttachment {
    fn key(&self) -> (Text, Text) {
        (Text::default(), self.name.clone())
    }
}

#[cfg(test)]
mod tests;
