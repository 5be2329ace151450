//! Drives the engine against an API server.

pub mod http;
pub mod lease;
pub mod metrics;
