//! `jindou bench live`: beside kube-scheduler on a control plane.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use cli::output::Format;
use controlplane::Cores;

use crate::live::{self, Plan, QPS};

/// Families that are measured if none is named: plain, spreading, anti-affinity, affinity.
const FAMILIES: [&str; 4] =
    ["SchedulingBasic", "TopologySpreading", "SchedulingPodAntiAffinity", "SchedulingPodAffinity"];

/// Jindou and kube-scheduler in turn, each draining the same pods on the same control plane.
///
/// Pods are created while no scheduler runs; then one starts, and is measured until all are bound and it rests.
/// After that it gets pods one by one, at 60 % of what kube-scheduler can do, to measure how long each waits.
/// Where each pod went is checked against its constraints.
#[derive(Args)]
#[command(after_help = after_help())]
pub(super) struct Options {
    /// Whom to compare with.
    #[arg(long, value_enum, default_value_t = Against::KubeScheduler)]
    against: Against,
    /// Families to run, by name.
    #[arg(long, value_delimiter = ',', default_values = FAMILIES)]
    family: Vec<String>,
    /// Number of nodes.
    #[arg(long, default_value_t = 1000)]
    nodes: usize,
    /// Number of pods; as many as the family has for so many nodes if not given.
    #[arg(long)]
    pods: Option<usize>,
    /// How often each drains each family; the first time does not count if there are others.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How many seconds pods arrive one by one; 0 leaves that out.
    #[arg(long, default_value_t = 10)]
    arrival_seconds: u64,
    /// Kubeconfig of an administrator of a control plane that runs, without nodes and without a scheduler.
    /// If not given, one is built (once, some minutes, needs Go), started, and ended.
    #[arg(long, value_name = "KUBECONFIG")]
    control_plane: Option<PathBuf>,
    /// Use the sandbox, without kubelets and controllers, instead of upstream's API server.
    #[arg(long, conflicts_with = "control_plane")]
    sandbox: bool,
    /// Give the scheduler a core of its own, and all others the rest.
    #[arg(long, conflicts_with = "control_plane")]
    pinned: bool,
    /// Another build of Jindou to measure instead of this one.
    #[arg(long, value_name = "PROGRAM")]
    jindou: Option<PathBuf>,
    /// Also draw the figures, as SVG.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Form of the output; JSON is one object per line: one for each run, then one for each family.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Against {
    KubeScheduler,
}

fn after_help() -> String {
    format!(
        "\
Both schedulers get the same configuration: defaults, no leader election, no profiling, and clientConnection.qps
{QPS}, since kube-scheduler holds itself to 50 requests per second otherwise.
CPU is that of the whole process, from its start until it rests. The drain lasts from the first bind to the last.
The bound is (S+B)/(S+C): how many times faster a drain can get at most when all cores are busy, B being the
processor time of kube-scheduler, C Jindou's and S that of all others, as it was beside each of them. With --pinned
the busier side counts, max(S,B)/max(S,C), with S shared by the other cores.
Figures count when kube-scheduler's own runs differ by at most 15 %, both wrote as many events within 5 %, and no
placement is wrong."
    )
}

pub(super) fn run(options: &Options) -> Result<ExitCode> {
    let Against::KubeScheduler = options.against;
    if options.nodes == 0 || options.pods == Some(0) || options.rounds == 0 {
        bail!("--nodes, --pods and --rounds take numbers above zero");
    }
    // Told now, not after kube-scheduler's first drain.
    if let Some(program) = options.jindou.as_ref().filter(|program| !program.is_file()) {
        bail!("--jindou: there is no program {}; name the file of a build", program.display());
    }
    let families = options.family.iter().map(|name| super::find(name));
    // Before anything is started, as what is started inherits the cores.
    let cores = options.pinned.then(Cores::keep_one).transpose().context("--pinned")?;
    let plan = Plan {
        families: families.collect::<Result<_>>()?,
        nodes: options.nodes,
        pods: options.pods,
        rounds: options.rounds,
        arrival_seconds: options.arrival_seconds,
        kubeconfig: options.control_plane.clone(),
        sandbox: options.sandbox,
        cores,
        jindou: options.jindou.clone(),
        plot: options.plot.clone(),
        json: super::json("live", options.output)?,
    };
    super::until_interrupted(live::run(&plan))
}
