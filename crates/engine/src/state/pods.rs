//! The pod table.

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use crate::command::PodRef;
use crate::index::{LabelSetIdx, NodeIdx, PodIdx, SpecIdx};
use crate::object::{Labels, Pod, PodFacts, PodSpec, Text, Uid};
use crate::slab::Slab;

use super::plugin_states::Hook;
use super::undo::UndoStep;
use super::{Areas, State};

/// Fields of one pod. Labels, namespace and spec are interned.
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
    /// The node of the pod, bound or assumed; `NONE` while pending.
    pub node: NodeIdx,
    /// The nominated node; `NONE` if there is none.
    pub nominated: NodeIdx,
    /// `status.startTime` in nanoseconds since the epoch; `i64::MAX` if unset.
    pub start_time: i64,
    /// `metadata.creationTimestamp` in nanoseconds since the epoch.
    pub creation_time: i64,
    /// `metadata.generation`.
    pub generation: i64,
    /// Position in [`LabelSetRecord::pods`](super::label_sets::LabelSetRecord::pods) while the pod
    /// has a node.
    pub(crate) position_in_label_set: u32,
    /// Position in [`SpecRecord::pods`](super::specs::SpecRecord::pods) while the pod has a node.
    pub(crate) position_in_spec: u32,
    /// `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// Condition `DisruptionTarget` with reason `PreemptionByScheduler`.
    pub preempted: bool,
    /// Facts for moving the pod.
    pub facts: PodFacts,
    /// On its node by our decision, not yet confirmed by the watch.
    pub assumed: bool,
    /// Scheduling gates; empty for nearly all pods.
    pub gates: Box<[Text]>,
}

/// All pods, by slot and by UID.
#[derive(Clone, Debug, Default)]
pub struct Pods {
    pub(super) records: Slab<PodRecord>,
    by_uid: HashTable<PodIdx>,
}

impl Pods {
    /// Returns a pod.
    pub fn get(&self, pod: PodIdx) -> &PodRecord {
        self.records.get(pod.at()).expect("the index belongs to an existing pod")
    }

    pub(crate) fn get_mut(&mut self, pod: PodIdx) -> &mut PodRecord {
        self.records.get_mut(pod.at()).expect("the index belongs to an existing pod")
    }

    /// Returns `true` if a pod of this index exists.
    pub(crate) fn exists(&self, pod: PodIdx) -> bool {
        self.records.get(pod.at()).is_some()
    }

    /// Finds a pod by its UID.
    pub fn find(&self, uid: &Uid) -> Option<PodIdx> {
        self.by_uid.find(hash(uid), |pod| self.get(*pod).uid == *uid).copied()
    }

    /// Returns the number of pods.
    pub fn count(&self) -> usize {
        self.by_uid.len()
    }

    /// Iterates over all pods in slot order.
    pub fn iter(&self) -> impl Iterator<Item = (PodIdx, &PodRecord)> {
        self.records.iter().map(|(slot, record)| (PodIdx::from(slot), record))
    }

    /// Returns the number of slots, vacant ones included.
    pub fn slots(&self) -> usize {
        self.records.slots()
    }

    /// Iterates over the pods in a range of slots, in slot order.
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

    /// Drops vacant slots at the end, until this number is left.
    pub(super) fn truncate(&mut self, slots: usize) {
        self.records.truncate(slots);
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

impl State {
    /// Returns the spec of a pod.
    pub fn spec(&self, pod: PodIdx) -> &PodSpec {
        &self.specs.get(self.pods.get(pod).spec).spec
    }

    /// Returns the namespace of a pod.
    pub fn namespace(&self, pod: PodIdx) -> &str {
        &self.label_sets.get(self.pods.get(pod).label_set).namespace
    }

    /// Returns the labels of a pod.
    pub fn labels(&self, pod: PodIdx) -> &Labels {
        &self.label_sets.get(self.pods.get(pod).label_set).labels
    }

    /// Returns `namespace/name` of a pod.
    pub fn full_name(&self, pod: PodIdx) -> String {
        format!("{}/{}", self.namespace(pod), self.pods.get(pod).name)
    }

    /// Returns a pod as commands name it.
    pub fn pod_ref(&self, pod: PodIdx) -> PodRef {
        let record = self.pods.get(pod);
        PodRef {
            namespace: self.namespace(pod).into(),
            name: record.name.clone(),
            uid: record.uid.clone(),
            resource_version: record.resource_version,
            generation: record.generation,
            scheduler: self.spec(pod).scheduler_name.clone(),
        }
    }

    /// Finds a pod by namespace and name. Scans all pods, so it is for interactive requests only.
    pub fn find_pod(&self, namespace: &str, name: &str) -> Option<PodIdx> {
        let mut pods = self.pods.iter();
        let found =
            pods.find(|(pod, record)| *record.name == *name && self.namespace(*pod) == namespace);
        found.map(|(pod, _)| pod)
    }

    /// Adds a pod, pending or on its node.
    pub(crate) fn add_pod(&mut self, pod: Pod) -> PodIdx {
        let slots = self.undo.is_some().then(|| self.slot_counts());
        let label_set = self.acquire_label_set(&pod.namespace, &pod.labels);
        let spec = self.acquire_spec(pod.spec);
        let named =
            Some(&*pod.nominated_node).filter(|name| pod.node.is_empty() && !name.is_empty());
        let nominated = named.and_then(|name| self.nodes.find(name)).unwrap_or(NodeIdx::NONE);
        let index = self.pods.insert(PodRecord {
            uid: pod.uid,
            name: pod.name,
            resource_version: pod.resource_version,
            label_set,
            spec,
            priority: pod.priority,
            node: NodeIdx::NONE,
            nominated,
            start_time: pod.start_time.unwrap_or(i64::MAX),
            creation_time: pod.creation_time,
            generation: pod.generation,
            position_in_label_set: 0,
            position_in_spec: 0,
            terminating: pod.terminating,
            preempted: pod.preempted,
            facts: pod.facts,
            assumed: false,
            gates: pod.gates,
        });
        if let Some(slots) = slots {
            self.record(|_| UndoStep::Added { pod: index, slots });
        }
        if !pod.node.is_empty() {
            let node = self.nodes.slot(&pod.node);
            self.place(index, node);
            self.confirm(index);
        }
        index
    }

    /// Updates a known pod, which keeps its index. Its node and nomination are not changed: see
    /// [`Self::place`], [`Self::displace`], [`Self::set_nominated`].
    pub(crate) fn update_pod(&mut self, pod: PodIdx, new: Pod) {
        let record = self.pods.get(pod);
        let set_record = self.label_sets.get(record.label_set);
        let same_label_set = set_record.labels == new.labels;
        let spec = &self.specs.get(record.spec).spec;
        let same_spec = Arc::ptr_eq(spec, &new.spec) || *spec == new.spec;
        let starts_to_terminate = new.terminating && !record.terminating;
        if !same_label_set || !same_spec {
            let assumed = record.assumed;
            let (old_label_set, old_spec) = (record.label_set, record.spec);
            let namespace = set_record.namespace.clone();
            // Displacing the last pod frees an orphan slot, so keep the node's name.
            let node = record.node.is_some().then(|| Text::from(self.nodes.name(record.node)));
            self.displace(pod);
            let label_set = self.acquire_label_set(&namespace, &new.labels);
            self.label_sets.release(old_label_set);
            self.pods.get_mut(pod).label_set = label_set;
            if !same_spec {
                let spec = self.acquire_spec(new.spec);
                self.release_spec(old_spec);
                self.pods.get_mut(pod).spec = spec;
            }
            if let Some(name) = node {
                let node = self.nodes.slot(&name);
                self.place(pod, node);
                if assumed {
                    self.pods.get_mut(pod).assumed = true;
                } else {
                    self.confirm(pod);
                }
            }
        }
        if starts_to_terminate {
            self.set_terminating(pod);
        }
        let record = self.pods.get_mut(pod);
        let (node, old_priority) = (record.node, record.priority);
        record.resource_version = new.resource_version;
        record.priority = new.priority;
        record.start_time = new.start_time.unwrap_or(i64::MAX);
        record.generation = new.generation;
        record.facts = new.facts;
        // An event from before the deletion may arrive after the response to the deletion.
        record.preempted = new.preempted || record.preempted && record.terminating;
        record.gates = new.gates;
        if node.is_some() && old_priority != new.priority {
            self.lowest_priorities.add(node, new.priority);
            self.leave_priority(node, old_priority);
        }
    }

    /// Removes a pod.
    pub(crate) fn remove_pod(&mut self, pod: PodIdx) {
        self.displace(pod);
        let Some(record) = self.pods.remove(pod) else { return };
        self.label_sets.release(record.label_set);
        self.release_spec(record.spec);
    }

    /// Releases the label set and spec that a pod class held.
    pub(crate) fn release_class(&mut self, label_set: LabelSetIdx, spec: SpecIdx) {
        self.label_sets.release(label_set);
        self.release_spec(spec);
    }

    /// Puts a pending pod on a node and records it in all logs.
    pub(crate) fn place(&mut self, pod: PodIdx, node: NodeIdx) {
        self.record(|state| UndoStep::Placed(state.placement_mark(pod, node)));
        self.link(pod, node);
    }

    /// Lists a pod on a node, in its label set and in its spec, in each as the last.
    pub(super) fn link(&mut self, pod: PodIdx, node: NodeIdx) {
        let record = self.pods.get_mut(pod);
        debug_assert!(!record.node.is_some(), "a pod is on one node at most");
        record.node = node;
        let (label_set, spec, terminating) = (record.label_set, record.spec, record.terminating);
        self.lowest_priorities.add(node, record.priority);
        let set_record = self.label_sets.get_mut(label_set);
        record.position_in_label_set = set_record.pods.len() as u32;
        set_record.pods.push(pod);
        let spec_record = self.specs.get_mut(spec);
        record.position_in_spec = spec_record.pods.len() as u32;
        spec_record.pods.push(pod);
        self.nodes.attach(pod, node, self.specs.get(spec));
        self.pods_changed(label_set, spec, node, terminating, true);
        self.call_hook(Hook::Placed, pod, node);
    }

    /// Puts a pod on the node chosen for it; the watch confirms it later.
    pub(crate) fn assume(&mut self, pod: PodIdx, node: NodeIdx) {
        self.place(pod, node);
        self.pods.get_mut(pod).assumed = true;
    }

    /// Marks a pod on a node as bound, as the watch reports it.
    pub(crate) fn confirm(&mut self, pod: PodIdx) {
        let record = self.pods.get_mut(pod);
        record.assumed = false;
        let node = record.node;
        self.call_hook(Hook::Confirmed, pod, node);
    }

    /// Sets the nominated node of a pod.
    pub(crate) fn set_nominated(&mut self, pod: PodIdx, node: NodeIdx) {
        self.record(|state| UndoStep::Nominated { pod, node: state.pods.get(pod).nominated });
        self.pods.get_mut(pod).nominated = node;
    }

    /// Removes a pod from its node and records it in all logs.
    pub(crate) fn displace(&mut self, pod: PodIdx) {
        let node = self.pods.get(pod).node;
        if !node.is_some() {
            self.pods.get_mut(pod).assumed = false;
            return;
        }
        self.record(|state| UndoStep::Displaced(state.placement_mark(pod, node)));
        self.unlink(pod);
        self.call_hook(Hook::Removed, pod, node);
        self.nodes.free_if_empty(node);
    }

    /// Takes a pod off its node, its label set and its spec. The last pod of each of these lists
    /// moves to its position.
    pub(super) fn unlink(&mut self, pod: PodIdx) {
        let record = self.pods.get_mut(pod);
        let node = std::mem::replace(&mut record.node, NodeIdx::NONE);
        record.assumed = false;
        let (label_set, spec, terminating) = (record.label_set, record.spec, record.terminating);
        let priority = record.priority;
        let (in_label_set, in_spec) =
            (record.position_in_label_set as usize, record.position_in_spec as usize);
        let pods = &mut self.label_sets.get_mut(label_set).pods;
        pods.swap_remove(in_label_set);
        if let Some(moved) = pods.get(in_label_set) {
            self.pods.get_mut(*moved).position_in_label_set = in_label_set as u32;
        }
        let pods = &mut self.specs.get_mut(spec).pods;
        pods.swap_remove(in_spec);
        if let Some(moved) = pods.get(in_spec) {
            self.pods.get_mut(*moved).position_in_spec = in_spec as u32;
        }
        self.nodes.detach(pod, node, self.specs.get(spec));
        self.leave_priority(node, priority);
        self.pods_changed(label_set, spec, node, terminating, false);
    }

    /// Removes a pod of this priority from the lowest priorities of a node.
    fn leave_priority(&mut self, node: NodeIdx, priority: i32) {
        let others = self.nodes.pods(node).iter().map(|pod| self.pods.get(*pod).priority);
        self.lowest_priorities.remove(node, priority, others);
    }

    fn pods_changed(
        &mut self,
        label_set: LabelSetIdx,
        spec: SpecIdx,
        node: NodeIdx,
        terminating: bool,
        added: bool,
    ) {
        let change = if added { 1 } else { -1 };
        let set_record = self.label_sets.get(label_set);
        for tally in &set_record.tallies {
            self.tallies.record(*tally, node, change, terminating);
        }
        let spec_record = self.specs.get(spec);
        for term in &spec_record.terms {
            if let Some(tally) = self.terms.get(*term).tally {
                self.tallies.record(tally, node, change, terminating);
            }
        }
        if !spec_record.spec.volumes.is_empty() {
            self.volumes.count_users(&set_record.namespace, spec_record, added);
            self.bump(Areas::CLAIMS_IN_USE);
        }
        self.nodes.note_pod_change(node);
    }

    /// Marks a pod as terminating.
    pub(crate) fn set_terminating(&mut self, pod: PodIdx) {
        let record = self.pods.get_mut(pod);
        if std::mem::replace(&mut record.terminating, true) || !record.node.is_some() {
            return;
        }
        for tally in &self.label_sets.get(record.label_set).tallies {
            self.tallies.record_terminating(*tally, record.node);
        }
    }

    /// Marks a pod as a deleted victim of preemption.
    pub(crate) fn set_preempted(&mut self, pod: PodIdx) {
        self.set_terminating(pod);
        self.pods.get_mut(pod).preempted = true;
    }
}

#[cfg(test)]
mod tests;
