//! `jindou up`: a cluster in memory with the scheduler at work, for whoever has none.

use std::fs::OpenOptions;
use std::io::{IsTerminal as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use api::config::Gates;
use clap::Args;
use plugins::registry::Registry;
use sandbox::Sandbox;
use sandbox::cluster::Cluster;
use sandbox::import;
use tokio_util::sync::CancellationToken;

use super::config::load_as_written;
use super::scheduler;
use crate::output::{STRONG, complain, painted, say};

/// Nodes when nobody says how many.
const NODES: usize = 100;

/// Most nodes that can be asked for. Each costs a few kilobytes.
const NODES_MAX: usize = 100_000;

/// How often the status line is written.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Start a cluster in memory, with nodes that only exist there and the scheduler at work.
#[derive(Args)]
#[command(
    after_help = "Ctrl-C ends it. Exit codes: 0 when asked to stop, 1 when anything is wrong."
)]
pub(super) struct Options {
    /// Nodes to begin with, all alike; 100 unless a file says which ones there are.
    #[arg(long, value_name = "COUNT")]
    nodes: Option<usize>,
    /// YAML file with groups of nodes: `groups: [{name, count, zones, labels, taints, capacity}]`.
    #[arg(long, value_name = "FILE")]
    node_groups: Option<PathBuf>,
    /// Objects of a real cluster to begin with, as `kubectl get nodes,pods,… -A -o yaml` prints them.
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Port of the API server; 0 takes any that is free.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Address to listen on. Others than loopback let other machines in, if they have the token.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Where to write the kubeconfig; without it, into the cache folder.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// KubeSchedulerConfiguration of the scheduler.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How many seconds pass in one second, for usage and for the timeouts of the simulated cluster.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    speed: f64,
}

pub(super) fn run(options: &Options, registry: &Registry) -> Result<ExitCode> {
    let from_files = options.node_groups.is_some() || options.snapshot.is_some();
    let nodes = options.nodes.unwrap_or(if from_files { 0 } else { NODES });
    if nodes > NODES_MAX {
        bail!("--nodes {nodes}: at most {NODES_MAX} are possible");
    }
    if !options.speed.is_finite() || options.speed <= 0.0 {
        bail!("--speed {}: must be greater than 0", options.speed);
    }
    // What is wrong with the configuration is told before anything starts.
    load_as_written(options.config.as_deref(), Gates::default(), registry)?;
    let io = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("sandbox")
        .enable_all()
        .build()
        .context("cannot start the threads of the API server")?;
    let cluster = Arc::new(Cluster::new());
    sandbox::furnish(&cluster);
    let more_nodes = fill(&cluster, options)?;
    let settings = sandbox::Options {
        address: SocketAddr::new(options.address, options.port),
        nodes,
        more_nodes,
        speed: options.speed,
        actors: true,
    };
    let sandbox = io.block_on(Sandbox::serve(cluster, &settings))?;
    let path = match &options.kubeconfig {
        Some(path) => std::path::absolute(path).context("--kubeconfig")?,
        None => default_path(sandbox.address().port())?,
    };
    write_private(&path, &sandbox.kubeconfig())?;
    let ending = CancellationToken::new();
    welcome(&sandbox, &path)?;
    if std::io::stderr().is_terminal() {
        io.spawn(ending.clone().run_until_cancelled_owned(tell(Arc::clone(&sandbox.cluster))));
    }
    let ended = scheduler::Options::embedded(&path, options.config.as_deref())
        .and_then(|options| scheduler::run(&options, registry));
    ending.cancel();
    io.block_on(sandbox.stop());
    if options.kubeconfig.is_none() {
        // Nobody can use it any more.
        let _ = std::fs::remove_file(&path);
    }
    ended
}

/// Reads the files that say what the cluster holds; the nodes of groups.
fn fill(cluster: &Cluster, options: &Options) -> Result<Vec<serde_json::Value>> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    if let Some(path) = &options.snapshot {
        let imported = import::snapshot(cluster, &read(path)?)
            .with_context(|| format!("--snapshot {}", path.display()))?;
        if !imported.unknown.is_empty() {
            complain(&format!(
                "left out, since nobody knows these kinds here: {}",
                imported.unknown.join(", ")
            ));
        }
    }
    match &options.node_groups {
        None => Ok(Vec::new()),
        Some(path) => import::node_groups(&read(path)?)
            .with_context(|| format!("--node-groups {}", path.display())),
    }
}

/// A file of its own for each sandbox.
fn default_path(port: u16) -> Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    let folder =
        cache.context("neither HOME nor XDG_CACHE_HOME is set: use --kubeconfig")?.join("jindou");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder.join(format!("up-{port}.kubeconfig")))
}

/// Writes a file that only its owner may read.
fn write_private(path: &Path, text: &str) -> Result<()> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write the kubeconfig {}", path.display()))
}

fn welcome(sandbox: &Sandbox, path: &Path) -> Result<()> {
    if !std::io::stdout().is_terminal() {
        return say("ready\n");
    }
    let (nodes, shown) = (sandbox.cluster.kind("", "nodes").objects.len(), path.display());
    let title = painted(STRONG, "A cluster is up");
    let ready = painted(STRONG, &format!("export KUBECONFIG={shown}"));
    say(&format!(
        "{title} at https://{}: {nodes} simulated nodes, and Jindou schedules.\n\n  {ready}\n\nThen try, in another terminal:\n\n  kubectl get nodes\n  kubectl create deployment web --image=nginx --replicas=300 && kubectl get pods -o wide --watch\n  kubectl drain node-0 --ignore-daemonsets && kubectl get events\n\nCtrl-C ends it, and everything in it is gone.\n",
        sandbox.address(),
    ))
}

/// Writes how things are, again and again, on one line.
async fn tell(cluster: Arc<Cluster>) {
    let (pods, nodes) = (cluster.kind("", "pods"), cluster.kind("", "nodes"));
    let mut last = String::new();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let all = pods.objects.list("").objects;
        let running = all.iter().filter(|pod| pod.field_named("status.phase") == "Running").count();
        let pending = all.iter().filter(|pod| pod.field_named("status.phase") == "Pending").count();
        let line = format!(
            "{} nodes, {} pods: {running} running, {pending} pending",
            nodes.objects.len(),
            all.len()
        );
        if line != last {
            let mut out = std::io::stderr().lock();
            // Nobody is left to tell when this fails.
            let _ = write!(out, "\r\u{1b}[K{line}").and_then(|()| out.flush());
            last = line;
        }
    }
}
