//! Volumes: what must be written before a pod is bound, and waiting until it took effect.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use engine::framework::VolumeRequest;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::api_error::{is_retryable, read_error, status_code_of};
use crate::gate::Gate;
use crate::lease::REQUEST_TIMEOUT;

#[cfg(test)]
mod tests;

/// How often claims are looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How long it may take to read.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Writes what is asked for, as long as the gate lets it pass, and waits until all claims are bound.
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
    timeout(limit, work).await.unwrap_or_else(|_| bail!("context deadline exceeded"))
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
                bail!("volume {volume} is bound to another claim");
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
            // Whoever reserved it for this claim by name keeps it when the claim goes.
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
                    bail!("claim {namespace}/{claim} was bound to {volume}, not to {wanted}")
                }
                _ => Ok(()),
            };
        }
        match request {
            // The provisioner takes the node away when it cannot serve it.
            VolumeRequest::Provision { node, .. } => {
                if annotation(&present, SELECTED_NODE) != Some(&**node) {
                    bail!("selectedNode annotation reset for PVC {claim:?}");
                }
            }
            VolumeRequest::BindVolume { volume, .. } => {
                let path = format!("/api/v1/persistentvolumes/{volume}");
                if let Some(volume_now) = get_if_available(client, gate, &path).await?
                    && text(&volume_now, "/spec/claimRef/uid") != text(&present, "/metadata/uid")
                {
                    bail!("ClaimRef got reset for PV {volume:?}");
                }
            }
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Reads an object; `None` when it cannot be had at the moment.
async fn get_if_available(client: &kube::Client, gate: &Gate, path: &str) -> Result<Option<Value>> {
    match get(client, gate, path).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if status_code_of(&error).is_some_and(|status| !is_retryable(status)) => {
            Err(error)
        }
        Err(error) => {
            tracing::debug!("cannot read {path}: {error:#}");
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
    send(client, Request::get(path).body(Body::empty())?, READ_TIMEOUT).await
}

async fn merge_patch(client: &kube::Client, gate: &Gate, path: &str, patch: &Value) -> Result<()> {
    let request = Request::patch(format!("{path}?timeout={}ms", REQUEST_TIMEOUT.as_millis()))
        .header("content-type", "application/merge-patch+json")
        .body(Body::from(patch.to_string().into_bytes()))?;
    let write = gate.begin_write().await?;
    let done = send(client, request, REQUEST_TIMEOUT).await;
    let status = done.as_ref().map_or_else(status_code_of, |_| Some(StatusCode::OK));
    if let Some(status) = status {
        write.answered(status);
    }
    done.map(|_| ())
}

async fn send(client: &kube::Client, request: Request<Body>, limit: Duration) -> Result<Value> {
    let work = async {
        let response = client.send(request).await?;
        if response.status() != StatusCode::OK {
            return Err(read_error(response).await);
        }
        let body = response.into_body().collect().await?.to_bytes();
        Ok(serde_json::from_slice(&body)?)
    };
    timeout(limit, work).await.context("the API server did not answer")?
}
