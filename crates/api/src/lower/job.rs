//! Lowering of Jobs.

use engine::object::Job;
use serde::Deserialize;

use super::Lower;
use super::problem::ProblemReport;
use super::raw::{Meta, Nullable};
use crate::protobuf::Shape::{self, Bool, Int};
use crate::protobuf::schema::{OBJECT_META, messages};

messages! {
    pub(crate) static JOB = "Job" {
        1 "metadata" Shape::Message(&OBJECT_META);
        2 "spec" Shape::Message(&JOB_SPEC);
        3 "status" Shape::Message(&JOB_STATUS);
    }
    pub(crate) static JOB_SPEC = "JobSpec" {
        1 "parallelism" Int;
        2 "completions" Int;
        10 "suspend" Bool;
    }
    pub(crate) static JOB_STATUS = "JobStatus" {
        4 "active" Int;
        5 "succeeded" Int;
        6 "failed" Int;
    }
}

/// `batch/v1 Job`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawJob {
    metadata: Nullable<Meta>,
    spec: Nullable<RawSpec>,
    status: Nullable<RawStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawSpec {
    parallelism: Option<i32>,
    completions: Option<i32>,
    suspend: Nullable<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawStatus {
    active: Nullable<i32>,
    succeeded: Nullable<i32>,
    failed: Nullable<i32>,
}

impl Lower for RawJob {
    type Object = Job;
    const NAMESPACED: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn lower(self, _: &mut ProblemReport) -> Job {
        let Self { metadata: meta, spec, status } = self;
        Job {
            namespace: meta.namespace(),
            name: meta.name.0.clone(),
            owner: meta.owner(),
            parallelism: spec.parallelism.unwrap_or(1),
            completions: spec.completions,
            suspended: spec.suspend.0,
            active: status.active.0,
            succeeded: status.succeeded.0,
            failed: status.failed.0,
        }
    }
}
