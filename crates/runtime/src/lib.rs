//! Drives the engine against an API server.
//!
//! ```text
//! watch ──► lower ──► Change ──► engine (its own thread) ──► Command ──► bind, report, evict, volumes
//!                       ▲                                                   │
//!                       └───────────────── results ◄────────────────────────┘
//! ```
//!
//! Read [`scheduler`] first: it connects the parts. [`watch`] has the reflector, for the kinds
//! of [`api::kinds`]; [`driver`] is the loop around the engine; [`execute`] carries out its commands and
//! [`bind`] the most important one; [`lease`] is the leader election and [`gate`] the check before each
//! write; [`http`] serves health, metrics and configuration.

#![warn(missing_docs)]

mod api_error;
pub mod bind;
pub mod client;
pub mod connect;
pub mod driver;
pub mod events;
pub mod execute;
pub mod extenders;
pub mod gate;
pub mod http;
pub mod lease;
pub mod metrics;
pub mod pod_status;
mod request_body;
pub mod resources;
pub mod scheduler;
#[cfg(test)]
mod testing;
pub mod timing;
pub mod traces;
pub mod volumes;
pub mod wake_batch;
pub mod watch;
