//! The API server of a test: pods as it shows them, and events about them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use engine::command::PodRef;
use engine::object::{Pod, Text};

/// An event about a pod, as `kubectl get events` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvent {
    /// The pod: its name in namespace `default`, otherwise `namespace/name`.
    pub pod: String,
    /// Reason, such as `Scheduled` or one that a plugin reports.
    pub reason: String,
    /// Text for users.
    pub note: String,
}

/// Pods by [`short_name`], and what was written about them.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) pods: BTreeMap<String, Pod>,
    /// Message of the last failed attempt of each pod without a node.
    pub(super) reasons: BTreeMap<String, String>,
    pub(super) events: Vec<PodEvent>,
}

impl World {
    /// Stores a pod as a manifest describes it. A pod that is bound stays on its node.
    pub(super) fn store(&mut self, mut pod: Pod) -> Pod {
        match self.pods.entry(short_name(&pod.namespace, &pod.name)) {
            Entry::Vacant(entry) => entry.insert(pod).clone(),
            Entry::Occupied(mut entry) => {
                if pod.node.is_empty() {
                    pod.node = entry.get().node.clone();
                }
                entry.insert(pod);
                entry.get().clone()
            }
        }
    }

    /// Changes a pod. Returns the new version, or `None` if there is no such pod or nothing changes.
    pub(super) fn update(&mut self, pod: &PodRef, change: impl FnOnce(&mut Pod)) -> Option<Pod> {
        let stored = self.pods.get_mut(&short_name(&pod.namespace, &pod.name));
        let stored = stored.filter(|stored| stored.uid == pod.uid)?;
        let mut changed = stored.clone();
        change(&mut changed);
        if changed == *stored {
            return None;
        }
        changed.resource_version += 1;
        stored.clone_from(&changed);
        Some(changed)
    }

    /// Removes a pod.
    pub(super) fn remove(&mut self, name: &str) -> Option<Pod> {
        self.reasons.remove(name);
        self.pods.remove(name)
    }

    pub(super) fn event(&mut self, pod: &str, reason: &str, note: impl Into<String>) {
        let (pod, reason) = (pod.to_owned(), reason.to_owned());
        self.events.push(PodEvent { pod, reason, note: note.into() });
    }

    /// Returns the pods that have a node or that have none.
    pub(super) fn pods_with_node(&self, with: bool) -> impl Iterator<Item = (&str, &Text)> {
        let pods = self.pods.iter().filter(move |(_, pod)| pod.node.is_empty() != with);
        pods.map(|(name, pod)| (&**name, &pod.node))
    }
}

/// Returns the name of a pod in namespace `default`, otherwise `namespace/name`.
pub(super) fn short_name(namespace: &str, name: &str) -> String {
    if namespace == "default" { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Returns the [`short_name`] of a pod that a test names, with or without its namespace.
pub(super) fn shortened(name: &str) -> &str {
    name.strip_prefix("default/").unwrap_or(name)
}
