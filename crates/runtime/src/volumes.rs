//! Volumes: what must be written before a pod is bound, and waiting until it took effect.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use engine::framework::VolumeRequest;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::answer::failure;


/// How often claims are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long one request may take.
const REQUEST_MAX: Duration = Duration::from_secs(10);

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Writes what is asked for and waits until all claims are bound.
pub async fn prepare(
    client: &kube::Client,
    requests: &[VolumeRequest],
    limit: Duration,
) -> Result<()> {
    let work = async {
        for request in requests {
            write(client, request).await?;
        }
        for request in requests {
            wait(client, request).await?;
        }
        Ok(())
    };
    timeout(limit, work).await.unwrap_or_else(|_| bail!("context deadline exceeded"))
}

async fn write(client: &kube::Client, request: &VolumeRequest) -> Result<()> {
    match request {
        VolumeRequest::BindVolume { volume, namespace, claim } => {
            let claim = get(client, &claim_path(namespace, claim)).await?;
            let path = format!("/api/v1/persistentvolumes/{volume}");
            let present = get(client, &path).await?;
            let uid = text(&claim, "/metadata/uid");
            let holder = text(&present, "/spec/claimRef/uid");
            if holder == uid {
                return Ok(());
            }
            if !holder.is_empty() {
                bail!("volume {volume} is bound to another claim");
            }
            let patch = json!({
                "metadata": {
                    "resourceVersion": text(&present, "/metadata/resourceVersion"),
                    "annotations": {BOUND_BY_CONTROLLER: "yes"},
                },
                "spec": {"claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": **namespace,
                    "name": text(&claim, "/metadata/name"),
                    "uid": uid,
                    "resourceVersion": text(&claim, "/metadata/resourceVersion"),
                }},
            });
            merge(client, &path, &patch).await
        }
        VolumeRequest::Provision { namespace, claim, node } => {
            let path = claim_path(namespace, claim);
            let present = get(client, &path).await?;
            if annotation(&present, SELECTED_NODE) == Some(&**node) {
                return Ok(());
            }
            let patch = json!({"metadata": {
                "resourceVersion": text(&present, "/metadata/resourceVersion"),
                "annotations": {SELECTED_NODE: **node},
            }});
            merge(client, &path, &patch).await
        }
    }
}

async fn wait(client: &kube::Client, request: &VolumeRequest) -> Result<()> {
    let (VolumeRequest::BindVolume { namespace, claim, .. }
    | VolumeRequest::Provision { namespace, claim, .. }) = request;
    loop {
        let present = get(client, &claim_path(namespace, claim)).await?;
        let volume = text(&present, "/spec/volumeName");
        if !volume.is_empty() && annotation(&present, BIND_COMPLETED).is_some() {
            return match request {
                VolumeRequest::BindVolume { volume: wanted, .. } if volume != &**wanted => {
                    bail!("claim {namespace}/{claim} was bound to {volume}, not to {wanted}")
                }
                _ => Ok(()),
            };
        }
        if let VolumeRequest::Provision { node, .. } = request
            && annotation(&present, SELECTED_NODE) != Some(&**node)
        {
            // The provisioner takes the node away when it cannot serve it.
            bail!("selectedNode annotation reset for PVC {claim:?}");
        }
        sleep(LOOK_EVERY).await;
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

async fn get(client: &kube::Client, path: &str) -> Result<Value> {
    send(client, Request::get(path).body(Body::empty())?).await
}

async fn merge(client: &kube::Client, path: &str, patch: &Value) -> Result<()> {
    let request = Request::builder()
        .method(Method::PATCH)
        .uri(path)
        .header("content-type", "application/merge-patch+json")
        .body(Body::from(patch.to_string().into_bytes()))?;
    send(client, request).await.map(|_| ())
}

async fn send(client: &kube::Client, request: Request<Body>) -> Result<Value> {
    let work = async {
        let response = client.send(request).await?;
        if response.status() != StatusCode::OK {
            return Err(failure(response).await);
        }
        let body = response.into_body().collect().await?.to_bytes();
        Ok(serde_json::from_slice(&body)?)
    };
    timeout(REQUEST_MAX, work).await.context("the API server did not answer")?
}
