//! A Kubernetes API server in memory, with nodes that only exist there.
//!
//! ```text
//! kubectl, schedulers ──HTTP──► http ──► cluster ──► store
//!                                          ▲           │
//!                              actors ─────┘◄──changes─┘
//! ```
//!
//! Reading order: [`store`] (objects, versions, the log that watches read), [`kinds`] (one row per
//! kind), [`cluster`] (what can be asked, and all checks), [`http`] (paths, forms, watches),
//! [`actors`] (nodes with kubelets, and controllers), [`Sandbox`] (all of it together).

pub mod actors;
mod admission;
pub mod cluster;
mod custom;
mod defaults;
mod events;
pub mod faults;
pub mod field_error;
pub mod http;
pub mod import;
mod json;
pub mod kinds;
mod limits;
mod names;
mod patch;
mod path;
mod pods;
mod protobuf;
mod quantity;
mod sandbox;
mod schema;
pub mod selector;
mod snapshot_state;
pub mod status_error;
pub mod store;
mod subresources;
mod tables;
#[cfg(test)]
mod testing;
mod validation;

pub use http::handles_request;
pub use sandbox::{Options, Sandbox, StartError, create_system_objects};
