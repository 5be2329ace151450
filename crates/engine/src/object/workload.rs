//! Objects that select pods: services, controllers and disruption budgets; and namespaces.

use super::{Labels, Selector, Text};

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// `metadata.name`.
    pub name: Text,
    /// `metadata.labels`.
    pub labels: Labels,
}

/// Kind of a workload.
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

/// A service or controller that selects pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Kind.
    pub kind: WorkloadKind,
    /// `metadata.namespace`.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: Text,
    /// `spec.selector`, if set.
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
