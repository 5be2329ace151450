//! `jindou up`: a cluster in memory with the scheduler at work.

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

/// Nodes without --nodes and without a file that has some.
const NODES: usize = 100;

/// Most nodes that can be asked for. Each costs a few kilobytes.
const NODES_MAX: usize = 100_000;

/// Start a cluster in memory, with nodes that only exist there and the scheduler at work.
#[derive(Args)]
#[command(after_help = "\
The last line on standard output is `ready` (with -o json or yaml: one document) once the API server
answers and the scheduler has seen the cluster. With a COMMAND, nothing is printed: the command runs
instead, with KUBECONFIG set, and the cluster ends with it.

Ctrl-C ends the cluster, a second one at once. The entries in the kubeconfig are removed again.

Exit codes: that of COMMAND, 128 and its signal if one killed it, 126 or 127 if it cannot be run;
otherwise 0 when asked to stop and 1 when anything is wrong.")]
pub(super) struct Options {
    /// Nodes to begin with, all alike; 100 unless a file says which ones there are.
    #[arg(long, value_name = "COUNT")]
    nodes: Option<usize>,
    /// YAML file with groups of nodes: `groups: [{name, count, zones, labels, taints, capacity}]`.
    #[arg(long, value_name = "FILE")]
    node_groups: Option<PathBuf>,
    /// Objects of a real cluster to begin with, as `kubectl get nodes,pods,… -A -o yaml` prints them. Controllers leave its workloads alone until something of them changes.
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Apply the objects of a file, or of all .yaml, .yml and .json files in a folder, before the scheduler starts. Can be given several times; definitions and namespaces come first.
    #[arg(long, value_name = "PATH")]
    apply: Vec<PathBuf>,
    /// Most objects that the cluster stores; more are refused.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    objects_max: usize,
    /// Port of the API server; 0 takes any that is free.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Address to listen on. Others than loopback let other machines in, if they have the token.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Further name or address of the API server in its certificate; can be given several times.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    tls_san: Vec<String>,
    /// Kubeconfig to merge the cluster into, as context jindou-PORT, until it ends. Other entries stay. Without it, a file of its own.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// KubeSchedulerConfiguration of the scheduler.
    #[arg(long, value_name = "FILE", conflicts_with = "no_scheduler")]
    config: Option<PathBuf>,
    /// Start no scheduler, so that another one can be tried.
    #[arg(long)]
    no_scheduler: bool,
    /// How many seconds pass in one second, for usage and for the timeouts of the simulated cluster.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    speed: f64,
    /// How address and kubeconfig are printed.
    #[arg(short, long, value_enum, default_value_t, conflicts_with = "command")]
    output: Format,
    /// How much is logged: 0 only what goes wrong, 4 and 5 also what controllers retry, 6 and more everything of ours, 10 also of libraries.
    #[arg(short, long, value_name = "LEVEL", default_value_t = 0)]
    v: u8,
    /// Form of the log.
    #[arg(long, value_enum, default_value_t)]
    logging_format: LogFormat,
    /// Command to run on the cluster, with KUBECONFIG set; the cluster ends with it.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Options {
    /// Refuses values that make no sense together. Returns the number of nodes that are all alike.
    fn check(&self) -> Result<usize> {
        let from_files = self.node_groups.is_some() || self.snapshot.is_some();
        let nodes = self.nodes.unwrap_or(if from_files { 0 } else { NODES });
        if nodes > NODES_MAX {
            bail!("--nodes {nodes}: at most {NODES_MAX} are possible");
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
    // Its own, so that it does not depend on what becomes of the file of the user.
    let own = private(&sandbox.kubeconfig())?;
    scheduler.kubeconfig(own.path());
    let port = sandbox.address().port();
    let path = match &options.kubeconfig {
        Some(path) => std::path::absolute(path).context("--kubeconfig")?,
        None => default_path(port)?,
    };
    let merged =
        Arc::new(Merged::new(&path, &sandbox.kubeconfig_named(&format!("jindou-{port}")))?);
    let attendant = Attendant {
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
    let attendant: JoinHandle<Result<ExitCode>> = io.spawn(attendant.run());
    let ended = if options.no_scheduler {
        io.block_on(embedding.stop.cancelled());
        Ok(ExitCode::SUCCESS)
    } else {
        scheduler::run(&scheduler, registry)
    };
    embedding.stop.cancel();
    let attended = io.block_on(attendant).context("the thread of the API server ended")?;
    io.block_on(sandbox.stop());
    if let Err(error) = merged.remove() {
        complain(&format!("{error:#}"));
    }
    match ended? {
        code if code == ExitCode::SUCCESS => attended,
        code => Ok(code),
    }
}

/// Announces the cluster once it is ready, runs the command, and listens for signals.
struct Attendant {
    about: About,
    cluster: Arc<Cluster>,
    format: Format,
    status_line: bool,
    command: Vec<OsString>,
    embedding: Embedding,
    merged: Arc<Merged>,
    signals: Signals,
}

impl Attendant {
    /// Returns when the cluster is asked to end, with the code of the command if there is one.
    async fn run(mut self) -> Result<ExitCode> {
        let code = self.attend().await;
        self.embedding.stop.cancel();
        // From now on everything ends in a bounded time; a second signal does not wait for that.
        let (mut signals, merged) = (self.signals, self.merged);
        tokio::spawn(async move {
            let signal = signals.next().await;
            let _ = merged.remove();
            end(signals::code(signal));
        });
        code
    }

    async fn attend(&mut self) -> Result<ExitCode> {
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

/// Ends the process at once.
#[expect(
    clippy::exit,
    reason = "the second signal asks for it; threads that are busy cannot be ended otherwise"
)]
fn end(code: u8) -> ! {
    std::process::exit(i32::from(code))
}

/// A file of its own for each cluster, in a folder that other users cannot enter.
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
        .with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder.join(format!("up-{port}.kubeconfig")))
}

/// A temporary file that only its owner may read.
fn private(text: &str) -> Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    file.write_all(text.as_bytes()).context("cannot write a temporary file")?;
    Ok(file)
}
