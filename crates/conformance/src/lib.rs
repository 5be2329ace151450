//! Compares Jindou with upstream's scheduler, on random cases and on committed ones.
//!
//! ```text
//! seed ─▶ generate ─▶ case ─┬─▶ oracle (Go, upstream's plugins) ─▶ answer ─┬─▶ compare ─▶ differences ─▶ shrink ─▶ report
//!                           └─▶ jindou ───────────────────────▶ answer ──┘
//! ```
//!
//! A case is a cluster, a pod to schedule and a configuration.
//!
//! - Generation: `rng`, `theme`, `draft`, then one module per topic, combined in `generate`.
//! - Comparison: `oracle` and `jindou` answer, `compare` finds differences, `exceptions` lists those on purpose,
//!   `shrink` and `report` show the rest, `coverage` counts what the cases exercised.
//! - `golden` reads the committed cases and `bless` writes them; `sensitivity` measures the cases themselves.
//! - `run` is the command `cargo xtask conformance`.

pub mod golden;
pub mod oracle;

mod affinity;
mod bless;
mod cluster;
mod compare;
mod config;
mod coverage;
mod draft;
mod exceptions;
mod generate;
mod jindou;
mod pod;
mod preemption;
mod report;
mod resources;
mod rng;
mod run;
mod sensitivity;
mod shrink;
mod spread;
mod theme;
mod volumes;

use std::path::{Path, PathBuf};

pub use run::{ConformanceOptions, run};

/// Returns the root of the checkout.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
