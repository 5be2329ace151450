//! Outputs of the engine: writes and requests that the runtime carries out.

use crate::change::NodeVictims;
use crate::framework::{Report, VolumeRequest};
use crate::object::{Text, Uid};

/// A pod as commands name it, at the version that the engine knew when it issued the command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodRef {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// UID.
    pub uid: Uid,
    /// `metadata.resourceVersion`; zero if unknown.
    pub resource_version: u64,
    /// `metadata.generation`.
    pub generation: i64,
    /// `spec.schedulerName`.
    pub scheduler: Text,
}

/// The attempts of a pod up to its bind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptHistory {
    /// Number of attempts, this one included.
    pub attempts: u32,
    /// When the pod could first be tried, in nanoseconds since the epoch.
    pub initial_attempt: i64,
    /// Set if the pod left the unschedulable pods because it had waited the maximum time, not because
    /// of an event.
    pub was_flushed: bool,
}

/// One output of the engine; it has everything that is needed to execute it. Outcomes return as [`Change`](crate::change::Change)s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Binds a pod; the outcome is `Change::Bound`.
    Bind {
        /// The pod.
        pod: PodRef,
        /// The node.
        node: Text,
        /// Position of the extender that binds the pod, if any.
        extender: Option<usize>,
        /// The attempts of the pod.
        history: AttemptHistory,
    },
    /// Asks extenders to filter and score nodes; the outcome is `Change::ExtendersAnswered`.
    AskExtenders {
        /// The pod.
        pod: PodRef,
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
        pod: PodRef,
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
        pod: PodRef,
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
        pod: PodRef,
        /// The node, or empty.
        node: Text,
    },
    /// Writes the condition `PodScheduled: False` and an event of reason `FailedScheduling`.
    ReportFailure {
        /// The pod.
        pod: PodRef,
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
        pod: PodRef,
        /// Message of the event.
        message: String,
    },
    /// Writes a log line and an event of a plugin about a pod, and counts them.
    Report {
        /// The pod.
        pod: PodRef,
        /// The plugin.
        plugin: Text,
        /// What it reports.
        report: Report,
    },
    /// Writes an event of reason `Scheduled` after a successful bind.
    ReportScheduled {
        /// The pod.
        pod: PodRef,
        /// The node.
        node: Text,
    },
    /// Marks the victim of a preemption with the condition `DisruptionTarget` and deletes it, whatever
    /// its disruption budgets say; the outcome is `Change::VictimHandled`.
    DeleteVictim {
        /// The pod to delete.
        victim: PodRef,
        /// The pod that needs the space.
        preemptor: PodRef,
        /// The node.
        node: Text,
    },
    /// Evicts a pod through the Eviction API, which refuses if that would violate a disruption budget;
    /// the outcome is `Change::Evicted`.
    Evict {
        /// The pod.
        pod: PodRef,
        /// Reason of the event that follows a success.
        reason: &'static str,
        /// Message of that event.
        note: String,
        /// Seconds in which the pod may end; `None` leaves it to the pod.
        grace_period: Option<i64>,
        /// Asks whether the pod would be evicted, without doing it and without an event.
        dry_run: bool,
    },
    /// Writes an event of reason `Preempted` for a victim that was not bound yet and returns to the
    /// queue.
    ReportPreempted {
        /// The victim.
        victim: PodRef,
        /// The preemptor.
        preemptor: PodRef,
        /// The node.
        node: Text,
    },
}
