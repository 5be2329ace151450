//! `jindou bench`: runs the program `jindou-bench` with its arguments.
//!
//! Measurements are a program of their own, so that the scheduler's image has no code that builds Go programs, starts
//! control planes and draws plots.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, io};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::output::say;

const PROGRAM: &str = "jindou-bench";

/// Measure the engine, the scheduler beside kube-scheduler, and the embedded API server.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(super) struct Options {
    /// Arguments of `jindou-bench`, which is started in place of this program.
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Replaces this process by `jindou-bench`, which inherits the environment and determines the exit code.
pub(super) fn run(options: &Options) -> Result<ExitCode> {
    let own = env::current_exe().context("cannot find the path of this program")?;
    let error = Command::new(program(&own)).args(&options.arguments).exec();
    if error.kind() != io::ErrorKind::NotFound {
        return Err(error).context(format!("cannot start {PROGRAM}"));
    }
    let absent = absent();
    if options.arguments.first().is_none_or(|first| first == "--help" || first == "-h") {
        say(&format!(
            "`jindou bench` runs the program {PROGRAM}, which has its own help.\n{absent}\n"
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    bail!("{absent}");
}

/// Returns the path of `jindou-bench` beside this program, or its name for a search in `PATH`.
fn program(own: &Path) -> PathBuf {
    let beside = own.with_file_name(PROGRAM);
    if beside.is_file() { beside } else { PROGRAM.into() }
}

fn absent() -> String {
    let release = if cfg!(debug_assertions) { "" } else { " --release" };
    format!(
        "{PROGRAM} is neither beside this program nor in PATH; build it with `cargo build{release} -p bench`"
    )
}
