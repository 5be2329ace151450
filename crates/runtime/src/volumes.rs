//! Binding of volumes: the writes to claims and volumes before a pod is bound, and the wait for their
//! controllers.

use std::time::Duration;

use engine::framework::VolumeRequest;
use engine::object::Text;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::api_error::{ApiError, BoxError, Chain, is_retryable, read_error};
use crate::gate::{Gate, GateClosed};
use crate::lease::REQUEST_TIMEOUT;

#[cfg(test)]
mod tests;

/// Time between reads of a claim.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Time limit of a read.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Why the volumes of a pod are not ready.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The time limit of all writes and waits has passed; upstream's text.
    #[error("context deadline exceeded")]
    DeadlineExceeded,
    /// The volume belongs to another claim.
    #[error("volume {volume} is bound to another claim")]
    VolumeTaken {
        /// Name of the volume.
        volume: Text,
    },
    /// A controller bound the claim to another volume.
    #[error("claim {namespace}/{claim} was bound to {bound}, not to {wanted}")]
    OtherVolumeBound {
        /// Namespace of the claim.
        namespace: Text,
        /// Name of the claim.
        claim: Text,
        /// Name of the volume to which it is bound.
        bound: String,
        /// Name of the volume to which it was to be bound.
        wanted: Text,
    },
    /// The provisioner cannot serve the node; upstream's text.
    #[error("selectedNode annotation reset for PVC {claim:?}")]
    SelectedNodeReset {
        /// Name of the claim.
        claim: Text,
    },
    /// The volume controller removed the reference to the claim; upstream's text.
    #[error("ClaimRef got reset for PV {volume:?}")]
    ClaimRefReset {
        /// Name of the volume.
        volume: Text,
    },
    /// The lease was lost.
    #[error(transparent)]
    GateClosed(#[from] GateClosed),
    /// The API server refused a request.
    #[error(transparent)]
    Refused(#[from] ApiError),
    /// A request failed.
    #[error(transparent)]
    Request(BoxError),
    /// No response arrived in time.
    #[error("the API server did not answer")]
    NoResponse,
}

type Result<T> = std::result::Result<T, VolumeError>;

/// Sends the writes of all requests and waits until their claims are bound, for at most `limit`.
pub async fn prepare(
    client: &kube::Client,
    gate: &Gate,
    requests: &[VolumeRequest],
    limit: Duration,
) -> Result<()> {
    let work = async {
        for request in requests {
            write(client, gate, request).await?;
        }
        for request in requests {
            wait_until_bound(client, gate, request).await?;
        }
        Ok(())
    };
    timeout(limit, work).await.unwrap_or(Err(VolumeError::DeadlineExceeded))
}

async fn write(client: &kube::Client, gate: &Gate, request: &VolumeRequest) -> Result<()> {
    match request {
        VolumeRequest::BindVolume { volume, namespace, claim } => {
            let claim = get(client, gate, &claim_path(namespace, claim)).await?;
            let path = format!("/api/v1/persistentvolumes/{volume}");
            let present = get(client, gate, &path).await?;
            let uid = text(&claim, "/metadata/uid");
            let holder = text(&present, "/spec/claimRef/uid");
            if holder == uid {
                return Ok(());
            }
            let name = text(&claim, "/metadata/name");
            let reserved = text(&present, "/spec/claimRef/name");
            let for_us =
                reserved == name && text(&present, "/spec/claimRef/namespace") == &**namespace;
            if !holder.is_empty() || (!reserved.is_empty() && !for_us) {
                return Err(VolumeError::VolumeTaken { volume: volume.clone() });
            }
            let mut patch = json!({
                "metadata": {"resourceVersion": text(&present, "/metadata/resourceVersion")},
                "spec": {"claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": **namespace,
                    "name": name,
                    "uid": uid,
                    "resourceVersion": text(&claim, "/metadata/resourceVersion"),
                }},
            });
            // A volume that its owner reserved for the claim stays reserved when the claim is deleted.
            if !for_us {
                patch["metadata"]["annotations"] = json!({BOUND_BY_CONTROLLER: "yes"});
            }
            merge_patch(client, gate, &path, &patch).await
        }
        VolumeRequest::Provision { namespace, claim, node } => {
            let path = claim_path(namespace, claim);
            let present = get(client, gate, &path).await?;
            if annotation(&present, SELECTED_NODE) == Some(&**node) {
                return Ok(());
            }
            let patch = json!({"metadata": {
                "resourceVersion": text(&present, "/metadata/resourceVersion"),
                "annotations": {SELECTED_NODE: **node},
            }});
            merge_patch(client, gate, &path, &patch).await
        }
    }
}

async fn wait_until_bound(
    client: &kube::Client,
    gate: &Gate,
    request: &VolumeRequest,
) -> Result<()> {
    let (VolumeRequest::BindVolume { namespace, claim, .. }
    | VolumeRequest::Provision { namespace, claim, .. }) = request;
    let path = claim_path(namespace, claim);
    loop {
        let Some(present) = get_if_available(client, gate, &path).await? else {
            sleep(POLL_INTERVAL).await;
            continue;
        };
        let volume = text(&present, "/spec/volumeName");
        if !volume.is_empty() && annotation(&present, BIND_COMPLETED).is_some() {
            return match request {
                VolumeRequest::BindVolume { volume: wanted, .. } if volume != &**wanted => {
                    Err(VolumeError::OtherVolumeBound {
                        namespace: namespace.clone(),
                        claim: claim.clone(),
                        bound: volume.to_owned(),
                        wanted: wanted.clone(),
                    })
                }
                _ => Ok(()),
            };
        }
        match request {
            // A provisioner that cannot serve the node removes the annotation.
            VolumeRequest::Provision { node, .. } => {
                if annotation(&present, SELECTED_NODE) != Some(&**node) {
                    return Err(VolumeError::SelectedNodeReset { claim: claim.clone() });
                }
            }
            VolumeRequest::BindVolume { volume, .. } => {
                let path = format!("/api/v1/persistentvolumes/{volume}");
                if let Some(volume_now) = get_if_available(client, gate, &path).await?
                    && text(&volume_now, "/spec/claimRef/uid") != text(&present, "/metadata/uid")
                {
                    return Err(VolumeError::ClaimRefReset { volume: volume.clone() });
                }
            }
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Reads an object. Returns `None` after an error that may be temporary.
async fn get_if_available(client: &kube::Client, gate: &Gate, path: &str) -> Result<Option<Value>> {
    match get(client, gate, path).await {
        Ok(object) => Ok(Some(object)),
        Err(VolumeError::Refused(error)) if !is_retryable(error.status) => Err(error.into()),
        Err(error) => {
            tracing::debug!("cannot read {path}: {}", Chain(&error));
            Ok(None)
        }
    }
}

fn claim_path(namespace: &str, claim: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}")
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.pointer(field).and_then(Value::as_str).unwrap_or("")
}

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(name)?.as_str()
}

async fn get(client: &kube::Client, gate: &Gate, path: &str) -> Result<Value> {
    gate.read().await;
    send(client, Request::get(path).body(Body::empty()), READ_TIMEOUT).await
}

async fn merge_patch(client: &kube::Client, gate: &Gate, path: &str, patch: &Value) -> Result<()> {
    let request = Request::patch(format!("{path}?timeout={}ms", REQUEST_TIMEOUT.as_millis()))
        .header("content-type", "application/merge-patch+json")
        .body(Body::from(patch.to_string().into_bytes()));
    let write = gate.begin_write().await?;
    let done = send(client, request, REQUEST_TIMEOUT).await;
    match &done {
        Ok(_) => write.answered(StatusCode::OK),
        Err(VolumeError::Refused(error)) => write.answered(error.status),
        Err(_) => {}
    }
    done.map(|_| ())
}

async fn send(
    client: &kube::Client,
    request: http::Result<Request<Body>>,
    limit: Duration,
) -> Result<Value> {
    let request = request.map_err(|error| VolumeError::Request(error.into()))?;
    let work = async {
        let response = client.send(request).await;
        let response = response.map_err(|error| VolumeError::Request(error.into()))?;
        if response.status() != StatusCode::OK {
            return Err(read_error(response).await.into());
        }
        let body = response.into_body().collect().await;
        let body = body.map_err(|error| VolumeError::Request(error.into()))?.to_bytes();
        serde_json::from_slice(&body).map_err(|error| VolumeError::Request(error.into()))
    };
    timeout(limit, work).await.unwrap_or(Err(VolumeError::NoResponse))
}
