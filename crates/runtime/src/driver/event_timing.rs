//! Durations of handling pod and node events, under upstream's event labels.

use engine::change::Change;
use engine::framework::{Action, Resource};
use engine::object::Uid;
use engine::queue::EventLabel;
use prometheus::Histogram;

use super::Driver;
use crate::metrics::Metrics;

/// Events whose handling is timed, in the order of [`EVENTS`].
#[derive(Clone, Copy)]
enum TimedEvent {
    NodeAdd,
    NodeUpdate,
    NodeDelete,
    PendingAdd,
    PendingUpdate,
    PendingDelete,
    AssignedAdd,
    AssignedUpdate,
    AssignedDelete,
}

const EVENTS: [(Resource, Action); 9] = [
    (Resource::Node, Action::ADD),
    (Resource::Node, Action::UPDATE),
    (Resource::Node, Action::DELETE),
    (Resource::UnschedulablePod, Action::ADD),
    (Resource::UnschedulablePod, Action::UPDATE),
    (Resource::UnschedulablePod, Action::DELETE),
    (Resource::AssignedPod, Action::ADD),
    (Resource::AssignedPod, Action::UPDATE),
    (Resource::AssignedPod, Action::DELETE),
];

/// One histogram per [`TimedEvent`].
pub(super) type EventHistograms = [Histogram; EVENTS.len()];

/// Looks up the histograms once, since a lookup by label costs more than most events.
pub(super) fn event_histograms(metrics: &Metrics) -> EventHistograms {
    EVENTS.map(|(resource, action)| {
        metrics.event_handling_histogram(&EventLabel::of(resource, action))
    })
}

impl Driver {
    /// Returns the position of a change's histogram in [`EventHistograms`], or `None` if its handling
    /// is not timed.
    pub(super) fn timed_event(&self, change: &Change) -> Option<usize> {
        let state = self.engine.state();
        let is_assigned = |uid: &Uid| {
            let record = state.pods.get(state.pods.find(uid)?);
            Some(record.node.is_some() && !record.assumed)
        };
        let event = match change {
            Change::Node(node) => match state.nodes.find(&node.name) {
                Some(index) if state.nodes.present().contains(index) => TimedEvent::NodeUpdate,
                _ => TimedEvent::NodeAdd,
            },
            Change::NodeGone(_) => TimedEvent::NodeDelete,
            Change::Pod(pod) => match (pod.node.is_empty(), is_assigned(&pod.uid)) {
                (true, None) => TimedEvent::PendingAdd,
                (true, Some(_)) => TimedEvent::PendingUpdate,
                (false, Some(true)) => TimedEvent::AssignedUpdate,
                (false, _) => TimedEvent::AssignedAdd,
            },
            Change::PodGone { uid } if is_assigned(uid)? => TimedEvent::AssignedDelete,
            Change::PodGone { .. } => TimedEvent::PendingDelete,
            _ => return None,
        };
        Some(event as usize)
    }
}
