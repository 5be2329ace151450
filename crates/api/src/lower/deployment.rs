//! Lowering of Deployments.

use engine::object::{Deployment, Rollout};
use serde::Deserialize;

use super::Lower;
use super::problem::{FieldPath, ProblemReport};
use super::raw::{Meta, Nullable};
use super::selector::RawSelector;
use crate::protobuf::Shape::{self, Bool, Int};
use crate::protobuf::schema::{LABEL_SELECTOR, OBJECT_META, messages};

messages! {
    pub(crate) static DEPLOYMENT = "Deployment" {
        1 "metadata" Shape::Message(&OBJECT_META);
        2 "spec" Shape::Message(&DEPLOYMENT_SPEC);
        3 "status" Shape::Message(&DEPLOYMENT_STATUS);
    }
    pub(crate) static DEPLOYMENT_SPEC = "DeploymentSpec" {
        1 "replicas" Int;
        2 "selector" Shape::Message(&LABEL_SELECTOR);
        7 "paused" Bool;
    }
    pub(crate) static DEPLOYMENT_STATUS = "DeploymentStatus" {
        1 "observedGeneration" Int;
        2 "replicas" Int;
        3 "updatedReplicas" Int;
        4 "availableReplicas" Int;
        7 "readyReplicas" Int;
    }
}

/// `apps/v1 Deployment`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawDeployment {
    metadata: Nullable<Meta>,
    spec: Nullable<RawSpec>,
    status: Nullable<RawStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawSpec {
    replicas: Option<i32>,
    selector: Option<RawSelector>,
    paused: Nullable<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawStatus {
    observed_generation: Nullable<i64>,
    replicas: Nullable<i32>,
    updated_replicas: Nullable<i32>,
    available_replicas: Nullable<i32>,
    ready_replicas: Nullable<i32>,
}

impl Lower for RawDeployment {
    type Object = Deployment;
    const NAMESPACED: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn lower(self, report: &mut ProblemReport) -> Deployment {
        let Self { metadata: meta, spec, status } = self;
        let path = FieldPath::Root.field("spec");
        let selector = spec.selector.as_ref();
        Deployment {
            namespace: meta.namespace(),
            name: meta.name.0.clone(),
            owner: meta.owner(),
            selector: selector.and_then(|raw| raw.lower(&path.field("selector"), report)),
            paused: spec.paused.0,
            rollout: Rollout {
                desired: spec.replicas.unwrap_or(1),
                existing: status.replicas.0,
                updated: status.updated_replicas.0,
                ready: status.ready_replicas.0,
                available: status.available_replicas.0,
                is_observed: status.observed_generation.0 >= meta.generation.0,
            },
        }
    }
}
