//! Changes of pods.

use std::sync::Arc;

use crate::framework::event::Object;
use crate::framework::{Action, Event, PodView, Resource};
use crate::index::{NodeIdx, PodIdx};
use crate::object::{Pod, PodSpec, Resources, Uid};
use crate::queue::{OwnedPod, WakeScope};

use super::Engine;

impl Engine {
    /// Applies an added or updated pod.
    pub(super) fn set_pod(&mut self, pod: Pod) {
        match self.core.state.pods.find(&pod.uid) {
            None if pod.node.is_empty() => self.add_pending(pod),
            None => {
                let index = self.core.state.add_pod(pod);
                self.wake_assigned(index, Action::ADD);
            }
            Some(index) => self.update_pod(index, pod),
        }
    }

    fn add_pending(&mut self, pod: Pod) {
        let Some(profile) = self.profile_of(&pod.spec) else { return };
        let nominated = pod.nominated_node.clone();
        let index = self.core.state.add_pod(pod);
        self.core.state.set_nominated(index, NodeIdx::NONE);
        let class = self.core.classes.acquire(&mut self.core.state, index, profile as u32);
        let pending = self.core.pending_pod(index, profile, class);
        self.queue.add(&self.core, &pending, self.core.state.now());
        self.observe_nomination(index, &nominated, None);
    }

    fn profile_of(&self, spec: &PodSpec) -> Option<usize> {
        self.core.profiles.iter().position(|profile| *profile.name == *spec.scheduler_name)
    }

    fn update_pod(&mut self, index: PodIdx, pod: Pod) {
        let home = self.core.state.pods.get(index).node;
        let assumed = self.core.state.pods.get(index).assumed;
        match (pod.node.is_empty(), assumed || !home.is_some()) {
            (false, true) => self.pod_was_assigned(index, pod),
            (false, false) => self.update_assigned(index, pod),
            (true, true) if assumed => self.update_assumed(index, pod),
            (true, true) => self.update_pending(index, pod),
            // The API server never unbinds a pod, so this is an older version; ignore it.
            (true, false) => {}
        }
    }

    /// Applies an update by which a waiting or assumed pod is bound.
    fn pod_was_assigned(&mut self, index: PodIdx, pod: Pod) {
        let old = self.owned_pod(index);
        let held = self.core.state.pods.get(index).node.is_some();
        let nominated = self.core.nominator.node_of(index);
        let kept_free =
            nominated.is_some_and(|node| self.core.state.nodes.name(node) != &*pod.node);
        let moved = self.leave_other_node(index, &pod.node);
        if !moved {
            self.note_confirmed_bind(index);
        }
        self.drop_from_queue_and_binding(index);
        let name = pod.node.clone();
        self.core.state.update_pod(index, pod);
        if !self.core.state.pods.get(index).node.is_some() {
            let node = self.core.state.nodes.slot(&name);
            self.core.state.place(index, node);
        }
        self.core.state.confirm(index);
        self.core.state.set_nominated(index, NodeIdx::NONE);
        self.wake_assigned(index, Action::ADD);
        // Beyond upstream: other pods may have waited because of its old state or place.
        if moved {
            let object = Object::Pod { old: Some(old.view()), new: None };
            self.wake(Resource::AssignedPod, Action::DELETE, object);
        } else if held {
            self.wake_changed(index, &old);
        } else if kept_free {
            self.wake_up_to_priority(index, &old);
        }
    }

    /// Unreserves a pod that another component bound to another node. Returns `true` if so.
    fn leave_other_node(&mut self, index: PodIdx, name: &str) -> bool {
        let held = self.core.state.pods.get(index).node;
        if !held.is_some() || self.core.state.nodes.name(held) == name {
            return false;
        }
        match self.bindings.get(&index) {
            Some(binding) => self.unreserve_all(binding.profile, index),
            None => self.core.state.displace(index),
        }
        true
    }

    fn update_assigned(&mut self, index: PodIdx, pod: Pod) {
        let old = self.owned_pod(index);
        self.core.state.update_pod(index, pod);
        self.wake_changed(index, &old);
    }

    fn wake_changed(&mut self, index: PodIdx, old: &OwnedPod) {
        let new = self.owned_pod(index);
        let object = Object::Pod { old: Some(old.view()), new: Some(new.view()) };
        for action in changed_aspects(old, &new) {
            self.wake(Resource::AssignedPod, action, object);
        }
    }

    /// Applies an update of an assumed pod. Its change may help other pods; its deletion ends the
    /// binding.
    fn update_assumed(&mut self, index: PodIdx, pod: Pod) {
        let deleted = pod.terminating;
        self.observe_nomination_while_assumed(index, &pod.nominated_node);
        self.update_assigned(index, pod);
        // If binding fails, the pod is retried with its new class.
        if let Some(queued) = self.queue.get(index).copied() {
            let class =
                self.core.classes.acquire(&mut self.core.state, index, queued.profile() as u32);
            self.queue.set_class(index, class);
            self.core.classes.release(&mut self.core.state, queued.class);
        }
        if deleted {
            self.fail_binding(index, "the pod is being deleted");
        }
    }

    fn update_pending(&mut self, index: PodIdx, pod: Pod) {
        let Some(queued) = self.queue.get(index).copied() else { return };
        let old = self.owned_pod(index);
        let nominated = pod.nominated_node.clone();
        self.core.state.update_pod(index, pod);
        self.core.nominator.pod_changed(index);
        let new = self.owned_pod(index);
        let class = self.core.classes.acquire(&mut self.core.state, index, queued.profile() as u32);
        let pending = self.core.pending_pod(index, queued.profile(), class);
        let object = Object::Pod { old: Some(old.view()), new: Some(new.view()) };
        let mut actions = changed_aspects(&old, &new);
        if actions.is_empty() {
            actions.push(Action::UPDATE);
        }
        let events: Vec<Event> = actions
            .into_iter()
            .map(|action| Event { resource: Resource::UnschedulablePod, action, object, own: true })
            .collect();
        self.queue.update(&self.core, &pending, &events, self.core.state.now());
        self.core.classes.release(&mut self.core.state, queued.class);
        self.observe_nomination(index, &nominated, Some(&old));
    }

    /// Applies the deletion of a pod.
    pub(super) fn remove_pod(&mut self, uid: &Uid) {
        let Some(index) = self.core.state.pods.find(uid) else { return };
        let record = self.core.state.pods.get(index);
        let (on_node, assumed) = (record.node.is_some(), record.assumed);
        if on_node && assumed {
            self.fail_binding(index, "the pod was deleted");
        }
        let was_nominated = self.core.nominator.node_of(index).is_some();
        let old = self.owned_pod(index);
        let priority = self.core.state.pods.get(index).priority;
        self.drop_from_queue_and_binding(index);
        self.core.preemptions.remove(&index);
        self.evictions.remove(uid);
        self.core.state.remove_pod(index);
        if on_node && !assumed {
            let object = Object::Pod { old: Some(old.view()), new: None };
            self.wake(Resource::AssignedPod, Action::DELETE, object);
        } else if was_nominated {
            let object = Object::Pod { old: Some(old.view()), new: None };
            let (resource, action) = (Resource::AssignedPod, Action::DELETE);
            let event = Event { resource, action, object, own: false };
            self.queue.move_all(
                &self.core,
                &event,
                WakeScope::UpToPriority(priority),
                self.core.state.now(),
            );
        }
    }

    /// Removes a pod from the queue and from its binding cycle.
    pub(super) fn drop_from_queue_and_binding(&mut self, index: PodIdx) {
        self.bindings.remove(&index);
        self.core.state.set_waiting_on_permit(index, false);
        self.cancel_extender_calls(index);
        self.nominations.forget(index);
        self.core.nominator.remove(index);
        let class = self.queue.get(index).map(|queued| queued.class);
        self.queue.delete(&self.core, index);
        if let Some(class) = class {
            self.core.classes.release(&mut self.core.state, class);
        }
    }

    fn wake_assigned(&mut self, index: PodIdx, action: Action) {
        let new = self.owned_pod(index);
        let object = Object::Pod { old: None, new: Some(new.view()) };
        self.wake(Resource::AssignedPod, action, object);
    }

    /// Copies a pod for events, as it is now.
    pub(super) fn owned_pod(&self, index: PodIdx) -> OwnedPod {
        let record = self.core.state.pods.get(index);
        OwnedPod {
            namespace: self.core.state.namespace(index).into(),
            name: record.name.clone(),
            uid: record.uid.clone(),
            labels: self.core.state.labels(index).clone(),
            spec: Arc::clone(&self.core.state.specs.get(record.spec).spec),
            assigned: record.node.is_some(),
            nominated: record.nominated.is_some(),
            gated: !record.gates.is_empty(),
        }
    }
}

/// Returns the changed aspects of a pod as actions, in upstream's order.
fn changed_aspects(old: &OwnedPod, new: &OwnedPod) -> Vec<Action> {
    let (old, new): (PodView, PodView) = (old.view(), new.view());
    let scaled_down = asks_for_less(&old.spec.requests_on_node, &new.spec.requests_on_node);
    let aspects = [
        (old.labels != new.labels, Action::UPDATE_POD_LABEL),
        (scaled_down, Action::UPDATE_POD_SCALE_DOWN),
        (old.gated && !new.gated, Action::UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
        (old.spec.tolerations.len() != new.spec.tolerations.len(), Action::UPDATE_POD_TOLERATION),
    ];
    aspects.into_iter().filter(|(changed, _)| *changed).map(|(_, action)| action).collect()
}

fn asks_for_less(old: &Resources, new: &Resources) -> bool {
    let scalars = || old.scalars.iter().any(|(name, amount)| new.amount(name) < *amount);
    new.cpu < old.cpu || new.memory < old.memory || new.ephemeral < old.ephemeral || scalars()
}
