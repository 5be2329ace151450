//! Objects that select pods: services, controllers and disruption budgets; and namespaces.

use super::{ClusterObject, Labels, Owner, Selector, Stored, Text};

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// `metadata.name`.
    pub name: Text,
    /// `metadata.labels`.
    pub labels: Labels,
}

/// Kind of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WorkloadKind {
    /// `v1 Service`.
    #[default]
    Service,
    /// `v1 ReplicationController`.
    ReplicationController,
    /// `apps/v1 ReplicaSet`.
    ReplicaSet,
    /// `apps/v1 StatefulSet`.
    StatefulSet,
}

/// A service or controller that selects pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Kind.
    pub kind: WorkloadKind,
    /// `metadata.namespace`.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: Text,
    /// `spec.selector`, if set.
    pub selector: Option<Selector>,
    /// The owner reference with `controller: true`, such as the Deployment of a ReplicaSet.
    pub owner: Option<Box<Owner>>,
    /// Progress of its rollout; all zero for services.
    pub rollout: Rollout,
}

/// Progress of a controller towards its replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// Replicas that should exist.
    pub desired: i32,
    /// Replicas that exist, of all versions of the template.
    pub existing: i32,
    /// Replicas of the current template.
    pub updated: i32,
    /// Replicas whose pods are ready.
    pub ready: i32,
    /// Replicas whose pods have been ready for `minReadySeconds`.
    pub available: i32,
    /// The controller has seen the current `metadata.generation`; otherwise the other figures may
    /// be those of an older one.
    pub is_observed: bool,
}

impl Rollout {
    /// Returns `true` if all replicas are of the current template and available, as
    /// `kubectl rollout status` has it.
    pub fn is_complete(&self) -> bool {
        self.is_observed
            && self.updated >= self.desired
            && self.existing <= self.updated
            && self.available >= self.desired
    }
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

    /// No plugin reads the progress of a rollout, which changes often.
    fn decides_like(&self, old: &Self) -> bool {
        self.selector == old.selector
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
