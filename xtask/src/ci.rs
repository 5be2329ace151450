//! Everything that CI checks, and the tests.

use std::io;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use crate::shell::{cache, go, root, run, run_in, say};
use crate::{codegen, e2e, instructions, kubectl, protobuf, tidy, walls};

const CARGO_DENY_VERSION: &str = "0.20.2";

/// Random cases compared with upstream in each run of the tests, beside the sample of `crates/conformance/tests/fresh.rs`.
const FRESH_CASES: u64 = 2000;

/// Format, lints, dependencies, walls, generated files, then all tests with nothing skipped.
pub(crate) fn ci() -> Result<ExitCode> {
    say("format");
    run("cargo", &["fmt", "--all", "--check"])?;
    say("lints");
    run(
        "cargo",
        &["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"],
    )?;
    say("dependencies");
    deny()?;
    walls::check()?;
    say("tidy");
    tidy::check()?;
    say("generated files");
    codegen::run(true)?;
    test(true)
}

/// Every test that the machine can run. With `all`, what cannot run is a failure.
pub(crate) fn test(all: bool) -> Result<ExitCode> {
    let go = go();
    if go.is_some() {
        say("programs of upstream's control plane");
        controlplane::build_programs()?;
    }
    run("cargo", &["test", "--workspace", "--all-features"])?;
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
        bail!("kubectl does not say the same on both; run `cargo xtask kubectl` by itself");
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

/// Checks licences, sources and bans with cargo-deny, which is installed if it is absent.
fn deny() -> Result<()> {
    let tools = cache()?.join("tools");
    let program = tools.join("bin/cargo-deny");
    if !program.exists() {
        say("installing cargo-deny, once");
        let tools = tools.to_string_lossy().into_owned();
        let arguments = [
            "install",
            "cargo-deny",
            "--version",
            CARGO_DENY_VERSION,
            "--locked",
            "--root",
            &tools,
        ];
        run("cargo", &arguments)?;
    }
    // It looks at the crates of every platform, and without the network.
    run("cargo", &["fetch", "--locked"])?;
    let program = program.to_str().context("the cache folder has a name that is not UTF-8")?;
    run(program, &["--offline", "check", "bans", "licenses", "sources"])
}
