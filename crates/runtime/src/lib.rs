//! Drives the engine against an API server.
//!
//! ```text
//! watch ──► lower ──► Change ──► engine (its own thread) ──► Command ──► bind, report, evict, volumes
//!                       ▲                                                   │
//!                       └────────────── what came of it ◄───────────────────┘
//! ```
//!
//! Read [`scheduler`] first: it ties the parts together. [`watch`] follows one kind of object and
//! [`kinds`] lists them; [`driver`] is the loop around the engine; [`bind`] is the one write that
//! must never go wrong; [`lease`] says who may write and [`gate`] when, [`http`] and [`metrics`] what
//! others may see.

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
pub mod kinds;
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
pub mod wakeup_coalescing;
pub mod watch;
