//! Runs all scenarios on upstream's control plane, if Go is found to build it.
//!
//! `cargo xtask e2e` runs the same scenarios with options; `cargo xtask test` uses that and skips this
//! test, so that they run once.

use std::process::ExitCode;

use controlplane::tools::{go, say};
use e2e::E2eOptions;

#[test]
fn scenarios_pass_on_upstreams_control_plane() {
    if go().is_none() {
        let reason = "Go was not found, which builds upstream's control plane. Install Go 1.26 or newer to run the scenarios";
        let ci = std::env::var("CI").is_ok_and(|value| value == "true");
        assert!(!ci, "{reason}");
        // Written to standard error directly: the output of a passing test is not shown.
        say(&format!("SKIPPED: {reason}."));
        return;
    }
    let code = e2e::run(&E2eOptions::default()).expect("the control plane starts and stops");
    assert_eq!(code, ExitCode::SUCCESS, "scenarios failed; their names are in the table above");
}
