//! Measurements: the engine in process, the scheduler and the sandbox side by side with upstream.
//!
//! They are the program `jindou-bench`, which `jindou bench` starts, and not part of `jindou`, since they build and start
//! upstream's control plane.
//!
//! - `decide` measures the engine on the workloads of `families`, and `memory` its size.
//! - `trial` measures trials on the engine and on copies of its state.
//! - `live` drains the same workloads by Jindou and kube-scheduler; `placements` checks where the pods went.
//! - `preempt`, `api` and `soak` measure preemption, the sandbox's cost per operation, and its memory over time.

mod api;
pub mod commands;
mod decide;
mod families;
mod live;
mod memory;
pub mod metrics;
mod objects;
pub mod placements;
mod preempt;
mod programs;
mod server;
mod soak;
mod statistics;
mod trial;
mod workers;
