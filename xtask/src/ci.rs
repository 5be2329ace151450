//! The gates and tests of CI.

mod tools;

use std::io;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::shell::{go, root, run, run_in, run_with, say};
use crate::{codegen, instructions, kubectl, protobuf, template, tidy, walls};

/// Random cases compared with upstream in each run of the tests, beside the sample of `crates/conformance/tests/fresh.rs`.
const FRESH_CASES: u64 = 2000;

/// The test in `crates/e2e/tests/scenarios.rs` that runs all scenarios.
const SCENARIOS_TEST: &str = "scenarios_pass_on_upstreams_control_plane";

/// Crates that must compile with the features that they ask for themselves. In a build of the whole
/// workspace they get those that other crates ask for too. A crate that only programs and tests use
/// is left out: its features are those of the workspace.
const CHECKED_ALONE: [&str; 6] = ["engine", "api", "plugins", "controlplane", "sandbox", "runtime"];

/// A check that is not a test: its name on the command line, and a function that fails if the check does.
type Gate = (&'static str, fn() -> Result<()>);

/// All gates, fast ones first.
const GATES: &[Gate] = &[
    ("format", || run("cargo", &["fmt", "--all", "--check"])),
    ("tidy", tidy::check),
    ("walls", walls::check),
    ("typos", tools::typos),
    ("shear", tools::shear),
    ("deny", tools::deny),
    ("clippy", lint),
    ("alone", check_alone),
    ("doc", document),
    ("codegen", || codegen::run(true)),
];

/// Runs all gates and then all tests. A test that this machine cannot run is a failure.
pub(crate) fn ci() -> Result<ExitCode> {
    gates(&[])?;
    test(true)
}

/// Runs the gates of these names, or all of them without a name, and prints how long each took.
pub(crate) fn gates(only: &[String]) -> Result<()> {
    if let Some(unknown) = only.iter().find(|name| GATES.iter().all(|gate| gate.0 != **name)) {
        let names: Vec<_> = GATES.iter().map(|gate| gate.0).collect();
        bail!("there is no gate {unknown:?}, but {}", names.join(", "));
    }
    let mut times = Vec::new();
    for (name, gate) in GATES {
        if !only.is_empty() && !only.iter().any(|one| one == name) {
            continue;
        }
        say(&format!("gate: {name}"));
        let began = Instant::now();
        gate()?;
        times.push(format!("{name} {:.1} s", began.elapsed().as_secs_f64()));
    }
    say(&format!("gates passed: {}", times.join(", ")));
    Ok(())
}

fn lint() -> Result<()> {
    let arguments = ["clippy", "--workspace", "--all-targets", "--all-features", "--"];
    run("cargo", &[&arguments[..], &["-D", "warnings"]].concat())
}

fn check_alone() -> Result<()> {
    CHECKED_ALONE.iter().try_for_each(|name| run("cargo", &["check", "--package", name]))
}

fn document() -> Result<()> {
    let arguments = ["doc", "--workspace", "--no-deps", "--document-private-items"];
    run_with("cargo", &arguments, &[("RUSTDOCFLAGS", "-D warnings")])
}

/// Runs every test that the machine can run. With `all`, a test that cannot run is a failure.
pub(crate) fn test(all: bool) -> Result<ExitCode> {
    let go = go();
    if go.is_some() {
        say("programs of upstream's control plane");
        controlplane::build_programs()?;
    }
    // `cargo xtask e2e` runs the scenarios below; this skips the test that would run them too.
    run("cargo", &["test", "--workspace", "--all-features", "--", "--skip", SCENARIOS_TEST])?;
    say("the template for schedulers with plugins");
    template::check()?;
    instructions::check(all)?;
    let Some(go) = go else {
        if all {
            bail!(
                "Go was not found: the oracle and the control plane need it. Install Go 1.26 or newer"
            );
        }
        say(
            "SKIPPED: the comparison with upstream's scheduler, the scenarios on its control plane and the comparison of kubectl on it and on the sandbox, because Go was not found. Install Go 1.26 or newer to run them.",
        );
        return Ok(ExitCode::SUCCESS);
    };
    let go = go.to_string_lossy().into_owned();
    let oracle = root().join("conformance/oracle");
    run_in(&oracle, &go, &["test", "./..."])?;
    say("fields of the protobuf form");
    protobuf::check(&oracle, &go)?;
    say("kubectl on upstream's control plane and on the sandbox");
    if kubectl::run(&kubectl::KubectlOptions::default())? != ExitCode::SUCCESS {
        bail!("kubectl does not print the same on both; run `cargo xtask kubectl` by itself");
    }
    say("scenarios on upstream's control plane");
    if e2e::run(&e2e::E2eOptions::default())? != ExitCode::SUCCESS {
        bail!("scenarios failed; run one by itself with `cargo xtask e2e --only NAME --keep`");
    }
    conformance::run(
        &conformance::ConformanceOptions::random(FRESH_CASES),
        &mut io::stdout().lock(),
    )
}
