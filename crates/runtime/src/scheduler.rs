//! The scheduler on a cluster: watches, engine and writes, tied together.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use api::config::Configuration;
use engine::engine::Engine;
use http::{Request, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::bind::{Binder, Window};
use crate::connect;
use crate::driver::{Driver, DriverStatus, INPUTS_MAX, Input, ORDERS_MAX};
use crate::events::Events;
use crate::execute::{Executor, Order};
use crate::extenders::Extenders;
use crate::gate::{Gate, Throttle};
use crate::gong::Gong;
use crate::kinds::{KINDS, Kind};
use crate::lease::Fence;
use crate::link::Link;
use crate::metrics::Metrics;
use crate::report::Reports;
use crate::resources::PodResources;
use crate::timing::Sampler;
use crate::traces::Traces;
use crate::watch::{Follower, WatchStatus};

/// How long the first answer of the API server may take.
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(30);

/// Kinds that are listed anew before decisions are made.
const LISTED_TO_LEAD: [&str; 2] = ["Node", "Pod"];

/// How long their first list waits for it to be known whether this process leads.
const HEAD_START: Duration = Duration::from_secs(1);

/// How often it is looked whether all is done.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The engine's end of what connects it with the cluster.
pub struct EngineSide {
    inputs: mpsc::Receiver<Input>,
    orders: mpsc::Sender<Order>,
    window: Arc<Window>,
    status: Arc<DriverStatus>,
    metrics: Metrics,
    traces: Traces,
}

/// The cluster's end.
pub struct ClusterSide {
    inputs: mpsc::Sender<Input>,
    orders: mpsc::Receiver<Order>,
    window: Arc<Window>,
    status: Arc<DriverStatus>,
    metrics: Metrics,
    traces: Traces,
}

/// Both ends. They belong to different threads: one decides, one does the I/O.
pub fn connect_sides(
    window: Arc<Window>,
    metrics: &Metrics,
    traces: &Traces,
) -> (EngineSide, ClusterSide) {
    let (to_engine, inputs) = mpsc::channel(INPUTS_MAX);
    let (orders, to_cluster) = mpsc::channel(ORDERS_MAX);
    let status = Arc::new(DriverStatus::default());
    let engine = EngineSide {
        inputs,
        orders,
        window: Arc::clone(&window),
        status: Arc::clone(&status),
        metrics: metrics.clone(),
        traces: traces.clone(),
    };
    let (metrics, traces) = (metrics.clone(), traces.clone());
    (engine, ClusterSide { inputs: to_engine, orders: to_cluster, window, status, metrics, traces })
}

impl EngineSide {
    /// Decides, on this thread, until the cluster's end is gone or says to stop.
    /// The gong tells that the cluster's thread had its turn.
    pub fn run(self, engine: Engine, sampler: Sampler, gong: &Arc<Gong>) -> Result<()> {
        let clock = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .context("the engine cannot start")?;
        let Self { inputs, orders, window, status, metrics, traces } = self;
        let driver = Driver::new(engine, orders, window, status, metrics, sampler, KINDS.len());
        clock.block_on(gong.wakes(driver.traced(traces).run(inputs)));
        Ok(())
    }
}

/// A scheduler at work on a cluster.
pub struct Scheduler {
    inputs: mpsc::Sender<Input>,
    /// What is known of each kind's watch, by its name.
    pub watches: Vec<(&'static str, Arc<WatchStatus>)>,
    /// What is known of the loop.
    pub status: Arc<DriverStatus>,
    /// Lists before it begins to decide.
    beginning: Mutex<Option<JoinHandle<()>>>,
}

/// Asks the API server for its version: wrong addresses, certificates and tokens show here.
pub async fn check_connection(client: &kube::Client) -> Result<String> {
    let version = tokio::time::timeout(FIRST_ANSWER_MAX, client.apiserver_version()).await;
    let version = version.map_err(|_| anyhow!("the API server did not answer"))?;
    let version = version.map_err(|error| anyhow!("{}", connect::innermost(&error)))?;
    Ok(version.git_version)
}

/// Asks for one object of each kind. Without the right to read them all nothing could ever be
/// decided, so that is told at once instead of waiting for it.
pub async fn check_rights(client: &kube::Client) -> Result<()> {
    let asked = futures::future::join_all(KINDS.iter().map(|kind| refusal(client, kind))).await;
    let refused: Vec<(&str, StatusCode)> = asked.into_iter().flatten().collect();
    if refused.iter().any(|(_, status)| *status == StatusCode::UNAUTHORIZED) {
        bail!(
            "the API server does not accept our credentials; look at the token or client certificate"
        );
    }
    let forbidden: Vec<&str> = refused.into_iter().map(|(resource, _)| resource).collect();
    if forbidden.is_empty() {
        return Ok(());
    }
    let user = who_we_are(client).await.unwrap_or_else(|| "this user".to_owned());
    bail!(
        "{user} may not list {}; bind the ClusterRoles system:kube-scheduler and system:volume-scheduler to it",
        forbidden.join(", ")
    )
}

/// The name of a kind that we may not list, and why. Other failures are left to those who watch, and
/// try again.
async fn refusal<'a>(client: &kube::Client, kind: &'a Kind) -> Option<(&'a str, StatusCode)> {
    let request = Request::get(format!("{}?limit=1", kind.path)).body(Body::empty()).ok()?;
    let response = tokio::time::timeout(FIRST_ANSWER_MAX, client.send(request)).await.ok()?.ok()?;
    let status = response.status();
    let refused = matches!(status, StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED);
    refused.then_some((kind.path.rsplit('/').next()?, status))
}

/// What the API server calls us.
async fn who_we_are(client: &kube::Client) -> Option<String> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes())
        .ok()?;
    let answer = client.request::<Value>(request);
    let answer = tokio::time::timeout(FIRST_ANSWER_MAX, answer).await.ok()?.ok()?;
    answer.pointer("/status/userInfo/username").and_then(Value::as_str).map(str::to_owned)
}

impl Scheduler {
    /// Starts to watch and to carry out orders. `instance` names this process in events;
    /// `annotate_latency` has pods told how long it took until they were bound.
    pub fn start(
        side: ClusterSide,
        config: &kube::Config,
        fence: Fence,
        throttle: &Throttle,
        configuration: &Configuration,
        instance: String,
        annotate_latency: bool,
    ) -> Result<Self> {
        let ClusterSide { inputs, orders, window, status, metrics, traces } = side;
        let watching = Link::new(config)?;
        let writing = connect::client(config)?;
        // Events have limits of their own, as upstream's client for them does.
        let events = Link::new(config)?;
        let events = Events::start(events, throttle.another(), instance, metrics.clone());
        let gate = Gate::new(fence, throttle.clone());
        let reports = Reports::start(writing.clone(), gate.clone());
        let extenders = Extenders::new(configuration, writing.clone())?;
        let nodes = extenders.wants_nodes();
        let executor = Executor {
            extenders,
            annotate_latency,
            binder: Binder::new(Link::fenced(config)?, gate.clone(), window, metrics.clone()),
            client: writing,
            gate,
            events,
            reports: reports.clone(),
            inputs: inputs.clone(),
            metrics: metrics.clone(),
            traces,
        };
        tokio::spawn(executor.run(orders));
        let mut watches = Vec::new();
        for kind in KINDS {
            let watch = Arc::new(WatchStatus::default());
            watches.push((kind.name, Arc::clone(&watch)));
            let follower =
                Follower::new(kind, watching.clone(), inputs.clone(), watch, metrics.clone())
                    .throttled(throttle.clone());
            let follower = if LISTED_TO_LEAD.contains(&kind.name) {
                follower.beginning_with_call(HEAD_START)
            } else {
                follower
            };
            let follower =
                if kind.name == "Pod" { follower.telling(reports.clone()) } else { follower };
            let follower = match &nodes {
                Some(nodes) if kind.name == "Node" => follower.keeping(nodes.clone()),
                _ => follower,
            };
            tokio::spawn(follower.run());
        }
        Ok(Self { inputs, watches, status, beginning: Mutex::default() })
    }

    /// Begins or stops to decide. To begin takes until nodes and pods were listed anew: what is
    /// known may lack what the leader before did last.
    pub async fn lead(&self, leading: bool) {
        let mut beginning = self.beginning.lock().await;
        if let Some(task) = beginning.take() {
            task.abort();
            let _ = task.await;
        }
        if !leading {
            let _ = self.inputs.send(Input::Lead(false)).await;
            return;
        }
        let needed = self.watches.iter().filter(|(kind, _)| LISTED_TO_LEAD.contains(kind));
        let needed: Vec<Arc<WatchStatus>> = needed.map(|(_, watch)| Arc::clone(watch)).collect();
        let inputs = self.inputs.clone();
        *beginning = Some(tokio::spawn(async move {
            futures::future::join_all(needed.iter().map(|watch| watch.list_again())).await;
            let _ = inputs.send(Input::Lead(true)).await;
        }));
    }

    /// Ends the engine's loop.
    pub async fn stop(&self) {
        let _ = self.inputs.send(Input::Stop).await;
    }

    /// Has what is kept compared with what comes out from scratch; the log tells.
    pub async fn audit(&self) {
        let _ = self.inputs.send(Input::Audit).await;
    }

    /// What pods request, for those who ask.
    pub fn resources(&self) -> PodResources {
        PodResources::new(self.inputs.clone())
    }

    /// The kinds that were not seen completely yet.
    pub fn missing(&self) -> Vec<&'static str> {
        let missing = self.watches.iter().filter(|(_, watch)| !watch.is_synced());
        missing.map(|(kind, _)| *kind).collect()
    }

    /// Waits until no decision is made and nothing is being bound any more, at most so long.
    /// Whether it is so.
    pub async fn drain(&self, limit: Duration) -> bool {
        let give_up = Instant::now() + limit;
        loop {
            // In this order: once no decision is made, nothing new is bound.
            let leading = self.status.leading.load(Ordering::Acquire);
            let binding = self.status.binding.load(Ordering::Relaxed);
            if !leading && binding == 0 {
                return true;
            }
            if Instant::now() >= give_up {
                return false;
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

#[cfg(test)]
mod tests;
