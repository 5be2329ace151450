//! The sandbox over HTTP, with a client that knows nothing of it.

mod errors;
mod kubectl;
mod objects;
mod stage;
mod watches;
mod workloads;
