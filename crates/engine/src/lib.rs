//! The scheduler as a pure state machine: cluster changes in, commands out.

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
