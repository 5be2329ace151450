//! Measurements: the engine in-process, the scheduler and the sandbox side by side with upstream.
//!
//! Apart from the product, since they build and start upstream's control plane. The program
//! `jindou-bench` runs them; `jindou bench` hands its arguments to it.

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
mod workers;
