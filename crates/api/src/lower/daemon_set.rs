//! Lowering of DaemonSets.

use engine::object::{DaemonSet, Rollout};
use serde::Deserialize;

use super::Lower;
use super::problem::{FieldPath, ProblemReport};
use super::raw::{Meta, Nullable};
use super::selector::RawSelector;
use crate::protobuf::Shape::{self, Int};
use crate::protobuf::schema::{LABEL_SELECTOR, OBJECT_META, messages};

messages! {
    pub(crate) static DAEMON_SET = "DaemonSet" {
        1 "metadata" Shape::Message(&OBJECT_META);
        2 "spec" Shape::Message(&DAEMON_SET_SPEC);
        3 "status" Shape::Message(&DAEMON_SET_STATUS);
    }
    pub(crate) static DAEMON_SET_SPEC = "DaemonSetSpec" {
        1 "selector" Shape::Message(&LABEL_SELECTOR);
    }
    pub(crate) static DAEMON_SET_STATUS = "DaemonSetStatus" {
        1 "currentNumberScheduled" Int;
        3 "desiredNumberScheduled" Int;
        4 "numberReady" Int;
        5 "observedGeneration" Int;
        6 "updatedNumberScheduled" Int;
        7 "numberAvailable" Int;
    }
}

/// `apps/v1 DaemonSet`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawDaemonSet {
    metadata: Nullable<Meta>,
    spec: Nullable<RawSpec>,
    status: Nullable<RawStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawSpec {
    selector: Option<RawSelector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawStatus {
    current_number_scheduled: Nullable<i32>,
    desired_number_scheduled: Nullable<i32>,
    number_ready: Nullable<i32>,
    observed_generation: Nullable<i64>,
    updated_number_scheduled: Nullable<i32>,
    number_available: Nullable<i32>,
}

impl Lower for RawDaemonSet {
    type Object = DaemonSet;
    const NAMESPACED: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn lower(self, report: &mut ProblemReport) -> DaemonSet {
        let Self { metadata: meta, spec, status } = self;
        let path = FieldPath::Root.field("spec");
        let selector = spec.selector.as_ref();
        DaemonSet {
            namespace: meta.namespace(),
            name: meta.name.0.clone(),
            owner: meta.owner(),
            selector: selector.and_then(|raw| raw.lower(&path.field("selector"), report)),
            rollout: Rollout {
                desired: status.desired_number_scheduled.0,
                existing: status.current_number_scheduled.0,
                updated: status.updated_number_scheduled.0,
                ready: status.number_ready.0,
                available: status.number_available.0,
                is_observed: status.observed_generation.0 >= meta.generation.0,
            },
        }
    }
}
