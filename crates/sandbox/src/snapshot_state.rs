//! Objects of a snapshot that garbage collection and controllers leave as they are.
//!
//! A snapshot is seldom complete: owners of pods are missing, or the pods were listed a second after
//! their replica set. Controllers would delete and create pods until the numbers agree, and the
//! cluster would not be the one in the file. So the owners that are missing count as present, and a
//! workload is left alone until its spec changes, it is deleted, or one of its pods is.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::actors::fingerprint;
use crate::json::{int, uid};
use crate::store::Owner;

/// What a snapshot leaves open.
#[derive(Debug, Default)]
pub(crate) struct SnapshotState {
    sets: Mutex<Sets>,
    /// The version of the store after the import; 0 without one.
    version: AtomicU64,
}

#[derive(Debug, Default)]
struct Sets {
    /// Uids of owners that the snapshot names and does not hold.
    absent: HashSet<Box<str>>,
    /// Workloads of the snapshot, by uid.
    workloads: HashMap<Box<str>, Workload>,
}

#[derive(Debug)]
struct Workload {
    generation: Option<i64>,
    /// Fingerprint of its template for pods.
    template: String,
    /// The revision of that template, if pods bear one.
    revision: String,
    /// Whether it is still left alone.
    alone: bool,
}

impl SnapshotState {
    fn sets(&self) -> MutexGuard<'_, Sets> {
        // Nothing panics while it holds the lock; if it did, the sets would still be whole.
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a workload alone from now on. Its pods that are not outdated bear this revision.
    pub(crate) fn hold(&self, object: &Value, revision: String) {
        let workload = Workload {
            generation: int(object, &["metadata", "generation"]),
            template: fingerprint(&object["spec"]["template"]),
            revision,
            alone: true,
        };
        self.sets().workloads.insert(uid(object).into(), workload);
    }

    /// Takes an owner for present from now on.
    pub(crate) fn hold_owner(&self, owner: &Owner) {
        self.sets().absent.insert(owner.uid.clone());
    }

    /// Ends the import at a version of the store.
    pub(crate) fn imported_at(&self, version: u64) {
        self.version.store(version, Ordering::SeqCst);
    }

    /// The version of the store after the import; 0 without one.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// Whether an owner that does not exist counts as present.
    pub(crate) fn is_absent_owner(&self, uid: &str) -> bool {
        self.version() > 0 && self.sets().absent.contains(uid)
    }

    /// Whether the controller of a workload neither creates nor deletes anything for it.
    pub(crate) fn keeps(&self, workload: &Value) -> bool {
        self.version() > 0
            && self.sets().workloads.get(uid(workload)).is_some_and(|held| {
                held.alone && held.generation == int(workload, &["metadata", "generation"])
            })
    }

    /// The revision that pods of the snapshot bear, if a workload still has the template of theirs.
    pub(crate) fn revision(&self, workload: &Value) -> Option<String> {
        if self.version() == 0 {
            return None;
        }
        let sets = self.sets();
        let held = sets.workloads.get(uid(workload)).filter(|held| !held.revision.is_empty())?;
        let same = held.template == fingerprint(&workload["spec"]["template"]);
        same.then(|| held.revision.clone())
    }

    /// Gives a workload back to its controller.
    pub(crate) fn release(&self, uid: &str) {
        if self.version() > 0
            && let Some(workload) = self.sets().workloads.get_mut(uid)
        {
            workload.alone = false;
        }
    }
}
