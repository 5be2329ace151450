//! The I/O thread: connects, serves health, elects a leader, schedules, hands over.
//!
//! ```text
//! signals ──► health port ──► API server answers ──► lists ──► lease ──► decisions ──► hand over
//!                 └─ livez ok, readyz not ─────────────┘
//! ```

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, anyhow};
use api::config;
use runtime::connect;
use runtime::http::{Authorities, ClusterAuthentication, HealthCheck, Server, ServingOptions};
use runtime::lease::{self, Elector, Fence, Role};
use runtime::metrics::Metrics;
use runtime::scheduler::{ClusterSide, Scheduler, check_rights, wait_until_reachable};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::flags::Lookup;
use super::signals::Signals;
use super::{Embedding, IoConfig, host_name};

/// Time-out for a new leader to list nodes and pods. A list of 150,000 pods takes seconds; after this time
/// the API server is considered unable to serve this replica.
const LEADER_START_TIMEOUT: Duration = Duration::from_mins(2);

/// Time-out for the engine thread to accept the stop request.
const ENGINE_STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Connects, elects, schedules and serves until asked to stop.
pub(super) async fn serve(side: ClusterSide, io_config: IoConfig) -> Result<()> {
    let program = io_config.embedding.as_ref().map(|embedding| embedding.stop.clone());
    let mut signals = Signals::catch(program)?;
    let config = connect::load_config(&io_config.target).await?;
    let election = &io_config.configuration.leader_election;
    let elector = election.leader_elect.then(|| elector(&config, election)).transpose()?;
    let fence = elector.as_ref().map_or_else(Fence::always, Elector::fence);
    // Health is served during the wait for the API server: a failing probe would end the process.
    let [authentication, authorization] = &io_config.reviewers;
    let reviewers = [
        connect::client(&connect::load_config(authentication).await?)?,
        connect::client(&connect::load_config(authorization).await?)?,
    ];
    let server = Server::bind(serving(&io_config, &config, &side, &fence, reviewers)?)?;
    let authorities = server.as_ref().and_then(Server::authorities);
    let stopping = CancellationToken::new();
    let server = server.map(|server| tokio::spawn(server.run(stopping.clone().cancelled_owned())));

    let ended = schedule(side, &io_config, &config, authorities, elector, &mut signals).await;
    tracing::info!("stopping");
    stopping.cancel();
    if let Some(server) = server {
        server.await.map_err(|_| anyhow!("the HTTPS server died"))?;
    }
    io_config.traces.shut_down().await;
    ended
}

/// Waits for the API server, elects and schedules until asked to stop, and hands over.
async fn schedule(
    side: ClusterSide,
    io_config: &IoConfig,
    config: &kube::Config,
    authorities: Option<Authorities>,
    elector: Option<Elector>,
    signals: &mut Signals,
) -> Result<()> {
    tokio::select! {
        () = signals.stop(None) => return Ok(()),
        ready = api_server(io_config, config, authorities) => ready?,
    }
    let scheduler = Scheduler::start(
        side,
        config,
        elector.as_ref().map_or_else(Fence::always, Elector::fence),
        &io_config.throttle,
        &io_config.configuration,
        host_name(),
        io_config.annotate_latency,
    )?;
    let mut election = None;
    let ended = tokio::select! {
        () = signals.stop(Some(&scheduler)) => Ok(()),
        () = scheduler.engine_ended() => Err(anyhow!("the engine ended unexpectedly")),
        stuck = scheduler.status.liveness.watch() => {
            Err(anyhow!("{stuck}; another replica may lead now"))
        }
        error = lead(&scheduler, elector, &io_config.metrics, &mut election) => Err(error),
        () = announce(io_config.embedding.as_ref(), &scheduler) => Ok(()),
    };
    match election {
        // Another replica may lead already, so the fence is closed and no write is in flight.
        Some(election) if election.is_lost() => {}
        election => {
            scheduler.stop_writing().await;
            if let Some(election) = election {
                election.give_back().await;
            }
        }
    }
    let _ = timeout(ENGINE_STOP_TIMEOUT, scheduler.stop()).await;
    ended
}

/// Notifies the program around an embedded scheduler once it is ready. Does not return.
async fn announce(embedding: Option<&Embedding>, scheduler: &Scheduler) {
    match embedding {
        Some(embedding) => embedding.announce(scheduler).await,
        None => std::future::pending().await,
    }
}

/// Waits for the API server and checks the permissions of this process.
async fn api_server(
    io_config: &IoConfig,
    config: &kube::Config,
    authorities: Option<Authorities>,
) -> Result<()> {
    let explain =
        |error: anyhow::Error| match connect::client_certificate_problem(config, SystemTime::now())
        {
            Some(why) => error.context(why),
            None => error,
        };
    let version = wait_until_reachable(config).await.map_err(|error| explain(error.into()))?;
    tracing::info!("connected to {}, Kubernetes {version}", config.cluster_url);
    // A separate connection, closed after the check, since an idle one could break unnoticed.
    check_rights(&connect::client(config)?).await.map_err(|error| explain(error.into()))?;
    let Some(authorities) = authorities else { return Ok(()) };
    if let Err(error) = authorities.look_up().await {
        let error = anyhow::Error::new(error)
            .context("cannot look up the certificate authorities of clients in the cluster");
        if io_config.lookup == Lookup::Must {
            return Err(error.context("--authentication-tolerate-lookup-failure=false"));
        }
        tracing::warn!("{error:#}; client certificates are not accepted until a retry succeeds");
    }
    Ok(())
}

fn elector(config: &kube::Config, election: &config::LeaderElection) -> Result<Elector> {
    let settings = lease::LeaseSettings {
        lease_duration: election.lease_duration.to_std(),
        renew_deadline: election.renew_deadline.to_std(),
        retry_period: election.retry_period.to_std(),
        ..lease::LeaseSettings::new(&election.resource_namespace, &election.resource_name)
    };
    Ok(Elector::new(connect::client(config)?, settings)?)
}

/// A running election.
struct Election {
    roles: watch::Receiver<Role>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Election {
    fn start(elector: Elector) -> Self {
        let (changes, roles) = watch::channel(Role::Waiting);
        let stop = CancellationToken::new();
        let task = tokio::spawn(elector.run(changes, stop.clone()));
        Self { roles, stop, task }
    }

    /// Returns the next role; `None` if the election task ended.
    async fn next(&mut self) -> Option<Role> {
        self.roles.changed().await.ok()?;
        Some(*self.roles.borrow_and_update())
    }

    fn is_lost(&self) -> bool {
        *self.roles.borrow() == Role::Lost
    }

    /// Stops the election and releases the lease if it is held.
    async fn give_back(self) {
        self.stop.cancel();
        let _ = self.task.await;
    }
}

/// Runs the engine while this process leads. Returns the error that ends the process: after a lost
/// lease, only a restart guarantees that no state is outdated by another leader.
async fn lead(
    scheduler: &Scheduler,
    elector: Option<Elector>,
    metrics: &Metrics,
    election: &mut Option<Election>,
) -> anyhow::Error {
    let Some(elector) = elector else {
        metrics.set_leading(true);
        scheduler.lead(true).await;
        return std::future::pending().await;
    };
    // A replica that cannot list a kind would hold the lease without deciding.
    scheduler.synced().await;
    let election = election.insert(Election::start(elector));
    loop {
        let leading = scheduler.status.leading.load(Ordering::Acquire);
        let begins = *election.roles.borrow() == Role::Leading && !leading;
        let role = tokio::select! {
            role = election.next() => role,
            () = sleep(LEADER_START_TIMEOUT), if begins => {
                if scheduler.status.leading.load(Ordering::Acquire) {
                    continue;
                }
                return anyhow!(
                    "nodes and pods could not be listed within {} s; another replica may lead now",
                    LEADER_START_TIMEOUT.as_secs()
                );
            }
        };
        let Some(role) = role else { return anyhow!("the election ended unexpectedly") };
        metrics.set_leading(role == Role::Leading);
        scheduler.lead(role == Role::Leading).await;
        if role == Role::Lost {
            return anyhow!("the lease was lost; another replica may lead now");
        }
    }
}

fn serving(
    io_config: &IoConfig,
    config: &kube::Config,
    side: &ClusterSide,
    fence: &Fence,
    [authentication, authorization]: [kube::Client; 2],
) -> Result<ServingOptions> {
    let watches = side.watches();
    let synced = HealthCheck::new("sched-handler-sync", move || match watches.missing() {
        missing if missing.is_empty() => Ok(()),
        missing => Err(format!("not synced yet: {}", missing.join(", "))),
    });
    let (fence, status) = (fence.clone(), side.status());
    let elected = HealthCheck::new("leaderElection", move || {
        status.liveness.check().map_err(|stuck| stuck.to_string())?;
        fence.watchdog(tokio::time::Instant::now()).map_err(|overrun| overrun.to_string())
    });
    let status = side.status();
    let engine = HealthCheck::new("engine", move || {
        status.liveness.check().map_err(|stuck| stuck.to_string())
    });
    let credentials = config.clone();
    let credentials = HealthCheck::new("client-certificate", move || {
        connect::client_certificate_problem(&credentials, SystemTime::now()).map_or(Ok(()), Err)
    });
    let configuration: serde_json::Value =
        serde_saphyr::from_str(&config::write(&io_config.configuration))
            .context("the configuration cannot be shown")?;
    // With --authentication-skip-lookup, the cluster's authorities are not used.
    let cluster = (io_config.lookup != Lookup::Skip)
        .then(|| ClusterAuthentication::new(authentication.clone()));
    Ok(ServingOptions {
        cluster,
        address: io_config.address,
        certificate: io_config.certificate.clone(),
        client_ca: io_config.client_ca.clone(),
        shares_port: io_config.shares_port,
        http2: io_config.http2,
        tls_min: io_config.tls_min,
        ciphers: io_config.ciphers.clone(),
        access_client: Some(authorization),
        always_allowed: io_config.always_allowed.clone(),
        configuration,
        resources: Some(side.resources()),
        health: vec![HealthCheck::ping(), elected.clone()],
        live: vec![HealthCheck::ping(), engine],
        ready: vec![HealthCheck::ping(), elected, synced, credentials],
        ..ServingOptions::new(authentication, io_config.metrics.clone())
    })
}
