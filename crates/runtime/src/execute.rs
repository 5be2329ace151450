//! Carrying out what the engine wants done.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use engine::change::Change;
use engine::command::{Command, PodName};
use engine::object::Text;
use http::{Request, StatusCode};
use kube::client::Body;
use opentelemetry::trace::SpanContext;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::api_error::read_error;
use crate::bind::Binder;
use crate::driver::{Input, send};
use crate::events::{EventRecorder, PodEvent, PodReference, rfc3339_seconds};
use crate::extenders::Extenders;
use crate::gate::Gate;
use crate::lease::REQUEST_TIMEOUT;
use crate::metrics::Metrics;
use crate::pod_status::{StatusUpdate, StatusWriter};
use crate::traces::Traces;
use crate::volumes;

#[cfg(test)]
mod tests;

/// A command with what the engine knows of its pod.
#[derive(Debug)]
pub struct PodCommand {
    /// The command.
    pub command: Command,
    /// `spec.schedulerName` of the pod.
    pub scheduler: Text,
    /// Of the pod.
    pub pod_version: PodVersion,
    /// Of the pod that leaves its node for it, if one does.
    pub victim_version: PodVersion,
    /// When the pod could first be tried, if it is to be bound.
    pub ready: Option<Instant>,
    /// The trace of the attempt, if it has one and the pod is to be bound.
    pub trace: Option<SpanContext>,
}

/// What the engine knows of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodVersion {
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.resourceVersion`.
    pub version: u64,
}

/// Everything that commands need.
pub struct Executor {
    /// Binds pods.
    pub binder: Binder,
    /// Whether pods are told how long it took until they were bound.
    pub annotate_latency: bool,
    /// For all other writes.
    pub client: kube::Client,
    /// Says when these may be sent, and whether.
    pub gate: Gate,
    /// Have a say.
    pub extenders: Extenders,
    /// Writes events.
    pub events: EventRecorder,
    /// Writes pod status.
    pub status_writer: StatusWriter,
    /// Tells the engine what came of it.
    pub inputs: mpsc::Sender<Input>,
    /// Counts what went wrong.
    pub metrics: Metrics,
    /// Tells how long binds took.
    pub traces: Traces,
}

impl Executor {
    /// Carries out commands as they come, each by itself.
    pub async fn run(self, mut commands: mpsc::Receiver<PodCommand>) {
        let this = Arc::new(self);
        while let Some(command) = commands.recv().await {
            let executor = Arc::clone(&this);
            let PodCommand { command, scheduler, pod_version, victim_version, ready, trace } =
                command;
            match command {
                Command::Bind { pod, resource_version, node, extender } => {
                    let since = ready.filter(|_| this.annotate_latency);
                    tokio::spawn(async move {
                        let Self { binder, metrics, .. } = &*executor;
                        let span = executor.traces.begin_bind(trace.as_ref(), &pod, &node);
                        let begun = Instant::now();
                        let bound = match extender {
                            None => binder.bind(&pod, resource_version, &node, since).await,
                            Some(extender) => {
                                Box::pin(executor.bind_by_extender(extender, &pod, &node)).await
                            }
                        };
                        let took = begun.elapsed().as_secs_f64();
                        match &bound {
                            Ok(()) => metrics.observe_bind(&scheduler, took),
                            Err(message) => {
                                metrics.observe_extension_point(
                                    "Bind",
                                    status(&bound),
                                    &scheduler,
                                    took,
                                );
                                let PodName { name, .. } = &pod;
                                tracing::warn!(pod = %name, node = %node, "not bound: {message}");
                            }
                        }
                        match (span, &bound) {
                            (Some(span), Ok(())) => span.placed("bound", &node),
                            (Some(span), Err(message)) => span.failed("rejected", message),
                            (None, _) => {}
                        }
                        let failure = bound.err().map(Text::from);
                        executor.reply(Change::Bound { uid: pod.uid, failure }).await;
                    });
                }
                Command::AskExtenders { pod, ticket, extenders, nodes } => {
                    tokio::spawn(async move {
                        let verdict =
                            executor.extenders.filter_and_prioritize(&pod, &extenders, nodes).await;
                        let verdict = verdict.map_err(Text::from);
                        executor
                            .reply(Change::ExtendersAnswered { uid: pod.uid, ticket, verdict })
                            .await;
                    });
                }
                Command::AskExtendersAboutVictims { pod, ticket, extenders, candidates } => {
                    tokio::spawn(async move {
                        let client = &executor.extenders;
                        let left = client.process_preemption(&pod, &extenders, candidates).await;
                        let candidates = left.map_err(Text::from);
                        let change = Change::ExtendersAnsweredAboutVictims {
                            uid: pod.uid,
                            ticket,
                            candidates,
                        };
                        executor.reply(change).await;
                    });
                }
                Command::PrepareVolumes { pod, ticket, requests, timeout, .. } => {
                    tokio::spawn(async move {
                        let limit = Duration::from_nanos(timeout.max(0) as u64);
                        let Self { client, gate, metrics, .. } = &*executor;
                        let begun = Instant::now();
                        let ready = volumes::prepare(client, gate, &requests, limit).await;
                        metrics.observe_extension_point(
                            "PreBind",
                            status(&ready),
                            &scheduler,
                            begun.elapsed().as_secs_f64(),
                        );
                        if ready.is_err() {
                            metrics.count_volume_bind_failure();
                        }
                        let failure = ready.err().map(|error| format!("{error:#}").into());
                        let change = Change::VolumesReady { uid: pod.uid, ticket, failure };
                        executor.reply(change).await;
                    });
                }
                Command::Evict { victim, preemptor, node } => {
                    let eviction = Eviction {
                        victim: PodReference { pod: victim, version: victim_version.version },
                        generation: victim_version.generation,
                        preemptor: PodReference { pod: preemptor, version: pod_version.version },
                        node,
                        scheduler,
                    };
                    tokio::spawn(async move { executor.evict(eviction).await });
                }
                Command::ReportPreempted { victim, preemptor, node } => {
                    let uid = &preemptor.uid;
                    let note = format!(
                        "Preempted by pod {uid} on node {node} (in kube-scheduler memory)."
                    );
                    let victim = PodReference { pod: victim, version: victim_version.version };
                    let preemptor = PodReference { pod: preemptor, version: pod_version.version };
                    this.record_preempted(victim, preemptor, scheduler, note);
                }
                Command::Nominate { pod, node } => {
                    let PodVersion { generation, version } = pod_version;
                    let (failure, nominate) = (None, Some(node));
                    let report =
                        StatusUpdate::Write { pod, generation, version, failure, nominate };
                    this.status_writer.enqueue(report).await;
                }
                Command::ReportFailure { pod, reason, message, nominate } => {
                    let PodVersion { generation, version } = pod_version;
                    this.record_failed_scheduling(&pod, version, scheduler, message.clone());
                    let failure = Some((reason, message));
                    let report =
                        StatusUpdate::Write { pod, generation, version, failure, nominate };
                    this.status_writer.enqueue(report).await;
                }
                Command::Warn { pod, message } => {
                    this.record_failed_scheduling(&pod, pod_version.version, scheduler, message);
                }
                Command::ReportScheduled { pod, node } => {
                    this.status_writer.enqueue(StatusUpdate::Forget(pod.uid.clone())).await;
                    let PodName { namespace, name, .. } = &pod;
                    let note = ["Successfully assigned ", namespace, "/", name, " to ", &node];
                    let note = note.concat();
                    this.events.record(PodEvent {
                        regarding: PodReference { pod, version: pod_version.version },
                        related: None,
                        scheduler,
                        kind: "Normal",
                        reason: "Scheduled",
                        action: "Binding",
                        note,
                    });
                }
            }
        }
    }

    /// Has an extender bind a pod, if this process may still have something bound.
    async fn bind_by_extender(
        &self,
        extender: usize,
        pod: &PodName,
        node: &Text,
    ) -> Result<(), String> {
        self.gate.write().await.map_err(|closed| closed.to_string())?;
        self.extenders.bind(extender, pod, node).await
    }

    fn record_failed_scheduling(&self, pod: &PodName, version: u64, scheduler: Text, note: String) {
        self.events.record(PodEvent {
            regarding: PodReference { pod: pod.clone(), version },
            related: None,
            scheduler,
            kind: "Warning",
            reason: "FailedScheduling",
            action: "Scheduling",
            note,
        });
    }

    /// Writes an event about a pod that has to give its place up.
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
            reason: "Preempted",
            action: "Preempting",
            note,
        });
    }

    /// Deletes a pod, and tells it and the engine.
    async fn evict(&self, eviction: Eviction) {
        let done = self.delete(&eviction).await;
        let Eviction { victim, preemptor, node, scheduler, .. } = eviction;
        let (victim_uid, preemptor_uid) = (victim.pod.uid.clone(), preemptor.pod.uid.clone());
        match &done {
            Err(message) => {
                tracing::warn!(pod = %victim.pod.name, "cannot delete: {message}");
            }
            Ok(Deletion::Done) => {
                let note = format!("Preempted by pod {preemptor_uid} on node {node}");
                self.record_preempted(victim, preemptor, scheduler, note);
            }
            Ok(Deletion::AlreadyGone) => {}
        }
        let (victim, preemptor) = (victim_uid, preemptor_uid);
        let failure = done.err().map(Text::from);
        self.reply(Change::VictimHandled { preemptor, victim, failure }).await;
    }

    async fn reply(&self, change: Change) {
        send(&self.inputs, Input::Change(change)).await;
    }

    /// Says why on the pod, then deletes it.
    async fn delete(&self, eviction: &Eviction) -> Result<Deletion, String> {
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

    /// Sends a request that names a pod by its uid.
    async fn send(&self, request: http::Result<Request<Body>>) -> Result<Deletion, String> {
        let request = request.map_err(|error| error.to_string())?;
        let write = self.gate.begin_write().await.map_err(|closed| closed.to_string())?;
        let answer = timeout(REQUEST_TIMEOUT, self.client.send(request)).await;
        if let Ok(Ok(response)) = &answer {
            write.answered(response.status());
        }
        match answer {
            Ok(Ok(response)) if response.status().is_success() => Ok(Deletion::Done),
            // Not there, or another pod of this name is.
            Ok(Ok(response))
                if matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::CONFLICT) =>
            {
                Ok(Deletion::AlreadyGone)
            }
            Ok(Ok(response)) => Err(read_error(response).await.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the API server did not answer".to_owned()),
        }
    }
}

/// Upstream's name for what came of an extension point.
fn status<T, E>(result: &Result<T, E>) -> &'static str {
    if result.is_ok() { "Success" } else { "Error" }
}

/// A pod that is to be deleted to make room for another.
struct Eviction {
    victim: PodReference,
    /// `metadata.generation` of the victim.
    generation: i64,
    preemptor: PodReference,
    node: Text,
    scheduler: Text,
}

/// What came of a pod that was to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deletion {
    Done,
    AlreadyGone,
}
