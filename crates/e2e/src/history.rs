//! All versions of the pods of a namespace, recorded from a watch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};
use serde_json::Value;
use tokio::time::sleep;

use crate::test_env::{TestEnv, text};
use crate::watch;
use controlplane::POLL_INTERVAL;

/// Records pods until it is dropped.
pub(crate) struct History {
    recorded: Arc<Mutex<PodVersions>>,
    /// Ends the watch when it is dropped.
    _runtime: tokio::runtime::Runtime,
}

#[derive(Default)]
struct PodVersions {
    /// All versions of each pod, by uid.
    versions: BTreeMap<String, Vec<Value>>,
    /// The nodes that each pod was recorded on.
    nodes: BTreeMap<String, BTreeSet<String>>,
}

impl History {
    /// Starts the watch. Versions before the first list are not recorded.
    pub(crate) fn start(env: &TestEnv) -> Result<Self> {
        let (runtime, client) = watch::client(env)?;
        let path = format!("/api/v1/namespaces/{}/pods", env.namespace);
        let recorded = Arc::new(Mutex::new(PodVersions::default()));
        let version = runtime.block_on(list(&client, &path, &recorded))?;
        runtime.spawn(follow(client, path, version, Arc::clone(&recorded)));
        Ok(Self { recorded, _runtime: runtime })
    }

    /// Returns the number of recorded pods.
    pub(crate) fn pods(&self) -> usize {
        lock(&self.recorded).versions.len()
    }

    /// Returns the number of pods that were recorded on a node.
    pub(crate) fn bound(&self) -> usize {
        lock(&self.recorded).nodes.len()
    }

    /// Returns all recorded versions of a pod.
    pub(crate) fn of(&self, name: &str) -> Vec<Value> {
        let recorded = lock(&self.recorded);
        let mut all = recorded.versions.values().flatten();
        let mut found = Vec::new();
        while let Some(version) = all.find(|version| text(version, "/metadata/name") == name) {
            found.push(version.clone());
        }
        found
    }

    /// Fails if a pod was on two nodes.
    pub(crate) fn check_bound_once(&self) -> Result<()> {
        let recorded = lock(&self.recorded);
        match recorded.nodes.iter().find(|(_, nodes)| nodes.len() > 1) {
            Some((uid, nodes)) => bail!("pod {uid} was on {nodes:?}"),
            None => Ok(()),
        }
    }
}

impl PodVersions {
    fn record(&mut self, mut pod: Value) {
        // Not compared, and large for a thousand pods.
        if let Some(metadata) = pod["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        let uid = text(&pod, "/metadata/uid").to_owned();
        let node = text(&pod, "/spec/nodeName");
        if !node.is_empty() {
            self.nodes.entry(uid.clone()).or_default().insert(node.to_owned());
        }
        self.versions.entry(uid).or_default().push(pod);
    }
}

/// Lists all pods and returns the resource version of the list.
async fn list(client: &kube::Client, path: &str, recorded: &Mutex<PodVersions>) -> Result<String> {
    let mut list = watch::list(client, path).await?;
    for pod in list["items"].as_array_mut().into_iter().flatten() {
        lock(recorded).record(pod.take());
    }
    Ok(text(&list, "/metadata/resourceVersion").to_owned())
}

/// Watches, and relists whenever the watch ends: the API server closes slow watches.
async fn follow(
    client: kube::Client,
    path: String,
    mut version: String,
    recorded: Arc<Mutex<PodVersions>>,
) {
    loop {
        let query = format!("{path}?watch=true&resourceVersion={version}");
        let record = |mut event: Value| lock(&recorded).record(event["object"].take());
        // Any error ends the watch; the next list has the current versions.
        let _ = watch::stream(&client, &query, record).await;
        version = loop {
            match list(&client, &path, &recorded).await {
                Ok(version) => break version,
                Err(_) => sleep(POLL_INTERVAL).await,
            }
        };
    }
}

fn lock(recorded: &Mutex<PodVersions>) -> MutexGuard<'_, PodVersions> {
    recorded.lock().unwrap_or_else(PoisonError::into_inner)
}
