//! Objects of the kinds in the table of kinds, by namespace and name.

use std::sync::{Arc, LazyLock};

use crate::kinds::with_kinds;
use crate::object::{
    ClusterObject, DisruptionBudget, Labels, Namespace, ObjectKind, ObjectName, Stored, Workload,
};

use super::{Areas, State};

macro_rules! define {
    ($($kind:ident($object:ty) $label:literal
        in $($table:ident).+, $areas:ident, [$($event:ident)*];)*) => {
        impl State {
            /// Adds or updates an object. Returns the version that it replaces.
            pub(crate) fn set_object(&mut self, new: ClusterObject) -> Option<ClusterObject> {
                match new {
                    $(ClusterObject::$kind(new) => {
                        let old = self.$($table).+.insert(Arc::clone(&new));
                        if !old.as_ref().is_some_and(|old| new.decides_like(old)) {
                            self.invalidate(Areas::$areas);
                        }
                        old.map(ClusterObject::$kind)
                    })*
                }
            }

            /// Removes an object and returns it.
            pub(crate) fn remove_object(&mut self, name: &ObjectName) -> Option<ClusterObject> {
                match name.kind {
                    $(ObjectKind::$kind => {
                        let old = self.$($table).+.remove(&name.namespace, &name.name)?;
                        self.invalidate(Areas::$areas);
                        Some(ClusterObject::$kind(old))
                    })*
                }
            }
        }
    };
}

with_kinds!(define);

impl State {
    /// Returns the labels of a namespace; no labels if it is unknown.
    pub fn namespace_labels(&self, name: &str) -> &Labels {
        static NONE: LazyLock<Labels> = LazyLock::new(Labels::default);
        self.namespaces.get(name).map_or(&NONE, |namespace| &namespace.labels)
    }

    /// Iterates over all namespaces by name.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.namespaces.values()
    }

    /// Iterates over the services and controllers of a namespace, by kind and name.
    pub fn workloads(&self, namespace: &str) -> impl Iterator<Item = &Workload> {
        let tables = [
            &self.services,
            &self.replication_controllers,
            &self.replica_sets,
            &self.stateful_sets,
        ];
        tables.into_iter().flat_map(move |table| table.in_namespace(namespace))
    }

    /// Iterates over the disruption budgets of a namespace, by name.
    pub fn budgets(&self, namespace: &str) -> impl Iterator<Item = &DisruptionBudget> {
        self.budgets.in_namespace(namespace)
    }

    /// Returns `true` if a device class offers an extended resource of this name.
    pub fn device_class_offers(&self, resource: &str) -> bool {
        self.device_classes.values().any(|class| {
            class.extended_resource.as_deref().unwrap_or_default() == resource
                || resource.strip_prefix("deviceclass.resource.kubernetes.io/")
                    == Some(&*class.name)
        })
    }
}
