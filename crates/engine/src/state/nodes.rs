//! The node table: one column for each thing that scheduling reads of a node.

mod recount;

use std::hash::BuildHasher as _;
use std::sync::Arc;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use crate::bitset::NodeSet;
use crate::change_log::ChangeLog;
use crate::column;
use crate::index::{NodeIdx, PodIdx, ResourceIdx};
use crate::limits::NODE_CHANGES_MAX;
use crate::object::{HostPort, Node, TaintEffect, Text, Volume};

use super::node_order::{NodeOrder, OrderPeek, VisitOrder};
use super::resources::ResourceNames;
use super::specs::SpecRecord;
use super::sums::ExactSums;
use super::taints::TaintLists;

/// How many volumes that scheduling reads the pods of a node have; one shared by pods counts for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeCount {
    /// Those that name a claim.
    pub claims: u32,
    /// All others.
    pub others: u32,
}

impl VolumeCount {
    fn of(volumes: &[Volume]) -> Self {
        let claims = volumes.iter().filter(|volume| matches!(volume, Volume::Claim { .. }));
        let claims = claims.count() as u32;
        Self { claims, others: volumes.len() as u32 - claims }
    }

    fn add(&mut self, more: Self) {
        self.claims = self.claims.wrapping_add(more.claims);
        self.others = self.others.wrapping_add(more.others);
    }

    fn subtract(&mut self, less: Self) {
        self.claims = self.claims.wrapping_sub(less.claims);
        self.others = self.others.wrapping_sub(less.others);
    }
}

/// All nodes as columns. A slot without an object is a ghost: only its pods are known.
#[derive(Clone, Debug)]
pub struct Nodes {
    names: Vec<Text>,
    by_name: HashTable<NodeIdx>,
    objects: Vec<Option<Arc<Node>>>,
    free: Vec<NodeIdx>,
    present: NodeSet,
    /// How many nodes are present.
    live: usize,
    unschedulable: NodeSet,
    /// Nodes with a taint that keeps pods away.
    hard_tainted: NodeSet,
    /// Nodes with a `PreferNoSchedule` taint.
    soft_tainted: NodeSet,
    taint_lists: TaintLists,
    allocatable: Vec<Vec<i64>>,
    requested: Vec<ExactSums>,
    non_zero_cpu: ExactSums,
    non_zero_memory: ExactSums,
    allowed_pods: Vec<i64>,
    pod_counts: Vec<i64>,
    pods: Vec<Vec<PodIdx>>,
    ports: Vec<Vec<HostPort>>,
    volumes: Vec<VolumeCount>,
    order: NodeOrder,
    pod_changes: ChangeLog<NodeIdx>,
}

impl Default for Nodes {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            by_name: HashTable::new(),
            objects: Vec::new(),
            free: Vec::new(),
            present: NodeSet::default(),
            live: 0,
            unschedulable: NodeSet::default(),
            hard_tainted: NodeSet::default(),
            soft_tainted: NodeSet::default(),
            taint_lists: TaintLists::default(),
            allocatable: vec![Vec::new(); 3],
            requested: vec![ExactSums::default(); 3],
            non_zero_cpu: ExactSums::default(),
            non_zero_memory: ExactSums::default(),
            allowed_pods: Vec::new(),
            pod_counts: Vec::new(),
            pods: Vec::new(),
            ports: Vec::new(),
            volumes: Vec::new(),
            order: NodeOrder::default(),
            pod_changes: ChangeLog::new(NODE_CHANGES_MAX),
        }
    }
}

impl Nodes {
    /// How many slots the columns have.
    pub fn slots(&self) -> usize {
        self.names.len()
    }

    /// Nodes that exist (ghosts do not).
    pub fn present(&self) -> &NodeSet {
        &self.present
    }

    /// How many nodes exist.
    pub fn count(&self) -> usize {
        self.live
    }

    /// Nodes in visiting order.
    pub fn order(&self) -> &[NodeIdx] {
        self.order.nodes()
    }

    /// Lays the visiting order if nodes came or went. Every evaluation begins with it.
    pub(crate) fn refresh_order(&mut self) {
        self.order.refresh();
    }

    /// Lays the visiting order for a look that must make no difference; see [`Self::end_peek`].
    pub(crate) fn peek_order(&mut self) -> OrderPeek {
        self.order.peek()
    }

    /// Undoes [`Self::peek_order`]: what an attempt sees depends on attempts alone.
    pub(crate) fn end_peek(&mut self, before: OrderPeek) {
        self.order.end_peek(before);
    }

    /// The visiting order, to be kept.
    pub(crate) fn visit_order(&self) -> &Arc<VisitOrder> {
        self.order.visit_order()
    }

    /// Finds a node that exists.
    pub fn find(&self, name: &str) -> Option<NodeIdx> {
        self.find_slot(name).filter(|node| self.present.contains(*node))
    }

    /// Name of a node.
    pub fn name(&self, node: NodeIdx) -> &str {
        &self.names[node.at()]
    }

    /// The object of a node that exists.
    pub fn object(&self, node: NodeIdx) -> &Node {
        self.objects[node.at()].as_ref().expect("only nodes that exist are visited")
    }

    /// The object of a node that exists, to be kept.
    pub(crate) fn shared_object(&self, node: NodeIdx) -> Arc<Node> {
        Arc::clone(self.objects[node.at()].as_ref().expect("only nodes that exist are visited"))
    }

    /// Cordoned nodes.
    pub fn unschedulable(&self) -> &NodeSet {
        &self.unschedulable
    }

    /// Nodes with a `NoSchedule` or `NoExecute` taint.
    pub fn hard_tainted(&self) -> &NodeSet {
        &self.hard_tainted
    }

    /// Nodes with a `PreferNoSchedule` taint.
    pub fn soft_tainted(&self) -> &NodeSet {
        &self.soft_tainted
    }

    /// Taints by list.
    pub fn taint_lists(&self) -> &TaintLists {
        &self.taint_lists
    }

    /// Allocatable amounts of a resource by slot; `None` when no node has had any of it.
    pub fn allocatable(&self, resource: ResourceIdx) -> Option<&[i64]> {
        self.allocatable.get(resource.at()).map(Vec::as_slice)
    }

    /// Requested amounts of a resource by slot; `None` when nothing has requested any of it. A sum that
    /// 64 bits do not hold is clamped as the largest number that they do.
    pub fn requested(&self, resource: ResourceIdx) -> Option<&[i64]> {
        self.requested.get(resource.at()).map(ExactSums::clamped)
    }

    /// Allocatable amount on one node.
    pub fn allocatable_of(&self, resource: ResourceIdx, node: NodeIdx) -> i64 {
        self.allocatable.get(resource.at()).map_or(0, |column| column[node.at()])
    }

    /// Requested amount on one node.
    pub fn requested_of(&self, resource: ResourceIdx, node: NodeIdx) -> i64 {
        self.requested.get(resource.at()).map_or(0, |column| column.clamped()[node.at()])
    }

    /// Requested cpu by slot, with the default for containers that name none.
    pub fn non_zero_cpu(&self) -> &[i64] {
        self.non_zero_cpu.clamped()
    }

    /// Requested memory by slot, with the default for containers that name none.
    pub fn non_zero_memory(&self) -> &[i64] {
        self.non_zero_memory.clamped()
    }

    /// How many pods a node takes, by slot.
    pub fn allowed_pods(&self) -> &[i64] {
        &self.allowed_pods
    }

    /// How many pods are on each slot, terminating ones included.
    pub fn pod_counts(&self) -> &[i64] {
        &self.pod_counts
    }

    /// Pods on a node, terminating ones included.
    pub fn pods(&self, node: NodeIdx) -> &[PodIdx] {
        &self.pods[node.at()]
    }

    /// Host ports in use on a node.
    pub fn ports(&self, node: NodeIdx) -> &[HostPort] {
        &self.ports[node.at()]
    }

    /// How many volumes the pods of a node have.
    pub fn volumes(&self, node: NodeIdx) -> VolumeCount {
        self.volumes[node.at()]
    }

    /// Nodes whose pods changed, in order; for classes to catch up with.
    pub fn pod_changes(&self) -> &ChangeLog<NodeIdx> {
        &self.pod_changes
    }

    /// The slot of a name, made as a ghost if it is new.
    pub(crate) fn slot(&mut self, name: &str) -> NodeIdx {
        if let Some(node) = self.find_slot(name) {
            return node;
        }
        let node = self.free.pop().unwrap_or_else(|| self.add_slot());
        self.names[node.at()] = name.into();
        let names = &self.names;
        self.by_name.insert_unique(hash(name), node, |other| hash(&names[other.at()]));
        node
    }

    fn find_slot(&self, name: &str) -> Option<NodeIdx> {
        self.by_name.find(hash(name), |node| *self.names[node.at()] == *name).copied()
    }

    fn add_slot(&mut self) -> NodeIdx {
        let node = NodeIdx::from(self.names.len());
        column::push(&mut self.names, "".into());
        column::push(&mut self.objects, None);
        for amounts in &mut self.allocatable {
            column::push(amounts, 0);
        }
        let Self { requested, non_zero_cpu, non_zero_memory, .. } = self;
        for sums in requested.iter_mut().chain([non_zero_cpu, non_zero_memory]) {
            sums.add_slot();
        }
        column::push(&mut self.allowed_pods, 0);
        column::push(&mut self.pod_counts, 0);
        column::push(&mut self.pods, Vec::new());
        column::push(&mut self.ports, Vec::new());
        self.taint_lists.add_slot();
        column::push(&mut self.volumes, VolumeCount::default());
        let slots = self.names.len();
        for set in [
            &mut self.present,
            &mut self.unschedulable,
            &mut self.hard_tainted,
            &mut self.soft_tainted,
        ] {
            set.grow(slots);
        }
        node
    }

    /// Sets the object of a slot and returns the one it replaces.
    pub(crate) fn set_object(
        &mut self,
        node: NodeIdx,
        object: Arc<Node>,
        names: &mut ResourceNames,
    ) -> Option<Arc<Node>> {
        for column in &mut self.allocatable {
            column[node.at()] = 0;
        }
        for (resource, amount) in names.vector(&object.allocatable) {
            let slots = self.names.len();
            column_of(&mut self.allocatable, resource, || vec![0; slots])[node.at()] = amount;
        }
        self.allowed_pods[node.at()] = object.allowed_pods;
        self.unschedulable.set(node, object.unschedulable);
        let soft = |effect| effect == TaintEffect::PreferNoSchedule;
        self.hard_tainted.set(node, object.taints.iter().any(|taint| !soft(taint.effect)));
        self.soft_tainted.set(node, object.taints.iter().any(|taint| soft(taint.effect)));
        self.taint_lists.set(node, &object.taints);
        if let Some(old) = &self.objects[node.at()] {
            self.order.update(node, &old.labels, &object.labels);
        } else {
            self.present.insert(node);
            self.live += 1;
            self.order.add(node, &object.labels);
        }
        self.objects[node.at()].replace(object)
    }

    /// Removes the object of a slot; the ghost stays while pods remain on it.
    pub(crate) fn remove_object(&mut self, node: NodeIdx) -> Option<Arc<Node>> {
        let object = self.objects[node.at()].take()?;
        self.live -= 1;
        self.order.remove(node, &object.labels);
        for set in [
            &mut self.present,
            &mut self.unschedulable,
            &mut self.hard_tainted,
            &mut self.soft_tainted,
        ] {
            set.remove(node);
        }
        for column in &mut self.allocatable {
            column[node.at()] = 0;
        }
        self.allowed_pods[node.at()] = 0;
        self.taint_lists.set(node, &[]);
        self.free_if_empty(node);
        Some(object)
    }

    /// Gives the slot back when neither object nor pod holds it.
    pub(crate) fn free_if_empty(&mut self, node: NodeIdx) {
        if self.objects[node.at()].is_none() && self.pods[node.at()].is_empty() {
            let hash_of_name = hash(&self.names[node.at()]);
            if let Ok(entry) = self.by_name.find_entry(hash_of_name, |other| *other == node) {
                entry.remove();
            }
            self.names[node.at()] = "".into();
            self.free.push(node);
        }
    }

    /// Counts a pod on a node. Used alone for what-if; `State::place` also tells the readers.
    pub(crate) fn attach(&mut self, pod: PodIdx, node: NodeIdx, spec: &SpecRecord) {
        self.count_requests(node, spec, ExactSums::add);
        self.pod_counts[node.at()] += 1;
        self.volumes[node.at()].add(VolumeCount::of(&spec.spec.volumes));
        self.pods[node.at()].push(pod);
        for port in &spec.spec.host_ports {
            if !self.ports[node.at()].contains(port) {
                self.ports[node.at()].push(port.clone());
            }
        }
    }

    /// Takes a pod off a node.
    ///
    /// As upstream, ports are a plain set: of two pods with one port, the first to go frees it.
    pub(crate) fn detach(&mut self, pod: PodIdx, node: NodeIdx, spec: &SpecRecord) {
        self.count_requests(node, spec, ExactSums::subtract);
        self.pod_counts[node.at()] -= 1;
        self.volumes[node.at()].subtract(VolumeCount::of(&spec.spec.volumes));
        let pods = &mut self.pods[node.at()];
        if let Some(found) = pods.iter().position(|other| *other == pod) {
            pods.swap_remove(found);
        }
        if !spec.spec.host_ports.is_empty() {
            self.ports[node.at()].retain(|port| !spec.spec.host_ports.contains(port));
        }
    }

    fn count_requests(
        &mut self,
        node: NodeIdx,
        spec: &SpecRecord,
        count: impl Fn(&mut ExactSums, NodeIdx, i64),
    ) {
        let slots = self.names.len();
        // A column costs memory for every node: no pod gets one for what it requests nothing of.
        for (resource, amount) in spec.on_node.iter().filter(|(_, amount)| *amount != 0) {
            let column = column_of(&mut self.requested, *resource, || ExactSums::zeros(slots));
            count(column, node, *amount);
        }
        count(&mut self.non_zero_cpu, node, spec.spec.non_zero_cpu);
        count(&mut self.non_zero_memory, node, spec.spec.non_zero_memory);
    }

    /// Tells the readers that the pods of a node changed. Ghosts concern nobody, and readers may
    /// have been prepared before there was a slot for them.
    pub(crate) fn note_pod_change(&mut self, node: NodeIdx) {
        if self.present.contains(node) {
            self.pod_changes.push(node);
        }
    }

    /// Puts the pods of a node back into a remembered order after a what-if.
    pub(crate) fn restore_pod_order(&mut self, node: NodeIdx, pods: Vec<PodIdx>) {
        debug_assert_eq!(pods.len(), self.pods[node.at()].len());
        self.pods[node.at()] = pods;
    }

    /// Puts the ports of a node back after a what-if.
    pub(crate) fn restore_ports(&mut self, node: NodeIdx, ports: Vec<HostPort>) {
        self.ports[node.at()] = ports;
    }
}

fn hash(name: &str) -> u64 {
    FxBuildHasher.hash_one(name)
}

/// The column of a resource, made if nothing needed it yet.
fn column_of<C>(columns: &mut Vec<C>, resource: ResourceIdx, make: impl Fn() -> C) -> &mut C {
    while columns.len() <= resource.at() {
        columns.push(make());
    }
    &mut columns[resource.at()]
}

#[cfg(test)]
mod tests;
