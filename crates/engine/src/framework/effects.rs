//! Effects of plugins on other pods, and reports for users.

use crate::index::{NodeIdx, PodIdx};
use crate::object::Text;
use crate::state::State;

use super::rejection::Rejection;

/// What a plugin wants the engine to do. The engine does it at the end of the change that it is
/// applying, at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Allows a pod that waits on the plugin's Permit.
    Allow(PodIdx),
    /// Rejects a pod that waits on the plugin's Permit.
    Reject(PodIdx, Rejection),
    /// Makes a waiting pod active, regardless of its backoff.
    Activate(PodIdx),
    /// Makes a waiting pod active at a time.
    WakeAt(PodIdx, i64),
    /// Writes a log line and an event, and counts both.
    Report(PodIdx, Report),
}

/// A log line, an event and a count for one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Set for events of type `Warning`; others are `Normal`.
    pub warning: bool,
    /// Reason in upper camel case, such as `NearLimit`. It is a label of the counter, so a plugin
    /// has few.
    pub reason: Text,
    /// Text for users.
    pub note: String,
}

/// The effects that a plugin's call has. Pods that are unknown or do not wait are left alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects(pub(crate) Vec<Effect>);

impl Effects {
    /// Allows a pod that waits on the Permit of this plugin, in any profile.
    ///
    /// The pods that wait are [`State::waiting_on_permit`].
    pub fn allow(&mut self, pod: PodIdx) {
        self.0.push(Effect::Allow(pod));
    }

    /// Rejects a pod that waits on the Permit of this plugin, in any profile.
    pub fn reject(&mut self, pod: PodIdx, rejection: Rejection) {
        self.0.push(Effect::Reject(pod, rejection));
    }

    /// Makes a waiting pod active at once, regardless of its backoff.
    pub fn activate(&mut self, pod: PodIdx) {
        self.0.push(Effect::Activate(pod));
    }

    /// Makes a waiting pod active at a time in nanoseconds since the epoch, unless it becomes
    /// active before.
    pub fn wake_at(&mut self, pod: PodIdx, time: i64) {
        self.0.push(Effect::WakeAt(pod, time));
    }

    /// Writes a log line and an event about a pod, and increments
    /// `jindou_plugin_reports_total{plugin, reason}`.
    pub fn report(&mut self, pod: PodIdx, report: Report) {
        self.0.push(Effect::Report(pod, report));
    }

    /// Returns `true` if there are no effects.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Access for the plugins of a pod that has a node: Permit, PreBind, Bind and PostBind.
pub struct BindContext<'a> {
    /// The state, with the pod on the node.
    pub state: &'a State,
    /// The pod.
    pub pod: PodIdx,
    /// Its node.
    pub node: NodeIdx,
    /// Effects on other pods, and reports.
    pub effects: &'a mut Effects,
}
