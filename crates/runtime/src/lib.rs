//! Drives the engine against an API server.

pub mod lease;
pub mod metrics;
