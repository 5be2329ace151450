//! `jindou` on a cluster: the real binary against the sandbox, with nothing but Rust.

mod explain;
mod faults;
mod mistakes;
mod replicas;
mod scheduling;
mod stage;
