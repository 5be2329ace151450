//! The types users write, and the lowering of Kubernetes objects to engine input.
//!
//! ```text
//! answer    where a pod would go and why, in the form that `jindou explain` prints
//! config    KubeSchedulerConfiguration: read, convert, default, validate, expand
//! kinds     the table of kinds: what is watched, listed and read from snapshots
//! snapshot  a whole cluster from YAML or JSON text
//! lower     one Kubernetes object to one engine object, with all its problems
//! protobuf  Kubernetes' protobuf encoding as a serde data format
//! ```

#![warn(missing_docs)]

pub mod answer;
pub mod config;
pub mod kinds;
pub mod lower;
pub mod protobuf;
pub mod snapshot;
