//! `jindou scheduler`: the scheduler on a cluster, in kube-scheduler's place.

mod embedding;
mod flags;
mod log;

use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, anyhow};
use api::config::{self, Configuration, v1};
use engine::engine::{Engine, Settings};
use engine::queue::QueueConfig;
use plugins::registry::Registry;
use runtime::bind::Window;
use runtime::connect::{self, Target};
use runtime::gate::Throttle;
use runtime::gong::Gong;
use runtime::http::{Certificate, Check, ClusterAuthentication, Server, Serving};
use runtime::lease::{self, Elector, Fence, Role};
use runtime::metrics::Metrics;
use runtime::pace::{paced, rest_of_io};
use runtime::scheduler::{ClusterSide, Scheduler, check_connection, check_rights, connect_sides};
use runtime::timing;
use runtime::traces::Traces;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::config::load_as_written;
use crate::output::complain;

pub(super) use embedding::Embedding;
pub(super) use flags::{LogFormat, Options};

use flags::{Lookup, Place};

/// How long binds that are under way may take when we are told to stop.
const DRAIN_MAX: Duration = Duration::from_secs(8);

const SECOND: i64 = 1_000_000_000;

pub(super) fn run(options: &Options, registry: &Registry) -> Result<ExitCode> {
    options.check()?;
    let gates = options.gates()?;
    let (mut configuration, written) = load_as_written(options.config.as_deref(), gates, registry)?;
    options.override_leader_election(&mut configuration.leader_election)?;
    if let Some(path) = &options.write_config_to {
        std::fs::write(path, config::write(&configuration))
            .with_context(|| format!("cannot write {}", path.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut profiles = match registry.profiles(&configuration) {
        Ok(profiles) => profiles,
        Err(problems) => {
            for problem in problems {
                complain(&format!("error: {problem}"));
            }
            return Ok(ExitCode::FAILURE);
        }
    };
    if options.place == Place::Cluster {
        log::start(options);
    }
    if configuration.delay_cache_until_active {
        tracing::warn!(
            "delayCacheUntilActive has no effect: a replica that waits watches too, to take over at once"
        );
    }
    let throttle = throttle(&configuration, &written);
    let queue = QueueConfig {
        initial_backoff: configuration.pod_initial_backoff_seconds.saturating_mul(SECOND),
        max_backoff: configuration.pod_max_backoff_seconds.saturating_mul(SECOND),
        max_in_unschedulable: options.pod_max_in_unschedulable_pods_duration.0.nanos(),
    };
    let metrics = Metrics::new(&configuration.leader_election.resource_name);
    let sampler = timing::instrument(&mut profiles, &metrics);
    // Different in each process, so that two schedulers seldom choose the same of equally good nodes.
    let seed = RandomState::new().hash_one(std::process::id());
    tracing::info!(seed, "equally good nodes are chosen between by random numbers with this seed");
    let engine = Engine::new(profiles, Settings { queue, seed: Some(seed) });
    let window = Arc::new(Window::default());
    let binds = Arc::clone(&window);
    let rest = move || rest_of_io(binds.took());
    let gong = Arc::new(Gong::default());
    let io = &mut tokio::runtime::Builder::new_current_thread();
    let io = paced(io, rest, Arc::clone(&gong))
        .enable_all()
        .build()
        .context("cannot start the thread that talks to the cluster")?;
    let traces = options.traces(&host_name(), io.handle())?;
    let (engine_side, cluster_side) = connect_sides(window, &metrics, &traces);
    let plan = Plan::new(options, configuration, throttle, metrics, traces)?;
    let cluster = std::thread::Builder::new()
        .name("cluster".to_owned())
        .spawn({
            let gong = Arc::clone(&gong);
            move || {
                gong.strike_here();
                let ended = io.block_on(serve(cluster_side, plan));
                drop(io);
                gong.ring();
                ended
            }
        })
        .context("cannot start the thread that talks to the cluster")?;
    engine_side.run(engine, sampler, &gong)?;
    let ended = cluster.join().map_err(|_| anyhow!("the thread that talks to the cluster died"))?;
    ended.map(|()| ExitCode::SUCCESS)
}

/// Limits that somebody wrote are kept. Upstream's defaults, which everybody has to raise, are not
/// imposed: how much goes out at once follows from how fast the API server answers.
fn throttle(configuration: &Configuration, written: &v1::KubeSchedulerConfiguration) -> Throttle {
    let given = written.client_connection.as_ref().is_some_and(|connection| {
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
        tracing::info!("at most {} requests per second, {burst} at once", connection.qps);
    }
    throttle
}

/// What the I/O thread needs to know.
struct Plan {
    target: Target,
    /// Who asks about those who come to our own port.
    reviewer: Target,
    configuration: Configuration,
    throttle: Throttle,
    metrics: Metrics,
    traces: Traces,
    address: std::net::SocketAddr,
    certificate: Certificate,
    client_ca: Option<PathBuf>,
    lookup: Lookup,
    tls_min: runtime::http::TlsMin,
    always_allowed: Vec<String>,
    annotate_latency: bool,
    embedding: Option<Embedding>,
}

impl Plan {
    fn new(
        options: &Options,
        configuration: Configuration,
        throttle: Throttle,
        metrics: Metrics,
        traces: Traces,
    ) -> Result<Self> {
        // The file's kubeconfig counts when there is a file, as with kube-scheduler.
        let written = &configuration.client_connection.kubeconfig;
        let counts = !written.is_empty() && options.place == Place::Cluster;
        let in_file = counts.then(|| PathBuf::from(written));
        let kubeconfig = in_file.or_else(|| options.kubeconfig.clone());
        let target = Target { kubeconfig, master: options.master.clone() };
        let reviewer = match options.review_kubeconfig()? {
            Some(path) => Target { kubeconfig: Some(path.to_owned()), master: String::new() },
            None => target.clone(),
        };
        Ok(Self {
            target,
            reviewer,
            configuration,
            throttle,
            metrics,
            traces,
            address: (options.bind_address, options.secure_port).into(),
            certificate: options.certificate()?,
            client_ca: options.client_ca_file.clone(),
            lookup: options.lookup(),
            tls_min: options.tls_min()?,
            always_allowed: options.authorization_always_allow_paths.clone(),
            annotate_latency: options.annotate_latency,
            embedding: options.embedding.clone(),
        })
    }
}

/// Connects, elects, schedules and serves until asked to stop.
async fn serve(side: ClusterSide, plan: Plan) -> Result<()> {
    let config = connect::config(&plan.target).await?;
    let address = config.cluster_url.clone();
    let client = connect::client(&config)?;
    let explain =
        |error: anyhow::Error| match connect::outdated_certificate(&config, SystemTime::now()) {
            Some(why) => error.context(why),
            None => error,
        };
    let version = check_connection(&client)
        .await
        .map_err(explain)
        .with_context(|| format!("cannot talk to the API server at {address}"))?;
    tracing::info!("connected to {address}, Kubernetes {version}");
    check_rights(&client).await.map_err(explain)?;
    // Its connection would only be asked from time to time whether it lives.
    drop(client);

    let election = &plan.configuration.leader_election;
    let elector = election.leader_elect.then(|| elector(&config, election)).transpose()?;
    let fence = elector.as_ref().map_or_else(Fence::always, Elector::fence);
    let Plan { throttle, configuration, .. } = &plan;
    let scheduler = Scheduler::start(
        side,
        &config,
        fence.clone(),
        throttle,
        configuration,
        host_name(),
        plan.annotate_latency,
    )?;
    let scheduler = Arc::new(scheduler);
    let stopping = CancellationToken::new();
    let server = Server::bind(serving(&plan, &scheduler, &fence).await?).await?;
    let server = tokio::spawn(server.run(stopping.clone().cancelled_owned()));

    let ended = match elector {
        None => {
            plan.metrics.leading(true);
            scheduler.lead(true).await;
            let ended = match &plan.embedding {
                Some(embedding) => embedding.asked(&scheduler).await,
                None => signalled(&scheduler).await,
            };
            stop_deciding(&scheduler).await;
            ended
        }
        Some(elector) => lead_when_elected(&scheduler, elector, &plan.metrics).await,
    };
    tracing::info!("stopping");
    stopping.cancel();
    scheduler.stop().await;
    server.await.map_err(|_| anyhow!("the HTTPS server died"))?;
    plan.traces.end().await;
    ended
}

fn elector(config: &kube::Config, election: &config::LeaderElection) -> Result<Elector> {
    let settings = lease::Settings {
        lease_duration: election.lease_duration.to_std(),
        renew_deadline: election.renew_deadline.to_std(),
        retry_period: election.retry_period.to_std(),
        ..lease::Settings::new(&election.resource_namespace, &election.resource_name)
    };
    Elector::new(connect::client(config)?, settings)
}

/// Decides while this process leads. Losing the lease is an error: somebody else decides now, and
/// only a new start is sure to know nothing old.
async fn lead_when_elected(
    scheduler: &Scheduler,
    elector: Elector,
    metrics: &Metrics,
) -> Result<()> {
    let (changes, mut roles) = watch::channel(Role::Waiting);
    let stop = CancellationToken::new();
    let election = tokio::spawn(elector.run(changes, stop.clone()));
    let signal = signalled(scheduler);
    tokio::pin!(signal);
    let ended = loop {
        tokio::select! {
            asked = &mut signal => break asked,
            changed = roles.changed() => {
                if changed.is_err() {
                    break Err(anyhow!("the election ended unexpectedly"));
                }
                let role = *roles.borrow_and_update();
                metrics.leading(role == Role::Leading);
                scheduler.lead(role == Role::Leading).await;
                if role == Role::Lost {
                    break Err(anyhow!("the lease was lost; another replica may lead now"));
                }
            }
        }
    };
    // What is under way ends, or is sure to be dead, before the lease is given back.
    if !stop_deciding(scheduler).await {
        tokio::time::sleep(lease::MARGIN).await;
    }
    stop.cancel();
    let _ = election.await;
    ended
}

async fn serving(plan: &Plan, scheduler: &Arc<Scheduler>, fence: &Fence) -> Result<Serving> {
    let reviewer = connect::config(&plan.reviewer).await?;
    let synced = Arc::clone(scheduler);
    let synced = Check::new("sched-handler-sync", move || match synced.missing() {
        missing if missing.is_empty() => Ok(()),
        missing => Err(format!("not seen completely yet: {}", missing.join(", "))),
    });
    let fence = fence.clone();
    let elected = Check::new("leaderElection", move || fence.watchdog(tokio::time::Instant::now()));
    let credentials = connect::config(&plan.target).await?;
    let credentials = Check::new("client-certificate", move || {
        connect::outdated_certificate(&credentials, SystemTime::now()).map_or(Ok(()), Err)
    });
    let configuration: serde_json::Value =
        serde_saphyr::from_str(&config::write(&plan.configuration))
            .context("the configuration cannot be shown")?;
    let reviewer = connect::client(&reviewer)?;
    Ok(Serving {
        cluster: cluster_authentication(plan, &reviewer).await?,
        address: plan.address,
        certificate: plan.certificate.clone(),
        client_ca: plan.client_ca.clone(),
        tls_min: plan.tls_min,
        always_allowed: plan.always_allowed.clone(),
        configuration,
        resources: Some(scheduler.resources()),
        health: vec![Check::ping(), elected.clone()],
        live: vec![Check::ping()],
        ready: vec![Check::ping(), elected, synced, credentials],
        ..Serving::new(reviewer, plan.metrics.clone())
    })
}

/// Who vouches for clients by the cluster's word, unless that does not count or nobody can come.
async fn cluster_authentication(
    plan: &Plan,
    reviewer: &kube::Client,
) -> Result<Option<ClusterAuthentication>> {
    if plan.lookup == Lookup::Skip || plan.address.port() == 0 {
        return Ok(None);
    }
    let mut cluster = ClusterAuthentication::new(reviewer.clone());
    if let Err(error) = cluster.look_up().await {
        let error = error.context("cannot look up who vouches for client certificates");
        if plan.lookup == Lookup::Must {
            return Err(error.context("--authentication-tolerate-lookup-failure=false"));
        }
        tracing::warn!("{error:#}; until that works, they count as no identity");
    }
    Ok(Some(cluster))
}

/// Returns when the process is asked to stop; answers other signals meanwhile.
async fn signalled(scheduler: &Scheduler) -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut dump = signal(SignalKind::user_defined2())?;
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = dump.recv() => scheduler.audit().await,
        }
    }
    Ok(())
}

/// Lets what is under way come to its end. Whether it did.
async fn stop_deciding(scheduler: &Scheduler) -> bool {
    scheduler.lead(false).await;
    let drained = scheduler.drain(DRAIN_MAX).await;
    if !drained {
        let binding = scheduler.status.binding.load(Ordering::Relaxed);
        tracing::warn!("{binding} binds are still under way after {} s", DRAIN_MAX.as_secs());
    }
    drained
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or_else(|_| "localhost".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_limits_that_somebody_wrote_are_kept() {
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
            let throttle = throttle(&read.config.unwrap(), &read.v1.unwrap());
            assert_eq!(throttle.is_limited(), limited, "{connection}");
        }
    }
}
