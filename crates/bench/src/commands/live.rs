//! `jindou bench live`: beside kube-scheduler on a control plane.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use cli::output::Format;
use controlplane::Cores;

use crate::live::{self, LiveSettings, QPS};

/// Families that are measured if none is named: plain, spreading, anti-affinity, affinity.
const FAMILIES: [&str; 4] =
    ["SchedulingBasic", "TopologySpreading", "SchedulingPodAntiAffinity", "SchedulingPodAffinity"];

/// Let Jindou and kube-scheduler in turn drain the same pods on the same control plane.
///
/// Pods are created while no scheduler runs; then one starts, and is measured until all pods are bound and it is idle.
/// After that pods arrive one by one, at 60 % of kube-scheduler's rate, to measure the latency of each.
/// Each placement is checked against the pod's constraints.
#[derive(Args)]
#[command(after_help = after_help())]
pub(super) struct Options {
    /// Scheduler to compare with.
    #[arg(long, value_enum, default_value_t = Against::KubeScheduler)]
    against: Against,
    /// Families to run, by name.
    #[arg(long, value_delimiter = ',', default_values = FAMILIES)]
    family: Vec<String>,
    /// Number of nodes.
    #[arg(long, default_value_t = 1000)]
    nodes: usize,
    /// Number of pods; if absent, as many as the family has for the number of nodes.
    #[arg(long)]
    pods: Option<usize>,
    /// Number of rounds of each family; the first one warms up and is not counted if there are others.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds during which pods arrive one by one; 0 skips this part.
    #[arg(long, default_value_t = 10)]
    arrival_seconds: u64,
    /// Kubeconfig of an administrator of a running control plane without nodes and scheduler.
    /// If absent, one is built (once, some minutes, needs Go), started, and stopped.
    #[arg(long, value_name = "KUBECONFIG")]
    control_plane: Option<PathBuf>,
    /// Use the sandbox, without kubelets and controllers, instead of upstream's API server.
    #[arg(long, conflicts_with = "control_plane")]
    sandbox: bool,
    /// Give the scheduler a core of its own, and all other processes the remaining cores.
    #[arg(long, conflicts_with = "control_plane")]
    pinned: bool,
    /// Build of Jindou to measure instead of the one beside this program.
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
{QPS}, since kube-scheduler limits itself to 50 requests per second by default.
CPU is that of the whole process, from its start until it is idle. The drain lasts from the first bind to the last.
The bound is (S+B)/(S+C), the largest possible speedup of a drain when all cores are busy: B is the CPU time of
kube-scheduler, C that of Jindou, and S that of all other processes, measured in the run of each. With --pinned
it is max(S,B)/max(S,C), with S divided by the number of other cores.
Figures are valid if kube-scheduler's own runs differ by at most 15 %, the numbers of events written differ by at most
5 %, and no placement is wrong."
    )
}

pub(super) fn run(options: &Options) -> Result<ExitCode> {
    let Against::KubeScheduler = options.against;
    if options.nodes == 0 || options.pods == Some(0) || options.rounds == 0 {
        bail!("--nodes, --pods and --rounds take numbers above zero");
    }
    // Checked before kube-scheduler's first drain, which takes minutes.
    if let Some(program) = options.jindou.as_ref().filter(|program| !program.is_file()) {
        bail!("--jindou: there is no program {}; name the file of a build", program.display());
    }
    let families = options.family.iter().map(|name| super::find(name));
    // Before any process is started, since child processes inherit the cores.
    let cores = options.pinned.then(Cores::keep_one).transpose().context("--pinned")?;
    let settings = LiveSettings {
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
    super::until_interrupted(live::run(&settings))
}
