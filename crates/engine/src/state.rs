//! Everything the engine knows of the cluster, in the form that scheduling reads fastest.
//!
//! ```text
//! pods ──▶ groups (namespace + labels) ──▶ tallies ◀── read by prepared filters and scorers
//!   └────▶ specs ──▶ terms ──────────────────┘
//!   └────▶ nodes (columns, usage log) ◀────────────── read by prepared filters and scorers
//! ```

mod audit;
pub mod domains;
pub mod driver_limits;
pub mod images;
pub mod label_sets;
pub mod lowest;
pub mod node_order;
pub mod nodes;
pub mod pods;
pub mod resources;
pub mod selector_index;
pub mod specs;
mod sums;
pub mod taints;
pub mod tallies;
pub mod terms;
pub mod topology;
pub mod volumes;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::index::{KeyIdx, LabelSetIdx, NodeIdx, PodIdx, SpecIdx, TallyIdx, TermIdx};
use crate::object::{
    DisruptionBudget, Labels, Namespace, Node, Pod, PodSpec, Text, Workload, WorkloadKind,
};

use driver_limits::DriverLimits;
use images::Images;
use label_sets::LabelSets;
use lowest::LowestPriorities;
use nodes::Nodes;
use pods::{PodRecord, Pods};
use resources::ResourceNames;
use specs::Specs;
use tallies::{Tallies, TallyRef, TallySource};
use terms::{TermKind, Terms};
use topology::Topology;
use volumes::{ReservedVolumes, Volumes};

/// Parts of the state that change rarely. A prepared filter or scorer is valid for one version of those it read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Areas(u8);

impl Areas {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Nodes coming, going or changing otherwise than by their pods.
    pub const NODES: Self = Self(1);
    /// Namespaces and their labels.
    pub const NAMESPACES: Self = Self(2);
    /// Services and controllers.
    pub const WORKLOADS: Self = Self(4);
    /// Volumes, claims, classes and drivers.
    pub const VOLUMES: Self = Self(8);
    /// Affinity terms that existing pods carry, as a set (not how many pods carry them).
    pub const TERMS: Self = Self(16);
    /// Device classes.
    pub const DEVICES: Self = Self(32);
    /// Any pod coming to a node or leaving one.
    pub const PODS: Self = Self(64);
    /// Which claims pods on nodes use, and which volumes and claims our own decisions speak for.
    pub const CLAIMS_IN_USE: Self = Self(128);

    /// All that tells what a pod's namespace and labels mean to others.
    pub const EVALUATION_KEY: Self = Self::NAMESPACES.with(Self::WORKLOADS).with(Self::TERMS);

    const ALL: [Self; 8] = [
        Self::NODES,
        Self::NAMESPACES,
        Self::WORKLOADS,
        Self::VOLUMES,
        Self::TERMS,
        Self::DEVICES,
        Self::PODS,
        Self::CLAIMS_IN_USE,
    ];

    /// These and those.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of the other are in.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Versions of all areas at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Versions([u64; Areas::ALL.len()]);

impl Versions {
    /// Whether the given areas have the same versions in both.
    pub fn agree(&self, other: &Self, areas: Areas) -> bool {
        Areas::ALL
            .iter()
            .zip(self.0.iter().zip(&other.0))
            .all(|(area, (mine, others))| !areas.contains(*area) || mine == others)
    }
}

/// Everything the engine knows of the cluster.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Nodes.
    pub nodes: Nodes,
    /// Pods.
    pub pods: Pods,
    /// The lowest priority on each node.
    pub lowest_priorities: LowestPriorities,
    /// Pod specs.
    pub specs: Specs,
    /// Pods by namespace and labels.
    pub label_sets: LabelSets,
    /// Affinity terms of existing pods.
    pub terms: Terms,
    /// Logs of pods per selector or term.
    pub tallies: Tallies,
    /// Label columns of nodes.
    pub topology: Topology,
    /// Images on nodes.
    pub images: Images,
    /// Resource names.
    pub resources: ResourceNames,
    /// Storage objects.
    pub volumes: Volumes,
    namespaces: BTreeMap<Text, Namespace>,
    workloads: BTreeMap<(Text, WorkloadKind, Text), Workload>,
    budgets: BTreeMap<(Text, Text), DisruptionBudget>,
    /// Extended resources that device classes offer: resource name by class name.
    device_classes: BTreeMap<Text, Text>,
    versions: Versions,
    /// Worked out when somebody asks.
    driver_limits: Option<Arc<DriverLimits>>,
}

/// Reading.
impl State {
    /// Versions of all areas now.
    pub fn versions(&self) -> Versions {
        let mut versions = self.versions;
        versions.0[4] = self.terms.version();
        versions.0[6] = self.nodes.pod_changes().end();
        versions
    }

    /// Labels of a namespace; none when it is not known.
    pub fn namespace_labels(&self, name: &str) -> &Labels {
        static NONE: std::sync::LazyLock<Labels> = std::sync::LazyLock::new(Labels::default);
        self.namespaces.get(name).map_or(&NONE, |namespace| &namespace.labels)
    }

    /// All namespaces, by name.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.namespaces.values()
    }

    /// Services and controllers of a namespace, by kind and name.
    pub fn workloads(&self, namespace: &str) -> impl Iterator<Item = &Workload> {
        let start = (Text::from(namespace), WorkloadKind::Service, Text::from(""));
        self.workloads.range(start..).map(|(_, workload)| workload).take_while({
            let namespace = Text::from(namespace);
            move |workload| workload.namespace == namespace
        })
    }

    /// Disruption budgets of a namespace, by name.
    pub fn budgets(&self, namespace: &str) -> impl Iterator<Item = &DisruptionBudget> {
        let start = (Text::from(namespace), Text::from(""));
        self.budgets.range(start..).map(|(_, budget)| budget).take_while({
            let namespace = Text::from(namespace);
            move |budget| budget.namespace == namespace
        })
    }

    /// Whether a device class offers an extended resource of this name.
    pub fn device_class_offers(&self, resource: &str) -> bool {
        self.device_classes.iter().any(|(class, offered)| {
            **offered == *resource
                || resource.strip_prefix("deviceclass.resource.kubernetes.io/") == Some(class)
        })
    }

    /// Spec of a pod.
    pub fn spec(&self, pod: PodIdx) -> &PodSpec {
        &self.specs.get(self.pods.get(pod).spec).spec
    }

    /// Namespace of a pod.
    pub fn namespace(&self, pod: PodIdx) -> &str {
        &self.label_sets.get(self.pods.get(pod).label_set).namespace
    }

    /// Labels of a pod.
    pub fn labels(&self, pod: PodIdx) -> &Labels {
        &self.label_sets.get(self.pods.get(pod).label_set).labels
    }

    /// `namespace/name` of a pod.
    pub fn full_name(&self, pod: PodIdx) -> String {
        format!("{}/{}", self.namespace(pod), self.pods.get(pod).name)
    }

    /// Finds a pod by namespace and name. Slow: for people's requests.
    pub fn find_pod(&self, namespace: &str, name: &str) -> Option<PodIdx> {
        let mut pods = self.pods.iter();
        let found =
            pods.find(|(pod, record)| *record.name == *name && self.namespace(*pod) == namespace);
        found.map(|(pod, _)| pod)
    }

    /// Calls `each` for every pod on a node that the source speaks of, with its node.
    pub fn for_each_counted_pod(
        &self,
        source: &TallySource,
        mut each: impl FnMut(PodIdx, NodeIdx),
    ) {
        match source {
            TallySource::Matching { matchers, live_only } => {
                for label_set in self.label_sets.candidates(&matchers[0].selector) {
                    let record = self.label_sets.get(label_set);
                    let matches =
                        |m: &tallies::Matcher| m.matches(&record.namespace, &record.labels);
                    if !matchers.iter().all(matches) {
                        continue;
                    }
                    for pod in &record.pods {
                        let pod_record = self.pods.get(*pod);
                        if !(*live_only && pod_record.terminating) {
                            each(*pod, pod_record.node);
                        }
                    }
                }
            }
            TallySource::Carrying(term) => {
                for spec in &self.terms.get(*term).specs {
                    for pod in &self.specs.get(*spec).pods {
                        each(*pod, self.pods.get(*pod).node);
                    }
                }
            }
        }
    }
}

/// What prepared filters and scorers ask for; these change no fact.
impl State {
    /// The column of a node label, made if nothing used it yet.
    pub fn label_column(&mut self, key: &str) -> KeyIdx {
        let nodes = &self.nodes;
        let labels = nodes.present().iter().map(|node| (node, &nodes.object(node).labels));
        self.topology.intern(key, nodes.slots(), labels)
    }

    /// What CSI drivers say of nodes.
    pub fn driver_limits(&mut self) -> Arc<DriverLimits> {
        let make = || Arc::new(DriverLimits::new(&self.nodes, &self.volumes));
        Arc::clone(self.driver_limits.get_or_insert_with(make))
    }

    /// A tally of the source, started if nobody has asked for it yet.
    pub fn tally(&mut self, source: &TallySource) -> TallyRef {
        if let Some(found) = self.tallies.find(source) {
            return found;
        }
        let tally = self.tallies.insert(source.clone());
        match source {
            TallySource::Matching { matchers, .. } => {
                for label_set in self.label_sets.candidates(&matchers[0].selector) {
                    let record = self.label_sets.get_mut(label_set);
                    if matchers.iter().all(|m| m.matches(&record.namespace, &record.labels)) {
                        record.tallies.push(tally.index);
                    }
                }
            }
            TallySource::Carrying(term) => self.terms.get_mut(*term).tally = Some(tally.index),
        }
        for least_recently_read in self.tallies.least_recently_read() {
            self.drop_tally(least_recently_read);
        }
        tally
    }

    fn drop_tally(&mut self, tally: TallyIdx) {
        match self.tallies.remove(tally) {
            Some(TallySource::Matching { matchers, .. }) => {
                for label_set in self.label_sets.candidates(&matchers[0].selector) {
                    self.label_sets.get_mut(label_set).tallies.retain(|other| *other != tally);
                }
            }
            Some(TallySource::Carrying(term)) => self.terms.get_mut(term).tally = None,
            None => {}
        }
    }
}

/// Nodes.
impl State {
    /// Adds a node or takes over its new version. Returns the old one.
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

    /// Removes a node; pods on it stay with its ghost until they go too.
    pub(crate) fn remove_node(&mut self, name: &str) -> Option<Arc<Node>> {
        let index = self.nodes.find(name)?;
        self.topology.set_node(index, None);
        let old = self.nodes.remove_object(index)?;
        self.images.remove(index, &old.images);
        self.bump(Areas::NODES);
        Some(old)
    }
}

/// Pods.
impl State {
    /// Adds a pod, pending or on its node.
    pub(crate) fn add_pod(&mut self, pod: Pod) -> PodIdx {
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
            assumed: false,
            gates: pod.gates,
        });
        if !pod.node.is_empty() {
            let node = self.nodes.slot(&pod.node);
            self.place(index, node);
        }
        index
    }

    /// Removes a pod altogether.
    pub(crate) fn remove_pod(&mut self, pod: PodIdx) {
        self.displace(pod);
        let Some(record) = self.pods.remove(pod) else { return };
        self.label_sets.release(record.label_set);
        self.release_spec(record.spec);
    }

    /// Gives back what a pod class held.
    pub(crate) fn release_class(&mut self, label_set: LabelSetIdx, spec: SpecIdx) {
        self.label_sets.release(label_set);
        self.release_spec(spec);
    }

    fn release_spec(&mut self, index: SpecIdx) {
        let Some(spec) = self.specs.release(index) else { return };
        for term in &spec.terms {
            if let Some(tally) = self.terms.remove_carrier(*term, index) {
                self.tallies.remove(tally);
            }
        }
    }

    /// Takes over a new version of a known pod, which keeps its index. Neither its node is touched nor
    /// the one it is nominated for: see [`Self::place`], [`Self::displace`], [`Self::set_nominated`].
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
            // A ghost gives its slot back with its last pod, so the name must be remembered.
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
                self.pods.get_mut(pod).assumed = assumed;
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
        // A version from before the deletion may come after the answer to the deletion.
        record.preempted = new.preempted || record.preempted && record.terminating;
        record.gates = new.gates;
        if node.is_some() && old_priority != new.priority {
            self.lowest_priorities.add(node, new.priority);
            self.leave_priority(node, old_priority);
        }
    }

    /// Puts a pending pod on a node, and tells all readers.
    pub(crate) fn place(&mut self, pod: PodIdx, node: NodeIdx) {
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
    }

    /// Puts a pod on the node chosen for it, until the API server says so itself.
    pub(crate) fn assume(&mut self, pod: PodIdx, node: NodeIdx) {
        self.place(pod, node);
        self.pods.get_mut(pod).assumed = true;
    }

    /// The API server says that the pod is where it was assumed to be.
    pub(crate) fn confirm(&mut self, pod: PodIdx) {
        self.pods.get_mut(pod).assumed = false;
    }

    /// Notes for which node a pod is nominated.
    pub(crate) fn set_nominated(&mut self, pod: PodIdx, node: NodeIdx) {
        self.pods.get_mut(pod).nominated = node;
    }

    /// Takes a pod off its node, and tells all readers.
    pub(crate) fn displace(&mut self, pod: PodIdx) {
        let record = self.pods.get_mut(pod);
        let node = std::mem::replace(&mut record.node, NodeIdx::NONE);
        record.assumed = false;
        if !node.is_some() {
            return;
        }
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
        self.nodes.free_if_empty(node);
    }

    /// A pod of this priority is no longer among the pods of a node.
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

    /// Notes that a pod began to terminate.
    pub(crate) fn set_terminating(&mut self, pod: PodIdx) {
        let record = self.pods.get_mut(pod);
        if std::mem::replace(&mut record.terminating, true) || !record.node.is_some() {
            return;
        }
        for tally in &self.label_sets.get(record.label_set).tallies {
            self.tallies.record_terminating(*tally, record.node);
        }
    }

    /// Notes that a pod was deleted to make room for another.
    pub(crate) fn set_preempted(&mut self, pod: PodIdx) {
        self.set_terminating(pod);
        self.pods.get_mut(pod).preempted = true;
    }

    fn acquire_label_set(&mut self, namespace: &str, labels: &Labels) -> LabelSetIdx {
        let (label_set, new) = self.label_sets.acquire(namespace, labels);
        if new {
            self.label_sets.get_mut(label_set).tallies = self.tallies.matching(namespace, labels);
        }
        label_set
    }

    fn acquire_spec(&mut self, spec: Arc<PodSpec>) -> SpecIdx {
        if let Some(found) = self.specs.acquire(&spec) {
            return found;
        }
        let on_node = self.resources.vector(&spec.requests_on_node);
        let terms = self.intern_terms(&spec);
        let index = self.specs.insert(spec, on_node, terms.clone());
        for term in terms {
            self.terms.add_carrier(term, index);
        }
        index
    }

    fn intern_terms(&mut self, spec: &PodSpec) -> Box<[TermIdx]> {
        let affinity = &spec.pod_affinity;
        let required = affinity.required.iter().map(|term| (TermKind::Required, term));
        let required_anti = affinity.required_anti.iter().map(|t| (TermKind::RequiredAnti, t));
        let preferred = affinity.preferred.iter().map(|(w, t)| (TermKind::Preferred(*w), t));
        let preferred_anti =
            affinity.preferred_anti.iter().map(|(w, t)| (TermKind::PreferredAnti(*w), t));
        let all = required.chain(required_anti).chain(preferred).chain(preferred_anti);
        all.map(|(kind, term)| self.terms.intern(kind, term)).collect()
    }
}

/// The other kinds.
impl State {
    fn bump(&mut self, area: Areas) {
        if area.contains(Areas::NODES) || area.contains(Areas::VOLUMES) {
            self.driver_limits = None;
        }
        for (position, candidate) in Areas::ALL.iter().enumerate() {
            if area.contains(*candidate) {
                self.versions.0[position] += 1;
            }
        }
    }

    pub(crate) fn set_namespace(&mut self, namespace: Namespace) {
        let name = namespace.name.clone();
        if self.namespaces.get(&name) != Some(&namespace) {
            self.namespaces.insert(name, namespace);
            self.bump(Areas::NAMESPACES);
        }
    }

    pub(crate) fn remove_namespace(&mut self, name: &str) {
        if self.namespaces.remove(name).is_some() {
            self.bump(Areas::NAMESPACES);
        }
    }

    pub(crate) fn set_workload(&mut self, workload: Workload) {
        let key = (workload.namespace.clone(), workload.kind, workload.name.clone());
        if self.workloads.get(&key) != Some(&workload) {
            self.workloads.insert(key, workload);
            self.bump(Areas::WORKLOADS);
        }
    }

    pub(crate) fn remove_workload(&mut self, kind: WorkloadKind, namespace: &str, name: &str) {
        if self.workloads.remove(&(namespace.into(), kind, name.into())).is_some() {
            self.bump(Areas::WORKLOADS);
        }
    }

    pub(crate) fn set_budget(&mut self, budget: DisruptionBudget) {
        self.budgets.insert((budget.namespace.clone(), budget.name.clone()), budget);
    }

    pub(crate) fn remove_budget(&mut self, namespace: &str, name: &str) {
        self.budgets.remove(&(namespace.into(), name.into()));
    }

    pub(crate) fn set_device_class(&mut self, class: Text, resource: Text) {
        self.device_classes.insert(class, resource);
        self.bump(Areas::DEVICES);
    }

    pub(crate) fn remove_device_class(&mut self, class: &str) {
        self.device_classes.remove(class);
        self.bump(Areas::DEVICES);
    }

    /// Changes storage objects and makes whatever was prepared from them invalid.
    pub(crate) fn change_volumes<T>(&mut self, change: impl FnOnce(&mut Volumes) -> T) -> T {
        let changed = change(&mut self.volumes);
        if self.volumes.drop_outdated() {
            self.bump(Areas::CLAIMS_IN_USE);
        }
        self.bump(Areas::VOLUMES);
        changed
    }

    /// Speaks for the volumes and claims that a pod is going to use, until it is forgotten or done.
    pub fn reserve_volumes(&mut self, pod: PodIdx, reserved: ReservedVolumes) {
        let uid = self.pods.get(pod).uid.clone();
        self.volumes.reserve(uid, reserved);
        self.bump(Areas::CLAIMS_IN_USE);
    }

    /// Takes back what [`State::reserve_volumes`] said, if anything.
    pub fn forget_volumes(&mut self, pod: PodIdx) {
        if self.volumes.forget(&self.pods.get(pod).uid) {
            self.bump(Areas::CLAIMS_IN_USE);
        }
    }
}

#[cfg(test)]
mod tests;
