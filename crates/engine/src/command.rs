//! What the engine wants done.

use crate::change::NodeVictims;
use crate::framework::VolumeRequest;
use crate::object::{Text, Uid};

/// A pod by all its names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodName {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Uid.
    pub uid: Uid,
}

/// What the engine wants done. Results come back as [`crate::change::Change`]s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Bind a pod; answer with `Bound`.
    Bind {
        /// The pod.
        pod: PodName,
        /// `metadata.resourceVersion` that the decision was made on.
        resource_version: u64,
        /// The node.
        node: Text,
        /// The extender that binds it, by its position; usually none.
        extender: Option<usize>,
    },
    /// Have extenders filter and score nodes; answer with `ExtendersAnswered`.
    AskExtenders {
        /// The pod.
        pod: PodName,
        /// To be given back with the answer.
        ticket: u64,
        /// Whom to ask, by their positions, in this order.
        extenders: Vec<usize>,
        /// Nodes that fit.
        nodes: Vec<Text>,
    },
    /// Have extenders say which victims may go; answer with `ExtendersAnsweredAboutVictims`.
    AskExtendersAboutVictims {
        /// The pod for which room is to be made.
        pod: PodName,
        /// To be given back with the answer.
        ticket: u64,
        /// Whom to ask, by their positions, in this order.
        extenders: Vec<usize>,
        /// Nodes on which room can be made, and how.
        candidates: Vec<NodeVictims>,
    },
    /// Write volumes and claims and wait until all are bound; answer with `VolumesReady`.
    PrepareVolumes {
        /// The pod.
        pod: PodName,
        /// To be given back with the answer.
        ticket: u64,
        /// The node.
        node: Text,
        /// What to write.
        requests: Vec<VolumeRequest>,
        /// Nanoseconds after which to give up.
        timeout: i64,
    },
    /// Write `status.nominatedNodeName`; empty takes it away.
    Nominate {
        /// The pod.
        pod: PodName,
        /// The node, or empty.
        node: Text,
    },
    /// Write the condition `PodScheduled: False` and an event of reason `FailedScheduling`.
    ReportFailure {
        /// The pod.
        pod: PodName,
        /// `Unschedulable` or `SchedulerError`.
        reason: &'static str,
        /// The text.
        message: String,
        /// `Some` also writes `status.nominatedNodeName`; empty takes it away.
        nominate: Option<Text>,
    },
    /// Write an event of reason `FailedScheduling` only.
    Warn {
        /// The pod.
        pod: PodName,
        /// The text.
        message: String,
    },
    /// Write an event of reason `Scheduled`; the pod is bound.
    ReportScheduled {
        /// The pod.
        pod: PodName,
        /// The node.
        node: Text,
    },
    /// Mark a pod as disrupted and delete it to make room; answer with `VictimHandled`.
    Evict {
        /// The pod to delete.
        victim: PodName,
        /// The pod for which room is made.
        preemptor: PodName,
        /// The node.
        node: Text,
    },
    /// Write an event of reason `Preempted` only: the pod was not bound yet and is tried again.
    ReportPreempted {
        /// The pod that gave its place up.
        victim: PodName,
        /// The pod for which room is made.
        preemptor: PodName,
        /// The node.
        node: Text,
    },
}
