//! Outputs of the engine: writes and requests that the runtime carries out.

use crate::change::NodeVictims;
use crate::framework::{Report, VolumeRequest};
use crate::object::{Text, Uid};

/// Namespace, name and UID of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodName {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// UID.
    pub uid: Uid,
}

/// One output of the engine. Outcomes return as [`Change`](crate::change::Change)s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Binds a pod; the outcome is `Change::Bound`.
    Bind {
        /// The pod.
        pod: PodName,
        /// `metadata.resourceVersion` of the pod that was scheduled.
        resource_version: u64,
        /// The node.
        node: Text,
        /// Position of the extender that binds the pod, if any.
        extender: Option<usize>,
    },
    /// Asks extenders to filter and score nodes; the outcome is `Change::ExtendersAnswered`.
    AskExtenders {
        /// The pod.
        pod: PodName,
        /// Returned with the outcome.
        ticket: u64,
        /// Positions of the extenders to ask, in this order.
        extenders: Vec<usize>,
        /// Feasible nodes.
        nodes: Vec<Text>,
    },
    /// Asks extenders to select victims; the outcome is `Change::ExtendersAnsweredAboutVictims`.
    AskExtendersAboutVictims {
        /// The preemptor.
        pod: PodName,
        /// Returned with the outcome.
        ticket: u64,
        /// Positions of the extenders to ask, in this order.
        extenders: Vec<usize>,
        /// Candidate nodes with their victims.
        candidates: Vec<NodeVictims>,
    },
    /// Writes volumes and claims and waits until all are bound (PreBind of VolumeBinding); the
    /// outcome is `Change::VolumesReady`.
    PrepareVolumes {
        /// The pod.
        pod: PodName,
        /// Returned with the outcome.
        ticket: u64,
        /// The node.
        node: Text,
        /// Writes to make.
        requests: Vec<VolumeRequest>,
        /// Time-out in nanoseconds.
        timeout: i64,
    },
    /// Writes `status.nominatedNodeName`; an empty node clears it.
    Nominate {
        /// The pod.
        pod: PodName,
        /// The node, or empty.
        node: Text,
    },
    /// Writes the condition `PodScheduled: False` and an event of reason `FailedScheduling`.
    ReportFailure {
        /// The pod.
        pod: PodName,
        /// `Unschedulable` or `SchedulerError`.
        reason: &'static str,
        /// Message of condition and event.
        message: String,
        /// New `status.nominatedNodeName`; empty clears it, `None` leaves it unchanged.
        nominate: Option<Text>,
    },
    /// Writes an event of reason `FailedScheduling` without a condition.
    Warn {
        /// The pod.
        pod: PodName,
        /// Message of the event.
        message: String,
    },
    /// Writes a log line and an event of a plugin about a pod, and counts them.
    Report {
        /// The pod.
        pod: PodName,
        /// The plugin.
        plugin: Text,
        /// What it reports.
        report: Report,
    },
    /// Writes an event of reason `Scheduled` after a successful bind.
    ReportScheduled {
        /// The pod.
        pod: PodName,
        /// The node.
        node: Text,
    },
    /// Marks a victim with the condition `DisruptionTarget` and deletes it; the outcome is
    /// `Change::VictimHandled`.
    Evict {
        /// The pod to delete.
        victim: PodName,
        /// The pod that needs the space.
        preemptor: PodName,
        /// The node.
        node: Text,
    },
    /// Writes an event of reason `Preempted` for a victim that was not bound yet and returns to the
    /// queue.
    ReportPreempted {
        /// The victim.
        victim: PodName,
        /// The preemptor.
        preemptor: PodName,
        /// The node.
        node: Text,
    },
}
