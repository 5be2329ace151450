//! Execution of the engine's commands: binds, deletions, evictions, volumes, extender calls, status and events.

mod evict;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use engine::change::Change;
use engine::command::{AttemptHistory, Command, PodRef};
use engine::framework::Report;
use engine::object::Text;
use opentelemetry::trace::SpanContext;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{Instrument as _, debug_span};

use crate::api_error::Chain;
use crate::bind::{BindError, Binder};
use crate::driver::{EngineClock, Input, send};
use crate::events::{EventRecorder, PodEvent};
use crate::extenders::{ExtenderError, Extenders};
use crate::gate::{Gate, GateClosed};
use crate::metrics::Metrics;
use crate::pod_status::{StatusUpdate, StatusWriter};
use crate::traces::Traces;
use crate::volumes;

use evict::{Eviction, VictimDeletion};

/// A command with the trace of its attempt.
#[derive(Debug)]
pub struct TracedCommand {
    /// The command.
    pub command: Command,
    /// Trace of the attempt, for binds of traced attempts.
    pub trace: Option<SpanContext>,
}

/// Executes commands, each in a task of its own, and sends the results to the engine.
pub struct Executor {
    /// Binds pods.
    pub binder: Binder,
    /// Binds write the latency annotation.
    pub annotate_latency: bool,
    /// Clock of the engine, by which commands name times.
    pub clock: EngineClock,
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

impl Executor {
    /// Executes commands until the engine is gone.
    pub async fn run(self, mut commands: mpsc::Receiver<TracedCommand>) {
        let this = Arc::new(self);
        while let Some(command) = commands.recv().await {
            this.execute(command).await;
        }
    }

    async fn execute(self: &Arc<Self>, TracedCommand { command, trace }: TracedCommand) {
        let executor = Arc::clone(self);
        match command {
            Command::Bind { pod, node, extender, history } => {
                let bind = BindCommand { pod, node, extender, history, trace };
                let span = debug_span!(
                    "bind",
                    namespace = %bind.pod.namespace, pod = %bind.pod.name, node = %bind.node
                );
                tokio::spawn(async move { executor.bind(bind).await }.instrument(span));
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
                    metrics.observe_extension_point("PreBind", status, &pod.scheduler, took);
                    if ready.is_err() {
                        metrics.count_volume_bind_failure();
                    }
                    let failure = ready.err().map(|error| text_of(&error));
                    executor.reply(Change::VolumesReady { uid: pod.uid, ticket, failure }).await;
                });
            }
            Command::DeleteVictim { victim, preemptor, node } => {
                let deletion = VictimDeletion { victim, preemptor, node };
                tokio::spawn(async move { executor.delete_victim(deletion).await });
            }
            Command::Evict { pod, reason, note, grace_period, dry_run } => {
                let eviction = Eviction { pod, reason, note, grace_period, dry_run };
                tokio::spawn(async move { executor.evict(eviction).await });
            }
            Command::ReportPreempted { victim, preemptor, node } => {
                let uid = &preemptor.uid;
                let note =
                    format!("Preempted by pod {uid} on node {node} (in kube-scheduler memory).");
                self.record_preempted(victim, preemptor, note);
            }
            Command::Nominate { pod, node } => {
                let (failure, nominate) = (None, Some(node));
                let update = StatusUpdate::Write { pod, failure, nominate };
                self.status_writer.enqueue(update).await;
            }
            Command::ReportFailure { pod, reason, message, nominate } => {
                self.record_failed_scheduling(&pod, message.clone());
                let failure = Some((reason, message));
                let update = StatusUpdate::Write { pod, failure, nominate };
                self.status_writer.enqueue(update).await;
            }
            Command::Warn { pod, message } => self.record_failed_scheduling(&pod, message),
            Command::Report { pod, plugin, report } => self.record_report(pod, &plugin, report),
            Command::ReportScheduled { pod, node } => {
                self.status_writer.enqueue(StatusUpdate::Forget(pod.uid.clone())).await;
                let PodRef { namespace, name, .. } = &pod;
                let note = ["Successfully assigned ", namespace, "/", name, " to ", &node];
                let note = note.concat();
                self.events.record(PodEvent {
                    scheduler: pod.scheduler.clone(),
                    regarding: pod,
                    related: None,
                    kind: "Normal",
                    reason: "Scheduled".into(),
                    action: "Binding",
                    note,
                });
            }
        }
    }

    /// Binds a pod, by an extender or by the binder, and reports the result.
    async fn bind(&self, bind: BindCommand) {
        let BindCommand { pod, node, extender, history, trace } = bind;
        let since = self.annotate_latency.then(|| self.clock.instant(history.initial_attempt));
        let span = self.traces.begin_bind(trace.as_ref(), &pod, &node);
        let begun = Instant::now();
        let bound = match extender {
            None => {
                let bound = self.binder.bind(&pod, &node, since).await;
                bound.map_err(BindFailure::from)
            }
            Some(extender) => Box::pin(self.bind_by_extender(extender, &pod, &node)).await,
        };
        let took = begun.elapsed().as_secs_f64();
        let failure = bound.as_ref().err().map(|error| text_of(error));
        match &failure {
            None => self.metrics.observe_bind(&pod.scheduler, took),
            Some(message) => {
                let status = status_of(&bound);
                self.metrics.observe_extension_point("Bind", status, &pod.scheduler, took);
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
        pod: &PodRef,
        node: &Text,
    ) -> Result<(), BindFailure> {
        self.gate.write().await?;
        Ok(self.extenders.bind(extender, pod, node).await?)
    }

    fn record_failed_scheduling(&self, pod: &PodRef, note: String) {
        self.events.record(PodEvent {
            regarding: pod.clone(),
            related: None,
            scheduler: pod.scheduler.clone(),
            kind: "Warning",
            reason: "FailedScheduling".into(),
            action: "Scheduling",
            note,
        });
    }

    /// Writes what a plugin reports about a pod: a log line, an event and a count.
    fn record_report(&self, pod: PodRef, plugin: &Text, Report { warning, reason, note }: Report) {
        let name = format!("{}/{}", pod.namespace, pod.name);
        if warning {
            tracing::warn!(pod = %name, %plugin, %reason, "{note}");
        } else {
            tracing::info!(pod = %name, %plugin, %reason, "{note}");
        }
        self.metrics.count_plugin_report(plugin, &reason);
        self.events.record(PodEvent {
            scheduler: pod.scheduler.clone(),
            regarding: pod,
            related: None,
            kind: if warning { "Warning" } else { "Normal" },
            reason,
            action: "Scheduling",
            note,
        });
    }

    async fn reply(&self, change: Change) {
        send(&self.inputs, Input::Change(change)).await;
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

/// The fields of [`Command::Bind`], with the attempt's trace.
struct BindCommand {
    pod: PodRef,
    node: Text,
    extender: Option<usize>,
    history: AttemptHistory,
    trace: Option<SpanContext>,
}
