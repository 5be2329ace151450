//! Developer commands.

mod ci;
mod codegen;
mod conformance;
mod controlplane;
mod e2e;
mod instructions;
mod kubectl;
mod protobuf;
mod shell;
mod tidy;
mod walls;

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
    /// Everything that CI checks: format, lints, dependencies, generated files, all tests.
    Ci,
    /// Every test that this machine can run.
    Test,
    /// Write the files that are made from the code.
    Codegen {
        /// Only tell whether they are current.
        #[arg(long)]
        check: bool,
    },
    Conformance(conformance::Options),
    Controlplane(controlplane::Arguments),
    E2e(e2e::Options),
    /// Count the instructions of one decision and compare them with the committed numbers.
    Instructions {
        /// Commit to what is counted now.
        #[arg(long)]
        bless: bool,
    },
    Kubectl(kubectl::Options),
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().command {
        Command::Ci => ci::ci(),
        Command::Test => ci::test(false),
        Command::Codegen { check } => codegen::run(check).map(|()| ExitCode::SUCCESS),
        Command::Conformance(options) => compare(&options),
        Command::Controlplane(arguments) => controlplane::run(&arguments),
        Command::E2e(options) => e2e::run(&options),
        Command::Instructions { bless } => instructions::run(bless),
        Command::Kubectl(options) => kubectl::run(&options),
    }
}

fn compare(options: &conformance::Options) -> anyhow::Result<ExitCode> {
    conformance::run(options, Some(cli::explain::case))
}

/// Compares fresh random cases with upstream.
fn compare_fresh(cases: u64) -> anyhow::Result<ExitCode> {
    let cases = cases.to_string();
    match Arguments::parse_from(["xtask", "conformance", "--cases", &cases]).command {
        Command::Conformance(options) => compare(&options),
        _ => anyhow::bail!("the arguments name the comparison"),
    }
}
