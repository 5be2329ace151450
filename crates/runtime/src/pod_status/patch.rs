//! Patches of a pod's status: the body, and sending it until it succeeds or fails for good.

use std::time::SystemTime;

use engine::command::PodRef;
use engine::object::Uid;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{ATTEMPTS_MAX, PendingPatch, RETRY_DELAY_INITIAL, RETRY_DELAY_MAX};
use crate::api_error::{ApiError, BoxError, Chain, is_retryable, read_error, retry_after};
use crate::client::RESPONSE_BYTES_MAX;
use crate::events::rfc3339_seconds;
use crate::gate::Gate;
use crate::lease::REQUEST_TIMEOUT;
use crate::request_body::json_body;

/// Why a status was not written, or a pod not read.
#[derive(Debug, thiserror::Error)]
enum PatchError {
    #[error(transparent)]
    Refused(ApiError),
    #[error(transparent)]
    Request(BoxError),
    #[error("no answer")]
    NoResponse,
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// A strategic merge patch of a pod's status.
#[derive(Serialize)]
struct StatusPatch<'a> {
    metadata: PatchMetadata<'a>,
    status: PatchStatus<'a>,
}

/// Preconditions of the patch.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PatchMetadata<'a> {
    uid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PatchStatus<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    conditions: Option<[PatchCondition<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nominated_node_name: Option<NominatedNode<'a>>,
}

/// The nominated node; `null` in a patch removes the field.
#[derive(Serialize)]
#[serde(untagged)]
enum NominatedNode<'a> {
    Node(&'a str),
    Removed,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PatchCondition<'a> {
    #[serde(rename = "type")]
    condition_type: &'static str,
    status: &'static str,
    reason: &'static str,
    message: &'a str,
    observed_generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_transition_time: Option<&'a str>,
}

/// Serializes a patch. `version` is the resourceVersion that it requires; zero requires none.
fn patch_body(patch: &PendingPatch, version: u64, transition_time: Option<&str>) -> bytes::Bytes {
    let mut digits = itoa::Buffer::new();
    let condition = patch.failure.as_ref().map(|(reason, message)| PatchCondition {
        condition_type: "PodScheduled",
        status: "False",
        reason,
        message,
        observed_generation: patch.pod.generation,
        last_transition_time: transition_time,
    });
    let nomination = patch.nominate.as_deref().map(|node| match node {
        "" => NominatedNode::Removed,
        node => NominatedNode::Node(node),
    });
    json_body(&StatusPatch {
        metadata: PatchMetadata {
            uid: patch.pod.uid.text(&mut [0; Uid::TEXT_BYTES]),
            resource_version: (version != 0).then(|| digits.format(version)),
        },
        status: PatchStatus {
            conditions: condition.map(|condition| [condition]),
            nominated_node_name: nomination,
        },
    })
}

/// Sends a patch until it succeeds, is cancelled, is refused for good or has been sent [`ATTEMPTS_MAX`]
/// times. `is_transition` adds the transition time to the condition. Returns the resourceVersion of the
/// patched pod, if the patch succeeded.
pub(super) async fn send_patch(
    client: kube::Client,
    gate: Gate,
    patch: PendingPatch,
    is_transition: bool,
    cancelled: CancellationToken,
) -> (PendingPatch, Option<u64>) {
    let PodRef { namespace, name, .. } = &patch.pod;
    let limit = REQUEST_TIMEOUT.as_millis();
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/status?timeout={limit}ms");
    let transition_time = is_transition.then(|| rfc3339_seconds(SystemTime::now()));
    let mut version = patch.pod.resource_version;
    for attempt in 1..=ATTEMPTS_MAX {
        let body = patch_body(&patch, version, transition_time.as_deref());
        let request = Request::patch(&path)
            .header("content-type", "application/strategic-merge-patch+json")
            .body(Body::from(body));
        let Ok(request) = request else { return (patch, None) };
        let Ok(in_flight) = gate.begin_write().await else { return (patch, None) };
        if cancelled.is_cancelled() {
            let _ = in_flight.not_sent();
            return (patch, None);
        }
        let mut delay = RETRY_DELAY_INITIAL * 4_u32.pow(attempt - 1);
        let response = timeout(REQUEST_TIMEOUT, client.send(request)).await;
        if let Ok(Ok(response)) = &response {
            in_flight.answered(response.status());
        }
        let error = match response {
            Ok(Ok(response)) if response.status().is_success() => {
                let version = version_of(response).await;
                return (patch, Some(version));
            }
            Ok(Ok(response)) if response.status() == StatusCode::CONFLICT && version > 0 => {
                // The pod has changed, or was replaced by another one of its name.
                match version_if_pending(&client, &gate, &patch.pod).await {
                    Ok(Some(present)) if present != version => {
                        version = present;
                        continue;
                    }
                    Ok(_) => return (patch, None),
                    Err(error) => error,
                }
            }
            Ok(Ok(response)) => {
                delay = retry_after(&response).map_or(delay, |wait| wait.max(delay));
                let error = read_error(response).await;
                if !is_retryable(error.status) {
                    // The pod is gone or replaced, or the right is missing.
                    tracing::debug!(pod = %patch.pod.name, "the status is not written: {error}");
                    return (patch, None);
                }
                PatchError::Refused(error)
            }
            Ok(Err(error)) => PatchError::Request(error.into()),
            Err(_) => PatchError::NoResponse,
        };
        tracing::debug!(
            pod = %patch.pod.name,
            attempt,
            "cannot write the status: {}",
            Chain(&error)
        );
        if attempt == ATTEMPTS_MAX || delay > RETRY_DELAY_MAX {
            break;
        }
        if cancelled.run_until_cancelled(sleep(delay)).await.is_none() {
            break;
        }
    }
    (patch, None)
}

/// The fields of a pod that [`version_if_pending`] reads.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PodRead {
    metadata: PodReadMetadata,
    spec: PodReadSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodReadMetadata {
    uid: String,
    resource_version: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodReadSpec {
    node_name: String,
}

/// Reads the resourceVersion of a pod. Returns `None` if the pod is on a node or gone, so that its status
/// must not be written.
async fn version_if_pending(
    client: &kube::Client,
    gate: &Gate,
    pod: &PodRef,
) -> Result<Option<u64>, PatchError> {
    let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
    let request = Request::get(path).body(Body::empty());
    let request = request.map_err(|error| PatchError::Request(error.into()))?;
    gate.read().await;
    let response = match timeout(REQUEST_TIMEOUT, client.send(request)).await {
        Ok(Ok(response)) if response.status().is_success() => response,
        Ok(Ok(response)) if response.status() == StatusCode::NOT_FOUND => return Ok(None),
        Ok(Ok(response)) => return Err(PatchError::Refused(read_error(response).await)),
        Ok(Err(error)) => return Err(PatchError::Request(error.into())),
        Err(_) => return Err(PatchError::NoResponse),
    };
    let body = Limited::new(response.into_body(), RESPONSE_BYTES_MAX).collect();
    let body = timeout(REQUEST_TIMEOUT, body).await.map_err(|_| PatchError::NoResponse)?;
    let body = body.map_err(PatchError::Request)?.to_bytes();
    let present: PodRead = serde_json::from_slice(&body)?;
    let is_pending =
        Uid::from(&*present.metadata.uid) == pod.uid && present.spec.node_name.is_empty();
    Ok(present.metadata.resource_version.parse().ok().filter(|_| is_pending))
}

/// Reads the resourceVersion of a patched pod. Returns zero, which is older than any other, if it cannot
/// be read.
async fn version_of(response: Response<Body>) -> u64 {
    let body = Limited::new(response.into_body(), RESPONSE_BYTES_MAX).collect();
    let Ok(Ok(body)) = timeout(REQUEST_TIMEOUT, body).await else { return 0 };
    let pod: PodRead = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    pod.metadata.resource_version.parse().unwrap_or(0)
}
