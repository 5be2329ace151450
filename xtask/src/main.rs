//! Developer commands.

mod ci;
mod codegen;
mod controlplane;
mod e2e;
mod instructions;
mod kubectl;
mod protobuf;
mod shell;
mod tidy;
mod walls;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer commands of Jindou.
#[derive(Parser)]
#[command(name = "xtask")]
struct XtaskArgs {
    #[command(subcommand)]
    command: XtaskCommand,
}

#[derive(Subcommand)]
enum XtaskCommand {
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
    Conformance(conformance::ConformanceOptions),
    Controlplane(controlplane::ControlPlaneArgs),
    E2e(e2e::E2eOptions),
    /// Count the instructions of one decision and compare them with the committed numbers.
    Instructions {
        /// Commit to what is counted now.
        #[arg(long)]
        bless: bool,
    },
    Kubectl(kubectl::KubectlOptions),
}

fn main() -> anyhow::Result<ExitCode> {
    match XtaskArgs::parse().command {
        XtaskCommand::Ci => ci::ci(),
        XtaskCommand::Test => ci::test(false),
        XtaskCommand::Codegen { check } => codegen::run(check).map(|()| ExitCode::SUCCESS),
        XtaskCommand::Conformance(options) => conformance::run(&options, &mut io::stdout().lock()),
        XtaskCommand::Controlplane(arguments) => controlplane::run(&arguments),
        XtaskCommand::E2e(options) => e2e::run(&options),
        XtaskCommand::Instructions { bless } => instructions::run(bless),
        XtaskCommand::Kubectl(options) => kubectl::run(&options),
    }
}
