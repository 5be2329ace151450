//! Lowering of namespaces, services, controllers, disruption budgets and device classes.

use std::collections::BTreeMap;

use engine::object::{
    DeviceClass, DisruptionBudget, Namespace, Selector, Text, Workload, WorkloadKind,
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
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawMapSpec {
    selector: StrMap,
}

/// `apps/v1 ReplicaSet` or `apps/v1 StatefulSet`; lowered as a replica set.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawSet {
    metadata: Nullable<Meta>,
    spec: Nullable<RawSetSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawSetSpec {
    selector: Option<RawSelector>,
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
        workload(WorkloadKind::Service, &self.metadata, selector)
    }
}

impl Lower for RawSet {
    type Object = Workload;
    const NAMESPACED: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn lower(self, report: &mut ProblemReport) -> Workload {
        workload(WorkloadKind::ReplicaSet, &self.metadata, self.spec.selector(report))
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

fn workload(kind: WorkloadKind, meta: &Meta, selector: Option<Selector>) -> Workload {
    Workload { kind, namespace: meta.namespace(), name: meta.name.0.clone(), selector }
}
