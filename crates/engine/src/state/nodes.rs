//! The node table: one column per property that scheduling reads.

#[cfg(any(test, feature = "testing"))]
mod content;
mod mark;
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
use super::{Areas, State};

pub(crate) use mark::NodeMark;

/// Numbers of volumes of the pods on a node; a volume shared by two pods counts twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeCount {
    /// Volumes that refer to a claim.
    pub claims: u32,
    /// All other volumes.
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

/// All nodes as columns. A slot without an object is an orphan slot: only its pods are known.
#[derive(Clone, Debug)]
pub struct Nodes {
    names: Vec<Text>,
    by_name: HashTable<NodeIdx>,
    objects: Vec<Option<Arc<Node>>>,
    free: Vec<NodeIdx>,
    present: NodeSet,
    /// Number of nodes in `present`.
    live: usize,
    unschedulable: NodeSet,
    /// Nodes with a `NoSchedule` or `NoExecute` taint.
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
    /// Returns the number of slots of the columns.
    pub fn slots(&self) -> usize {
        self.names.len()
    }

    /// Returns the nodes that exist; orphan slots are excluded.
    pub fn present(&self) -> &NodeSet {
        &self.present
    }

    /// Returns the number of nodes that exist.
    pub fn count(&self) -> usize {
        self.live
    }

    /// Returns the nodes in visiting order.
    pub fn order(&self) -> &[NodeIdx] {
        self.order.nodes()
    }

    /// Recomputes the visiting order if nodes were added or removed. Every attempt begins with it.
    pub(crate) fn refresh_order(&mut self) {
        self.order.refresh();
    }

    /// Recomputes the visiting order for a read that must leave no trace; see [`Self::end_peek`].
    pub(crate) fn peek_order(&mut self) -> OrderPeek {
        self.order.peek()
    }

    /// Ends [`Self::peek_order`], so that the order an attempt sees depends on attempts only.
    pub(crate) fn end_peek(&mut self, before: OrderPeek) {
        self.order.end_peek(before);
    }

    /// Returns the shared visiting order.
    pub(crate) fn visit_order(&self) -> &Arc<VisitOrder> {
        self.order.visit_order()
    }

    /// Finds an existing node.
    pub fn find(&self, name: &str) -> Option<NodeIdx> {
        self.find_slot(name).filter(|node| self.present.contains(*node))
    }

    /// Returns the name of a node.
    pub fn name(&self, node: NodeIdx) -> &str {
        &self.names[node.at()]
    }

    /// Returns the object of an existing node.
    pub fn object(&self, node: NodeIdx) -> &Node {
        self.objects[node.at()].as_ref().expect("only existing nodes are visited")
    }

    /// Returns the shared object of an existing node.
    pub(crate) fn shared_object(&self, node: NodeIdx) -> Arc<Node> {
        Arc::clone(self.objects[node.at()].as_ref().expect("only existing nodes are visited"))
    }

    /// Returns the cordoned nodes.
    pub fn unschedulable(&self) -> &NodeSet {
        &self.unschedulable
    }

    /// Returns the nodes with a `NoSchedule` or `NoExecute` taint.
    pub fn hard_tainted(&self) -> &NodeSet {
        &self.hard_tainted
    }

    /// Returns the nodes with a `PreferNoSchedule` taint.
    pub fn soft_tainted(&self) -> &NodeSet {
        &self.soft_tainted
    }

    /// Returns the interned taint lists.
    pub fn taint_lists(&self) -> &TaintLists {
        &self.taint_lists
    }

    /// Returns the allocatable amounts of a resource by slot; `None` if no node has had any.
    pub fn allocatable(&self, resource: ResourceIdx) -> Option<&[i64]> {
        self.allocatable.get(resource.at()).map(Vec::as_slice)
    }

    /// Returns the requested amounts of a resource by slot; `None` if no pod has requested any.
    /// Sums outside 64 bits are clamped.
    pub fn requested(&self, resource: ResourceIdx) -> Option<&[i64]> {
        self.requested.get(resource.at()).map(ExactSums::clamped)
    }

    /// Returns the allocatable amount on a node.
    pub fn allocatable_of(&self, resource: ResourceIdx, node: NodeIdx) -> i64 {
        self.allocatable.get(resource.at()).map_or(0, |column| column[node.at()])
    }

    /// Returns the requested amount on a node.
    pub fn requested_of(&self, resource: ResourceIdx, node: NodeIdx) -> i64 {
        self.requested.get(resource.at()).map_or(0, |column| column.clamped()[node.at()])
    }

    /// Returns the requested CPU by slot, with the default for containers without requests.
    pub fn non_zero_cpu(&self) -> &[i64] {
        self.non_zero_cpu.clamped()
    }

    /// Returns the requested memory by slot, with the default for containers without requests.
    pub fn non_zero_memory(&self) -> &[i64] {
        self.non_zero_memory.clamped()
    }

    /// Returns the maximum number of pods by slot.
    pub fn allowed_pods(&self) -> &[i64] {
        &self.allowed_pods
    }

    /// Returns the number of pods by slot, terminating pods included.
    pub fn pod_counts(&self) -> &[i64] {
        &self.pod_counts
    }

    /// Returns the pods on a node, terminating pods included.
    pub fn pods(&self, node: NodeIdx) -> &[PodIdx] {
        &self.pods[node.at()]
    }

    /// Returns the host ports in use on a node.
    pub fn ports(&self, node: NodeIdx) -> &[HostPort] {
        &self.ports[node.at()]
    }

    /// Returns the numbers of volumes of the pods on a node.
    pub fn volumes(&self, node: NodeIdx) -> VolumeCount {
        self.volumes[node.at()]
    }

    /// Returns the log of nodes whose pods changed, which evaluations follow.
    pub fn pod_changes(&self) -> &ChangeLog<NodeIdx> {
        &self.pod_changes
    }

    /// Returns the slot of a node name, creating an orphan slot if necessary.
    pub(crate) fn slot(&mut self, name: &str) -> NodeIdx {
        if let Some(node) = self.find_slot(name) {
            return node;
        }
        let node = self.free.pop().unwrap_or_else(|| self.add_slot());
        self.set_name(node, name.into());
        node
    }

    fn set_name(&mut self, node: NodeIdx, name: Text) {
        let hash_of_name = hash(&name);
        self.names[node.at()] = name;
        let names = &self.names;
        self.by_name.insert_unique(hash_of_name, node, |other| hash(&names[other.at()]));
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

    /// Sets the object of a slot and returns the previous one.
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

    /// Removes the object of a slot, which stays as an orphan slot while pods name it.
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

    /// Frees a slot that has neither object nor pods.
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

    /// Adds a pod to the columns of a node. A what-if calls only this; `State::place` also records
    /// the change in the logs.
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

    /// Removes a pod from the columns of a node.
    ///
    /// As upstream, ports are a plain set: the first of two pods with the same port frees it.
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
        // A column takes memory for every node, so a request of zero creates none.
        for (resource, amount) in spec.on_node.iter().filter(|(_, amount)| *amount != 0) {
            let column = column_of(&mut self.requested, *resource, || ExactSums::zeros(slots));
            count(column, node, *amount);
        }
        count(&mut self.non_zero_cpu, node, spec.spec.non_zero_cpu);
        count(&mut self.non_zero_memory, node, spec.spec.non_zero_memory);
    }

    /// Appends a node to the log of pod changes. Orphan slots are left out: no node is chosen
    /// there, and readers may have been prepared before the slot existed.
    pub(crate) fn note_pod_change(&mut self, node: NodeIdx) {
        if self.present.contains(node) {
            self.pod_changes.push(node);
        }
    }
}

fn hash(name: &str) -> u64 {
    FxBuildHasher.hash_one(name)
}

/// Returns the column of a resource, creating it if necessary.
fn column_of<C>(columns: &mut Vec<C>, resource: ResourceIdx, make: impl Fn() -> C) -> &mut C {
    while columns.len() <= resource.at() {
        columns.push(make());
    }
    &mut columns[resource.at()]
}

impl State {
    /// Adds or updates a node and returns the previous object.
    pub(crate) fn set_node(&mut self, node: &Arc<Node>) -> Option<Arc<Node>> {
        let index = self.nodes.slot(&node.name);
        let old = self.nodes.set_object(index, Arc::clone(node), &mut self.resources);
        if old.as_ref() == Some(node) {
            return old;
        }
        if let Some(old) = &old {
            self.images.remove(index, &old.images);
        }
        self.images.add(index, &node.images);
        self.topology.set_node(index, Some(&node.labels));
        self.bump(Areas::NODES);
        old
    }

    /// Removes a node; while pods still name it, its slot stays as an orphan slot.
    pub(crate) fn remove_node(&mut self, name: &str) -> Option<Arc<Node>> {
        let index = self.nodes.find(name)?;
        self.topology.set_node(index, None);
        let old = self.nodes.remove_object(index)?;
        self.images.remove(index, &old.images);
        self.bump(Areas::NODES);
        Some(old)
    }
}

#[cfg(test)]
mod tests;
