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

/// Kubernetes scheduling: decide, explain, measure.
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

/// Runs the command that the arguments name, as a program of another name with plugins of its own.
pub fn run_with(program: &'static str, registry: &Registry) -> ExitCode {
    panics::abort_on_panic(panics::handles_request);
    let command = Arguments::command().name(program);
    let given: Vec<_> = std::env::args_os().collect();
    // As `kubectl-NAME` on the path it is a command of kubectl, and help says so.
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

/// Shows help, or what is wrong with the arguments. Clap's own code would be 2, which says that a pod fits nowhere.
fn usage(error: &clap::Error) -> ExitCode {
    // Nobody is left to tell when this fails.
    let _ = error.print();
    if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
