//! The commands, one file each.

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
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Explain(options) => explain::run(&options),
        Command::Config(options) => config::run(&options),
    };
    done.unwrap_or_else(|error| {
        complain(&format!("error: {error:#}"));
        ExitCode::FAILURE
    })
}
