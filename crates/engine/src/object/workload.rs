//! Objects that say which pods belong together: namespaces, services, controllers, disruption budgets.

use super::{Labels, Selector, Text};

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// `metadata.name`.
    pub name: Text,
    /// `metadata.labels`.
    pub labels: Labels,
}

/// Which kind of object groups pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WorkloadKind {
    /// `v1 Service`.
    Service,
    /// `v1 ReplicationController`.
    ReplicationController,
    /// `apps/v1 ReplicaSet`.
    ReplicaSet,
    /// `apps/v1 StatefulSet`.
    StatefulSet,
}

/// An object that groups pods by a selector: a service or a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Kind.
    pub kind: WorkloadKind,
    /// `metadata.namespace`.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: Text,
    /// `spec.selector`; `None` when it has none.
    pub selector: Option<Selector>,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DisruptionBudget {
    /// `metadata.namespace`.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: Text,
    /// `spec.selector`; `None` matches nothing.
    pub selector: Option<Selector>,
    /// `status.disruptionsAllowed`.
    pub disruptions_allowed: i32,
    /// Names in `status.disruptedPods`, sorted.
    pub disrupted_pods: Box<[Text]>,
}
