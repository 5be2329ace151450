//! Carrying out what the engine wants done.

use std::time::{Duration, SystemTime};

use engine::change::Change;
use engine::command::{Command, PodName};
use engine::object::Text;
use http::{Request, StatusCode};
use kube::client::Body;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::answer::failure;
use crate::bind::Binder;
use crate::driver::Input;
use crate::events::{Events, PodEvent, second_time};
use crate::lease::{Fence, REQUEST_TIMEOUT};
use crate::report::{Report, Reports};
use crate::volumes;

#[cfg(test)]
mod tests;

/// A command with what the engine knows of its pod.
#[derive(Debug)]
pub struct Order {
    /// The command.
    pub command: Command,
    /// `spec.schedulerName` of the pod.
    pub scheduler: Text,
    /// `metadata.generation` of the pod.
    pub generation: i64,
}

/// Everything that commands need.
#[derive(Clone)]
pub struct Executor {
    /// Binds pods.
    pub binder: Binder,
    /// For all other writes.
    pub client: kube::Client,
    /// Says whether these may be sent.
    pub fence: Fence,
    /// Writes events.
    pub events: Events,
    /// Writes pod status.
    pub reports: Reports,
    /// Tells the engine what came of it.
    pub inputs: mpsc::Sender<Input>,
}

impl Executor {
    /// Carries out orders as they come, each by itself.
    pub async fn run(self, mut orders: mpsc::Receiver<Order>) {
        while let Some(order) = orders.recv().await {
            let executor = self.clone();
            match order.command {
                Command::Bind { pod, resource_version, node } => {
                    tokio::spawn(async move {
                        let bound = executor.binder.bind(&pod, &resource_version, &node).await;
                        if let Err(message) = &bound {
                            tracing::warn!(pod = %pod.name, node = %node, "not bound: {message}");
                        }
                        let failure = bound.err().map(Text::from);
                        executor.answer(Change::Bound { uid: pod.uid, failure }).await;
                    });
                }
                Command::PrepareVolumes { pod, requests, timeout, .. } => {
                    tokio::spawn(async move {
                        let limit = Duration::from_nanos(timeout.max(0) as u64);
                        let Self { client, fence, .. } = &executor;
                        let ready = volumes::prepare(client, fence, &requests, limit).await;
                        let failure = ready.err().map(|error| format!("{error:#}").into());
                        executor.answer(Change::VolumesReady { uid: pod.uid, failure }).await;
                    });
                }
                Command::Evict { victim, preemptor, node } => {
                    tokio::spawn(async move {
                        let done = executor.delete(&victim, &order.scheduler).await;
                        if let Err(message) = &done {
                            tracing::warn!(pod = %victim.name, "cannot delete: {message}");
                        } else if done == Ok(Deletion::Done) {
                            let note = format!("Preempted by pod {} on node {node}", preemptor.uid);
                            executor.events.tell(PodEvent {
                                pod: victim.clone(),
                                scheduler: order.scheduler,
                                kind: "Normal",
                                reason: "Preempted",
                                action: "Preempting",
                                note,
                            });
                        }
                        let failure = done.err().map(Text::from);
                        let (preemptor, victim) = (preemptor.uid, victim.uid);
                        executor.answer(Change::VictimHandled { preemptor, victim, failure }).await;
                    });
                }
                Command::Nominate { pod, node } => {
                    let generation = order.generation;
                    let nominate = Some(node);
                    let report = Report::Status { pod, generation, failure: None, nominate };
                    self.reports.tell(report).await;
                }
                Command::ReportFailure { pod, reason, message, nominate } => {
                    self.warn(&pod, &order.scheduler, message.clone());
                    let generation = order.generation;
                    let failure = Some((reason, message));
                    self.reports.tell(Report::Status { pod, generation, failure, nominate }).await;
                }
                Command::Warn { pod, message } => self.warn(&pod, &order.scheduler, message),
                Command::ReportScheduled { pod, node } => {
                    self.reports.tell(Report::Done(pod.uid.clone())).await;
                    let note =
                        format!("Successfully assigned {}/{} to {node}", pod.namespace, pod.name);
                    self.events.tell(PodEvent {
                        pod,
                        scheduler: order.scheduler,
                        kind: "Normal",
                        reason: "Scheduled",
                        action: "Binding",
                        note,
                    });
                }
            }
        }
    }

    fn warn(&self, pod: &PodName, scheduler: &Text, note: String) {
        self.events.tell(PodEvent {
            pod: pod.clone(),
            scheduler: scheduler.clone(),
            kind: "Warning",
            reason: "FailedScheduling",
            action: "Scheduling",
            note,
        });
    }

    async fn answer(&self, change: Change) {
        let _ = self.inputs.send(Input::Change(change)).await;
    }

    /// Says why on the pod, then deletes it.
    async fn delete(&self, victim: &PodName, scheduler: &Text) -> Result<Deletion, String> {
        let path = format!("/api/v1/namespaces/{}/pods/{}", victim.namespace, victim.name);
        let limit = format!("timeout={}ms", REQUEST_TIMEOUT.as_millis());
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": format!("{scheduler}: preempting to accommodate a higher priority pod"),
            "lastTransitionTime": second_time(SystemTime::now()),
        });
        let patch = json!({
            "metadata": {"uid": *victim.uid},
            "status": {"conditions": [condition]},
        });
        let request = Request::patch(format!("{path}/status?{limit}"))
            .header("content-type", "application/strategic-merge-patch+json")
            .body(Body::from(patch.to_string().into_bytes()));
        self.send(request).await?;
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": *victim.uid},
        });
        let request = Request::delete(format!("{path}?{limit}"))
            .header("content-type", "application/json")
            .body(Body::from(options.to_string().into_bytes()));
        self.send(request).await
    }

    /// Sends a request that names a pod by its uid.
    async fn send(&self, request: http::Result<Request<Body>>) -> Result<Deletion, String> {
        let request = request.map_err(|error| error.to_string())?;
        if !self.fence.may_send(Instant::now()) {
            return Err("the lease is not held any more".to_owned());
        }
        match timeout(REQUEST_TIMEOUT, self.client.send(request)).await {
            Ok(Ok(response)) if response.status().is_success() => Ok(Deletion::Done),
            // Not there, or another pod of this name is.
            Ok(Ok(response))
                if matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::CONFLICT) =>
            {
                Ok(Deletion::WasGone)
            }
            Ok(Ok(response)) => Err(failure(response).await.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the API server did not answer".to_owned()),
        }
    }
}

/// What came of a pod that was to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deletion {
    Done,
    WasGone,
}
