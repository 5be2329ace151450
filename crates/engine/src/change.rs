//! Inputs of the engine: objects that were added, updated or deleted, and the outcomes of commands.

use std::sync::Arc;

use crate::command::PodRef;
use crate::object::volume::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
    VolumeAttachment,
};
use crate::object::{DisruptionBudget, Namespace, Node, Pod, Text, Uid, Workload, WorkloadKind};

/// One input of the engine. Large objects are boxed, since a change is moved several times.
#[derive(Clone, Debug)]
pub enum Change {
    /// A node was added or updated.
    Node(Arc<Node>),
    /// A node was deleted.
    NodeGone(Text),
    /// A pod was added or updated.
    Pod(Box<Pod>),
    /// A pod was deleted or has terminated.
    PodGone {
        /// UID of the pod.
        uid: Uid,
    },
    /// A namespace was added or updated.
    Namespace(Namespace),
    /// A namespace was deleted.
    NamespaceGone(Text),
    /// A service or controller was added or updated.
    Workload(Box<Workload>),
    /// A service or controller was deleted.
    WorkloadGone {
        /// Kind.
        kind: WorkloadKind,
        /// Namespace.
        namespace: Text,
        /// Name.
        name: Text,
    },
    /// A disruption budget was added or updated.
    Budget(Box<DisruptionBudget>),
    /// A disruption budget was deleted.
    BudgetGone {
        /// Namespace.
        namespace: Text,
        /// Name.
        name: Text,
    },
    /// A storage object was added or updated.
    Storage(Box<Storage>),
    /// A storage object was deleted.
    StorageGone(StorageName),
    /// A device class was added or updated.
    DeviceClass {
        /// Name.
        name: Text,
        /// `spec.extendedResourceName`, empty when unset.
        extended_resource: Text,
    },
    /// A device class was deleted.
    DeviceClassGone(Text),
    /// Outcome of [`Command::Bind`](crate::command::Command::Bind).
    Bound {
        /// UID of the pod.
        uid: Uid,
        /// Error of the bind; `None` if it succeeded.
        failure: Option<Text>,
    },
    /// Outcome of [`Command::PrepareVolumes`](crate::command::Command::PrepareVolumes).
    VolumesReady {
        /// UID of the pod.
        uid: Uid,
        /// Ticket of the command; an older ticket belongs to an earlier attempt and is ignored.
        ticket: u64,
        /// Error; `None` if all volumes are bound.
        failure: Option<Text>,
    },
    /// A permit plugin allows or rejects a waiting pod.
    Permission {
        /// UID of the pod.
        uid: Uid,
        /// Name of the plugin.
        plugin: Text,
        /// Reason of the rejection; `None` allows the pod.
        denied: Option<Text>,
    },
    /// Outcome of [`Command::DeleteVictim`](crate::command::Command::DeleteVictim).
    VictimHandled {
        /// UID of the preemptor.
        preemptor: Uid,
        /// UID of the victim.
        victim: Uid,
        /// Error; `None` if the victim was deleted.
        failure: Option<Text>,
    },
    /// Outcome of [`Command::Evict`](crate::command::Command::Evict).
    Evicted {
        /// UID of the pod.
        uid: Uid,
        /// The outcome.
        outcome: EvictionOutcome,
    },
    /// Outcome of [`Command::AskExtenders`](crate::command::Command::AskExtenders).
    ExtendersAnswered {
        /// UID of the pod.
        uid: Uid,
        /// Ticket of the command.
        ticket: u64,
        /// Verdict on the nodes, or the error that fails the attempt.
        verdict: Result<ExtenderVerdict, Text>,
    },
    /// Outcome of
    /// [`Command::AskExtendersAboutVictims`](crate::command::Command::AskExtendersAboutVictims).
    ExtendersAnsweredAboutVictims {
        /// UID of the preemptor.
        uid: Uid,
        /// Ticket of the command.
        ticket: u64,
        /// Remaining candidates, or the error that fails the preemption.
        candidates: Result<Vec<NodeVictims>, Text>,
    },
}

/// Outcome of an eviction by the Eviction API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionOutcome {
    /// The pod is being deleted or, after a dry run, would be.
    Evicted,
    /// The pod does not exist any more.
    Gone,
    /// A disruption budget forbids it at present.
    Refused {
        /// The API server's message.
        message: Text,
        /// Nanoseconds after which the API server asks to try again; `None` if it did not say.
        retry_after: Option<i64>,
    },
    /// The request failed otherwise.
    Failed(Text),
}

/// Verdict of all extenders on the nodes of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtenderVerdict {
    /// Nodes that all extenders accept, each with the sum of its weighted scores.
    pub passed: Vec<(Text, i64)>,
    /// Nodes that an extender rejected.
    pub failed: Vec<FailedNode>,
}

/// A node that an extender rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedNode {
    /// Name of the node.
    pub node: Text,
    /// Reason that the extender gave.
    pub reason: Text,
    /// Set if evicting pods from the node would not help.
    pub unresolvable: bool,
}

/// Candidate of a preemption: a node and its victims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVictims {
    /// Name of the node.
    pub node: Text,
    /// Pods to evict.
    pub victims: Vec<PodRef>,
    /// Number of victims whose disruption budget would be violated.
    pub violations: usize,
}

/// An object of one of the storage kinds.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "one variant per kind, named after it")]
pub enum Storage {
    Volume(PersistentVolume),
    Claim(PersistentVolumeClaim),
    Class(StorageClass),
    CsiNode(CsiNode),
    CsiDriver(CsiDriver),
    Capacity(CsiStorageCapacity),
    Attachment(VolumeAttachment),
}

/// Identity of a storage object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "one variant per kind, named after it")]
pub enum StorageName {
    Volume(Text),
    Claim { namespace: Text, name: Text },
    Class(Text),
    CsiNode(Text),
    CsiDriver(Text),
    Capacity { namespace: Text, name: Text },
    Attachment(Text),
}
