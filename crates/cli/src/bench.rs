//! Benchmarks: the workloads of Kubernetes' own scheduler benchmark, in-process and on a control plane.

pub mod decide;
pub mod families;
pub mod live;
pub mod memory;
pub mod metrics;
pub mod objects;
pub mod placements;
