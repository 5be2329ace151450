//! Jobs.

use super::{Owner, Stored, Text};

/// A Job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// `metadata.namespace`.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: Text,
    /// The owner reference with `controller: true`, such as a CronJob.
    pub owner: Option<Box<Owner>>,
    /// `spec.parallelism`, one when unset.
    pub parallelism: i32,
    /// `spec.completions`; `None` if the success of any pod completes the job.
    pub completions: Option<i32>,
    /// `spec.suspend`: its pods are deleted.
    pub suspended: bool,
    /// `status.active`: pods that have not finished.
    pub active: i32,
    /// `status.succeeded`.
    pub succeeded: i32,
    /// `status.failed`.
    pub failed: i32,
}

impl Stored for Job {
    fn key(&self) -> (Text, Text) {
        (self.namespace.clone(), self.name.clone())
    }
}
