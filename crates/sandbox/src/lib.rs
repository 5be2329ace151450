//! A Kubernetes API server in memory, with simulated nodes.
//!
//! ```text
//! kubectl, schedulers ──HTTP──► http ──► cluster ──► store
//!                                          ▲           │
//!                              actors ─────┘◄──changes─┘
//! ```
//!
//! Reading order: [`store`] (objects, versions, watch caches), [`kinds`] (one row per kind), [`cluster`]
//! (operations and checks), [`http`] (paths, encodings, watches), [`actors`] (kubelets and controllers),
//! [`Sandbox`] (all parts connected).

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
mod lock;
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
