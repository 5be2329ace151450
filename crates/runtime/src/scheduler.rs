//! The scheduler on a cluster: connects reflectors, engine and executor.

mod handover;
mod reachability;

use std::sync::Arc;
use std::time::Duration;

use api::config::Configuration;
use api::kinds::{self, Kind};
use engine::engine::Engine;
use engine::object::AnnotationKeys;
use http::{Request, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

use crate::api_error::BoxError;
use crate::bind::{BindWindow, Binder};
use crate::client::ApiConnection;
use crate::connect;
use crate::driver::{COMMANDS_MAX, Driver, DriverStatus, EngineClock, INPUTS_MAX, Input};
use crate::events::EventRecorder;
use crate::execute::{Executor, TracedCommand};
use crate::extenders::{ExtenderError, Extenders};
use crate::gate::{Gate, Throttle};
use crate::lease::Fence;
use crate::metrics::Metrics;
use crate::pod_status::StatusWriter;
use crate::resources::PodResources;
use crate::traces::Traces;
use crate::wake_batch::WakeBatcher;
use crate::watch::{Reflector, WatchStatus};

pub use reachability::{UnreachableError, wait_until_reachable};

/// Time limit of the checks at startup.
const FIRST_RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Kinds that are relisted when this process becomes the leader.
const RELISTED_TO_LEAD: [&str; 2] = ["Node", "Pod"];

/// Longest delay of their first list at startup without an election, in which the relist is requested.
const FIRST_LIST_DELAY_MAX: Duration = Duration::from_secs(1);

/// The engine thread's ends of the channels.
pub struct EngineSide {
    inputs: mpsc::Receiver<Input>,
    commands: mpsc::Sender<TracedCommand>,
    clock: EngineClock,
    window: Arc<BindWindow>,
    status: Arc<DriverStatus>,
    metrics: Metrics,
    traces: Traces,
}

/// The I/O thread's ends of the channels.
pub struct ClusterSide {
    inputs: mpsc::Sender<Input>,
    commands: mpsc::Receiver<TracedCommand>,
    clock: EngineClock,
    window: Arc<BindWindow>,
    status: Arc<DriverStatus>,
    watches: Watches,
    annotations: Arc<AnnotationKeys>,
    metrics: Metrics,
    traces: Traces,
}

/// Status of the watch of each kind, by name. Clones share it.
#[derive(Clone)]
pub struct Watches(Arc<[(&'static str, Arc<WatchStatus>)]>);

impl Watches {
    fn new() -> Self {
        Self(kinds::watched().map(|kind| (kind.name, Arc::default())).collect())
    }

    /// Returns the kinds whose first list is not complete.
    pub fn missing(&self) -> Vec<&'static str> {
        let missing = self.0.iter().filter(|(_, watch)| !watch.is_synced());
        missing.map(|(kind, _)| *kind).collect()
    }

    /// Waits until the first lists of all kinds are complete.
    pub async fn synced(&self) {
        futures::future::join_all(self.0.iter().map(|(_, watch)| watch.synced())).await;
    }
}

/// Creates the channels between the engine thread and the I/O thread.
pub fn connect_sides(
    window: Arc<BindWindow>,
    metrics: &Metrics,
    traces: &Traces,
) -> (EngineSide, ClusterSide) {
    let (to_engine, inputs) = mpsc::channel(INPUTS_MAX);
    let (commands, to_cluster) = mpsc::channel(COMMANDS_MAX);
    let clock = EngineClock::start();
    let status = Arc::new(DriverStatus::default());
    let engine = EngineSide {
        inputs,
        commands,
        clock,
        window: Arc::clone(&window),
        status: Arc::clone(&status),
        metrics: metrics.clone(),
        traces: traces.clone(),
    };
    let cluster = ClusterSide {
        inputs: to_engine,
        commands: to_cluster,
        clock,
        window,
        status,
        watches: Watches::new(),
        annotations: Arc::default(),
        metrics: metrics.clone(),
        traces: traces.clone(),
    };
    (engine, cluster)
}

impl ClusterSide {
    /// Keeps the annotations of these keys, which are part of pods and nodes.
    #[must_use]
    pub fn with_annotations(self, keys: AnnotationKeys) -> Self {
        Self { annotations: Arc::new(keys), ..self }
    }

    /// Returns the status of the watches.
    pub fn watches(&self) -> Watches {
        self.watches.clone()
    }

    /// Returns the status of the engine's loop.
    pub fn status(&self) -> Arc<DriverStatus> {
        Arc::clone(&self.status)
    }

    /// Returns a reader of the requests of pods.
    pub fn resources(&self) -> PodResources {
        PodResources::new(self.inputs.clone())
    }
}

impl EngineSide {
    /// Runs the engine's loop on this thread until it is stopped or the I/O thread has ended.
    /// `wake_batcher` batches the wakes by the I/O thread.
    pub fn run(
        self,
        engine: Engine,
        wake_batcher: &Arc<WakeBatcher>,
    ) -> Result<(), SchedulerError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(SchedulerError::EngineRuntime)?;
        let Self { inputs, commands, clock, window, status, metrics, traces } = self;
        let kinds = kinds::watched().count();
        let driver = Driver::new(engine, commands, window, status, metrics, clock, kinds);
        runtime.block_on(wake_batcher.run(driver.with_traces(traces).run(inputs)));
        Ok(())
    }
}

/// Why the scheduler cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    /// The runtime of the engine thread cannot be created.
    #[error("the engine cannot start")]
    EngineRuntime(#[source] std::io::Error),
    /// A connection to the API server cannot be configured.
    #[error(transparent)]
    Connection(BoxError),
    /// An extender cannot be used.
    #[error(transparent)]
    Extenders(#[from] ExtenderError),
}

/// Why the API server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The API server did not answer in time.
    #[error("the API server did not answer")]
    NoResponse,
    /// The request failed; with the root cause alone, since the client repeats it in each message.
    #[error("{0}")]
    Request(String),
    /// The credentials are not accepted.
    #[error(
        "the API server does not accept our credentials; look at the token or client certificate"
    )]
    Unauthorized,
    /// Rights are missing.
    #[error(
        "{user} may not list {resources}; bind the ClusterRoles system:kube-scheduler and system:volume-scheduler to it"
    )]
    Forbidden {
        /// Name of the user.
        user: String,
        /// Resources that it may not list, separated by commas.
        resources: String,
    },
}

/// A running scheduler.
pub struct Scheduler {
    inputs: mpsc::Sender<Input>,
    watches: Watches,
    gate: Gate,
    events: EventRecorder,
    /// Status of the engine's loop.
    pub status: Arc<DriverStatus>,
    /// Task that relists before decisions start.
    pending_lead: Mutex<Option<JoinHandle<()>>>,
}

/// Returns the version of the API server. Fails for a wrong address, certificate or token.
pub async fn check_connection(client: &kube::Client) -> Result<String, CheckError> {
    let version = tokio::time::timeout(FIRST_RESPONSE_TIMEOUT, client.apiserver_version()).await;
    let version = version.map_err(|_| CheckError::NoResponse)?;
    let version =
        version.map_err(|error| CheckError::Request(connect::root_cause(&error).to_string()))?;
    Ok(version.git_version)
}

/// Checks the right to list each kind by requesting one object of each. A missing right would otherwise
/// show as a first list that never completes.
pub async fn check_rights(client: &kube::Client) -> Result<(), CheckError> {
    let denials =
        futures::future::join_all(kinds::watched().map(|kind| list_denial(client, kind))).await;
    let refused: Vec<(&str, StatusCode)> = denials.into_iter().flatten().collect();
    if refused.iter().any(|(_, status)| *status == StatusCode::UNAUTHORIZED) {
        return Err(CheckError::Unauthorized);
    }
    let forbidden: Vec<&str> = refused.into_iter().map(|(resource, _)| resource).collect();
    if forbidden.is_empty() {
        return Ok(());
    }
    let user = own_user_name(client).await.unwrap_or_else(|| "this user".to_owned());
    Err(CheckError::Forbidden { user, resources: forbidden.join(", ") })
}

/// Returns the resource name of a kind and the status, if listing it is denied. Other failures are left
/// to the reflectors, which retry.
async fn list_denial<'a>(client: &kube::Client, kind: &'a Kind) -> Option<(&'a str, StatusCode)> {
    let request = Request::get(format!("{}?limit=1", kind.path)).body(Body::empty()).ok()?;
    let response =
        tokio::time::timeout(FIRST_RESPONSE_TIMEOUT, client.send(request)).await.ok()?.ok()?;
    let status = response.status();
    let refused = matches!(status, StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED);
    refused.then_some((kind.resource(), status))
}

/// Returns the user name of this client at the API server.
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
    /// Starts the reflectors and the executor. `instance` names this process in events;
    /// `annotate_latency` writes the latency annotation to bound pods.
    pub fn start(
        side: ClusterSide,
        config: &kube::Config,
        fence: Fence,
        throttle: &Throttle,
        configuration: &Configuration,
        instance: String,
        annotate_latency: bool,
    ) -> Result<Self, SchedulerError> {
        let ClusterSide {
            inputs,
            commands,
            clock,
            window,
            status,
            watches,
            annotations,
            metrics,
            traces,
        } = side;
        let watching = ApiConnection::new(config);
        let watching = watching.map_err(|error| SchedulerError::Connection(error.into()))?;
        let binding = ApiConnection::fenced(config);
        let binding = binding.map_err(|error| SchedulerError::Connection(error.into()))?;
        let writing = connect::client(config);
        let writing = writing.map_err(|error| SchedulerError::Connection(error.into()))?;
        // Events have a throttle of their own, as upstream's client of events.
        let events = ApiConnection::new(config);
        let events = events.map_err(|error| SchedulerError::Connection(error.into()))?;
        let events =
            EventRecorder::start(events, throttle.with_same_limits(), instance, metrics.clone());
        let gate = Gate::new(fence, throttle.clone());
        let status_writer = StatusWriter::start(writing.clone(), gate.clone());
        let extenders = Extenders::new(configuration, writing.clone())?;
        let nodes = extenders.node_store();
        let executor = Executor {
            extenders,
            annotate_latency,
            clock,
            binder: Binder::new(binding, gate.clone(), window, metrics.clone()),
            client: writing,
            gate: gate.clone(),
            events: events.clone(),
            status_writer: status_writer.clone(),
            inputs: inputs.clone(),
            metrics: metrics.clone(),
            traces,
        };
        tokio::spawn(executor.run(commands));
        // With an election the first lists precede leadership, so a delay would gain nothing.
        let leads_at_once = !configuration.leader_election.leader_elect;
        for (kind, (_, watch)) in kinds::watched().zip(&*watches.0) {
            let (inputs, watch) = (inputs.clone(), Arc::clone(watch));
            let reflector = Reflector::new(kind, watching.clone(), inputs, watch, metrics.clone())
                .with_throttle(throttle.clone())
                .with_annotations(Arc::clone(&annotations));
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

    /// Starts or stops decisions. They start after a relist of nodes and pods, since the object tables may
    /// lack the last writes of the previous leader.
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

    /// Requests an audit of the engine's state; the log has the result.
    pub async fn audit(&self) {
        let _ = self.inputs.send(Input::Audit).await;
    }

    /// Waits until the first lists of all kinds are complete.
    pub async fn synced(&self) {
        self.watches.synced().await;
    }

    /// Waits until the engine's loop has ended.
    pub async fn engine_ended(&self) {
        self.inputs.closed().await;
    }
}

#[cfg(test)]
mod tests;
