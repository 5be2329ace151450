//! `jindou scheduler`: the scheduler on a cluster, in kube-scheduler's place.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::config::Configuration;
use clap::{Args, ValueEnum};
use engine::engine::{Engine, Settings};
use engine::queue::QueueConfig;
use plugins::registry::Registry;
use runtime::bind::MaySend;
use runtime::connect::{self, Target};
use runtime::scheduler::{ClusterSide, Scheduler, check_connection, connect_sides};

use super::config::load;

/// How long binds that are under way may take when we are told to stop.
const DRAIN_MAX: Duration = Duration::from_secs(8);

const SECOND: i64 = 1_000_000_000;

/// Schedule the pods of a cluster, in kube-scheduler's place and with its configuration file.
#[derive(Args)]
#[command(after_help = "Exit codes: 0 when asked to stop, 1 when anything is wrong.")]
pub(super) struct Options {
    /// KubeSchedulerConfiguration, YAML or JSON.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How to reach the cluster. Without it, and without one in the configuration file: as the pod that we run in.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Address of the API server; overrides the one in the kubeconfig.
    #[arg(long, value_name = "URL", default_value = "")]
    master: String,
    /// How long a pod may wait for an event before it is tried anyway, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pod_max_in_unschedulable_pods_duration: i64,
    /// How much is logged: 0 to 3 tell what matters to operators, 4 and 5 details, 6 and more everything of ours, 10 of others.
    #[arg(short, long, value_name = "LEVEL", default_value_t = 0)]
    v: u8,
    /// Form of the log.
    #[arg(long, value_enum, default_value_t)]
    logging_format: LogFormat,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum LogFormat {
    #[default]
    Text,
    Json,
}

pub(super) fn run(options: &Options, registry: &Registry) -> Result<ExitCode> {
    log(options);
    let configuration = load(options.config.as_deref(), registry)?;
    let profiles = match registry.profiles(&configuration) {
        Ok(profiles) => profiles,
        Err(problems) => {
            for problem in problems {
                crate::output::complain(&format!("error: {problem}"));
            }
            return Ok(ExitCode::FAILURE);
        }
    };
    let queue = QueueConfig {
        initial_backoff: configuration.pod_initial_backoff_seconds.saturating_mul(SECOND),
        max_backoff: configuration.pod_max_backoff_seconds.saturating_mul(SECOND),
        max_in_unschedulable: options.pod_max_in_unschedulable_pods_duration.saturating_mul(SECOND),
    };
    let engine = Engine::new(profiles, Settings { queue, ..Settings::default() });
    let (engine_side, cluster_side) = connect_sides();
    let target = target(options, &configuration);
    let io = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the thread that talks to the cluster")?;
    let cluster = std::thread::Builder::new()
        .name("cluster".to_owned())
        .spawn(move || io.block_on(serve(cluster_side, &target)))
        .context("cannot start the thread that talks to the cluster")?;
    engine_side.run(engine)?;
    let ended = cluster.join().map_err(|_| anyhow::anyhow!("the I/O thread panicked"))?;
    ended.map(|()| ExitCode::SUCCESS)
}

/// The file's kubeconfig counts when there is a file, as with kube-scheduler.
fn target(options: &Options, configuration: &Configuration) -> Target {
    let written = &configuration.client_connection.kubeconfig;
    let in_file = (!written.is_empty()).then(|| PathBuf::from(written));
    let kubeconfig = in_file.or_else(|| options.kubeconfig.clone());
    Target { kubeconfig, master: options.master.clone() }
}

struct Always;

impl MaySend for Always {
    fn may_send(&self) -> bool {
        true
    }
}

async fn serve(side: ClusterSide, target: &Target) -> Result<()> {
    let config = connect::config(target).await?;
    let address = config.cluster_url.clone();
    let version = check_connection(&connect::client(&config)?)
        .await
        .with_context(|| format!("cannot talk to the API server at {address}"))?;
    tracing::info!("connected to {address}, Kubernetes {version}");
    let scheduler = Scheduler::start(side, &config, Arc::new(Always), host_name())?;
    scheduler.lead(true).await;
    signalled(&scheduler).await?;
    tracing::info!("stopping");
    scheduler.lead(false).await;
    scheduler.drain(DRAIN_MAX).await;
    scheduler.stop().await;
    Ok(())
}

/// Returns when the process is asked to stop; answers other signals meanwhile.
async fn signalled(scheduler: &Scheduler) -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut dump = signal(SignalKind::user_defined2())?;
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = dump.recv() => scheduler.audit().await,
        }
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or_else(|_| "localhost".to_owned(), |name| name.trim().to_owned())
}

fn log(options: &Options) {
    use tracing::level_filters::LevelFilter;
    use tracing_subscriber::filter::Targets;
    use tracing_subscriber::prelude::*;
    let (ours, others) = match options.v {
        0..4 => (LevelFilter::INFO, LevelFilter::WARN),
        4..6 => (LevelFilter::DEBUG, LevelFilter::WARN),
        6..10 => (LevelFilter::TRACE, LevelFilter::INFO),
        _ => (LevelFilter::TRACE, LevelFilter::TRACE),
    };
    let shown =
        Targets::new().with_default(others).with_targets([("cli", ours), ("runtime", ours)]);
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr())
        && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let registry = tracing_subscriber::registry().with(shown);
    match options.logging_format {
        LogFormat::Text => registry.with(lines).init(),
        LogFormat::Json => registry.with(lines.json()).init(),
    }
}
