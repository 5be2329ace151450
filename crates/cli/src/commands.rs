//! The commands, one file each.

mod bench;
mod config;
mod explain;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::output::complain;

/// Kubernetes scheduling: decide, explain, measure.
#[derive(Parser)]
#[command(name = "jindou", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Explain(explain::Options),
    Config(config::Options),
    Bench(bench::Options),
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    let done = match arguments.command {
        Command::Explain(options) => explain::run(&options),
        Command::Config(options) => config::run(&options),
        Command::Bench(options) => bench::run(&options),
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
