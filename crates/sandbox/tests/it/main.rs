//! The sandbox over HTTP, with an independent client.

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
mod server;
mod snapshots;
mod watches;
mod workloads;
