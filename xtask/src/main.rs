//! Developer commands.

mod conformance;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer commands of Jindou.
#[derive(Parser)]
#[command(name = "xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Conformance(conformance::Options),
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().command {
        Command::Conformance(options) => conformance::run(&options, None),
    }
}
