//! Benchmarks: the workloads of Kubernetes' own scheduler benchmark, in-process and on a control plane;
//! and the sandbox, beside upstream's API server and over a long time.

pub mod api;
pub mod decide;
pub mod families;
pub mod live;
pub mod memory;
pub mod metrics;
pub mod objects;
pub mod placements;
pub mod preempt;
pub mod server;
pub mod soak;
