//! Everything that happens to the pods of a namespace, as a watch tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufReader;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::scene::{Scene, text};

/// Follows pods until it is dropped.
pub(crate) struct History {
    child: Child,
    reader: Option<JoinHandle<()>>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// All versions of each pod, by its uid.
    versions: BTreeMap<String, Vec<Value>>,
    /// The nodes that each pod was seen on.
    nodes: BTreeMap<String, BTreeSet<String>>,
}

impl History {
    /// Starts to follow. What happens before a pod is first seen stays unknown.
    pub(crate) fn start(scene: &Scene) -> Result<Self> {
        let mut child = Command::new(scene.plane.bin.join("kubectl"))
            .arg("--kubeconfig")
            .arg(&scene.plane.kubeconfig)
            .arg("--cache-dir")
            .arg(scene.plane.folder.join("kubectl"))
            .args(["--namespace", scene.namespace, "get", "pods", "-o", "json"])
            .args(["--watch", "--output-watch-events"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start kubectl")?;
        let output = child.stdout.take().context("kubectl has no output")?;
        let seen = Arc::new(Mutex::new(Seen::default()));
        let kept = Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            let events = serde_json::Deserializer::from_reader(BufReader::new(output));
            for event in events.into_iter::<Value>() {
                let Ok(mut event) = event else { return };
                lock(&kept).take(event["object"].take());
            }
        });
        Ok(Self { child, reader: Some(reader), seen })
    }

    /// How many pods were seen.
    pub(crate) fn pods(&self) -> usize {
        lock(&self.seen).versions.len()
    }

    /// How many pods were seen on a node.
    pub(crate) fn bound(&self) -> usize {
        lock(&self.seen).nodes.len()
    }

    /// All versions of a pod that were seen.
    pub(crate) fn of(&self, name: &str) -> Vec<Value> {
        let seen = lock(&self.seen);
        let mut all = seen.versions.values().flatten();
        let mut found = Vec::new();
        while let Some(version) = all.find(|version| text(version, "/metadata/name") == name) {
            found.push(version.clone());
        }
        found
    }

    /// Fails if a pod was on two nodes.
    pub(crate) fn check_bound_once(&self) -> Result<()> {
        let seen = lock(&self.seen);
        match seen.nodes.iter().find(|(_, nodes)| nodes.len() > 1) {
            Some((uid, nodes)) => bail!("pod {uid} was on {nodes:?}"),
            None => Ok(()),
        }
    }
}

impl Seen {
    fn take(&mut self, mut pod: Value) {
        // Nobody asks for these, and a thousand pods have many.
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

impl Drop for History {
    fn drop(&mut self) {
        // The child is ours and not waited for yet. Its output ends with it, and with that the thread.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
