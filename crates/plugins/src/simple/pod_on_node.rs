//! A pod with the node chosen for it, as Reserve, Permit and PostBind see it.

use engine::framework::{Effects, PluginState, Rejection, Report};
use engine::index::{NodeIdx, PodIdx};
use engine::object::{Labels, PodSpec};
use engine::state::State;

use super::view::NodeView;

/// A pod with its node, and the effects that the plugin has on other pods.
pub struct PodOnNode<'a> {
    pub(super) state: &'a State,
    pub(super) pod: PodIdx,
    pub(super) node: NodeIdx,
    pub(super) effects: &'a mut Effects,
}

/// Another pod, with or without a node.
#[derive(Clone, Copy)]
pub struct OtherPod<'a> {
    state: &'a State,
    pod: PodIdx,
}

impl<'a> PodOnNode<'a> {
    /// Returns the namespace of the pod.
    pub fn namespace(&self) -> &'a str {
        self.state.namespace(self.pod)
    }

    /// Returns the name of the pod.
    pub fn name(&self) -> &'a str {
        &self.state.pods.get(self.pod).name
    }

    /// Returns the labels of the pod.
    pub fn labels(&self) -> &'a Labels {
        self.state.labels(self.pod)
    }

    /// Returns the spec of the pod.
    pub fn spec(&self) -> &'a PodSpec {
        self.state.spec(self.pod)
    }

    /// Returns the node.
    pub fn node(&self) -> NodeView<'a> {
        NodeView { state: self.state, node: self.node }
    }

    /// Returns the time in nanoseconds since the epoch.
    pub fn now(&self) -> i64 {
        self.state.now()
    }

    /// Returns the plugin's state, which contains this pod already.
    pub fn plugin_state<T: PluginState>(&self) -> Option<&'a T> {
        self.state.plugin_states.get()
    }

    /// Iterates over the other pods of all profiles that wait on Permit plugins; they are few.
    pub fn waiting(&self) -> impl Iterator<Item = OtherPod<'a>> + use<'a> {
        self.others(self.state.waiting_on_permit())
    }

    /// Iterates over all other pods of the cluster, so it takes a few milliseconds with 100,000 of
    /// them. A [`PluginState`] counts pods at a lower cost.
    pub fn all_pods(&self) -> impl Iterator<Item = OtherPod<'a>> + use<'a> {
        self.others(self.state.pods.iter().map(|(pod, _)| pod))
    }

    fn others<I: Iterator<Item = PodIdx>>(
        &self,
        pods: I,
    ) -> impl Iterator<Item = OtherPod<'a>> + use<'a, I> {
        let (state, own) = (self.state, self.pod);
        pods.filter(move |pod| *pod != own).map(move |pod| OtherPod { state, pod })
    }

    /// Allows another pod if it waits on this plugin.
    pub fn allow(&mut self, pod: &OtherPod) {
        self.effects.allow(pod.pod);
    }

    /// Rejects another pod if it waits on this plugin.
    pub fn reject(&mut self, pod: &OtherPod, rejection: Rejection) {
        self.effects.reject(pod.pod, rejection);
    }

    /// Makes another pod active at once, regardless of its backoff, if it waits for an event.
    pub fn activate(&mut self, pod: &OtherPod) {
        self.effects.activate(pod.pod);
    }

    /// Writes a log line and an event about the pod, and counts them; `warning` sets the type of the
    /// event. `reason` is in upper camel case and a label of the counter.
    pub fn report(&mut self, warning: bool, reason: &str, note: impl Into<String>) {
        let report = Report { warning, reason: reason.into(), note: note.into() };
        self.effects.report(self.pod, report);
    }

    /// Returns the effects for those without a method of this type.
    pub fn effects(&mut self) -> &mut Effects {
        self.effects
    }
}

impl<'a> OtherPod<'a> {
    /// Returns the namespace.
    pub fn namespace(&self) -> &'a str {
        self.state.namespace(self.pod)
    }

    /// Returns the name.
    pub fn name(&self) -> &'a str {
        &self.state.pods.get(self.pod).name
    }

    /// Returns the labels.
    pub fn labels(&self) -> &'a Labels {
        self.state.labels(self.pod)
    }

    /// Returns `true` if the pod has a node, also if it is not bound yet.
    pub fn has_node(&self) -> bool {
        self.state.pods.get(self.pod).node.is_some()
    }

    /// Returns the spec.
    pub fn spec(&self) -> &'a PodSpec {
        self.state.spec(self.pod)
    }
}
