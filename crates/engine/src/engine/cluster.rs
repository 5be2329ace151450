//! Changes of all objects but pods.

use std::sync::Arc;

use crate::change::Change;
use crate::framework::event::Object;
use crate::framework::{Action, Event, Resource};
use crate::object::{ClusterObject, Node, ObjectKind, ObjectName};
use crate::queue::WakeScope;

use super::Engine;

impl Engine {
    /// Applies a change of an object that is not a pod.
    pub(super) fn change_cluster(&mut self, change: Change) {
        match change {
            Change::Node(node) => self.set_node(&node),
            Change::NodeGone(name) => self.remove_node(&name),
            Change::Object(object) => self.set_object(&object),
            Change::ObjectGone(name) => self.remove_object(&name),
            // `apply` handles the other changes.
            _ => {}
        }
    }

    /// Moves the waiting pods that an event may help.
    pub(super) fn wake(&mut self, resource: Resource, action: Action, object: Object) {
        let event = Event { resource, action, object, own: false };
        self.queue.move_all(&self.core, &event, WakeScope::All, self.core.state.now());
    }

    fn set_node(&mut self, new: &Arc<Node>) {
        let old = self.core.state.set_node(new);
        let object = Object::Node { old: old.as_deref(), new: Some(new) };
        match &old {
            None => {
                self.claim_nominations_for(&new.name);
                self.wake(Resource::Node, Action::ADD, object);
            }
            Some(old) => {
                for action in changed_aspects(old, new) {
                    self.wake(Resource::Node, action, object);
                }
            }
        }
    }

    fn remove_node(&mut self, name: &str) {
        let Some(index) = self.core.state.nodes.find(name) else { return };
        let old: Arc<Node> = self.core.state.nodes.shared_object(index);
        let object = Object::Node { old: Some(&old), new: None };
        self.wake(Resource::Node, Action::DELETE, object);
        self.end_nominations_for(index);
        self.core.state.remove_node(name);
        self.cursor.visit_start = 0;
    }

    fn set_object(&mut self, new: &ClusterObject) {
        let old = self.core.state.set_object(new.clone());
        let action = if old.is_some() { Action::UPDATE } else { Action::ADD };
        self.wake_for_object(new.kind(), action, old.as_ref(), Some(new));
    }

    fn remove_object(&mut self, name: &ObjectName) {
        let old = self.core.state.remove_object(name);
        self.wake_for_object(name.kind, Action::DELETE, old.as_ref(), None);
    }

    fn wake_for_object(
        &mut self,
        kind: ObjectKind,
        action: Action,
        old: Option<&ClusterObject>,
        new: Option<&ClusterObject>,
    ) {
        // `Action::UPDATE` is the set of all updates.
        if kind.events().meets(action) {
            self.wake(kind.resource(), action, Object::versions(kind, old, new));
        }
    }
}

/// Returns the changed aspects of a node as actions, in upstream's order.
fn changed_aspects(old: &Node, new: &Node) -> Vec<Action> {
    let aspects = [
        (old.unschedulable && !new.unschedulable, Action::UPDATE_NODE_TAINT),
        (
            old.allocatable != new.allocatable || old.allowed_pods != new.allowed_pods,
            Action::UPDATE_NODE_ALLOCATABLE,
        ),
        (old.labels != new.labels, Action::UPDATE_NODE_LABEL),
        (old.taints != new.taints, Action::UPDATE_NODE_TAINT),
        (old.conditions != new.conditions, Action::UPDATE_NODE_CONDITION),
        (old.annotations_digest != new.annotations_digest, Action::UPDATE_NODE_ANNOTATION),
        (old.declared_features != new.declared_features, Action::UPDATE_NODE_DECLARED_FEATURE),
    ];
    aspects.into_iter().filter(|(changed, _)| *changed).map(|(_, action)| action).collect()
}
