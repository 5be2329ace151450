//! Inputs of the engine: objects that were added, updated or deleted, and the outcomes of commands.

use std::sync::Arc;

use crate::command::PodRef;
use crate::object::{ClusterObject, Node, ObjectName, Pod, Text, Uid};

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
    /// An object of another kind was added or updated.
    Object(ClusterObject),
    /// An object of another kind was deleted.
    ObjectGone(ObjectName),
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
