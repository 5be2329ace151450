//! The commands, one file each.

mod bench;
mod config;
mod explain;
mod invocation;
mod scheduler;
mod up;

use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use plugins::registry::Registry;

use crate::output::complain;
use crate::panics;

pub use scheduler::upstream;

/// A scheduler for Kubernetes that explains its decisions.
#[derive(Parser)]
#[command(name = "jindou", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(up::Options),
    Explain(explain::Options),
    Config(config::Options),
    Bench(bench::Options),
    Scheduler(Box<scheduler::Options>),
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    run_with("jindou", &Registry::default())
}

/// Runs the command that the arguments name, under another program name and with custom plugins.
pub fn run_with(program: &'static str, registry: &Registry) -> ExitCode {
    panics::abort_on_panic();
    let command = Arguments::command().name(program);
    let given: Vec<_> = std::env::args_os().collect();
    // Named `kubectl-NAME` it is a kubectl plugin, and help shows `kubectl NAME`.
    let own = given.first().cloned();
    let plugin = own.as_deref().and_then(|own| Path::new(own).file_stem()?.to_str());
    let is_command =
        |name: &str| name == "help" || command.get_subcommands().any(|one| one.get_name() == name);
    let given = invocation::arguments(given, is_command);
    let parsed = match plugin.and_then(|name| name.strip_prefix("kubectl-")) {
        Some(name) => command.bin_name(format!("kubectl {name}")).try_get_matches_from(given),
        None => command.try_get_matches_from(given),
    };
    let arguments = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    let done = match arguments.command {
        Command::Up(options) => up::run(&options, registry),
        Command::Explain(options) => explain::run(&options, registry),
        Command::Config(options) => config::run(&options, registry),
        Command::Bench(options) => bench::run(&options),
        Command::Scheduler(options) => scheduler::run(&options, registry),
    };
    done.unwrap_or_else(|error| {
        complain(&format!("error: {error:#}"));
        ExitCode::FAILURE
    })
}

/// Prints help or the error in the arguments. Clap's own exit code for errors is 2, which means here that no
/// node fits.
fn usage(error: &clap::Error) -> ExitCode {
    // An error of the output cannot be reported anywhere.
    let _ = error.print();
    if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
