//! Developer commands.

mod ci;
mod codegen;
mod controlplane;
mod instructions;
mod kubectl;
mod protobuf;
mod shell;
mod template;
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
    /// The checks of CI that are not tests: format, tidy, walls, typos, dependencies, lints, docs.
    Gates {
        /// Run only this gate; may be given several times.
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
    },
    /// Every test that this machine can run.
    Test,
    /// Write the files that are generated from the code.
    Codegen {
        /// Write nothing, and fail if a file is not current.
        #[arg(long)]
        check: bool,
    },
    Conformance(conformance::ConformanceOptions),
    Controlplane(controlplane::ControlPlaneArgs),
    E2e(e2e::E2eOptions),
    /// Count the instructions of one decision and compare them with the committed numbers.
    Instructions {
        /// Write the counts of now as the committed numbers.
        #[arg(long)]
        bless: bool,
    },
    Kubectl(kubectl::KubectlOptions),
    /// Test the template for schedulers with plugins in a folder outside of the workspace.
    Template,
}

fn main() -> anyhow::Result<ExitCode> {
    match XtaskArgs::parse().command {
        XtaskCommand::Ci => ci::ci(),
        XtaskCommand::Gates { only } => ci::gates(&only).map(|()| ExitCode::SUCCESS),
        XtaskCommand::Test => ci::test(false),
        XtaskCommand::Codegen { check } => codegen::run(check).map(|()| ExitCode::SUCCESS),
        XtaskCommand::Conformance(options) => conformance::run(&options, &mut io::stdout().lock()),
        XtaskCommand::Controlplane(arguments) => controlplane::run(&arguments),
        XtaskCommand::E2e(options) => e2e::run(&options),
        XtaskCommand::Instructions { bless } => instructions::run(bless),
        XtaskCommand::Kubectl(options) => kubectl::run(&options),
        XtaskCommand::Template => template::check().map(|()| ExitCode::SUCCESS),
    }
}
