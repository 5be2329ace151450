//! Objects of a snapshot that garbage collection and controllers leave unchanged.
//!
//! Snapshots are rarely consistent: owners of pods are missing, or the pods were listed a second after their
//! replica set. Controllers would create and delete pods to match the specs, and the cluster would differ
//! from the file. Therefore missing owners count as present, and a workload is held (left unchanged) until
//! its spec changes, or the workload or one of its pods is deleted.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use serde_json::Value;

use crate::actors::fingerprint;
use crate::json::{int, uid};
use crate::lock::lock;
use crate::store::Owner;

/// Held workloads and missing owners of a snapshot.
#[derive(Debug, Default)]
pub(crate) struct SnapshotState {
    sets: Mutex<Sets>,
    /// Version of the store after the import; 0 without one.
    version: AtomicU64,
}

#[derive(Debug, Default)]
struct Sets {
    /// Uids of owners that the snapshot names but does not contain.
    absent: HashSet<Box<str>>,
    /// Workloads of the snapshot, by uid.
    workloads: HashMap<Box<str>, Workload>,
}

#[derive(Debug)]
struct Workload {
    generation: Option<i64>,
    /// Fingerprint of its pod template.
    template: String,
    /// Revision label of its up-to-date pods, if they have one.
    revision: String,
    /// Set while the workload is held.
    held: bool,
}

impl SnapshotState {
    fn sets(&self) -> MutexGuard<'_, Sets> {
        lock(&self.sets)
    }

    /// Holds a workload. `revision` is the revision label of its up-to-date pods.
    pub(crate) fn hold(&self, object: &Value, revision: String) {
        let workload = Workload {
            generation: int(object, &["metadata", "generation"]),
            template: fingerprint(&object["spec"]["template"]),
            revision,
            held: true,
        };
        self.sets().workloads.insert(uid(object).into(), workload);
    }

    /// Treats a missing owner as present.
    pub(crate) fn hold_owner(&self, owner: &Owner) {
        self.sets().absent.insert(owner.uid.clone());
    }

    /// Records the version of the store after the import.
    pub(crate) fn imported_at(&self, version: u64) {
        self.version.store(version, Ordering::SeqCst);
    }

    /// Returns the version of the store after the import, or 0 without one.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// Returns `true` if a missing owner counts as present.
    pub(crate) fn is_absent_owner(&self, uid: &str) -> bool {
        self.version() > 0 && self.sets().absent.contains(uid)
    }

    /// Returns `true` if a workload is held, so that its controller must not create or delete anything.
    pub(crate) fn is_held(&self, workload: &Value) -> bool {
        self.version() > 0
            && self.sets().workloads.get(uid(workload)).is_some_and(|entry| {
                entry.held && entry.generation == int(workload, &["metadata", "generation"])
            })
    }

    /// Returns the revision of the pods in the snapshot if the pod template is unchanged.
    pub(crate) fn revision(&self, workload: &Value) -> Option<String> {
        if self.version() == 0 {
            return None;
        }
        let sets = self.sets();
        let held = sets.workloads.get(uid(workload)).filter(|entry| !entry.revision.is_empty())?;
        let same = held.template == fingerprint(&workload["spec"]["template"]);
        same.then(|| held.revision.clone())
    }

    /// Returns a workload to its controller.
    pub(crate) fn release(&self, uid: &str) {
        if self.version() > 0
            && let Some(workload) = self.sets().workloads.get_mut(uid)
        {
            workload.held = false;
        }
    }
}
