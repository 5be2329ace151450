//! End-to-end scenarios: the program `jindou` on upstream's control plane.
//!
//! ```text
//! one control plane ─▶ for each scenario: namespace, nodes, scheduler ─▶ checks ─▶ all of it removed
//! ```
//!
//! Scenarios run one after the other, because nodes are cluster-wide and every scheduler sees all of
//! them. No scenario measures time; each condition is waited for with a deadline of minutes, so that a
//! slow machine does not fail.
//!
//! Reading order: `run` (options, the loop over scenarios), `scenarios` (the table), `test_env` (what a
//! scenario works with), `schedulers` and `programs` (processes), `proxy` (faults of the network),
//! `history` and `ledger` (every version of every pod, from watches), `placements` and `verdict` (the
//! checks, which share no code with the scheduler).

mod bare;
mod checkout;
mod draw;
mod history;
mod ledger;
mod load;
mod placements;
mod programs;
mod proxy;
mod replicas;
mod run;
mod scenarios;
mod schedulers;
mod test_env;
mod verdict;
mod watch;

pub use checkout::build_jindou;
pub use run::{E2eOptions, run};
