//! The cluster and the pod as an API server tells them.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use api::snapshot::{self, Snapshot};
use engine::object::Pod;
use http::StatusCode;
use kube::config::{KubeConfigOptions, Kubeconfig};
use runtime::kinds::KINDS;
use runtime::scheduler::{check_connection, check_rights};
use serde_json::Value;

use crate::api_client::{ApiClient, UnexpectedStatus, pods_path};
use crate::output::complain;

/// Which pod of which cluster.
pub(super) struct Asked<'a> {
    /// `pod/NAME`.
    pub(super) pod: &'a str,
    /// Its namespace, if not that of the context.
    pub(super) namespace: Option<&'a str>,
    /// File of the credentials, if not the usual ones.
    pub(super) kubeconfig: Option<&'a Path>,
    /// Context in it, if not the current one.
    pub(super) context: Option<&'a str>,
}

/// Reads everything that decisions depend on, and the pod as though it had no node.
pub(super) fn read(asked: &Asked<'_>) -> Result<(Snapshot, Pod)> {
    let name = pod_name(asked.pod)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let config = configuration(asked).await?;
        let namespace = asked.namespace.unwrap_or(&config.default_namespace);
        let client = ApiClient::with(&config)?;
        check_connection(client.client())
            .await
            .with_context(|| format!("cannot reach the cluster at {}", config.cluster_url))?;
        // Asked for first: a name that is wrong is told before thousands of objects are read.
        let pod = pod(&client, namespace, name).await?;
        check_rights(client.client()).await?;
        Ok((cluster(&client).await?, pod))
    })
}

/// The name in `pod/NAME`, which may also be given alone.
fn pod_name(text: &str) -> Result<&str> {
    let name = match text.split_once('/') {
        Some(("pod" | "pods" | "po", name)) => name,
        Some((kind, _)) => bail!("only pods can be explained, as `pod/NAME`, not {kind:?}"),
        None => text,
    };
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    if name.is_empty() || !name.chars().all(fine) {
        bail!("{name:?} is no name of a pod; say `pod/NAME`");
    }
    Ok(name)
}

async fn configuration(asked: &Asked<'_>) -> Result<kube::Config> {
    // Each error repeats the one beneath.
    let root = |error: kube::config::KubeconfigError| anyhow!("{}", anyhow!(error).root_cause());
    let file = match asked.kubeconfig {
        Some(path) => Kubeconfig::read_from(path)
            .map_err(root)
            .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?,
        // What kubectl would use.
        None => Kubeconfig::read().map_err(root).context(
            "no usual kubeconfig: use --kubeconfig or KUBECONFIG, or --snapshot and --pod for files",
        )?,
    };
    let options = KubeConfigOptions {
        context: asked.context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    let config = kube::Config::from_custom_kubeconfig(file, &options).await;
    config.map_err(root).context("the kubeconfig cannot be used")
}

async fn pod(client: &ApiClient, namespace: &str, name: &str) -> Result<Pod> {
    let path = format!("{}/{name}", pods_path(namespace));
    let mut object = client.get(&path).await.map_err(|error| {
        let status = error.downcast_ref::<UnexpectedStatus>().map(|error| error.status);
        match status {
            Some(StatusCode::NOT_FOUND) => {
                anyhow!("there is no pod {name:?} in the namespace {namespace:?}")
            }
            _ => error.context(format!("cannot read the pod {namespace}/{name}")),
        }
    })?;
    if let Some(phase @ ("Succeeded" | "Failed")) = object["status"]["phase"].as_str() {
        bail!("the pod {namespace}/{name} has finished ({phase}) and is placed no more");
    }
    if let Some(node) = object["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        complain(&format!(
            "note: {namespace}/{name} is on {node} already; this is where it would go if it were placed now"
        ));
    }
    unplace(&mut object);
    let mut read = snapshot::from_values([object]);
    super::tell_problems(&format!("pod {namespace}/{name}"), &read)?;
    read.objects.pods.pop().with_context(|| format!("{namespace}/{name} cannot be read as a pod"))
}

/// Takes off what placing a pod leaves on it.
fn unplace(pod: &mut Value) {
    for (part, field) in [("spec", "nodeName"), ("status", "nominatedNodeName")] {
        if let Some(fields) = pod[part].as_object_mut() {
            fields.remove(field);
        }
    }
}

async fn cluster(client: &ApiClient) -> Result<Snapshot> {
    let mut lists = Vec::new();
    for kind in KINDS {
        let query = match kind.field_selector {
            "" => String::new(),
            // Nothing else in a selector means something in an address.
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
    let snapshot = snapshot::from_values(lists);
    super::tell_problems("the cluster", &snapshot)?;
    Ok(snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pods_are_named_as_kubectl_names_them() {
        for text in ["pod/web-1", "pods/web-1", "po/web-1", "web-1"] {
            assert_eq!(pod_name(text).unwrap(), "web-1");
        }
        for (text, expected) in [
            ("node/web-1", "only pods can be explained, as `pod/NAME`, not \"node\""),
            ("pod/", "\"\" is no name of a pod; say `pod/NAME`"),
            ("pod/a/b", "\"a/b\" is no name of a pod; say `pod/NAME`"),
            ("a?b=c", "\"a?b=c\" is no name of a pod; say `pod/NAME`"),
        ] {
            assert_eq!(pod_name(text).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_pod_without_its_place_is_as_it_was_created() {
        let mut pod = json!({
            "metadata": {"name": "web"},
            "spec": {"nodeName": "one", "schedulerName": "default-scheduler"},
            "status": {"phase": "Running", "nominatedNodeName": "two"},
        });
        unplace(&mut pod);
        let expected = json!({
            "metadata": {"name": "web"},
            "spec": {"schedulerName": "default-scheduler"},
            "status": {"phase": "Running"},
        });
        assert_eq!(pod, expected);
    }
}
