//! The sandbox over HTTP, with a client that knows nothing of it.

mod counts;
mod errors;
mod exercise;
mod faults;
mod hostile;
mod kubectl;
mod objects;
mod pods;
mod requests;
mod scheduler;
mod snapshots;
mod stage;
mod watches;
mod workloads;
