//! Every type users write, and the lowering of Kubernetes objects to engine input.

pub mod config;
pub mod lower;
pub mod protobuf;
pub mod snapshot;
