//! `jindou bench preempt`: preemption on a full cluster whose victims terminate slowly.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use cli::output::Format;

use crate::preempt::{self, PreemptSettings};

/// Preempt on a full cluster whose victims terminate slowly: victims per preemptor, and latency of other pods.
///
/// Each scheduler gets a sandbox of its own, full of pods of low priority. All preemptors arrive at once, each
/// needing the space of one pod; other pods of low priority that fit keep arriving at a fixed rate.
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 if Jindou evicted no more pods than needed, 1 otherwise and on errors."
)]
pub(super) struct Options {
    /// Number of nodes, each full of four pods.
    #[arg(long, default_value_t = 5000)]
    nodes: usize,
    /// Number of preemptors.
    #[arg(long, default_value_t = 1000)]
    preemptors: usize,
    /// Seconds that a victim takes to terminate.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    terminate: u64,
    /// Other pods that arrive per second.
    #[arg(long, value_name = "PODS", default_value_t = 20.0)]
    arrivals: f64,
    /// Measure Jindou alone; otherwise kube-scheduler is built (once, some minutes, needs Go) and measured first.
    #[arg(long)]
    alone: bool,
    /// Build of Jindou to measure instead of the one beside this program.
    #[arg(long, value_name = "PROGRAM")]
    jindou: Option<PathBuf>,
    /// Form of the output; JSON is one object per line and scheduler.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn run(options: &Options) -> Result<ExitCode> {
    if options.nodes == 0 || options.preemptors == 0 || options.terminate == 0 {
        bail!("--nodes, --preemptors and --terminate take numbers above zero");
    }
    if options.preemptors > options.nodes * 4 {
        bail!(
            "--preemptors {}: {} nodes have room for {}; give more --nodes",
            options.preemptors,
            options.nodes,
            options.nodes * 4
        );
    }
    if !options.arrivals.is_finite() || options.arrivals <= 0.0 {
        bail!("--arrivals {}: must be above zero", options.arrivals);
    }
    let settings = PreemptSettings {
        nodes: options.nodes,
        preemptors: options.preemptors,
        terminate: Duration::from_secs(options.terminate),
        arrivals: options.arrivals,
        against: !options.alone,
        jindou: options.jindou.clone(),
        json: super::json("preempt", options.output)?,
    };
    super::until_interrupted(preempt::run(&settings))
}
