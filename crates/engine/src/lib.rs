//! The scheduler as a pure state machine: cluster changes in, commands out.
//!
//! ```text
//! Change ─▶ engine ─┬─ state      tables of nodes, pods, volumes, …
//!                   ├─ queue      pods that wait: active, backoff, unschedulable
//!                   ├─ framework  the plugin API
//!                   └─ cycle      one decision: filter, score, choose, preempt  ─▶ Command
//! ```
//!
//! Reading order: [`object`] (inputs), [`state`], [`framework`], [`cycle`], [`queue`], [`engine`].
//! The engine does no I/O and reads no clock: times and seeds are arguments.

#![warn(missing_docs)]

pub mod bitset;
pub mod change;
pub mod change_log;
mod classes;
mod column;
pub mod command;
pub mod cycle;
pub mod engine;
pub mod framework;
pub mod index;
mod kinds;
pub mod limits;
pub mod map;
pub mod object;
pub mod queue;
pub mod simd;
pub mod slab;
pub mod state;
pub mod stopwatch;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
