//! `jindou up`: runs an embedded cluster with the scheduler.

mod announce;
mod child;
mod files;
mod kubeconfig;
mod signals;

use std::ffi::OsString;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use api::config::Gates;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use plugins::registry::Registry;
use sandbox::Sandbox;
use sandbox::cluster::Cluster;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::config::load_as_written;
use super::scheduler::{self, Embedding, LogFormat};
use crate::output::{Format, complain};
use announce::About;
use kubeconfig::Merged;
use signals::Signals;

/// Number of nodes without --nodes, --node-groups and --snapshot.
const NODES: usize = 100;

/// Maximum of --nodes. Each node takes a few kilobytes.
const NODES_MAX: usize = 100_000;

/// Run an embedded cluster: an API server in memory, simulated nodes, and the scheduler.
#[derive(Args)]
#[command(after_help = "\
Once the API server answers and the scheduler has seen all objects, prints how to reach the cluster;
the last line is `ready` (with -o json or yaml: one document). With COMMAND, prints nothing and runs the
command with KUBECONFIG set; the cluster ends when the command exits.

Ctrl-C stops the cluster; a second Ctrl-C exits at once. The entries in the kubeconfig are removed.

Exit codes: with COMMAND, its exit code, 128 + N if signal N ended it, 126 or 127 if it cannot be run;
without COMMAND, 0 after Ctrl-C, SIGTERM or SIGHUP; 1 after an error.")]
pub(super) struct Options {
    /// Number of equal simulated nodes [default: 100, or 0 with --node-groups or --snapshot].
    #[arg(long, value_name = "COUNT")]
    nodes: Option<usize>,
    /// YAML file with groups of simulated nodes: `groups: [{name, count, zones, labels, taints, capacity}]`.
    #[arg(long, value_name = "FILE")]
    node_groups: Option<PathBuf>,
    /// Objects of a real cluster to start with, as printed by `kubectl get nodes,pods,… -A -o yaml`. Controllers leave its workloads alone until one of their objects changes.
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Apply the objects of a file, or of all .yaml, .yml and .json files in a directory, before the scheduler starts. Repeatable; CustomResourceDefinitions and namespaces are applied first.
    #[arg(long, value_name = "PATH")]
    apply: Vec<PathBuf>,
    /// Maximum number of stored objects; the API server rejects more.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    objects_max: usize,
    /// Port of the API server; 0 selects a free one.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Address to listen on. With an address other than loopback, other machines can connect if they have the token.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Additional name or IP address in the certificate of the API server; repeatable.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    tls_san: Vec<String>,
    /// Kubeconfig into which the cluster is merged as context jindou-PORT until it ends; other entries stay unchanged [default: a new file in the user's runtime or cache directory].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// KubeSchedulerConfiguration of the scheduler, YAML or JSON.
    #[arg(long, value_name = "FILE", conflicts_with = "no_scheduler")]
    config: Option<PathBuf>,
    /// Do not start a scheduler, so that another program can schedule the pods.
    #[arg(long)]
    no_scheduler: bool,
    /// Factor by which simulated time runs faster than real time, for usage and time-outs of the simulation.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    speed: f64,
    /// Output format of address and kubeconfig.
    #[arg(short, long, value_enum, default_value_t, conflicts_with = "command")]
    output: Format,
    /// Log level: 0 logs warnings and errors, 4 and 5 also retries of controllers, 6 and more everything of Jindou, 10 also libraries.
    #[arg(short, long, value_name = "LEVEL", default_value_t = 0)]
    v: u8,
    /// Log format.
    #[arg(long, value_enum, default_value_t)]
    logging_format: LogFormat,
    /// Command to run with KUBECONFIG set; the cluster ends when it exits.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Options {
    /// Validates the options and returns the number of equal nodes.
    fn check(&self) -> Result<usize> {
        let from_files = self.node_groups.is_some() || self.snapshot.is_some();
        let nodes = self.nodes.unwrap_or(if from_files { 0 } else { NODES });
        if nodes > NODES_MAX {
            bail!("--nodes {nodes}: must be at most {NODES_MAX}");
        }
        if !self.speed.is_finite() || self.speed <= 0.0 {
            bail!("--speed {}: must be greater than 0", self.speed);
        }
        Ok(nodes)
    }
}

pub(super) fn run(options: &Options, registry: &Registry) -> Result<ExitCode> {
    let nodes = options.check()?;
    // A wrong configuration is reported before anything starts.
    load_as_written(options.config.as_deref(), Gates::default(), registry)?;
    let embedding = Embedding::default();
    let mut scheduler = scheduler::Options::embedded(options.config.as_deref(), &embedding)?;
    scheduler.log(options.v, options.logging_format);
    let io = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("sandbox")
        .enable_all()
        .build()
        .context("cannot start the threads of the API server")?;
    let signals = io.block_on(async { Signals::listen() }).context("cannot listen for signals")?;
    let cluster = Arc::new(Cluster::new());
    cluster.limit_objects(options.objects_max);
    sandbox::create_system_objects(&cluster);
    let more_nodes = files::fill(&cluster, options)?;
    let manifests = files::manifests(&options.apply)?;
    let settings = sandbox::Options {
        address: SocketAddr::new(options.address, options.port),
        nodes,
        more_nodes,
        names: options.tls_san.clone(),
        speed: options.speed,
        actors: true,
    };
    let sandbox = io.block_on(Sandbox::serve(cluster, &settings))?;
    io.block_on(sandbox::import::apply(&sandbox.cluster, manifests)).context("--apply")?;
    // A private file, so that changes of the user's file do not affect the scheduler.
    let own = private(&sandbox.kubeconfig())?;
    scheduler.kubeconfig(own.path());
    let port = sandbox.address().port();
    let path = match &options.kubeconfig {
        Some(path) => std::path::absolute(path).context("--kubeconfig")?,
        None => default_path(port)?,
    };
    let merged =
        Arc::new(Merged::new(&path, &sandbox.kubeconfig_named(&format!("jindou-{port}")))?);
    let session = Session {
        about: About::new(&sandbox, &path, !options.no_scheduler),
        cluster: Arc::clone(&sandbox.cluster),
        format: options.output,
        status_line: options.v == 0,
        command: options.command.clone(),
        embedding: embedding.clone(),
        merged: Arc::clone(&merged),
        signals,
    };
    if options.no_scheduler {
        embedding.ready.notify_one();
    }
    let session: JoinHandle<Result<ExitCode>> = io.spawn(session.run());
    let ended = if options.no_scheduler {
        io.block_on(embedding.stop.cancelled());
        Ok(ExitCode::SUCCESS)
    } else {
        scheduler::run(&scheduler, registry)
    };
    embedding.stop.cancel();
    let session_code = io.block_on(session).context("the thread of the API server ended")?;
    io.block_on(sandbox.stop());
    if let Err(error) = merged.remove() {
        complain(&format!("{error:#}"));
    }
    match ended? {
        code if code == ExitCode::SUCCESS => session_code,
        code => Ok(code),
    }
}

/// The session of the user: announces the cluster once it is ready, runs the command, handles signals.
struct Session {
    about: About,
    cluster: Arc<Cluster>,
    format: Format,
    status_line: bool,
    command: Vec<OsString>,
    embedding: Embedding,
    merged: Arc<Merged>,
    signals: Signals,
}

impl Session {
    /// Returns when the cluster is to end, with the exit code of the command if there is one.
    async fn run(mut self) -> Result<ExitCode> {
        let code = self.wait_for_end().await;
        self.embedding.stop.cancel();
        // The shutdown has time-outs; a second signal skips it.
        let (mut signals, merged) = (self.signals, self.merged);
        tokio::spawn(async move {
            let signal = signals.next().await;
            let _ = merged.remove();
            end(signals::code(signal));
        });
        code
    }

    async fn wait_for_end(&mut self) -> Result<ExitCode> {
        let stop: &CancellationToken = &self.embedding.stop;
        tokio::select! {
            () = self.embedding.ready.notified() => {}
            _ = self.signals.next() => return Ok(ExitCode::SUCCESS),
            () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
        }
        if let Some((program, arguments)) = self.command.split_first() {
            let kubeconfig = &self.about.kubeconfig;
            return child::run(program, arguments, kubeconfig, &mut self.signals, stop).await;
        }
        self.about.say(self.format)?;
        let status = async {
            if self.status_line {
                announce::status(&self.cluster).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = status => {}
            _ = self.signals.next() => {}
            () = stop.cancelled() => {}
        }
        if self.status_line {
            announce::end_of_status();
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Exits at once.
#[expect(
    clippy::exit,
    reason = "after the second signal; busy threads cannot be stopped otherwise"
)]
fn end(code: u8) -> ! {
    std::process::exit(i32::from(code))
}

/// Returns the default path of the kubeconfig, in a private directory of the user.
fn default_path(port: u16) -> Result<PathBuf> {
    let base = std::env::var_os("XDG_RUNTIME_DIR")
        .or_else(|| std::env::var_os("XDG_CACHE_HOME"))
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    let folder = base
        .context("none of XDG_RUNTIME_DIR, XDG_CACHE_HOME and HOME is set: use --kubeconfig")?
        .join("jindou");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder.join(format!("up-{port}.kubeconfig")))
}

/// Creates a temporary file that only its owner may read.
fn private(text: &str) -> Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new().context("cannot create a temporary file")?;
    file.write_all(text.as_bytes()).context("cannot write a temporary file")?;
    Ok(file)
}
