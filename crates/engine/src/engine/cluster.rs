//! Changes of nodes, namespaces, volumes and all other objects but pods.

use std::sync::Arc;

use crate::change::{Change, Storage, StorageName};
use crate::framework::event::Object;
use crate::framework::{Action, Event, Resource};
use crate::object::Node;
use crate::queue::WakeScope;

use super::Engine;

impl Engine {
    /// Applies a change of an object that is not a pod.
    pub(super) fn change_cluster(&mut self, change: Change) {
        match change {
            Change::Node(node) => self.set_node(&node),
            Change::NodeGone(name) => self.remove_node(&name),
            Change::Namespace(namespace) => self.core.state.set_namespace(namespace),
            Change::NamespaceGone(name) => self.core.state.remove_namespace(&name),
            Change::Workload(workload) => self.core.state.set_workload(*workload),
            Change::WorkloadGone { kind, namespace, name } => {
                self.core.state.remove_workload(kind, &namespace, &name);
            }
            Change::Budget(budget) => self.core.state.set_budget(*budget),
            Change::BudgetGone { namespace, name } => {
                self.core.state.remove_budget(&namespace, &name);
            }
            Change::Storage(storage) => self.set_storage(*storage),
            Change::StorageGone(name) => self.remove_storage(&name),
            Change::DeviceClass { name, extended_resource } => {
                self.core.state.set_device_class(name, extended_resource);
                self.wake(Resource::DeviceClass, Action::UPDATE, Object::None);
            }
            Change::DeviceClassGone(name) => self.core.state.remove_device_class(&name),
            // `apply` handles the other changes.
            _ => {}
        }
    }

    /// Moves the waiting pods that an event may help.
    pub(super) fn wake(&mut self, resource: Resource, action: Action, object: Object) {
        let event = Event { resource, action, object, own: false };
        self.queue.move_all(&self.core, &event, WakeScope::All, self.core.now);
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

    fn set_storage(&mut self, storage: Storage) {
        let volumes = &self.core.state.volumes;
        // Queueing hints read the old version. Storage objects are small, so it is cloned.
        match storage {
            Storage::Volume(new) => {
                let old = volumes.volumes.get(&new.name).cloned();
                self.core.state.change_volumes(|v| v.volumes.insert(new.name.clone(), new.clone()));
                let object = Object::PersistentVolume { old: old.as_ref(), new: Some(&new) };
                self.wake(Resource::PersistentVolume, add_or_update(old.as_ref()), object);
            }
            Storage::Claim(new) => {
                let key = (new.namespace.clone(), new.name.clone());
                let old = volumes.claims.get(&key).cloned();
                self.core.state.change_volumes(|v| v.claims.insert(key, new.clone()));
                let object = Object::PersistentVolumeClaim { old: old.as_ref(), new: Some(&new) };
                self.wake(Resource::PersistentVolumeClaim, add_or_update(old.as_ref()), object);
            }
            Storage::Class(new) => {
                let old = volumes.classes.get(&new.name).cloned();
                self.core.state.change_volumes(|v| v.classes.insert(new.name.clone(), new.clone()));
                let object = Object::StorageClass { old: old.as_ref(), new: Some(&new) };
                self.wake(Resource::StorageClass, add_or_update(old.as_ref()), object);
            }
            Storage::CsiNode(new) => {
                let old = volumes.csi_nodes.get(&new.name).cloned();
                self.core
                    .state
                    .change_volumes(|v| v.csi_nodes.insert(new.name.clone(), new.clone()));
                let object = Object::CsiNode { old: old.as_ref(), new: Some(&new) };
                self.wake(Resource::CsiNode, add_or_update(old.as_ref()), object);
            }
            Storage::CsiDriver(new) => {
                let old = volumes.drivers.get(&new.name).cloned();
                self.core.state.change_volumes(|v| v.drivers.insert(new.name.clone(), new.clone()));
                let object = Object::CsiDriver { old: old.as_ref(), new: Some(&new) };
                self.wake(Resource::CsiDriver, add_or_update(old.as_ref()), object);
            }
            Storage::Capacity(new) => {
                let key = (new.namespace.clone(), new.name.clone());
                let old = volumes.capacities.get(&key).cloned();
                self.core.state.change_volumes(|v| v.capacities.insert(key, new.clone()));
                let object = Object::CsiStorageCapacity { old: old.as_ref(), new: Some(&new) };
                self.wake(Resource::CsiStorageCapacity, add_or_update(old.as_ref()), object);
            }
            Storage::Attachment(new) => {
                let old = volumes.attachments.get(&new.name).cloned();
                self.core
                    .state
                    .change_volumes(|v| v.attachments.insert(new.name.clone(), new.clone()));
                let object = Object::VolumeAttachment { old: old.as_ref(), new: Some(&new) };
                self.wake(Resource::VolumeAttachment, add_or_update(old.as_ref()), object);
            }
        }
    }

    fn remove_storage(&mut self, name: &StorageName) {
        match name {
            StorageName::Volume(name) => {
                self.core.state.change_volumes(|v| v.volumes.remove(name));
            }
            StorageName::Claim { namespace, name } => {
                self.core
                    .state
                    .change_volumes(|v| v.claims.remove(&(namespace.clone(), name.clone())));
            }
            StorageName::Class(name) => {
                self.core.state.change_volumes(|v| v.classes.remove(name));
            }
            StorageName::CsiNode(name) => {
                self.core.state.change_volumes(|v| v.csi_nodes.remove(name));
            }
            StorageName::CsiDriver(name) => {
                self.core.state.change_volumes(|v| v.drivers.remove(name));
            }
            StorageName::Capacity { namespace, name } => {
                let key = (namespace.clone(), name.clone());
                self.core.state.change_volumes(|v| v.capacities.remove(&key));
            }
            StorageName::Attachment(name) => {
                let old = self.core.state.change_volumes(|v| v.attachments.remove(name));
                let object = Object::VolumeAttachment { old: old.as_ref(), new: None };
                // Of all deletions of storage objects only this one can help: it frees a volume slot.
                self.wake(Resource::VolumeAttachment, Action::DELETE, object);
            }
        }
    }
}

fn add_or_update<T>(old: Option<&T>) -> Action {
    if old.is_some() { Action::UPDATE } else { Action::ADD }
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
        (old.annotations != new.annotations, Action::UPDATE_NODE_ANNOTATION),
        (old.declared_features != new.declared_features, Action::UPDATE_NODE_DECLARED_FEATURE),
    ];
    aspects.into_iter().filter(|(changed, _)| *changed).map(|(_, action)| action).collect()
}
