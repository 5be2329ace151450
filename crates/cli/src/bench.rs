//! Benchmarks: the workloads of Kubernetes' own scheduler benchmark, in-process.

pub mod decide;
pub mod families;
pub mod memory;
pub mod objects;
