//! `jindou bench soak`: whether the sandbox's memory stays constant.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use cli::output::Format;

use crate::soak::{self, SoakSettings};

/// Create and delete many pods in a sandbox with a watch open, and compare its memory.
///
/// The sandbox is a process of its own with kubelets and controllers, and without nodes. Its resident
/// memory after a tenth of the pods is compared with that at the end.
#[derive(Args)]
pub(super) struct Options {
    /// Pods to create in total.
    #[arg(long, default_value_t = 1_000_000)]
    pods: usize,
    /// Pods that exist at once.
    #[arg(long, default_value_t = 1000)]
    alive: usize,
    /// Requests in flight.
    #[arg(long, default_value_t = 16)]
    at_once: usize,
    /// Mebibytes by which memory may grow.
    #[arg(long, value_name = "MEBIBYTES", default_value_t = 16)]
    margin: u64,
    /// Form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn run(options: &Options) -> Result<ExitCode> {
    if options.pods == 0 || options.alive == 0 || options.at_once == 0 {
        bail!("--pods, --alive and --at-once take numbers above zero");
    }
    let settings = SoakSettings {
        pods: options.pods,
        alive: options.alive,
        at_once: options.at_once,
        margin: options.margin << 20,
        json: super::json("soak", options.output)?,
    };
    super::until_interrupted(soak::run(&settings))
}
