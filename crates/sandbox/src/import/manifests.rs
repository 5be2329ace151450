//! Manifests: objects from files, applied as `kubectl apply --server-side` does.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use thiserror::Error;
use tokio::time::timeout;

use super::{ImportError, documents, flatten};
use crate::cluster::Cluster;
use crate::http::Handler;
use crate::json::{holds, name, namespace, text};
use crate::kinds::{Resource, type_of};

/// Timeout until the kind of a new definition is served, which takes milliseconds.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(10);

/// An object of a manifest file.
#[derive(Debug)]
pub struct Manifest {
    /// Name of the file, for error messages.
    pub file: Arc<str>,
    object: Value,
}

/// Reason why a manifest cannot be applied.
#[derive(Debug, Error)]
#[error("{file}: {kind} {name:?}: {message}")]
pub struct ApplyError {
    file: Arc<str>,
    kind: String,
    name: String,
    message: String,
}

impl Manifest {
    /// Parses the objects of a YAML or JSON file. Lists are flattened.
    pub fn read(file: &str, text_of_file: &str) -> Result<Vec<Self>, ImportError> {
        let mut objects = Vec::new();
        for document in documents(text_of_file)? {
            flatten(document, &mut objects);
        }
        let file: Arc<str> = file.into();
        let manifest = |(index, object): (usize, Value)| {
            let missing = |field: &str| {
                ImportError::Form(format!("object {} of the file: {field} is missing", index + 1))
            };
            let (api_version, kind) = type_of(&object);
            if api_version.is_empty() {
                return Err(missing("apiVersion"));
            }
            if kind.is_empty() {
                return Err(missing("kind"));
            }
            if name(&object).is_empty() && text(&object, &["metadata", "generateName"]).is_empty() {
                return Err(missing("metadata.name"));
            }
            Ok(Self { file: Arc::clone(&file), object })
        };
        objects.into_iter().enumerate().map(manifest).collect()
    }

    /// Returns the rank of the object in the order of application: dependencies first.
    fn rank(&self) -> u8 {
        match type_of(&self.object).1 {
            "CustomResourceDefinition" => 0,
            "Namespace" => 1,
            "Node" | "PriorityClass" | "StorageClass" | "CSIDriver" | "ServiceAccount" => 2,
            "ResourceQuota" | "LimitRange" | "PersistentVolume" => 3,
            "ConfigMap" | "Secret" | "Service" | "PersistentVolumeClaim" => 4,
            _ => 5,
        }
    }

    fn error(&self, message: impl Into<String>) -> ApplyError {
        ApplyError {
            file: Arc::clone(&self.file),
            kind: type_of(&self.object).1.to_owned(),
            name: name(&self.object).to_owned(),
            message: message.into(),
        }
    }
}

/// Applies manifests by rank: definitions first, each awaited until its kind is served, then namespaces,
/// then the rest. Within a rank they are applied in the order of the files. Stops at the first error.
pub async fn apply(
    cluster: &Arc<Cluster>,
    mut manifests: Vec<Manifest>,
) -> Result<usize, ApplyError> {
    manifests.sort_by_key(Manifest::rank);
    let token = uuid::Uuid::new_v4().to_string();
    let handler = Handler::new(Arc::clone(cluster), &token);
    for manifest in &manifests {
        let (api_version, kind) = type_of(&manifest.object);
        let resource = cluster.kinds.of_object(api_version, kind).ok_or_else(|| {
            manifest.error(format!("no kind {kind} in version {api_version} is registered; apply its CustomResourceDefinition as well"))
        })?;
        send(&handler, &token, &resource, manifest).await?;
        if manifest.rank() == 0 {
            established(cluster, manifest).await?;
        }
    }
    Ok(manifests.len())
}

async fn send(
    handler: &Handler,
    token: &str,
    resource: &Resource,
    manifest: &Manifest,
) -> Result<(), ApplyError> {
    let (kind, object) = (&resource.kind, &manifest.object);
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let group = match &*kind.group {
        "" => format!("/api/{}", kind.version),
        group => format!("/apis/{group}/{}", kind.version),
    };
    let scope = match namespace(object) {
        _ if !kind.namespaced => String::new(),
        "" => "/namespaces/default".to_owned(),
        given => format!("/namespaces/{}", encoded(given)),
    };
    // An object with `generateName` cannot be applied, only created.
    let (method, content_type, target) = match name(object) {
        "" => (Method::POST, "application/json", "?".to_owned()),
        name => {
            let target = format!("/{}?force=true&", encoded(name));
            (Method::PATCH, "application/apply-patch+yaml", target)
        }
    };
    let path = format!(
        "{group}{scope}/{}{target}fieldManager=jindou-up&fieldValidation=Strict",
        kind.plural
    );
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", content_type)
        .body(Full::new(Bytes::from(object.to_string())))
        .map_err(|error| manifest.error(error.to_string()))?;
    let answer = handler.answer(request).await;
    if answer.status().is_success() {
        return Ok(());
    }
    let code = answer.status();
    let body = answer.into_body().collect().await.map(http_body_util::Collected::to_bytes);
    let status: Value = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
    let message = text(&status, &["message"]);
    Err(manifest.error(if message.is_empty() { code.to_string() } else { message.to_owned() }))
}

/// Waits until the kinds of a definition are served.
async fn established(cluster: &Cluster, manifest: &Manifest) -> Result<(), ApplyError> {
    let definitions = cluster.resource("apiextensions.k8s.io", "customresourcedefinitions");
    let mut news = definitions.objects.subscribe();
    let wait = async {
        loop {
            news.borrow_and_update();
            let definition = cluster.value(&definitions, "", name(&manifest.object));
            if definition.is_some_and(|definition| holds(&definition, "Established"))
                || news.changed().await.is_err()
            {
                return;
            }
        }
    };
    let seconds = ESTABLISH_TIMEOUT.as_secs();
    timeout(ESTABLISH_TIMEOUT, wait)
        .await
        .map_err(|_| manifest.error(format!("not established within {seconds} s")))
}
