//! `jindou bench`: hands its arguments to the program `jindou-bench`.
//!
//! Measurements are a program of their own, so that the scheduler carries no tool chain, no control plane
//! and no plotter.

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

/// Replaces this process by `jindou-bench`: it gets the same environment, and its exit code is that of `jindou bench`.
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

/// Returns the program beside this one, or its bare name for a search in `PATH`.
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
