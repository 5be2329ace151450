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
mod snapshots;
mod stage;
mod watches;
mod workloads;
