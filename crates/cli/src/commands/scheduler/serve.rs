//! What the I/O thread does: connect, serve health, elect, schedule, hand over.
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
use super::{Embedding, Plan, host_name};

/// How long the leader may take to list nodes and pods anew and to begin to decide. A list of 150,000
/// pods takes seconds; after this time the API server does not give this replica one.
const BEGIN_MAX: Duration = Duration::from_mins(2);

/// How long the engine may take to hear that it is to end.
const STOP_MAX: Duration = Duration::from_secs(1);

/// Connects, elects, schedules and serves until asked to stop.
pub(super) async fn serve(side: ClusterSide, plan: Plan) -> Result<()> {
    let program = plan.embedding.as_ref().map(|embedding| embedding.stop.clone());
    let mut signals = Signals::catch(program)?;
    let config = connect::load_config(&plan.target).await?;
    let election = &plan.configuration.leader_election;
    let elector = election.leader_elect.then(|| elector(&config, election)).transpose()?;
    let fence = elector.as_ref().map_or_else(Fence::always, Elector::fence);
    // Health is served during the wait for the API server: a failing probe would end the process.
    let [authentication, authorization] = &plan.reviewers;
    let reviewers = [
        connect::client(&connect::load_config(authentication).await?)?,
        connect::client(&connect::load_config(authorization).await?)?,
    ];
    let server = Server::bind(serving(&plan, &config, &side, &fence, reviewers)?)?;
    let authorities = server.as_ref().and_then(Server::authorities);
    let stopping = CancellationToken::new();
    let server = server.map(|server| tokio::spawn(server.run(stopping.clone().cancelled_owned())));

    let ended = schedule(side, &plan, &config, authorities, elector, &mut signals).await;
    tracing::info!("stopping");
    stopping.cancel();
    if let Some(server) = server {
        server.await.map_err(|_| anyhow!("the HTTPS server died"))?;
    }
    plan.traces.shut_down().await;
    ended
}

/// Waits for the API server, elects and schedules until asked to stop, and hands over.
async fn schedule(
    side: ClusterSide,
    plan: &Plan,
    config: &kube::Config,
    authorities: Option<Authorities>,
    elector: Option<Elector>,
    signals: &mut Signals,
) -> Result<()> {
    tokio::select! {
        () = signals.stop(None) => return Ok(()),
        ready = api_server(plan, config, authorities) => ready?,
    }
    let scheduler = Scheduler::start(
        side,
        config,
        elector.as_ref().map_or_else(Fence::always, Elector::fence),
        &plan.throttle,
        &plan.configuration,
        host_name(),
        plan.annotate_latency,
    )?;
    let mut election = None;
    let ended = tokio::select! {
        () = signals.stop(Some(&scheduler)) => Ok(()),
        () = scheduler.engine_ended() => Err(anyhow!("the engine ended unexpectedly")),
        stuck = scheduler.status.liveness.watch() => {
            Err(anyhow!("{stuck}; another replica may lead now"))
        }
        error = lead(&scheduler, elector, &plan.metrics, &mut election) => Err(error),
        () = announce(plan.embedding.as_ref(), &scheduler) => Ok(()),
    };
    match election {
        // Another replica may lead already: nothing more is sent, so there is nothing to wait for.
        Some(election) if election.is_lost() => {}
        election => {
            scheduler.stop_writing().await;
            if let Some(election) = election {
                election.give_back().await;
            }
        }
    }
    let _ = timeout(STOP_MAX, scheduler.stop()).await;
    ended
}

/// Notifies the program that an embedded scheduler is part of when it is at work. Does not return.
async fn announce(embedding: Option<&Embedding>, scheduler: &Scheduler) {
    match embedding {
        Some(embedding) => embedding.announce(scheduler).await,
        None => std::future::pending().await,
    }
}

/// Waits for the API server, and asks whether this process has the rights that it needs.
async fn api_server(
    plan: &Plan,
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
    // A connection of its own, which ends with this check: later it would break unnoticed.
    check_rights(&connect::client(config)?).await.map_err(|error| explain(error.into()))?;
    let Some(authorities) = authorities else { return Ok(()) };
    if let Err(error) = authorities.look_up().await {
        let error =
            anyhow::Error::new(error).context("cannot look up who vouches for client certificates");
        if plan.lookup == Lookup::Must {
            return Err(error.context("--authentication-tolerate-lookup-failure=false"));
        }
        tracing::warn!("{error:#}; until that works, they count as no identity");
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

/// A candidate at work.
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

    /// The next role; `None` when the election died.
    async fn next(&mut self) -> Option<Role> {
        self.roles.changed().await.ok()?;
        Some(*self.roles.borrow_and_update())
    }

    fn is_lost(&self) -> bool {
        *self.roles.borrow() == Role::Lost
    }

    /// Ends it, and gives the lease back if it is held.
    async fn give_back(self) {
        self.stop.cancel();
        let _ = self.task.await;
    }
}

/// Decides while this process leads; the reason why it does not any more. Losing the lease ends the
/// process: only a new start is sure to know nothing that another leader made untrue.
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
    // A replica that lacks a kind could hold the lease and decide nothing.
    scheduler.synced().await;
    let election = election.insert(Election::start(elector));
    loop {
        let leading = scheduler.status.leading.load(Ordering::Acquire);
        let begins = *election.roles.borrow() == Role::Leading && !leading;
        let role = tokio::select! {
            role = election.next() => role,
            () = sleep(BEGIN_MAX), if begins => {
                if scheduler.status.leading.load(Ordering::Acquire) {
                    continue;
                }
                return anyhow!(
                    "nodes and pods could not be listed within {} s; another replica may lead now",
                    BEGIN_MAX.as_secs()
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
    plan: &Plan,
    config: &kube::Config,
    side: &ClusterSide,
    fence: &Fence,
    [authentication, authorization]: [kube::Client; 2],
) -> Result<ServingOptions> {
    let watches = side.watches();
    let synced = HealthCheck::new("sched-handler-sync", move || match watches.missing() {
        missing if missing.is_empty() => Ok(()),
        missing => Err(format!("not seen completely yet: {}", missing.join(", "))),
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
        serde_saphyr::from_str(&config::write(&plan.configuration))
            .context("the configuration cannot be shown")?;
    // Skipped, those of the cluster do not count.
    let cluster =
        (plan.lookup != Lookup::Skip).then(|| ClusterAuthentication::new(authentication.clone()));
    Ok(ServingOptions {
        cluster,
        address: plan.address,
        certificate: plan.certificate.clone(),
        client_ca: plan.client_ca.clone(),
        shares_port: plan.shares_port,
        http2: plan.http2,
        tls_min: plan.tls_min,
        ciphers: plan.ciphers.clone(),
        access_client: Some(authorization),
        always_allowed: plan.always_allowed.clone(),
        configuration,
        resources: Some(side.resources()),
        health: vec![HealthCheck::ping(), elected.clone()],
        live: vec![HealthCheck::ping(), engine],
        ready: vec![HealthCheck::ping(), elected, synced, credentials],
        ..ServingOptions::new(authentication, plan.metrics.clone())
    })
}
