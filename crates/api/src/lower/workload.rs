//! Lowering of namespaces, services, controllers, disruption budgets and device classes.

use std::collections::BTreeMap;

use engine::object::{
    ClusterObject, DeviceClass, DisruptionBudget, Namespace, Rollout, Selector, Text, Workload,
    WorkloadKind,
};
use serde::Deserialize;

use super::Lower;
use super::problem::{FieldPath, ProblemReport};
use super::raw::{Meta, Nullable, StrMap};
use super::selector::{self, RawSelector};

/// `v1 Namespace`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawNamespace {
    metadata: Nullable<Meta>,
}

/// `v1 Service` or `v1 ReplicationController`, whose selector is a plain map; lowered as a service.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawMapWorkload {
    metadata: Nullable<Meta>,
    spec: Nullable<RawMapSpec>,
    status: Nullable<RawReplicaStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawMapSpec {
    selector: StrMap,
    replicas: Option<i32>,
}

/// The replicas in a status. Only StatefulSets have `updatedReplicas`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawReplicaStatus {
    observed_generation: Nullable<i64>,
    replicas: Nullable<i32>,
    updated_replicas: Nullable<i32>,
    ready_replicas: Nullable<i32>,
    available_replicas: Nullable<i32>,
}

/// `apps/v1 ReplicaSet` or `apps/v1 StatefulSet`; lowered as a replica set.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawSet {
    metadata: Nullable<Meta>,
    spec: Nullable<RawSetSpec>,
    status: Nullable<RawReplicaStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawSetSpec {
    selector: Option<RawSelector>,
    replicas: Option<i32>,
}

/// `policy/v1 PodDisruptionBudget`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawBudget {
    metadata: Nullable<Meta>,
    spec: Nullable<RawSetSpec>,
    status: Nullable<RawBudgetStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawBudgetStatus {
    disruptions_allowed: Nullable<i32>,
    disrupted_pods: Nullable<BTreeMap<Text, Option<Text>>>,
}

/// `resource.k8s.io DeviceClass`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawDeviceClass {
    metadata: Nullable<Meta>,
    spec: Nullable<RawDeviceClassSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawDeviceClassSpec {
    extended_resource_name: Option<Text>,
}

impl Lower for RawNamespace {
    type Object = Namespace;
    const NAMESPACED: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn lower(self, _: &mut ProblemReport) -> Namespace {
        Namespace { name: self.metadata.name.0.clone(), labels: self.metadata.labels() }
    }
}

impl Lower for RawMapWorkload {
    type Object = Workload;
    const NAMESPACED: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn lower(self, _: &mut ProblemReport) -> Workload {
        let labels = &self.spec.selector;
        let selector = (!labels.is_empty()).then(|| selector::all_of(labels));
        let rollout = self.status.rollout(&self.metadata, self.spec.replicas);
        workload(WorkloadKind::Service, &self.metadata, selector, rollout)
    }
}

impl Lower for RawSet {
    type Object = Workload;
    const NAMESPACED: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn lower(self, report: &mut ProblemReport) -> Workload {
        let rollout = self.status.rollout(&self.metadata, self.spec.replicas);
        let selector = self.spec.selector(report);
        workload(WorkloadKind::ReplicaSet, &self.metadata, selector, rollout)
    }
}

impl Lower for RawBudget {
    type Object = DisruptionBudget;
    const NAMESPACED: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn lower(self, report: &mut ProblemReport) -> DisruptionBudget {
        let meta = &self.metadata;
        // Upstream's preemption treats an empty selector as matching nothing, unlike the disruption
        // controller.
        let selector = self.spec.selector(report).filter(|selector| !selector.is_empty());
        DisruptionBudget {
            namespace: meta.namespace(),
            name: meta.name.0.clone(),
            selector,
            disruptions_allowed: self.status.disruptions_allowed.0,
            disrupted_pods: self.status.disrupted_pods.keys().cloned().collect(),
        }
    }
}

impl Lower for RawDeviceClass {
    type Object = DeviceClass;
    const NAMESPACED: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn lower(self, _: &mut ProblemReport) -> DeviceClass {
        DeviceClass {
            name: self.metadata.name.0.clone(),
            extended_resource: self.spec.0.extended_resource_name,
        }
    }
}

impl RawSetSpec {
    fn selector(&self, report: &mut ProblemReport) -> Option<Selector> {
        let path = FieldPath::Root.field("spec");
        self.selector.as_ref().and_then(|raw| raw.lower(&path.field("selector"), report))
    }
}

/// Completes a workload that was lowered as a service or a replica set.
pub(crate) fn of_kind(kind: WorkloadKind, mut workload: Workload) -> ClusterObject {
    workload.kind = kind;
    match kind {
        WorkloadKind::Service => workload.rollout = Rollout::default(),
        // All replicas are of one template.
        WorkloadKind::ReplicationController | WorkloadKind::ReplicaSet => {
            workload.rollout.updated = workload.rollout.existing;
        }
        WorkloadKind::StatefulSet => {}
    }
    workload.into()
}

impl RawReplicaStatus {
    fn rollout(&self, meta: &Meta, desired: Option<i32>) -> Rollout {
        Rollout {
            desired: desired.unwrap_or(1),
            existing: self.replicas.0,
            updated: self.updated_replicas.0,
            ready: self.ready_replicas.0,
            available: self.available_replicas.0,
            is_observed: self.observed_generation.0 >= meta.generation.0,
        }
    }
}

fn workload(
    kind: WorkloadKind,
    meta: &Meta,
    selector: Option<Selector>,
    rollout: Rollout,
) -> Workload {
    let (namespace, name, owner) = (meta.namespace(), meta.name.0.clone(), meta.owner());
    Workload { kind, namespace, name, selector, owner, rollout }
}
