//! Objects that select pods: services, controllers and disruption budgets; and namespaces.

use super::{ClusterObject, Labels, Selector, Stored, Text};

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

impl Stored for Namespace {
    fn key(&self) -> (Text, Text) {
        (Text::default(), self.name.clone())
    }
}

impl Stored for Workload {
    fn key(&self) -> (Text, Text) {
        (self.namespace.clone(), self.name.clone())
    }
}

impl Stored for DisruptionBudget {
    fn key(&self) -> (Text, Text) {
        (self.namespace.clone(), self.name.clone())
    }
}

impl From<Workload> for ClusterObject {
    fn from(workload: Workload) -> Self {
        let variant = match workload.kind {
            WorkloadKind::Service => Self::Service,
            WorkloadKind::ReplicationController => Self::ReplicationController,
            WorkloadKind::ReplicaSet => Self::ReplicaSet,
            WorkloadKind::StatefulSet => Self::StatefulSet,
        };
        variant(workload.into())
    }
}
