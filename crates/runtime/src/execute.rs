//! Execution of the engine's commands: binds, evictions, volumes, extender calls, status and events.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use engine::change::Change;
use engine::command::{Command, PodName};
use engine::framework::Report;
use engine::object::Text;
use http::{Request, StatusCode};
use kube::client::Body;
use opentelemetry::trace::SpanContext;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tracing::{Instrument as _, debug_span};

use crate::api_error::{ApiError, BoxError, Chain, read_error};
use crate::bind::{BindError, Binder};
use crate::driver::{Input, send};
use crate::events::{EventRecorder, PodEvent, PodReference, rfc3339_seconds};
use crate::extenders::{ExtenderError, Extenders};
use crate::gate::{Gate, GateClosed};
use crate::lease::REQUEST_TIMEOUT;
use crate::metrics::Metrics;
use crate::pod_status::{StatusUpdate, StatusWriter};
use crate::traces::Traces;
use crate::volumes;

#[cfg(test)]
mod tests;

/// A command with what the engine knows about its pods.
#[derive(Debug)]
pub struct PodCommand {
    /// The command.
    pub command: Command,
    /// `spec.schedulerName` of the pod.
    pub scheduler: Text,
    /// Version of the pod.
    pub pod_version: PodVersion,
    /// Version of the victim, for preemption.
    pub victim_version: PodVersion,
    /// When the pod could first be tried, for binds.
    pub ready: Option<Instant>,
    /// Trace of the attempt, for binds of traced attempts.
    pub trace: Option<SpanContext>,
}

/// Version of a pod as the engine knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodVersion {
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.resourceVersion`.
    pub version: u64,
}

/// Executes commands, each in a task of its own, and sends the results to the engine.
pub struct Executor {
    /// Binds pods.
    pub binder: Binder,
    /// Binds write the latency annotation.
    pub annotate_latency: bool,
    /// Client of all other writes.
    pub client: kube::Client,
    /// Gate of all other writes.
    pub gate: Gate,
    /// Extenders of the configuration.
    pub extenders: Extenders,
    /// Writes events.
    pub events: EventRecorder,
    /// Writes conditions and nominations of pods.
    pub status_writer: StatusWriter,
    /// Receives the results.
    pub inputs: mpsc::Sender<Input>,
    /// Metrics of binds and extension points.
    pub metrics: Metrics,
    /// Traces of binds.
    pub traces: Traces,
}

/// Why a pod was not bound.
#[derive(Debug, thiserror::Error)]
enum BindFailure {
    #[error(transparent)]
    Binder(#[from] BindError),
    #[error(transparent)]
    GateClosed(#[from] GateClosed),
    #[error(transparent)]
    Extender(#[from] ExtenderError),
}

/// Why a victim was not deleted.
#[derive(Debug, thiserror::Error)]
enum EvictError {
    #[error(transparent)]
    GateClosed(#[from] GateClosed),
    #[error(transparent)]
    Request(BoxError),
    #[error(transparent)]
    Refused(ApiError),
    #[error("the API server did not answer")]
    NoResponse,
}

impl Executor {
    /// Executes commands until the engine is gone.
    pub async fn run(self, mut commands: mpsc::Receiver<PodCommand>) {
        let this = Arc::new(self);
        while let Some(command) = commands.recv().await {
            this.execute(command).await;
        }
    }

    async fn execute(self: &Arc<Self>, command: PodCommand) {
        let PodCommand { command, scheduler, pod_version, victim_version, ready, trace } = command;
        let PodVersion { generation, version } = pod_version;
        let executor = Arc::clone(self);
        match command {
            Command::Bind { pod, resource_version, node, extender } => {
                let bind = BindCommand { pod, resource_version, node, extender, ready, trace };
                let span = debug_span!(
                    "bind",
                    namespace = %bind.pod.namespace, pod = %bind.pod.name, node = %bind.node
                );
                tokio::spawn(async move { executor.bind(bind, scheduler).await }.instrument(span));
            }
            Command::AskExtenders { pod, ticket, extenders, nodes } => {
                tokio::spawn(async move {
                    let client = &executor.extenders;
                    let verdict = client.filter_and_prioritize(&pod, &extenders, nodes).await;
                    let verdict = verdict.map_err(|error| text_of(&error));
                    let uid = pod.uid;
                    executor.reply(Change::ExtendersAnswered { uid, ticket, verdict }).await;
                });
            }
            Command::AskExtendersAboutVictims { pod, ticket, extenders, candidates } => {
                tokio::spawn(async move {
                    let client = &executor.extenders;
                    let left = client.process_preemption(&pod, &extenders, candidates).await;
                    let candidates = left.map_err(|error| text_of(&error));
                    let uid = pod.uid;
                    let change = Change::ExtendersAnsweredAboutVictims { uid, ticket, candidates };
                    executor.reply(change).await;
                });
            }
            Command::PrepareVolumes { pod, ticket, requests, timeout, .. } => {
                tokio::spawn(async move {
                    let limit = Duration::from_nanos(timeout.max(0) as u64);
                    let Self { client, gate, metrics, .. } = &*executor;
                    let begun = Instant::now();
                    let ready = volumes::prepare(client, gate, &requests, limit).await;
                    let (status, took) = (status_of(&ready), begun.elapsed().as_secs_f64());
                    metrics.observe_extension_point("PreBind", status, &scheduler, took);
                    if ready.is_err() {
                        metrics.count_volume_bind_failure();
                    }
                    let failure = ready.err().map(|error| text_of(&error));
                    executor.reply(Change::VolumesReady { uid: pod.uid, ticket, failure }).await;
                });
            }
            Command::Evict { victim, preemptor, node } => {
                let eviction = Eviction {
                    victim: PodReference { pod: victim, version: victim_version.version },
                    generation: victim_version.generation,
                    preemptor: PodReference { pod: preemptor, version },
                    node,
                    scheduler,
                };
                tokio::spawn(async move { executor.evict(eviction).await });
            }
            Command::ReportPreempted { victim, preemptor, node } => {
                let uid = &preemptor.uid;
                let note =
                    format!("Preempted by pod {uid} on node {node} (in kube-scheduler memory).");
                let victim = PodReference { pod: victim, version: victim_version.version };
                let preemptor = PodReference { pod: preemptor, version };
                self.record_preempted(victim, preemptor, scheduler, note);
            }
            Command::Nominate { pod, node } => {
                let (failure, nominate) = (None, Some(node));
                let update = StatusUpdate::Write { pod, generation, version, failure, nominate };
                self.status_writer.enqueue(update).await;
            }
            Command::ReportFailure { pod, reason, message, nominate } => {
                self.record_failed_scheduling(&pod, version, scheduler, message.clone());
                let failure = Some((reason, message));
                let update = StatusUpdate::Write { pod, generation, version, failure, nominate };
                self.status_writer.enqueue(update).await;
            }
            Command::Warn { pod, message } => {
                self.record_failed_scheduling(&pod, version, scheduler, message);
            }
            Command::Report { pod, plugin, report } => {
                self.record_report(pod, version, scheduler, &plugin, report);
            }
            Command::ReportScheduled { pod, node } => {
                self.status_writer.enqueue(StatusUpdate::Forget(pod.uid.clone())).await;
                let PodName { namespace, name, .. } = &pod;
                let note = ["Successfully assigned ", namespace, "/", name, " to ", &node];
                let note = note.concat();
                self.events.record(PodEvent {
                    regarding: PodReference { pod, version },
                    related: None,
                    scheduler,
                    kind: "Normal",
                    reason: "Scheduled".into(),
                    action: "Binding",
                    note,
                });
            }
        }
    }

    /// Binds a pod, by an extender or by the binder, and reports the result.
    async fn bind(&self, bind: BindCommand, scheduler: Text) {
        let BindCommand { pod, resource_version, node, extender, ready, trace } = bind;
        let since = ready.filter(|_| self.annotate_latency);
        let span = self.traces.begin_bind(trace.as_ref(), &pod, &node);
        let begun = Instant::now();
        let bound = match extender {
            None => {
                let bound = self.binder.bind(&pod, resource_version, &node, since).await;
                bound.map_err(BindFailure::from)
            }
            Some(extender) => Box::pin(self.bind_by_extender(extender, &pod, &node)).await,
        };
        let took = begun.elapsed().as_secs_f64();
        let failure = bound.as_ref().err().map(|error| text_of(error));
        match &failure {
            None => self.metrics.observe_bind(&scheduler, took),
            Some(message) => {
                let status = status_of(&bound);
                self.metrics.observe_extension_point("Bind", status, &scheduler, took);
                tracing::warn!(pod = %pod.name, node = %node, "not bound: {message}");
            }
        }
        match (span, &failure) {
            (Some(span), None) => span.placed("bound", &node),
            (Some(span), Some(message)) => span.failed("rejected", message),
            (None, _) => {}
        }
        self.reply(Change::Bound { uid: pod.uid, failure }).await;
    }

    /// Has an extender bind a pod, if this process still leads.
    async fn bind_by_extender(
        &self,
        extender: usize,
        pod: &PodName,
        node: &Text,
    ) -> Result<(), BindFailure> {
        self.gate.write().await?;
        Ok(self.extenders.bind(extender, pod, node).await?)
    }

    fn record_failed_scheduling(&self, pod: &PodName, version: u64, scheduler: Text, note: String) {
        self.events.record(PodEvent {
            regarding: PodReference { pod: pod.clone(), version },
            related: None,
            scheduler,
            kind: "Warning",
            reason: "FailedScheduling".into(),
            action: "Scheduling",
            note,
        });
    }

    /// Writes what a plugin reports about a pod: a log line, an event and a count.
    fn record_report(
        &self,
        pod: PodName,
        version: u64,
        scheduler: Text,
        plugin: &Text,
        Report { warning, reason, note }: Report,
    ) {
        let name = format!("{}/{}", pod.namespace, pod.name);
        if warning {
            tracing::warn!(pod = %name, %plugin, %reason, "{note}");
        } else {
            tracing::info!(pod = %name, %plugin, %reason, "{note}");
        }
        self.metrics.count_plugin_report(plugin, &reason);
        self.events.record(PodEvent {
            regarding: PodReference { pod, version },
            related: None,
            scheduler,
            kind: if warning { "Warning" } else { "Normal" },
            reason,
            action: "Scheduling",
            note,
        });
    }

    /// Records the event of a victim.
    fn record_preempted(
        &self,
        victim: PodReference,
        preemptor: PodReference,
        scheduler: Text,
        note: String,
    ) {
        self.events.record(PodEvent {
            regarding: victim,
            related: Some(preemptor),
            scheduler,
            kind: "Normal",
            reason: "Preempted".into(),
            action: "Preempting",
            note,
        });
    }

    /// Evicts a victim and reports the result.
    async fn evict(&self, eviction: Eviction) {
        let done = self.delete(&eviction).await;
        let Eviction { victim, preemptor, node, scheduler, .. } = eviction;
        let (victim_uid, preemptor_uid) = (victim.pod.uid.clone(), preemptor.pod.uid.clone());
        match &done {
            Err(error) => {
                tracing::warn!(pod = %victim.pod.name, "cannot delete: {}", Chain(error));
            }
            Ok(Deletion::Done) => {
                let note = format!("Preempted by pod {preemptor_uid} on node {node}");
                self.record_preempted(victim, preemptor, scheduler, note);
            }
            Ok(Deletion::AlreadyGone) => {}
        }
        let (victim, preemptor) = (victim_uid, preemptor_uid);
        let failure = done.err().map(|error| text_of(&error));
        self.reply(Change::VictimHandled { preemptor, victim, failure }).await;
    }

    async fn reply(&self, change: Change) {
        send(&self.inputs, Input::Change(change)).await;
    }

    /// Adds the condition `DisruptionTarget` to the victim, then deletes it.
    async fn delete(&self, eviction: &Eviction) -> Result<Deletion, EvictError> {
        let Eviction { victim: PodReference { pod: victim, .. }, scheduler, .. } = eviction;
        let path = format!("/api/v1/namespaces/{}/pods/{}", victim.namespace, victim.name);
        let limit = format!("timeout={}ms", REQUEST_TIMEOUT.as_millis());
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": format!("{scheduler}: preempting to accommodate a higher priority pod"),
            "lastTransitionTime": rfc3339_seconds(SystemTime::now()),
            "observedGeneration": eviction.generation,
        });
        let patch = json!({
            "metadata": {"uid": victim.uid.to_string()},
            "status": {"conditions": [condition]},
        });
        let request = Request::patch(format!("{path}/status?{limit}"))
            .header("content-type", "application/strategic-merge-patch+json")
            .body(Body::from(patch.to_string().into_bytes()));
        self.send(request).await?;
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": victim.uid.to_string()},
        });
        let request = Request::delete(format!("{path}?{limit}"))
            .header("content-type", "application/json")
            .body(Body::from(options.to_string().into_bytes()));
        self.send(request).await
    }

    /// Sends a request whose precondition is the victim's uid.
    async fn send(&self, request: http::Result<Request<Body>>) -> Result<Deletion, EvictError> {
        let request = request.map_err(|error| EvictError::Request(error.into()))?;
        let write = self.gate.begin_write().await?;
        let response = timeout(REQUEST_TIMEOUT, self.client.send(request)).await;
        if let Ok(Ok(response)) = &response {
            write.answered(response.status());
        }
        match response {
            Ok(Ok(response)) if response.status().is_success() => Ok(Deletion::Done),
            // The victim, or at least the pod of this uid, is gone.
            Ok(Ok(response))
                if matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::CONFLICT) =>
            {
                Ok(Deletion::AlreadyGone)
            }
            Ok(Ok(response)) => Err(EvictError::Refused(read_error(response).await)),
            Ok(Err(error)) => Err(EvictError::Request(error.into())),
            Err(_) => Err(EvictError::NoResponse),
        }
    }
}

/// Returns upstream's metric label for the result of an extension point.
fn status_of<T, E>(result: &Result<T, E>) -> &'static str {
    if result.is_ok() { "Success" } else { "Error" }
}

/// Returns the text of an error with its sources, as the engine reports it.
fn text_of(error: &dyn std::error::Error) -> Text {
    Chain(error).to_string().into()
}

/// The fields of [`Command::Bind`], with the pod's first attempt and the attempt's trace.
struct BindCommand {
    pod: PodName,
    resource_version: u64,
    node: Text,
    extender: Option<usize>,
    ready: Option<Instant>,
    trace: Option<SpanContext>,
}

/// Deletion of a victim in favour of a preemptor.
struct Eviction {
    victim: PodReference,
    /// `metadata.generation` of the victim.
    generation: i64,
    preemptor: PodReference,
    node: Text,
    scheduler: Text,
}

/// Result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deletion {
    Done,
    AlreadyGone,
}
