//! The scheduler on a cluster: watches, engine and writes, tied together.

mod handover;
mod reachability;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use api::config::Configuration;
use engine::engine::Engine;
use http::{Request, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

use crate::bind::{BindWindow, Binder};
use crate::client::ApiConnection;
use crate::connect;
use crate::driver::{COMMANDS_MAX, Driver, DriverStatus, INPUTS_MAX, Input};
use crate::events::EventRecorder;
use crate::execute::{Executor, PodCommand};
use crate::extenders::Extenders;
use crate::gate::{Gate, Throttle};
use crate::kinds::{KINDS, WatchedKind};
use crate::lease::Fence;
use crate::metrics::Metrics;
use crate::pod_status::StatusWriter;
use crate::resources::PodResources;
use crate::timing::Sampler;
use crate::traces::Traces;
use crate::wake_batch::WakeBatcher;
use crate::watch::{Reflector, WatchStatus};

pub use reachability::wait_until_reachable;

/// How long the first answer of the API server may take.
const FIRST_RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Kinds that are listed anew before decisions are made.
const RELISTED_TO_LEAD: [&str; 2] = ["Node", "Pod"];

/// How long their first list waits for it to be known whether this process leads.
const FIRST_LIST_DELAY_MAX: Duration = Duration::from_secs(1);

/// The engine's end of what connects it with the cluster.
pub struct EngineSide {
    inputs: mpsc::Receiver<Input>,
    commands: mpsc::Sender<PodCommand>,
    window: Arc<BindWindow>,
    status: Arc<DriverStatus>,
    metrics: Metrics,
    traces: Traces,
}

/// The cluster's end.
pub struct ClusterSide {
    inputs: mpsc::Sender<Input>,
    commands: mpsc::Receiver<PodCommand>,
    window: Arc<BindWindow>,
    status: Arc<DriverStatus>,
    watches: Watches,
    metrics: Metrics,
    traces: Traces,
}

/// What is known of each kind's watch, by its name. Clones share it.
#[derive(Clone)]
pub struct Watches(Arc<[(&'static str, Arc<WatchStatus>)]>);

impl Watches {
    fn new() -> Self {
        Self(KINDS.iter().map(|kind| (kind.name, Arc::default())).collect())
    }

    /// The kinds that were not seen completely yet.
    pub fn missing(&self) -> Vec<&'static str> {
        let missing = self.0.iter().filter(|(_, watch)| !watch.is_synced());
        missing.map(|(kind, _)| *kind).collect()
    }

    /// Returns when all kinds were seen completely.
    pub async fn synced(&self) {
        futures::future::join_all(self.0.iter().map(|(_, watch)| watch.synced())).await;
    }
}

/// Both ends. They belong to different threads: one decides, one does the I/O.
pub fn connect_sides(
    window: Arc<BindWindow>,
    metrics: &Metrics,
    traces: &Traces,
) -> (EngineSide, ClusterSide) {
    let (to_engine, inputs) = mpsc::channel(INPUTS_MAX);
    let (commands, to_cluster) = mpsc::channel(COMMANDS_MAX);
    let status = Arc::new(DriverStatus::default());
    let engine = EngineSide {
        inputs,
        commands,
        window: Arc::clone(&window),
        status: Arc::clone(&status),
        metrics: metrics.clone(),
        traces: traces.clone(),
    };
    let cluster = ClusterSide {
        inputs: to_engine,
        commands: to_cluster,
        window,
        status,
        watches: Watches::new(),
        metrics: metrics.clone(),
        traces: traces.clone(),
    };
    (engine, cluster)
}

impl ClusterSide {
    /// What is known of the watches.
    pub fn watches(&self) -> Watches {
        self.watches.clone()
    }

    /// What is known of the engine's loop.
    pub fn status(&self) -> Arc<DriverStatus> {
        Arc::clone(&self.status)
    }

    /// What pods request.
    pub fn resources(&self) -> PodResources {
        PodResources::new(self.inputs.clone())
    }
}

impl EngineSide {
    /// Decides, on this thread, until the cluster's end is gone or says to stop.
    /// The wake_batcher tells that the cluster's thread had its turn.
    pub fn run(
        self,
        engine: Engine,
        sampler: Sampler,
        wake_batcher: &Arc<WakeBatcher>,
    ) -> Result<()> {
        let clock = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .context("the engine cannot start")?;
        let Self { inputs, commands, window, status, metrics, traces } = self;
        let driver = Driver::new(engine, commands, window, status, metrics, sampler, KINDS.len());
        clock.block_on(wake_batcher.run(driver.with_traces(traces).run(inputs)));
        Ok(())
    }
}

/// A scheduler at work on a cluster.
pub struct Scheduler {
    inputs: mpsc::Sender<Input>,
    watches: Watches,
    gate: Gate,
    events: EventRecorder,
    /// What is known of the loop.
    pub status: Arc<DriverStatus>,
    /// Lists before it begins to decide.
    pending_lead: Mutex<Option<JoinHandle<()>>>,
}

/// Asks the API server for its version: wrong addresses, certificates and tokens show here.
pub async fn check_connection(client: &kube::Client) -> Result<String> {
    let version = tokio::time::timeout(FIRST_RESPONSE_TIMEOUT, client.apiserver_version()).await;
    let version = version.map_err(|_| anyhow!("the API server did not answer"))?;
    let version = version.map_err(|error| anyhow!("{}", connect::root_cause(&error)))?;
    Ok(version.git_version)
}

/// Asks for one object of each kind. Without the right to read them all nothing could ever be
/// decided, so that is told at once instead of waiting for it.
pub async fn check_rights(client: &kube::Client) -> Result<()> {
    let asked = futures::future::join_all(KINDS.iter().map(|kind| list_denial(client, kind))).await;
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
    let user = own_user_name(client).await.unwrap_or_else(|| "this user".to_owned());
    bail!(
        "{user} may not list {}; bind the ClusterRoles system:kube-scheduler and system:volume-scheduler to it",
        forbidden.join(", ")
    )
}

/// The name of a kind that we may not list, and why. Other failures are left to those who watch, and
/// try again.
async fn list_denial<'a>(
    client: &kube::Client,
    kind: &'a WatchedKind,
) -> Option<(&'a str, StatusCode)> {
    let request = Request::get(format!("{}?limit=1", kind.path)).body(Body::empty()).ok()?;
    let response =
        tokio::time::timeout(FIRST_RESPONSE_TIMEOUT, client.send(request)).await.ok()?.ok()?;
    let status = response.status();
    let refused = matches!(status, StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED);
    refused.then_some((kind.path.rsplit('/').next()?, status))
}

/// What the API server calls us.
async fn own_user_name(client: &kube::Client) -> Option<String> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes())
        .ok()?;
    let answer = client.request::<Value>(request);
    let answer = tokio::time::timeout(FIRST_RESPONSE_TIMEOUT, answer).await.ok()?.ok()?;
    answer.pointer("/status/userInfo/username").and_then(Value::as_str).map(str::to_owned)
}

impl Scheduler {
    /// Starts to watch and to carry out commands. `instance` names this process in events;
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
        let ClusterSide { inputs, commands, window, status, watches, metrics, traces } = side;
        let watching = ApiConnection::new(config)?;
        let writing = connect::client(config)?;
        // EventRecorder have limits of their own, as upstream's client for them does.
        let events = ApiConnection::new(config)?;
        let events =
            EventRecorder::start(events, throttle.with_same_limits(), instance, metrics.clone());
        let gate = Gate::new(fence, throttle.clone());
        let status_writer = StatusWriter::start(writing.clone(), gate.clone());
        let extenders = Extenders::new(configuration, writing.clone())?;
        let nodes = extenders.node_store();
        let executor = Executor {
            extenders,
            annotate_latency,
            binder: Binder::new(
                ApiConnection::fenced(config)?,
                gate.clone(),
                window,
                metrics.clone(),
            ),
            client: writing,
            gate: gate.clone(),
            events: events.clone(),
            status_writer: status_writer.clone(),
            inputs: inputs.clone(),
            metrics: metrics.clone(),
            traces,
        };
        tokio::spawn(executor.run(commands));
        // With an election, this process leads only after the first lists.
        let leads_at_once = !configuration.leader_election.leader_elect;
        for (kind, (_, watch)) in KINDS.iter().zip(&*watches.0) {
            let (inputs, watch) = (inputs.clone(), Arc::clone(watch));
            let reflector = Reflector::new(kind, watching.clone(), inputs, watch, metrics.clone())
                .with_throttle(throttle.clone());
            let reflector = if leads_at_once && RELISTED_TO_LEAD.contains(&kind.name) {
                reflector.with_startup_delay(FIRST_LIST_DELAY_MAX)
            } else {
                reflector
            };
            let reflector = if kind.name == "Pod" {
                reflector.with_status_writer(status_writer.clone())
            } else {
                reflector
            };
            let reflector = match &nodes {
                Some(nodes) if kind.name == "Node" => reflector.with_node_store(nodes.clone()),
                _ => reflector,
            };
            tokio::spawn(reflector.run());
        }
        Ok(Self { inputs, watches, gate, events, status, pending_lead: Mutex::default() })
    }

    /// Begins or stops to decide. To begin takes until nodes and pods were listed anew: what is
    /// known may lack what the leader before did last.
    pub async fn lead(&self, leading: bool) {
        let mut pending_lead = self.pending_lead.lock().await;
        if let Some(task) = pending_lead.take() {
            task.abort();
            let _ = task.await;
        }
        if !leading {
            let _ = self.inputs.send(Input::Lead(false)).await;
            return;
        }
        let needed = self.watches.0.iter().filter(|(kind, _)| RELISTED_TO_LEAD.contains(kind));
        let needed: Vec<Arc<WatchStatus>> = needed.map(|(_, watch)| Arc::clone(watch)).collect();
        let inputs = self.inputs.clone();
        *pending_lead = Some(tokio::spawn(async move {
            futures::future::join_all(needed.iter().map(|watch| watch.relist())).await;
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

    /// Returns when all kinds were seen completely.
    pub async fn synced(&self) {
        self.watches.synced().await;
    }

    /// Returns when the engine's loop has ended.
    pub async fn engine_ended(&self) {
        self.inputs.closed().await;
    }
}

#[cfg(test)]
mod tests;
