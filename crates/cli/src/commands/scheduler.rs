//! `jindou scheduler`: schedules a real cluster in kube-scheduler's place.

mod embedding;
mod flags;
mod log;
mod serve;
mod signals;
pub mod upstream;

use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use api::config::{self, Configuration, v1};
use engine::engine::{Engine, Settings};
use engine::framework::Profile;
use engine::queue::QueueConfig;
use plugins::registry::Registry;
use runtime::bind::BindWindow;
use runtime::connect::ConfigSource;
use runtime::gate::Throttle;
use runtime::http::{Ciphers, ServingCertificate, TlsMin};
use runtime::metrics::Metrics;
use runtime::scheduler::connect_sides;
use runtime::traces::Traces;
use runtime::wake_batch::WakeBatcher;

use super::config::load_as_written;
use crate::output::{complain, say};

pub(super) use embedding::Embedding;
pub(super) use flags::{LogFormat, Options};

use flags::{Lookup, RunMode};

const SECOND: i64 = 1_000_000_000;

pub(super) fn run(options: &Options, registry: &Registry) -> Result<ExitCode> {
    if let Some(text) = upstream::version(&options.version) {
        say(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let gates = options.gates()?;
    let (mut configuration, written) =
        load_as_written(options.config.as_deref(), gates.gates, registry)?;
    let limits = options.override_limits(&mut configuration.client_connection);
    options.override_leader_election(&mut configuration.leader_election)?;
    if let Some(path) = &options.write_config_to {
        std::fs::write(path, config::write(&configuration))
            .with_context(|| format!("cannot write {}", path.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let profiles = match registry.profiles(&configuration) {
        Ok(profiles) => profiles,
        Err(problems) => {
            for problem in problems {
                complain(&format!("error: {problem}"));
            }
            return Ok(ExitCode::FAILURE);
        }
    };
    if options.mode == RunMode::Cluster {
        log::start(options);
    }
    for warning in options.warnings(&gates) {
        tracing::warn!("{warning}");
    }
    if configuration.delay_cache_until_active {
        tracing::warn!(
            "delayCacheUntilActive has no effect: candidates also watch, so that they can take over at once"
        );
    }
    let throttle = throttle(&configuration, &written, limits);
    let queue = QueueConfig {
        initial_backoff: configuration.pod_initial_backoff_seconds.saturating_mul(SECOND),
        max_backoff: configuration.pod_max_backoff_seconds.saturating_mul(SECOND),
        max_in_unschedulable: options.pod_max_in_unschedulable_pods_duration.0.nanos(),
    };
    let metrics = Metrics::new(&configuration.leader_election.resource_name);
    // Different in each process, so that two schedulers rarely choose the same node among ties.
    let seed = RandomState::new().hash_one(std::process::id());
    tracing::info!(seed, "ties between nodes are broken by random numbers from this seed");
    let annotations = Profile::annotations(&profiles);
    let engine = Engine::new(profiles, Settings { queue, seed: Some(seed) });
    let window = Arc::new(BindWindow::default());
    let wake_batcher = Arc::new(WakeBatcher::default());
    let io = tokio::runtime::Builder::new_current_thread()
        .on_thread_park({
            let wake_batcher = Arc::clone(&wake_batcher);
            move || wake_batcher.flush()
        })
        .enable_all()
        .build()
        .context("cannot start the I/O thread")?;
    let traces = options.traces(&host_name(), io.handle())?;
    let (engine_side, cluster_side) = connect_sides(window, &metrics, &traces);
    let cluster_side = cluster_side.with_annotations(annotations);
    let io_config = IoConfig::new(options, configuration, throttle, metrics, traces)?;
    let status = cluster_side.status();
    let cluster = std::thread::Builder::new()
        .name("cluster".to_owned())
        .spawn({
            let wake_batcher = Arc::clone(&wake_batcher);
            move || {
                wake_batcher.defer_wakes_of_this_thread();
                let ended = io.block_on(serve::serve(cluster_side, io_config));
                if let (Err(error), Err(_)) = (&ended, status.liveness.check()) {
                    end_without_engine(error);
                }
                drop(io);
                wake_batcher.flush();
                ended
            }
        })
        .context("cannot start the I/O thread")?;
    engine_side.run(engine, &wake_batcher)?;
    let ended = cluster.join().map_err(|_| anyhow!("the I/O thread panicked"))?;
    ended.map(|()| ExitCode::SUCCESS)
}

/// Exits although the engine thread is stuck and cannot return.
#[expect(clippy::exit, reason = "the first thread does not return")]
fn end_without_engine(error: &anyhow::Error) {
    complain(&format!("error: {error:#}"));
    std::process::exit(1);
}

/// Returns the client-side rate limit that flags or file set explicitly. Upstream's default (50 requests
/// per second) does not apply: the bind window adapts to the latency of the API server instead.
fn throttle(
    configuration: &Configuration,
    written: &v1::KubeSchedulerConfiguration,
    by_flag: bool,
) -> Throttle {
    let given = by_flag
        || written.client_connection.as_ref().is_some_and(|connection| {
            connection.qps.is_some_and(|qps| qps != 0.0)
                || connection.burst.is_some_and(|burst| burst != 0)
        });
    if !given {
        return Throttle::none();
    }
    let connection = &configuration.client_connection;
    let burst = u32::try_from(connection.burst).unwrap_or(0);
    let throttle = Throttle::new(f64::from(connection.qps), burst);
    if throttle.is_limited() {
        tracing::info!("rate limit: {} requests per second, burst {burst}", connection.qps);
    }
    throttle
}

/// Configuration of the I/O thread.
struct IoConfig {
    target: ConfigSource,
    /// Clusters for TokenReviews and SubjectAccessReviews about clients of our own port.
    reviewers: [ConfigSource; 2],
    configuration: Configuration,
    throttle: Throttle,
    metrics: Metrics,
    traces: Traces,
    address: std::net::SocketAddr,
    certificate: ServingCertificate,
    client_ca: Option<PathBuf>,
    lookup: Lookup,
    shares_port: bool,
    http2: bool,
    tls_min: TlsMin,
    ciphers: Ciphers,
    always_allowed: Vec<String>,
    annotate_latency: bool,
    embedding: Option<Embedding>,
}

impl IoConfig {
    fn new(
        options: &Options,
        configuration: Configuration,
        throttle: Throttle,
        metrics: Metrics,
        traces: Traces,
    ) -> Result<Self> {
        // The kubeconfig of the configuration file takes precedence, as in kube-scheduler.
        let written = &configuration.client_connection.kubeconfig;
        let applies = !written.is_empty() && options.mode == RunMode::Cluster;
        let in_file = applies.then(|| PathBuf::from(written));
        let kubeconfig = in_file.or_else(|| options.kubeconfig.clone());
        let target = ConfigSource { kubeconfig, master: options.master.clone() };
        let other = |path: &Option<PathBuf>, otherwise: &ConfigSource| match path {
            Some(_) => ConfigSource { kubeconfig: path.clone(), master: String::new() },
            None => otherwise.clone(),
        };
        let authentication = other(&options.authentication_kubeconfig, &target);
        let authorization = other(&options.authorization_kubeconfig, &authentication);
        Ok(Self {
            target,
            reviewers: [authentication, authorization],
            configuration,
            throttle,
            metrics,
            traces,
            address: (options.bind_address, options.secure_port).into(),
            certificate: options.certificate()?,
            client_ca: options.client_ca_file.clone(),
            lookup: options.lookup(),
            shares_port: options.permit_port_sharing,
            http2: !options.disable_http2_serving,
            tls_min: options.tls_min()?,
            ciphers: options.ciphers()?,
            always_allowed: options.authorization_always_allow_paths.clone(),
            annotate_latency: options.annotate_latency,
            embedding: options.embedding.clone(),
        })
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or_else(|_| "localhost".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_explicit_rate_limits_apply() {
        for (connection, limited) in [
            ("{}", false),
            ("{kubeconfig: a}", false),
            ("{qps: 0, burst: 0}", false),
            ("{qps: -1, burst: 10}", false),
            ("{qps: 50}", true),
            ("{burst: 100}", true),
            ("{qps: 5000, burst: 10000}", true),
        ] {
            let text = format!(
                "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nclientConnection: {connection}\n"
            );
            let read = config::read(&text);
            let throttle = throttle(&read.config.unwrap(), &read.v1.unwrap(), false);
            assert_eq!(throttle.is_limited(), limited, "{connection}");
        }
    }
}
