//! Upstream's control plane as processes of this machine, for tests and benchmarks: etcd, API server,
//! controllers, optionally the scheduler, and kwok in place of the kubelets.
//!
//! ```text
//! build ─▶ programs in the cache ─┐
//! certificates, ports ────────────┴─▶ start ─▶ processes ─▶ state (a record in a folder) ─▶ down
//! ```
//!
//! `ControlPlane::start(&StartOptions::owned(…)?)` starts one that ends when it is dropped; [`up`] starts
//! one that runs until [`down`].

mod build;
mod certificates;
mod components;
mod cores;
mod files;
mod manage;
mod ports;
mod process;
mod start;
mod state;
pub mod tools;

pub use build::{BuildError, build_programs, installed_programs};
pub use certificates::{CertificateError, write_expired_client};
pub use cores::{Cores, CoresError};
pub use files::{FileError, write_private};
pub use manage::{down, load_all, up};
pub use ports::{NoFreePort, free as free_ports};
pub use process::{POLL_INTERVAL, ProcessError, ProcessIdentity};
pub use start::{RunningControlPlane, StartError, StartOptions, state_folder};
pub use state::{ControlPlane, SchedulerChoice, StateError};
