//! Reads the cluster and the pod from an API server.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use api::kinds;
use api::snapshot::{self, Snapshot};
use engine::object::{AnnotationKeys, Pod};
use http::StatusCode;
use kube::config::{KubeConfigOptions, Kubeconfig};
use runtime::scheduler::{check_connection, check_rights};
use serde_json::Value;

use crate::api_client::{ApiClient, UnexpectedStatus, pods_path};
use crate::output::complain;

/// A pod of a live cluster.
pub(super) struct PodQuery<'a> {
    /// `pod/NAME`.
    pub(super) pod: &'a str,
    /// Keys of the annotations that plugins read.
    pub(super) keys: &'a Arc<AnnotationKeys>,
    /// Its namespace; `None` for that of the context.
    pub(super) namespace: Option<&'a str>,
    /// Kubeconfig file; `None` for the one that kubectl uses.
    pub(super) kubeconfig: Option<&'a Path>,
    /// Context of the kubeconfig; `None` for the current one.
    pub(super) context: Option<&'a str>,
}

/// Reads all objects that decisions depend on, and the pod as if it were not bound.
pub(super) fn read(query: &PodQuery<'_>) -> Result<(Snapshot, Pod)> {
    let name = pod_name(query.pod)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let config = configuration(query).await?;
        let namespace = query.namespace.unwrap_or(&config.default_namespace);
        let client = ApiClient::with(&config)?;
        check_connection(client.client())
            .await
            .with_context(|| format!("cannot reach the cluster at {}", config.cluster_url))?;
        // Read first, so that a wrong name is reported before thousands of objects are listed.
        let pod = pod(&client, namespace, name, query.keys).await?;
        check_rights(client.client()).await?;
        Ok((cluster(&client, query.keys).await?, pod))
    })
}

/// Returns the name in `pod/NAME`; the prefix is optional.
fn pod_name(text: &str) -> Result<&str> {
    let name = match text.split_once('/') {
        Some(("pod" | "pods" | "po", name)) => name,
        Some((kind, _)) => bail!("only pods can be explained, not {kind:?}; use `pod/NAME`"),
        None => text,
    };
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    if name.is_empty() || !name.chars().all(fine) {
        bail!("{name:?} is not a pod name; use `pod/NAME`");
    }
    Ok(name)
}

async fn configuration(query: &PodQuery<'_>) -> Result<kube::Config> {
    // Each error of the chain repeats its source.
    let root = |error: kube::config::KubeconfigError| anyhow!("{}", anyhow!(error).root_cause());
    let file = match query.kubeconfig {
        Some(path) => Kubeconfig::read_from(path)
            .map_err(root)
            .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?,
        None => Kubeconfig::read().map_err(root).context(
            "no kubeconfig found: set --kubeconfig or KUBECONFIG, or use --snapshot and --pod",
        )?,
    };
    let options = KubeConfigOptions {
        context: query.context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    let config = kube::Config::from_custom_kubeconfig(file, &options).await;
    config.map_err(root).context("the kubeconfig cannot be used")
}

async fn pod(
    client: &ApiClient,
    namespace: &str,
    name: &str,
    keys: &Arc<AnnotationKeys>,
) -> Result<Pod> {
    let path = format!("{}/{name}", pods_path(namespace));
    let mut object = client.get(&path).await.map_err(|error| {
        let status = error.downcast_ref::<UnexpectedStatus>().map(|error| error.status);
        match status {
            Some(StatusCode::NOT_FOUND) => {
                anyhow!("no pod {name:?} in namespace {namespace:?}; select another one with -n")
            }
            _ => error.context(format!("cannot read the pod {namespace}/{name}")),
        }
    })?;
    if let Some(phase @ ("Succeeded" | "Failed")) = object["status"]["phase"].as_str() {
        bail!("the pod {namespace}/{name} has finished ({phase}) and is not scheduled again");
    }
    if let Some(node) = object["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        complain(&format!(
            "note: {namespace}/{name} is bound to {node}; it is explained as if it were not bound"
        ));
    }
    unbind(&mut object);
    let mut read = snapshot::from_values_with([object], Arc::clone(keys));
    super::report_problems(&format!("pod {namespace}/{name}"), &read)?;
    read.objects.pods.pop().with_context(|| format!("{namespace}/{name} is not a valid pod"))
}

/// Removes the fields that scheduling sets.
fn unbind(pod: &mut Value) {
    for (part, field) in [("spec", "nodeName"), ("status", "nominatedNodeName")] {
        if let Some(fields) = pod[part].as_object_mut() {
            fields.remove(field);
        }
    }
}

async fn cluster(client: &ApiClient, keys: &Arc<AnnotationKeys>) -> Result<Snapshot> {
    let mut lists = Vec::new();
    for kind in kinds::watched() {
        let query = match kind.field_selector {
            "" => String::new(),
            // No other character of these selectors needs escaping.
            selector => format!("&fieldSelector={}", selector.replace('=', "%3D")),
        };
        match client.pages(kind.path, &query).await {
            Ok(pages) => lists.extend(pages),
            Err(error) => {
                let status = error.downcast_ref::<UnexpectedStatus>().map(|error| error.status);
                if !(kind.is_optional && status == Some(StatusCode::NOT_FOUND)) {
                    return Err(error.context(format!("cannot list objects of kind {}", kind.name)));
                }
            }
        }
    }
    let snapshot = snapshot::from_values_with(lists, Arc::clone(keys));
    super::report_problems("the cluster", &snapshot)?;
    Ok(snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pods_are_named_as_in_kubectl() {
        for text in ["pod/web-1", "pods/web-1", "po/web-1", "web-1"] {
            assert_eq!(pod_name(text).unwrap(), "web-1");
        }
        for (text, expected) in [
            ("node/web-1", "only pods can be explained, not \"node\"; use `pod/NAME`"),
            ("pod/", "\"\" is not a pod name; use `pod/NAME`"),
            ("pod/a/b", "\"a/b\" is not a pod name; use `pod/NAME`"),
            ("a?b=c", "\"a?b=c\" is not a pod name; use `pod/NAME`"),
        ] {
            assert_eq!(pod_name(text).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn an_unbound_pod_equals_the_created_one() {
        let mut pod = json!({
            "metadata": {"name": "web"},
            "spec": {"nodeName": "one", "schedulerName": "default-scheduler"},
            "status": {"phase": "Running", "nominatedNodeName": "two"},
        });
        unbind(&mut pod);
        let expected = json!({
            "metadata": {"name": "web"},
            "spec": {"schedulerName": "default-scheduler"},
            "status": {"phase": "Running"},
        });
        assert_eq!(pod, expected);
    }
}
