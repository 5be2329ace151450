//! What the engine is told: objects that came, changed or went, and what came of its commands.

use std::sync::Arc;

use crate::command::PodName;
use crate::object::volume::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
    VolumeAttachment,
};
use crate::object::{DisruptionBudget, Namespace, Node, Pod, Text, Uid, Workload, WorkloadKind};

/// Something that the engine is told. Objects lie apart: a change is handed on many times.
#[derive(Clone, Debug)]
pub enum Change {
    /// A node came or changed.
    Node(Arc<Node>),
    /// A node went.
    NodeGone(Text),
    /// A pod came or changed.
    Pod(Box<Pod>),
    /// A pod went, or came to its end.
    PodGone {
        /// Its uid.
        uid: Uid,
    },
    /// A namespace came or changed.
    Namespace(Namespace),
    /// A namespace went.
    NamespaceGone(Text),
    /// A service or controller came or changed.
    Workload(Box<Workload>),
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
    Budget(Box<DisruptionBudget>),
    /// A disruption budget went.
    BudgetGone {
        /// Namespace.
        namespace: Text,
        /// Name.
        name: Text,
    },
    /// A storage object came or changed.
    Storage(Box<Storage>),
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
        uid: Uid,
        /// `None`, or why it failed.
        failure: Option<Text>,
    },
    /// What came of a command to prepare volumes.
    VolumesReady {
        /// Uid of the pod.
        uid: Uid,
        /// That of the command: the pod may have been tried again since.
        ticket: u64,
        /// `None`, or why it failed.
        failure: Option<Text>,
    },
    /// A pod that waits for permission gets it from one plugin, or is turned away.
    Permission {
        /// Uid of the pod.
        uid: Uid,
        /// The plugin that speaks.
        plugin: Text,
        /// `None` allows; otherwise why it is turned away.
        denied: Option<Text>,
    },
    /// What came of a command to delete a pod to make room for another.
    VictimHandled {
        /// Uid of the pod for which room is made.
        preemptor: Uid,
        /// Uid of the victim.
        victim: Uid,
        /// `None`, or why it failed.
        failure: Option<Text>,
    },
    /// What extenders say about nodes.
    ExtendersAnswered {
        /// Uid of the pod.
        uid: Uid,
        /// That of the command.
        ticket: u64,
        /// What they say, or why the attempt fails.
        verdict: Result<ExtenderVerdict, Text>,
    },
    /// What extenders say about victims.
    ExtendersAnsweredAboutVictims {
        /// Uid of the pod for which room is to be made.
        uid: Uid,
        /// That of the command.
        ticket: u64,
        /// Candidates that are left, or why there is no telling.
        candidates: Result<Vec<NodeVictims>, Text>,
    },
    /// Time passed.
    Tick,
    /// Decide where the next pods go, at most this many.
    Schedule {
        /// How many pods at most.
        limit: usize,
    },
}

/// What extenders say about nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtenderVerdict {
    /// Nodes that all of them let pass, each with the sum of its weighted scores.
    pub passed: Vec<(Text, i64)>,
    /// Nodes that one of them turned down.
    pub failed: Vec<FailedNode>,
}

/// A node that an extender turned down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedNode {
    /// The node.
    pub node: Text,
    /// The extender's words.
    pub reason: Text,
    /// Removing pods would not help.
    pub unresolvable: bool,
}

/// Pods that would have to leave a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVictims {
    /// The node.
    pub node: Text,
    /// The pods.
    pub victims: Vec<PodName>,
    /// How many of them a disruption budget protects.
    pub violations: usize,
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
