//! Watches pods and records when each was bound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use cli::api_client::ApiClient;
use futures::TryStreamExt as _;
use http::Request;
use kube::core::WatchEvent;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Path of pods with a node, for which a watch sends ADDED when a pod is bound.
const BOUND: &str = "/api/v1/pods?fieldSelector=spec.nodeName!%3D";

/// Delay before a watch that ended is started again.
const PAUSE: Duration = Duration::from_millis(100);

/// A watch of bound pods, which ends when this is dropped.
pub(crate) struct Observer {
    seen: Arc<Mutex<Seen>>,
    count: Arc<watch::Sender<usize>>,
    task: JoinHandle<()>,
}

/// Binds seen since the last [`Observer::take`].
#[derive(Default)]
pub(crate) struct Seen {
    /// Node of each pod and the time at which it was first seen there, by uid.
    pub(crate) bound: HashMap<String, (String, Instant)>,
    /// Times of the first and the last bind.
    pub(crate) span: Option<(Instant, Instant)>,
    /// Pods that were seen on a second node.
    pub(crate) moved: Vec<String>,
}

/// The fields of a pod that are read.
#[derive(Clone, Deserialize)]
struct Pod {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    name: String,
    resource_version: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: String,
}

#[derive(Deserialize)]
struct List {
    metadata: Version,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    resource_version: String,
}

impl Observer {
    /// Starts the watch. Pods that are bound already are not counted.
    pub(crate) async fn start(requests: ApiClient) -> Result<Self> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let count = Arc::new(watch::Sender::new(0));
        let version = newest(&requests).await?;
        let (kept, counted) = (Arc::clone(&seen), Arc::clone(&count));
        let task = tokio::spawn(async move { follow(&requests, version, &kept, &counted).await });
        Ok(Self { seen, count, task })
    }

    /// Waits until this many pods were seen bound.
    pub(crate) async fn wait(&self, pods: usize) -> Result<()> {
        let reached = self.count.subscribe().wait_for(|count| *count >= pods).await.map(|_| ());
        reached.context("the watch of pods ended")
    }

    /// Returns the number of pods seen bound.
    pub(crate) fn count(&self) -> usize {
        *self.count.borrow()
    }

    /// Returns the binds seen and resets the count.
    pub(crate) fn take(&self) -> Seen {
        self.count.send_replace(0);
        std::mem::take(&mut *lock(&self.seen))
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the current resource version.
async fn newest(requests: &ApiClient) -> Result<String> {
    let list = requests.get_text(&format!("{BOUND}&limit=1")).await?;
    Ok(serde_json::from_str::<List>(&list)?.metadata.resource_version)
}

async fn follow(
    requests: &ApiClient,
    mut version: String,
    seen: &Mutex<Seen>,
    count: &watch::Sender<usize>,
) {
    loop {
        let ended = watch_once(requests, &mut version, seen, count).await;
        if let Err(error) = ended {
            cli::output::complain(&format!("watching pods: {error:#}; trying again"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn watch_once(
    requests: &ApiClient,
    version: &mut String,
    seen: &Mutex<Seen>,
    count: &watch::Sender<usize>,
) -> Result<()> {
    let path = format!("{BOUND}&watch=1&allowWatchBookmarks=true&resourceVersion={version}");
    let request = Request::get(path).body(Vec::new())?;
    let events = requests.client().request_events::<Pod>(request).await?;
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.try_next().await? {
        let now = Instant::now();
        match event {
            WatchEvent::Added(pod) => {
                version.clone_from(&pod.metadata.resource_version);
                let bound = lock(seen).add(pod, now);
                count.send_replace(bound);
            }
            WatchEvent::Modified(pod) => {
                version.clone_from(&pod.metadata.resource_version);
                lock(seen).compare(&pod);
            }
            WatchEvent::Deleted(pod) => *version = pod.metadata.resource_version,
            WatchEvent::Bookmark(mark) => *version = mark.metadata.resource_version,
            WatchEvent::Error(status) => {
                // Binds since then are missed; a caller that waits for them fails by its own timeout.
                *version = newest(requests).await?;
                anyhow::bail!("{}", status.message);
            }
        }
    }
    Ok(())
}

impl Seen {
    fn add(&mut self, pod: Pod, now: Instant) -> usize {
        self.compare(&pod);
        self.bound.entry(pod.metadata.uid).or_insert_with(|| (pod.spec.node_name, now));
        self.span = Some((self.span.map_or(now, |(first, _)| first), now));
        self.bound.len()
    }

    fn compare(&mut self, pod: &Pod) {
        let Pod { metadata, spec } = pod;
        if let Some((node, _)) = self.bound.get(&metadata.uid).filter(|(n, _)| *n != spec.node_name)
        {
            let moved = format!("{} was on {node} and is on {}", metadata.name, spec.node_name);
            self.moved.push(moved);
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, node: &str) -> Pod {
        let value = json!({
            "metadata": {"uid": uid, "name": uid, "resourceVersion": "1"}, "spec": {"nodeName": node},
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_first_sight_of_a_pod_is_its_bind_and_another_node_is_a_move() {
        let (first, second) = (Instant::now(), Instant::now() + PAUSE);
        let mut seen = Seen::default();
        assert_eq!(seen.add(pod("a", "n1"), first), 1);
        assert_eq!(seen.add(pod("b", "n1"), second), 2);
        // A watch that is started again shows pods a second time.
        assert_eq!(seen.add(pod("a", "n1"), second), 2);
        assert_eq!(seen.bound["a"], ("n1".to_owned(), first));
        assert_eq!(seen.span, Some((first, second)));
        assert!(seen.moved.is_empty());
        seen.compare(&pod("a", "n2"));
        assert_eq!(seen.moved, ["a was on n1 and is on n2"]);
    }
}
