//! Upstream's control plane on this machine, for tests and benchmarks that want the real one: etcd,
//! API server, controllers and, if asked for, scheduler, with kwok in place of the kubelets.
//!
//! ```text
//! build ─▶ programs in the cache ─┐
//! certificates, ports ────────────┴─▶ start ─▶ processes ─▶ state (what runs, in a folder) ─▶ down
//! ```
//!
//! `ControlPlane::start(&StartOptions::owned(…)?)` starts one that ends when it is dropped; [`up`] starts
//! one that runs until somebody says [`down`].

mod build;
mod certificates;
mod components;
mod cores;
mod manage;
mod ports;
mod process;
mod start;
mod state;
pub mod tools;

pub use build::{build_programs, installed_programs};
pub use certificates::{write_expired_client, write_private};
pub use cores::Cores;
pub use manage::{down, load_all, up};
pub use ports::free as free_ports;
pub use process::{POLL_INTERVAL, ProcessIdentity};
pub use start::{RunningControlPlane, StartOptions, state_folder};
pub use state::{ControlPlane, SchedulerChoice};
