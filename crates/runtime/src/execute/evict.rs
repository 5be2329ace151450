//! Removal of pods from their nodes: deletion of the victims of a preemption, and evictions, which disruption
//! budgets may refuse.

use std::time::SystemTime;

use bytes::Bytes;
use engine::change::{Change, EvictionOutcome};
use engine::command::PodRef;
use engine::object::Text;
use http::{Request, Response, StatusCode};
use kube::client::Body;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Executor, text_of};
use crate::api_error::{ApiError, BoxError, Chain, read_error_body, retry_after};
use crate::events::{PodEvent, rfc3339_seconds};
use crate::gate::GateClosed;
use crate::lease::REQUEST_TIMEOUT;

#[cfg(test)]
mod tests;

/// Why a pod was not removed.
#[derive(Debug, thiserror::Error)]
enum RemovalError {
    #[error(transparent)]
    GateClosed(#[from] GateClosed),
    #[error(transparent)]
    Request(BoxError),
    #[error(transparent)]
    Refused(ApiError),
    #[error("the API server did not answer")]
    NoResponse,
}

/// Deletion of a victim in favour of a preemptor.
pub(super) struct VictimDeletion {
    pub(super) victim: PodRef,
    pub(super) preemptor: PodRef,
    pub(super) node: Text,
}

/// Result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deletion {
    Done,
    AlreadyGone,
}

/// An eviction by the Eviction API; fields as in [`engine::command::Command::Evict`].
pub(super) struct Eviction {
    pub(super) pod: PodRef,
    pub(super) reason: &'static str,
    pub(super) note: String,
    pub(super) grace_period: Option<i64>,
    pub(super) dry_run: bool,
}

impl Executor {
    /// Deletes a victim and reports the result.
    pub(super) async fn delete_victim(&self, deletion: VictimDeletion) {
        let done = self.mark_and_delete(&deletion).await;
        let VictimDeletion { victim, preemptor, node } = deletion;
        let (victim_uid, preemptor_uid) = (victim.uid.clone(), preemptor.uid.clone());
        match &done {
            Err(error) => {
                tracing::warn!(pod = %victim.name, "cannot delete: {}", Chain(error));
            }
            Ok(Deletion::Done) => {
                let note = format!("Preempted by pod {preemptor_uid} on node {node}");
                self.record_preempted(victim, preemptor, note);
            }
            Ok(Deletion::AlreadyGone) => {}
        }
        let (victim, preemptor) = (victim_uid, preemptor_uid);
        let failure = done.err().map(|error| text_of(&error));
        self.reply(Change::VictimHandled { preemptor, victim, failure }).await;
    }

    /// Records the event of a victim.
    pub(super) fn record_preempted(&self, victim: PodRef, preemptor: PodRef, note: String) {
        self.events.record(PodEvent {
            regarding: victim,
            scheduler: preemptor.scheduler.clone(),
            related: Some(preemptor),
            kind: "Normal",
            reason: "Preempted".into(),
            action: "Preempting",
            note,
        });
    }

    /// Adds the condition `DisruptionTarget` to the victim, then deletes it.
    async fn mark_and_delete(&self, deletion: &VictimDeletion) -> Result<Deletion, RemovalError> {
        let VictimDeletion { victim, preemptor, .. } = deletion;
        let scheduler = &preemptor.scheduler;
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": format!("{scheduler}: preempting to accommodate a higher priority pod"),
            "lastTransitionTime": rfc3339_seconds(SystemTime::now()),
            "observedGeneration": victim.generation,
        });
        let patch = json!({
            "metadata": {"uid": victim.uid.to_string()},
            "status": {"conditions": [condition]},
        });
        let request = Request::patch(path_of(victim, "/status"))
            .header("content-type", "application/strategic-merge-patch+json")
            .body(Body::from(patch.to_string().into_bytes()));
        deletion_of(&self.send(request).await?)?;
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": victim.uid.to_string()},
        });
        let request = with_json(Request::delete(path_of(victim, "")), &options);
        deletion_of(&self.send(request).await?)
    }

    /// Evicts a pod and reports the result.
    pub(super) async fn evict(&self, eviction: Eviction) {
        let outcome = match self.send(eviction_request(&eviction)).await {
            Ok(response) => eviction_outcome(&response),
            Err(error) => EvictionOutcome::Failed(text_of(&error)),
        };
        let Eviction { pod, reason, note, dry_run, .. } = eviction;
        let uid = pod.uid.clone();
        match &outcome {
            EvictionOutcome::Evicted if !dry_run => self.events.record(PodEvent {
                scheduler: pod.scheduler.clone(),
                regarding: pod,
                related: None,
                kind: "Normal",
                reason: reason.into(),
                action: "Evicting",
                note,
            }),
            EvictionOutcome::Evicted | EvictionOutcome::Gone => {}
            EvictionOutcome::Refused { message, .. } | EvictionOutcome::Failed(message) => {
                tracing::info!(pod = %pod.name, "not evicted: {message}");
            }
        }
        self.reply(Change::Evicted { uid, outcome }).await;
    }

    /// Sends a request, if this process still leads. The body of an error is read.
    async fn send(
        &self,
        request: http::Result<Request<Body>>,
    ) -> Result<Response<Bytes>, RemovalError> {
        let request = request.map_err(|error| RemovalError::Request(error.into()))?;
        let write = self.gate.begin_write().await?;
        let response = timeout(REQUEST_TIMEOUT, self.client.send(request)).await;
        if let Ok(Ok(response)) = &response {
            write.answered(response.status());
        }
        match response {
            Ok(Ok(response)) if response.status().is_success() => {
                Ok(response.map(|_| Bytes::new()))
            }
            Ok(Ok(response)) => Ok(read_error_body(response).await),
            Ok(Err(error)) => Err(RemovalError::Request(error.into())),
            Err(_) => Err(RemovalError::NoResponse),
        }
    }
}

/// Returns the path of a write to a pod or to a subresource of it.
fn path_of(pod: &PodRef, subresource: &str) -> String {
    let limit = REQUEST_TIMEOUT.as_millis();
    let PodRef { namespace, name, .. } = pod;
    format!("/api/v1/namespaces/{namespace}/pods/{name}{subresource}?timeout={limit}ms")
}

fn with_json(request: http::request::Builder, body: &Value) -> http::Result<Request<Body>> {
    let request = request.header("content-type", "application/json");
    request.body(Body::from(body.to_string().into_bytes()))
}

/// Returns the result of a request whose only precondition is the victim's uid.
fn deletion_of(response: &Response<Bytes>) -> Result<Deletion, RemovalError> {
    match response.status() {
        status if status.is_success() => Ok(Deletion::Done),
        // The victim, or at least the pod of this uid, is gone.
        StatusCode::NOT_FOUND | StatusCode::CONFLICT => Ok(Deletion::AlreadyGone),
        _ => Err(RemovalError::Refused(ApiError::from_response(response))),
    }
}

fn eviction_request(eviction: &Eviction) -> http::Result<Request<Body>> {
    let Eviction { pod, grace_period, dry_run, .. } = eviction;
    let mut options = json!({"preconditions": {"uid": pod.uid.to_string()}});
    if let Some(seconds) = grace_period {
        options["gracePeriodSeconds"] = json!(seconds);
    }
    if *dry_run {
        options["dryRun"] = json!(["All"]);
    }
    let body = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": *pod.namespace, "name": *pod.name},
        "deleteOptions": options,
    });
    with_json(Request::post(path_of(pod, "/eviction")), &body)
}

/// The fields of an error response to an eviction that are read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    details: Option<RefusalDetails>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RefusalDetails {
    causes: Vec<RefusalCause>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RefusalCause {
    reason: String,
    message: String,
}

impl Refusal {
    /// Returns what the API server says about the disruption budget, if one refuses the eviction.
    fn by_budget(self) -> Option<String> {
        let mut causes = self.details?.causes.into_iter();
        Some(causes.find(|cause| cause.reason == "DisruptionBudget")?.message)
    }
}

fn eviction_outcome(response: &Response<Bytes>) -> EvictionOutcome {
    let status = response.status();
    if status.is_success() {
        return EvictionOutcome::Evicted;
    }
    let error = ApiError::from_response(response);
    // The API server retries conflicts of the pod's version itself; one of the uid means another pod.
    let is_another_pod =
        status == StatusCode::CONFLICT && error.message.contains("UID in precondition");
    if status == StatusCode::NOT_FOUND || is_another_pod {
        return EvictionOutcome::Gone;
    }
    // Flow control also answers 429, without a cause.
    let refusal: Refusal = serde_json::from_slice(response.body()).unwrap_or_default();
    match refusal.by_budget().filter(|_| status == StatusCode::TOO_MANY_REQUESTS) {
        Some(cause) => EvictionOutcome::Refused {
            message: format!("{} {cause}", error.message).trim_end().into(),
            retry_after: retry_after(response).map(|delay| delay.as_nanos() as i64),
        },
        None => EvictionOutcome::Failed(error.to_string().into()),
    }
}
