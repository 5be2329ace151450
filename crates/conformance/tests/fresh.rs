//! Fresh random cases: Jindou's answers must equal those of the Go oracle.
//!
//! Without Go the test is skipped with a message; in CI (`CI=true`) a missing Go is a failure.

use std::io::Write as _;
use std::process::ExitCode;

use conformance::{ConformanceOptions, oracle, run};

/// Cases of this sample; `cargo xtask ci` compares 2,000 more.
const CASES: u64 = 100;

#[test]
fn fresh_random_cases_are_answered_as_upstream_answers_them() {
    if let Err(reason) = oracle::find_go() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{reason}");
        // Written past the capture of the test harness, which would hide it.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: the comparison of {CASES} random cases with upstream's scheduler: {reason}"
        );
        return;
    }
    let mut report = Vec::new();
    let outcome = run(&ConformanceOptions::random(CASES), &mut report).expect("the oracle answers");
    assert_eq!(
        outcome,
        ExitCode::SUCCESS,
        "{}\n`cargo xtask conformance --cases {CASES} --seed SEED` repeats it",
        String::from_utf8_lossy(&report)
    );
}
