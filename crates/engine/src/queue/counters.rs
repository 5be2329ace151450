//! Counters of the queue, with upstream's labels.

use std::collections::BTreeMap;
use std::fmt;

use crate::framework::{Action, Event, Resource};

use super::entry::QueueStage;

/// Reason why a pod entered a sub-queue. Its text is the value of the metric label `event`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventLabel {
    /// A cluster event.
    Cluster(Resource, Action),
    /// The pod was unschedulable for longer than the time-out.
    UnschedulableTimeout,
    /// The rejection of the pod ended by time, as its plugin said.
    RejectionExpired,
    /// A plugin activated the pod.
    ForceActivate,
    /// A scheduling attempt failed.
    ScheduleAttemptFailure,
    /// The backoff is over.
    BackoffComplete,
    /// The pod was popped from backoff because no pod was active.
    PopFromBackoffQ,
}

impl EventLabel {
    /// A pod was added.
    pub const POD_ADD: Self = Self::of(Resource::UnschedulablePod, Action::ADD);
    /// A waiting pod was updated, none of its named aspects changed.
    pub const POD_UPDATE: Self = Self::of(Resource::UnschedulablePod, Action::UPDATE);

    /// Returns the label of an event.
    pub const fn of(resource: Resource, action: Action) -> Self {
        Self::Cluster(resource, action)
    }
}

impl From<&Event<'_>> for EventLabel {
    fn from(event: &Event) -> Self {
        Self::of(event.resource, event.action)
    }
}

impl fmt::Display for EventLabel {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Cluster(resource, action) => {
                write!(f, "{}{}", resource.name(), action_name(*action))
            }
            Self::UnschedulableTimeout => f.write_str("UnschedulableTimeout"),
            Self::RejectionExpired => f.write_str("RejectionExpired"),
            Self::ForceActivate => f.write_str("ForceActivate"),
            Self::ScheduleAttemptFailure => f.write_str("ScheduleAttemptFailure"),
            Self::BackoffComplete => f.write_str("BackoffComplete"),
            Self::PopFromBackoffQ => f.write_str("PopFromBackoffQ"),
        }
    }
}

/// Returns upstream's name; empty, as in upstream, for combinations that no event has.
fn action_name(action: Action) -> &'static str {
    match action {
        Action::ADD => "Add",
        Action::DELETE => "Delete",
        Action::UPDATE_NODE_ALLOCATABLE => "UpdateNodeAllocatable",
        Action::UPDATE_NODE_LABEL => "UpdateNodeLabel",
        Action::UPDATE_NODE_TAINT => "UpdateNodeTaint",
        Action::UPDATE_NODE_CONDITION => "UpdateNodeCondition",
        Action::UPDATE_NODE_ANNOTATION => "UpdateNodeAnnotation",
        Action::UPDATE_NODE_DECLARED_FEATURE => "UpdateNodeDeclaredFeature",
        Action::UPDATE_POD_LABEL => "UpdatePodLabel",
        Action::UPDATE_POD_SCALE_DOWN => "UpdatePodScaleDown",
        Action::UPDATE_POD_TOLERATION => "UpdatePodToleration",
        Action::UPDATE_POD_SCHEDULING_GATES_ELIMINATED => "UpdatePodSchedulingGatesEliminated",
        Action::UPDATE_POD_GENERATED_RESOURCE_CLAIM => "UpdatePodGeneratedResourceClaim",
        Action::ALL => "All",
        Action::UPDATE => "Update",
        _ => "",
    }
}

/// Sub-queue, as in the metric label `queue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "upstream's sub-queues, by their names")]
pub enum SubQueue {
    Active,
    Backoff,
    Unschedulable,
}

impl SubQueue {
    /// Returns the value of the metric label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Backoff => "backoff",
            Self::Unschedulable => "unschedulable",
        }
    }

    pub(super) fn of(stage: QueueStage) -> Option<Self> {
        match stage {
            QueueStage::Active => Some(Self::Active),
            QueueStage::Backoff | QueueStage::ErrorBackoff => Some(Self::Backoff),
            QueueStage::Unschedulable | QueueStage::Gated => Some(Self::Unschedulable),
            QueueStage::InFlight | QueueStage::Binding => None,
        }
    }
}

/// Effects of all events of one label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WakeCounts {
    /// Events that a plugin subscribes to.
    pub events: u64,
    /// Sets of waiting pods whose queueing hints ran.
    pub sets_asked: u64,
    /// Pods that moved.
    pub pods_moved: u64,
}

/// Counters since the queue was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// `scheduler_queue_incoming_pods_total`.
    pub incoming: BTreeMap<(SubQueue, EventLabel), u64>,
    /// Effects of events by label.
    pub moves: BTreeMap<EventLabel, WakeCounts>,
    /// Popped pods, as upstream's scheduling cycle.
    pub pops: u64,
}

impl QueueCounters {
    pub(super) fn count_incoming(&mut self, queue: SubQueue, label: EventLabel) {
        *self.incoming.entry((queue, label)).or_default() += 1;
    }
}

/// Current number of pods by stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Active pods.
    pub active: usize,
    /// Pods in backoff, after rejections and after errors.
    pub backoff: usize,
    /// Pods that wait for an event, without gated pods.
    pub unschedulable: usize,
    /// Gated pods.
    pub gated: usize,
    /// Pods in a scheduling attempt.
    pub in_flight: usize,
    /// Pods with a decision that the watch has not confirmed.
    pub binding: usize,
}

impl QueueCounts {
    /// Returns the number of all pods in the queue.
    pub fn total(&self) -> usize {
        self.active + self.backoff + self.unschedulable + self.gated + self.in_flight + self.binding
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_those_of_upstream() {
        let table = [
            (EventLabel::of(Resource::Node, Action::ADD), "NodeAdd"),
            (EventLabel::of(Resource::AssignedPod, Action::DELETE), "AssignedPodDelete"),
            (EventLabel::of(Resource::CsiNode, Action::UPDATE), "storage.k8s.io/CSINodeUpdate"),
            (EventLabel::of(Resource::Node, Action::UPDATE_NODE_TAINT), "NodeUpdateNodeTaint"),
            (EventLabel::POD_ADD, "UnschedulablePodAdd"),
            (EventLabel::POD_UPDATE, "UnschedulablePodUpdate"),
            (EventLabel::of(Resource::Wildcard, Action::ALL), "*All"),
            (EventLabel::UnschedulableTimeout, "UnschedulableTimeout"),
            (EventLabel::PopFromBackoffQ, "PopFromBackoffQ"),
        ];
        for (label, want) in table {
            assert_eq!(label.to_string(), want);
        }
    }
}
