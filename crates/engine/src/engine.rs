//! The engine: one way in, one way out.

use crate::change::{Change, Storage, StorageName};
use crate::cycle::explain::{Explanation, class_of, explain};
use crate::cycle::post_filter::Occasion;
use crate::framework::Profile;
use crate::index::PodIdx;
use crate::object::Pod;
use crate::state::State;

/// The scheduler as a state machine.
pub struct Engine {
    state: State,
    profiles: Vec<Profile>,
}

impl Engine {
    /// An engine without any object.
    pub fn new(profiles: Vec<Profile>) -> Self {
        Self { state: State::default(), profiles }
    }

    /// What is known of the cluster.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The profile of a scheduler name.
    pub fn profile(&self, scheduler_name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.name == scheduler_name)
    }

    /// Takes over a change.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Node(node) => {
                self.state.set_node(node);
            }
            Change::NodeGone(name) => {
                self.state.remove_node(&name);
            }
            Change::Pod(pod) => {
                if let Some(known) = self.state.pods.find(&pod.uid) {
                    self.state.remove_pod(known);
                }
                self.state.add_pod(*pod);
            }
            Change::PodGone { uid } => {
                if let Some(known) = self.state.pods.find(&uid) {
                    self.state.remove_pod(known);
                }
            }
            Change::Namespace(namespace) => self.state.set_namespace(namespace),
            Change::NamespaceGone(name) => self.state.remove_namespace(&name),
            Change::Workload(workload) => self.state.set_workload(workload),
            Change::WorkloadGone { kind, namespace, name } => {
                self.state.remove_workload(kind, &namespace, &name);
            }
            Change::Budget(budget) => self.state.set_budget(budget),
            Change::BudgetGone { namespace, name } => self.state.remove_budget(&namespace, &name),
            Change::Storage(storage) => self.set_storage(storage),
            Change::StorageGone(name) => self.remove_storage(&name),
            Change::DeviceClass { name, extended_resource } => {
                self.state.set_device_class(name, extended_resource);
            }
            Change::DeviceClassGone(name) => self.state.remove_device_class(&name),
            _ => {}
        }
    }

    fn set_storage(&mut self, storage: Storage) {
        self.state.change_volumes(|volumes| match storage {
            Storage::Volume(volume) => {
                volumes.volumes.insert(volume.name.clone(), volume);
            }
            Storage::Claim(claim) => {
                volumes.claims.insert((claim.namespace.clone(), claim.name.clone()), claim);
            }
            Storage::Class(class) => {
                volumes.classes.insert(class.name.clone(), class);
            }
            Storage::CsiNode(node) => {
                volumes.csi_nodes.insert(node.name.clone(), node);
            }
            Storage::CsiDriver(driver) => {
                volumes.drivers.insert(driver.name.clone(), driver);
            }
            Storage::Capacity(capacity) => {
                let key = (capacity.namespace.clone(), capacity.name.clone());
                volumes.capacities.insert(key, capacity);
            }
            Storage::Attachment(attachment) => {
                volumes.attachments.insert(attachment.name.clone(), attachment);
            }
        });
    }

    fn remove_storage(&mut self, name: &StorageName) {
        self.state.change_volumes(|volumes| match name {
            StorageName::Volume(name) => {
                volumes.volumes.remove(name);
            }
            StorageName::Claim { namespace, name } => {
                volumes.claims.remove(&(namespace.clone(), name.clone()));
            }
            StorageName::Class(name) => {
                volumes.classes.remove(name);
            }
            StorageName::CsiNode(name) => {
                volumes.csi_nodes.remove(name);
            }
            StorageName::CsiDriver(name) => {
                volumes.drivers.remove(name);
            }
            StorageName::Capacity { namespace, name } => {
                volumes.capacities.remove(&(namespace.clone(), name.clone()));
            }
            StorageName::Attachment(name) => {
                volumes.attachments.remove(name);
            }
        });
    }

    /// Explains where a pod would go now. Nothing is changed.
    ///
    /// Returns the explanation and the pod's index in the state while it was asked about;
    /// `None` when no profile has its scheduler name.
    pub fn explain<T>(
        &mut self,
        pod: Pod,
        now: i64,
        read: impl FnOnce(&State, &Profile, Explanation) -> T,
    ) -> Option<T> {
        let profile =
            self.profiles.iter().find(|profile| *profile.name == *pod.spec.scheduler_name)?;
        let known = self.state.pods.find(&pod.uid);
        let asked = Pod { node: "".into(), ..pod.clone() };
        if let Some(known) = known {
            self.state.remove_pod(known);
        }
        let index = self.state.add_pod(asked);
        let nominated: Vec<PodIdx> = self
            .state
            .pods
            .iter()
            .filter(|(_, record)| record.nominated.is_some() && !record.node.is_some())
            .map(|(pod, _)| pod)
            .collect();
        let class = class_of(&self.state, index, &pod.node);
        let occasion = Occasion { pod: index, nominated: &nominated, now, random: 0 };
        let explanation = explain(profile, class, &mut self.state, &occasion);
        let answer = read(&self.state, profile, explanation);
        self.state.remove_pod(index);
        if known.is_some() {
            self.state.add_pod(pod);
        }
        Some(answer)
    }
}
