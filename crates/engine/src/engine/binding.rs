//! The binding cycle: from the choice of a node to the response of the API server.
//!
//! ```text
//! Permit ──allowed──▶ Volumes ──ready──▶ Bind ──bound──▶ assumed until the watch confirms it
//!    └─ denied, time-out ─┴── failed ─────┴── failed ──▶ unreserved, and the pod is retried
//! ```

use crate::command::{AttemptHistory, Command, PodRef};
use crate::framework::event::Object;
use crate::framework::profile::PluginPosition;
use crate::framework::{Action, BindContext, Effects, Event, Point, Rejection, Resource};
use crate::index::{NodeIdx, PodIdx};
use crate::object::{Text, Uid};
use crate::queue::{QueuedPod, WakeScope};

use super::Engine;
use super::attempt::Failure;

/// A pod in its binding cycle.
pub(super) struct BindingCycle {
    pub(super) profile: usize,
    pub(super) node: NodeIdx,
    pub(super) stage: BindingStage,
}

/// Stage of a binding cycle.
pub(super) enum BindingStage {
    /// Waits for these permit plugins, each until its deadline.
    Permit { waits: Vec<(PluginPosition, i64)> },
    /// Waits for the outcome of `Command::PrepareVolumes` with this ticket.
    Volumes { ticket: u64 },
    /// Waits for the outcome of `Command::Bind`.
    Bind,
}

/// A bind in flight whose pod the watch shows on its node already.
pub(super) struct ConfirmedBind {
    pod: PodRef,
    profile: usize,
    node: Text,
}

impl Engine {
    /// Returns the earliest deadline of a permit.
    pub(super) fn permit_deadline(&self) -> Option<i64> {
        self.permit_waits().flat_map(|(_, waits)| waits).map(|(_, until)| *until).min()
    }

    /// Iterates over the pods that wait for a permit; they are few.
    fn permit_waits(&self) -> impl Iterator<Item = (PodIdx, &Vec<(PluginPosition, i64)>)> {
        let waiting = self.core.state.waiting_on_permit();
        waiting.filter_map(|pod| match &self.bindings.get(&pod)?.stage {
            BindingStage::Permit { waits } => Some((pod, waits)),
            _ => None,
        })
    }

    /// Rejects the pods whose permit timed out.
    pub(super) fn expire_permits(&mut self) {
        let expired: Vec<(PodIdx, PluginPosition)> = self
            .permit_waits()
            .filter_map(|(pod, waits)| {
                let (plugin, _) =
                    waits.iter().find(|(_, until)| *until <= self.core.state.now())?;
                Some((pod, *plugin))
            })
            .collect();
        for (pod, plugin) in expired {
            let Some(binding) = self.bindings.get(&pod) else { continue };
            let name = self.core.profiles[binding.profile].plugin_name(plugin);
            let text = format!("rejected due to timeout after waiting at plugin {name}");
            self.reject_permit(pod, plugin, &Rejection::unschedulable(text));
        }
    }

    /// Applies a permit plugin's answer for a waiting pod.
    pub(super) fn permit_answered(&mut self, uid: &Uid, plugin: &str, denied: Option<Text>) {
        let Some(pod) = self.core.state.pods.find(uid) else { return };
        let Some(binding) = self.bindings.get_mut(&pod) else { return };
        let profile = &self.core.profiles[binding.profile];
        let BindingStage::Permit { waits } = &mut binding.stage else { return };
        let mut waited_for = waits.iter().map(|(plugin, _)| *plugin);
        let Some(plugin) = waited_for.find(|p| profile.plugin_name(*p) == plugin) else { return };
        match denied {
            Some(reason) => {
                let rejection = Rejection::unschedulable(reason.to_string());
                self.reject_permit(pod, plugin, &rejection);
            }
            None => self.allow_permit(pod, plugin),
        }
    }

    /// Ends the wait of a pod on a Permit plugin. If it was the last one, the pod is bound.
    pub(super) fn allow_permit(&mut self, pod: PodIdx, plugin: PluginPosition) {
        let Some(binding) = self.bindings.get_mut(&pod) else { return };
        let BindingStage::Permit { waits } = &mut binding.stage else { return };
        waits.retain(|(other, _)| *other != plugin);
        if waits.is_empty() {
            self.pre_bind_or_send(pod);
        }
    }

    /// Rejects a pod that waits on a Permit plugin.
    pub(super) fn reject_permit(
        &mut self,
        pod: PodIdx,
        plugin: PluginPosition,
        rejection: &Rejection,
    ) {
        self.core.state.set_waiting_on_permit(pod, false);
        let Some(binding) = self.bindings.remove(&pod) else { return };
        let failure = self.failure_on_chosen_node("Permit", binding.profile, plugin, rejection);
        let old = self.owned_pod(pod);
        self.unreserve_all(binding.profile, pod);
        self.fail_attempt(pod, failure);
        // Its own failure must not wake the pod: the event comes after its return to the queue.
        let object = Object::Pod { old: Some(old.view()), new: None };
        let (resource, action) = (Resource::AssignedPod, Action::DELETE);
        let event = Event { resource, action, object, own: false };
        self.queue.move_all(&self.core, &event, WakeScope::AllExcept(pod), self.core.state.now());
    }

    /// Continues after Permit: prepares volumes if necessary, otherwise sends the bind.
    pub(super) fn pre_bind_or_send(&mut self, pod: PodIdx) {
        self.core.state.set_waiting_on_permit(pod, false);
        self.queue.done(&self.core, pod);
        let Some(binding) = self.bindings.get_mut(&pod) else { return };
        let profile = &self.core.profiles[binding.profile];
        let mut requests = Vec::new();
        let mut timeout = 0;
        for plugin in profile.at(Point::PreBind) {
            let mut effects = Effects::default();
            let (state, node) = (&self.core.state, binding.node);
            let mut context = BindContext { state, pod, node, effects: &mut effects };
            let wanted = profile.pre_bind(*plugin, &mut context);
            self.core.request(binding.profile, *plugin, effects);
            if !wanted.is_empty() {
                timeout = timeout.max(profile.plugins[*plugin].pre_bind_timeout());
                requests.extend(wanted);
            }
        }
        if requests.is_empty() {
            self.send_bind(pod);
            return;
        }
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        binding.stage = BindingStage::Volumes { ticket };
        let node = binding.node;
        self.publish_nominated_node(pod, node);
        let (pod, node) = (self.pod_ref(pod), Text::from(self.core.state.nodes.name(node)));
        self.commands.push(Command::PrepareVolumes { pod, ticket, node, requests, timeout });
    }

    /// Writes the nominated node of a pod that cannot be bound yet, for components such as the
    /// cluster autoscaler.
    pub(super) fn publish_nominated_node(&mut self, pod: PodIdx, node: NodeIdx) {
        let node = Text::from(self.core.state.nodes.name(node));
        self.nominations.write(pod, node.clone());
        self.commands.push(Command::Nominate { pod: self.pod_ref(pod), node });
    }

    fn send_bind(&mut self, pod: PodIdx) {
        let Some(binding) = self.bindings.get_mut(&pod) else { return };
        binding.stage = BindingStage::Bind;
        let node = Text::from(self.core.state.nodes.name(binding.node));
        let extenders = &self.core.profiles[binding.profile].extenders;
        let spec = self.core.state.spec(pod);
        let extender =
            extenders.iter().position(|other| other.binds && other.is_interested_in(spec));
        let history = self.attempt_history(pod);
        self.commands.push(Command::Bind { pod: self.pod_ref(pod), node, extender, history });
    }

    fn attempt_history(&self, pod: PodIdx) -> AttemptHistory {
        let queued = self.queue.get(pod);
        AttemptHistory {
            attempts: queued.map_or(1, |queued| queued.attempts.max(1)),
            initial_attempt: queued
                .and_then(QueuedPod::initial_attempt)
                .unwrap_or(self.core.state.now()),
            was_flushed: queued.is_some_and(|queued| queued.was_flushed),
        }
    }

    /// Handles the outcome of `Command::PrepareVolumes`.
    pub(super) fn volumes_ready(&mut self, uid: &Uid, ticket: u64, failure: Option<Text>) {
        let Some(pod) = self.core.state.pods.find(uid) else { return };
        let waits = |binding: &BindingCycle| matches!(binding.stage, BindingStage::Volumes { ticket: t } if t == ticket);
        if !self.bindings.get(&pod).is_some_and(waits) {
            return;
        }
        match failure {
            None => self.send_bind(pod),
            Some(text) => self.fail_binding(pod, &text),
        }
    }

    /// Remembers the bind in flight of a pod that the watch shows on its node, so that the answer is
    /// reported although the binding cycle ends now.
    pub(super) fn note_confirmed_bind(&mut self, pod: PodIdx) {
        let Some(binding) = self.bindings.get(&pod) else { return };
        if matches!(binding.stage, BindingStage::Bind) {
            let confirmed = ConfirmedBind {
                pod: self.pod_ref(pod),
                profile: binding.profile,
                node: Text::from(self.core.state.nodes.name(binding.node)),
            };
            self.confirmed_binds.insert(confirmed.pod.uid.clone(), confirmed);
        }
    }

    /// Handles the outcome of `Command::Bind`. The watch may show the pod on its node before or after.
    pub(super) fn bind_answered(&mut self, uid: &Uid, failure: Option<Text>) {
        if let Some(ConfirmedBind { pod, profile, node }) = self.confirmed_binds.remove(uid) {
            if failure.is_none() {
                if let Some(index) = self.core.state.pods.find(uid) {
                    self.post_bind(profile, index, self.core.state.pods.get(index).node);
                }
                self.commands.push(Command::ReportScheduled { pod, node });
            }
            return;
        }
        let Some(pod) = self.core.state.pods.find(uid) else { return };
        let is_sent = |binding: &BindingCycle| matches!(binding.stage, BindingStage::Bind);
        if !self.bindings.get(&pod).is_some_and(is_sent) {
            return;
        }
        if let Some(text) = failure {
            self.fail_binding(pod, &text);
            return;
        }
        let Some(binding) = self.bindings.get(&pod) else { return };
        let (profile, node) = (binding.profile, binding.node);
        self.post_bind(profile, pod, node);
        let node = Text::from(self.core.state.nodes.name(node));
        self.commands.push(Command::ReportScheduled { pod: self.pod_ref(pod), node });
        self.drop_from_queue_and_binding(pod);
    }

    fn post_bind(&self, profile: usize, pod: PodIdx, node: NodeIdx) {
        let position = profile;
        let profile = &self.core.profiles[position];
        for plugin in profile.at(Point::PostBind) {
            let mut effects = Effects::default();
            let state = &self.core.state;
            let mut context = BindContext { state, pod, node, effects: &mut effects };
            profile.plugins[*plugin].post_bind(&mut context);
            self.core.request(position, *plugin, effects);
        }
    }

    /// Ends a failed binding cycle: unreserves, wakes waiting pods and retries the pod.
    pub(super) fn fail_binding(&mut self, pod: PodIdx, text: &str) {
        self.core.state.set_waiting_on_permit(pod, false);
        let old = self.owned_pod(pod);
        let binding = self.bindings.remove(&pod);
        match &binding {
            Some(binding) => self.unreserve_all(binding.profile, pod),
            // The pod was bound and deleted before the watch showed it.
            None => self.core.state.displace(pod),
        }
        let object = Object::Pod { old: Some(old.view()), new: None };
        self.wake(Resource::AssignedPod, Action::DELETE, object);
        if binding.is_some() {
            self.fail_attempt(pod, Failure::error(text.to_owned()));
        }
    }
}
