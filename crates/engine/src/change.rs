//! What the engine is told: objects that came, changed or went, and what came of its commands.

use crate::object::volume::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
    VolumeAttachment,
};
use crate::object::{DisruptionBudget, Namespace, Node, Pod, Text, Workload, WorkloadKind};

/// Something that the engine is told.
#[derive(Clone, Debug)]
pub enum Change {
    /// A node came or changed.
    Node(Node),
    /// A node went.
    NodeGone(Text),
    /// A pod came or changed.
    Pod(Box<Pod>),
    /// A pod went, or came to its end.
    PodGone {
        /// Its uid.
        uid: Text,
    },
    /// A namespace came or changed.
    Namespace(Namespace),
    /// A namespace went.
    NamespaceGone(Text),
    /// A service or controller came or changed.
    Workload(Workload),
    /// A service or controller went.
    WorkloadGone {
        /// Kind.
        kind: WorkloadKind,
        /// Namespace.
        namespace: Text,
        /// Name.
        name: Text,
    },
    /// A disruption budget came or changed.
    Budget(DisruptionBudget),
    /// A disruption budget went.
    BudgetGone {
        /// Namespace.
        namespace: Text,
        /// Name.
        name: Text,
    },
    /// A storage object came or changed.
    Storage(Storage),
    /// A storage object went.
    StorageGone(StorageName),
    /// A device class came or changed.
    DeviceClass {
        /// Name.
        name: Text,
        /// `spec.extendedResourceName`, empty when unset.
        extended_resource: Text,
    },
    /// A device class went.
    DeviceClassGone(Text),
    /// What came of a command to bind.
    Bound {
        /// Uid of the pod.
        uid: Text,
        /// `None`, or why it failed.
        failure: Option<Text>,
    },
    /// What came of a command to prepare volumes.
    VolumesReady {
        /// Uid of the pod.
        uid: Text,
        /// `None`, or why it failed.
        failure: Option<Text>,
    },
    /// A pod that waits for permission gets it from one plugin, or is turned away.
    Permission {
        /// Uid of the pod.
        uid: Text,
        /// The plugin that speaks.
        plugin: Text,
        /// `None` allows; otherwise why it is turned away.
        denied: Option<Text>,
    },
    /// The pods a victim's place was taken from are to be deleted; this tells that one was.
    VictimHandled {
        /// Uid of the pod for which room is made.
        preemptor: Text,
        /// Uid of the victim.
        victim: Text,
        /// `None`, or why it failed.
        failure: Option<Text>,
    },
    /// Time passed.
    Tick,
    /// Decide where the next pods go, at most this many.
    Schedule {
        /// How many pods at most.
        limit: usize,
    },
}

/// A storage object.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "one for each kind")]
pub enum Storage {
    Volume(PersistentVolume),
    Claim(PersistentVolumeClaim),
    Class(StorageClass),
    CsiNode(CsiNode),
    CsiDriver(CsiDriver),
    Capacity(CsiStorageCapacity),
    Attachment(VolumeAttachment),
}

/// Names a storage object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "one for each kind")]
pub enum StorageName {
    Volume(Text),
    Claim { namespace: Text, name: Text },
    Class(Text),
    CsiNode(Text),
    CsiDriver(Text),
    Capacity { namespace: Text, name: Text },
    Attachment(Text),
}
