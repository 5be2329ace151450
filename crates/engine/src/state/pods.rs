//! The pod table.

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher;
use std::ops::Range;

use crate::index::{LabelSetIdx, NodeIdx, PodIdx, SpecIdx};
use crate::object::{Text, Uid};
use crate::slab::Slab;

/// What is kept of each pod. Labels, namespace and spec are shared.
#[derive(Clone, Debug)]
pub struct PodRecord {
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.name`.
    pub name: Text,
    /// `metadata.resourceVersion`.
    pub resource_version: u64,
    /// Namespace and labels.
    pub label_set: LabelSetIdx,
    /// Spec.
    pub spec: SpecIdx,
    /// Priority.
    pub priority: i32,
    /// The node it is on or assumed to be on; `NONE` while pending.
    pub node: NodeIdx,
    /// The node it is nominated for; `NONE` when none.
    pub nominated: NodeIdx,
    /// `status.startTime` in nanoseconds since the epoch, or `i64::MAX` when unset.
    pub start_time: i64,
    /// `metadata.creationTimestamp` in nanoseconds since the epoch.
    pub creation_time: i64,
    /// `metadata.generation`.
    pub generation: i64,
    /// Its place in the group's list while on a node.
    pub(crate) position_in_label_set: u32,
    /// Its place in the spec's list while on a node.
    pub(crate) position_in_spec: u32,
    /// `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// Condition `DisruptionTarget` with reason `PreemptionByScheduler`.
    pub preempted: bool,
    /// On its node by our decision, not yet by the API server's word.
    pub assumed: bool,
    /// Scheduling gates, empty for nearly all pods.
    pub gates: Box<[Text]>,
}

/// All pods, by slot and by uid.
#[derive(Clone, Debug, Default)]
pub struct Pods {
    records: Slab<PodRecord>,
    by_uid: HashTable<PodIdx>,
}

impl Pods {
    /// A pod that exists.
    pub fn get(&self, pod: PodIdx) -> &PodRecord {
        self.records.get(pod.at()).expect("the index is of a pod that exists")
    }

    pub(crate) fn get_mut(&mut self, pod: PodIdx) -> &mut PodRecord {
        self.records.get_mut(pod.at()).expect("the index is of a pod that exists")
    }

    /// Finds a pod by its uid.
    pub fn find(&self, uid: &Uid) -> Option<PodIdx> {
        self.by_uid.find(hash(uid), |pod| self.get(*pod).uid == *uid).copied()
    }

    /// How many pods there are.
    pub fn count(&self) -> usize {
        self.by_uid.len()
    }

    /// All pods in slot order.
    pub fn iter(&self) -> impl Iterator<Item = (PodIdx, &PodRecord)> {
        self.records.iter().map(|(slot, record)| (PodIdx::from(slot), record))
    }

    /// How many slots there are, those of pods that are gone included.
    pub fn slots(&self) -> usize {
        self.records.slots()
    }

    /// The pods of some slots, in their order.
    pub fn iter_within(&self, slots: Range<usize>) -> impl Iterator<Item = (PodIdx, &PodRecord)> {
        let slots = slots.start..slots.end.min(self.records.slots());
        self.records.iter_within(slots).map(|(slot, record)| (PodIdx::from(slot), record))
    }

    pub(crate) fn insert(&mut self, record: PodRecord) -> PodIdx {
        let hash_of_uid = hash(&record.uid);
        let index = PodIdx::from(self.records.insert(record));
        let records = &self.records;
        self.by_uid.insert_unique(hash_of_uid, index, |pod| {
            records.get(pod.at()).map_or(0, |record| hash(&record.uid))
        });
        index
    }

    pub(crate) fn remove(&mut self, pod: PodIdx) -> Option<PodRecord> {
        let hash_of_uid = hash(&self.get(pod).uid);
        if let Ok(entry) = self.by_uid.find_entry(hash_of_uid, |other| *other == pod) {
            entry.remove();
        }
        self.records.remove(pod.at())
    }
}

fn hash(uid: &Uid) -> u64 {
    FxBuildHasher.hash_one(uid)
}

#[cfg(test)]
mod tests;
