//! Objects without columns: namespaces, workloads, disruption budgets and device classes.

use crate::object::{DisruptionBudget, Labels, Namespace, Text, Workload, WorkloadKind};

use super::{Areas, State};

impl State {
    /// Returns the labels of a namespace; no labels if it is unknown.
    pub fn namespace_labels(&self, name: &str) -> &Labels {
        static NONE: std::sync::LazyLock<Labels> = std::sync::LazyLock::new(Labels::default);
        self.namespaces.get(name).map_or(&NONE, |namespace| &namespace.labels)
    }

    /// Iterates over all namespaces by name.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.namespaces.values()
    }

    /// Iterates over the services and controllers of a namespace, by kind and name.
    pub fn workloads(&self, namespace: &str) -> impl Iterator<Item = &Workload> {
        let start = (Text::from(namespace), WorkloadKind::Service, Text::from(""));
        self.workloads.range(start..).map(|(_, workload)| workload).take_while({
            let namespace = Text::from(namespace);
            move |workload| workload.namespace == namespace
        })
    }

    /// Iterates over the disruption budgets of a namespace, by name.
    pub fn budgets(&self, namespace: &str) -> impl Iterator<Item = &DisruptionBudget> {
        let start = (Text::from(namespace), Text::from(""));
        self.budgets.range(start..).map(|(_, budget)| budget).take_while({
            let namespace = Text::from(namespace);
            move |budget| budget.namespace == namespace
        })
    }

    /// Returns `true` if a device class offers an extended resource of this name.
    pub fn device_class_offers(&self, resource: &str) -> bool {
        self.device_classes.iter().any(|(class, offered)| {
            **offered == *resource
                || resource.strip_prefix("deviceclass.resource.kubernetes.io/") == Some(class)
        })
    }

    pub(crate) fn set_namespace(&mut self, namespace: Namespace) {
        let name = namespace.name.clone();
        if self.namespaces.get(&name) != Some(&namespace) {
            self.namespaces.insert(name, namespace);
            self.bump(Areas::NAMESPACES);
        }
    }

    pub(crate) fn remove_namespace(&mut self, name: &str) {
        if self.namespaces.remove(name).is_some() {
            self.bump(Areas::NAMESPACES);
        }
    }

    pub(crate) fn set_workload(&mut self, workload: Workload) {
        let key = (workload.namespace.clone(), workload.kind, workload.name.clone());
        if self.workloads.get(&key) != Some(&workload) {
            self.workloads.insert(key, workload);
            self.bump(Areas::WORKLOADS);
        }
    }

    pub(crate) fn remove_workload(&mut self, kind: WorkloadKind, namespace: &str, name: &str) {
        if self.workloads.remove(&(namespace.into(), kind, name.into())).is_some() {
            self.bump(Areas::WORKLOADS);
        }
    }

    pub(crate) fn set_budget(&mut self, budget: DisruptionBudget) {
        self.budgets.insert((budget.namespace.clone(), budget.name.clone()), budget);
    }

    pub(crate) fn remove_budget(&mut self, namespace: &str, name: &str) {
        self.budgets.remove(&(namespace.into(), name.into()));
    }

    pub(crate) fn set_device_class(&mut self, class: Text, resource: Text) {
        self.device_classes.insert(class, resource);
        self.bump(Areas::DEVICES);
    }

    pub(crate) fn remove_device_class(&mut self, class: &str) {
        self.device_classes.remove(class);
        self.bump(Areas::DEVICES);
    }
}
