//! A small cluster around two engines: an API server that carries out their commands late, in any
//! order or not at all, and a model of what the engines must know.

mod answers;
mod pods;
mod storage;

use std::collections::BTreeMap;

use api::config::{Configuration, Extender, ManagedResource};
use engine::change::Change;
use engine::command::Command;
use engine::engine::{Engine, Settings};
use engine::framework::VolumeRequest;
use engine::object::{
    ClusterObject, Node, ObjectKind, ObjectName, PersistentVolume, PersistentVolumeClaim, Pod,
    Text, Uid,
};
use plugins::registry::Registry;

use crate::checks::EvictionTarget;
use crate::generators::{self, GPU, NAMESPACES, node_name};
use crate::nominations::Nominations;
use crate::steps::Step;

const MILLISECOND: i64 = 1_000_000;
/// Longer than the 5 min after which an unschedulable pod is tried without an event.
const UNSCHEDULABLE_WAIT_MS: i64 = 360_000;

/// A pod that the engines know.
pub(crate) struct KnownPod {
    /// The pod as of the last change that was applied.
    pub(crate) pod: Pod,
    /// The node on which the engines assume it.
    pub(crate) assumed_on: Option<Text>,
    /// A successful bind was applied.
    pub(crate) bound: bool,
    /// A successful eviction was applied.
    pub(crate) deleted: bool,
    /// Ticket of the preparation of its volumes.
    ticket: Option<u64>,
}

impl KnownPod {
    /// Returns the node that its requests are counted on.
    pub(crate) fn node(&self) -> Option<&str> {
        let shown = (!self.pod.node.is_empty()).then_some(&*self.pod.node);
        shown.or(self.assumed_on.as_deref())
    }
}

/// A bind command without an answer so far.
struct PendingBind {
    uid: Uid,
    node: Text,
    /// Whether the API server accepted it; `None` before it was executed.
    executed: Option<bool>,
}

/// A command to prepare volumes, without an answer so far.
struct VolumePreparation {
    uid: Uid,
    ticket: u64,
    requests: Vec<VolumeRequest>,
}

/// A command to evict a pod, without an answer so far.
struct PendingEviction {
    victim: Uid,
    preemptor: Uid,
}

pub(crate) struct World {
    /// Audited after every step.
    pub(crate) engine: Engine,
    /// Gets the same changes and is audited only at the end: an audit must change no decision.
    pub(crate) twin: Engine,
    pub(crate) now: i64,
    versions: u64,
    /// The objects of the API server.
    pub(crate) nodes: BTreeMap<Text, Node>,
    pods: BTreeMap<Uid, Pod>,
    claims: BTreeMap<(Text, Text), PersistentVolumeClaim>,
    volumes: BTreeMap<Text, PersistentVolume>,
    /// The pods that the engines know.
    pub(crate) known: BTreeMap<Uid, KnownPod>,
    /// Pods that the commands of the engines changed, which the watch has not shown yet.
    undelivered: Vec<Uid>,
    binds: Vec<PendingBind>,
    volume_preparations: Vec<VolumePreparation>,
    evictions: Vec<PendingEviction>,
    /// The node from which victims were evicted, by preemptor.
    pub(crate) eviction_targets: BTreeMap<Uid, EvictionTarget>,
    pub(crate) nominations: Nominations,
    /// Extender calls without an answer so far.
    extender_calls: Vec<Command>,
    /// The nodes that extenders passed, by pod.
    extender_nodes: BTreeMap<Uid, Vec<Text>>,
    /// All commands of the engines so far.
    commands: Vec<Command>,
    /// Something that upstream has no event for changed since the unschedulable pods were last checked.
    pub(crate) changed_without_event: bool,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            engine: engine(),
            twin: engine(),
            now: 1_000_000 * MILLISECOND,
            versions: 0,
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            volumes: BTreeMap::new(),
            known: BTreeMap::new(),
            undelivered: Vec::new(),
            binds: Vec::new(),
            volume_preparations: Vec::new(),
            evictions: Vec::new(),
            eviction_targets: BTreeMap::new(),
            nominations: Nominations::default(),
            extender_calls: Vec::new(),
            extender_nodes: BTreeMap::new(),
            commands: Vec::new(),
            changed_without_event: false,
        }
    }

    /// Carries out a step.
    pub(crate) fn apply_step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Node(node) => {
                self.nodes.insert(node.name.clone(), (*node).clone());
                self.nominations.activate(&self.nodes, &self.known);
                self.apply(Change::Node((*node).into()))?;
            }
            Step::NodeGone(which) => {
                let name = node_name(which);
                if self.nodes.remove(&name).is_some() {
                    self.nominations.node_gone(&name);
                }
                self.apply(Change::NodeGone(name))?;
            }
            Step::Pods(pod, count) => {
                for _ in 0..count {
                    self.create_pod((*pod).clone())?;
                }
            }
            Step::Foreign(pod, node) => self.create_pod(Pod { node: node_name(node), ..*pod })?,
            Step::Steal(which, node) => {
                self.change_pod(which, |pod| {
                    if pod.node.is_empty() && !pod.terminating && pod.gates.is_empty() {
                        pod.node = node_name(node);
                    }
                })?;
            }
            Step::Nominated(pod, node) => {
                self.create_pod(Pod { nominated_node: node_name(node), ..*pod })?;
            }
            Step::Nominate(which, node) => self.nominate_externally(which, node)?,
            Step::Write(which) => self.write_nomination(which)?,
            Step::Relabel(which, labels) => self.change_pod(which, |pod| pod.labels = labels)?,
            Step::Ungate(which) => self.change_pod(which, |pod| pod.gates = [].into())?,
            Step::Resize(which, (cpu, memory, _)) => {
                self.change_pod(which, |pod| {
                    // Amounts of devices cannot be changed.
                    let devices = pod.spec.requests.scalars.first().map_or(0, |scalar| scalar.1);
                    generators::set_requests(pod.spec_mut(), cpu, memory, devices);
                })?;
            }
            Step::Tolerate(which, more) => self.change_pod(which, |pod| {
                let old = pod.spec.tolerations.iter().cloned();
                pod.spec_mut().tolerations = old.chain([more]).collect();
            })?,
            Step::Terminate(which) => self.change_pod(which, |pod| pod.terminating = true)?,
            Step::Gone(which) => {
                if let Some(uid) = nth(&self.pods, which) {
                    self.pods.remove(&uid);
                    self.show(&uid)?;
                }
            }
            Step::Again(which) => {
                if let Some(uid) = nth(&self.pods, which)
                    && let Some(pod) = self.pods.remove(&uid)
                {
                    self.show(&uid)?;
                    self.create_pod_as(&pod.name.clone(), pods::recreated(pod))?;
                }
            }
            Step::Namespace(namespace) => {
                let namespace = ClusterObject::Namespace(namespace.into());
                self.apply_without_event(Change::Object(namespace))?;
            }
            Step::NamespaceGone(which) => {
                let name = NAMESPACES[which % NAMESPACES.len()];
                self.apply_without_event(gone(ObjectKind::Namespace, "", name))?;
            }
            Step::Workload(workload) => self.apply(Change::Object(workload.into()))?,
            Step::WorkloadGone(workload) => {
                self.apply(Change::ObjectGone(ClusterObject::from(workload).name()))?;
            }
            Step::Budget(budget) => {
                let budget = ClusterObject::PodDisruptionBudget(budget.into());
                self.apply(Change::Object(budget))?;
            }
            Step::BudgetGone(which) => {
                let namespace = NAMESPACES[which % NAMESPACES.len()];
                self.apply(gone(ObjectKind::PodDisruptionBudget, namespace, "budget"))?;
            }
            Step::DeviceClass => {
                let class = ClusterObject::DeviceClass(generators::device_class().into());
                self.apply(Change::Object(class))?;
            }
            Step::DeviceClassGone => {
                let name = &generators::device_class().name;
                self.apply(gone(ObjectKind::DeviceClass, "", name))?;
            }
            Step::Land(which, accepted) => self.execute_bind(which, accepted),
            Step::AnswerBind { which, lost } => self.answer_bind(which, lost)?,
            Step::AnswerVolumes { which, fails, shown_first } => {
                self.answer_volumes(which, fails, shown_first)?;
            }
            Step::AnswerEviction { which, fails, at_once } => {
                self.answer_eviction(which, fails, at_once)?;
            }
            Step::AnswerExtenders { which, fails, leave } => {
                self.answer_extenders(which, fails, leave)?;
            }
            Step::Show(which) => {
                if !self.undelivered.is_empty() {
                    let uid = self.undelivered[which % self.undelivered.len()].clone();
                    self.show(&uid)?;
                }
            }
            Step::ShowAll => {
                while let Some(uid) = self.undelivered.first().cloned() {
                    self.show(&uid)?;
                }
            }
            Step::Wait(milliseconds) => self.wait(milliseconds)?,
            Step::Schedule(limit) => self.attempt(limit)?,
            other => self.change_storage(other)?,
        }
        Ok(())
    }

    /// Answers all commands of the engines and shows their effects.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        while !self.extender_calls.is_empty() {
            self.answer_extenders(0, false, u64::MAX)?;
        }
        while !self.volume_preparations.is_empty() {
            self.answer_volumes(0, false, true)?;
        }
        while !self.binds.is_empty() {
            self.answer_bind(0, false)?;
        }
        while !self.evictions.is_empty() {
            self.answer_eviction(0, false, true)?;
        }
        while !self.nominations.writes.is_empty() {
            self.write_nomination(0)?;
        }
        self.apply_step(Step::ShowAll)
    }

    /// Returns whether the API server and the engines agree on the node of every pod.
    pub(crate) fn is_settled(&self) -> bool {
        let answered = self.undelivered.is_empty()
            && self.extender_calls.is_empty()
            && self.nominations.writes.is_empty();
        answered && self.known.values().all(|known| known.assumed_on.is_none())
    }

    /// Returns whether an eviction for this preemptor has no answer so far.
    pub(crate) fn has_pending_evictions_for(&self, uid: &Uid) -> bool {
        self.evictions.iter().any(|eviction| eviction.preemptor == *uid)
    }

    /// Returns whether an extender call about a pod has no answer so far.
    pub(crate) fn has_extender_call(&self, uid: &Uid) -> bool {
        self.extender_calls.iter().any(|call| match call {
            Command::AskExtenders { pod, .. } | Command::AskExtendersAboutVictims { pod, .. } => {
                pod.uid == *uid
            }
            _ => false,
        })
    }

    fn wait(&mut self, milliseconds: i64) -> Result<(), String> {
        self.now += milliseconds * MILLISECOND;
        self.step(Engine::tick)
    }

    /// Applies a change that upstream has no event for.
    fn apply_without_event(&mut self, change: Change) -> Result<(), String> {
        self.changed_without_event = true;
        self.apply(change)
    }

    /// Waits until unschedulable pods are tried without an event.
    pub(crate) fn wait_until_retried(&mut self) -> Result<(), String> {
        self.wait(UNSCHEDULABLE_WAIT_MS)
    }

    /// Applies a change to both engines, which must emit the same commands, and records these.
    fn apply(&mut self, change: Change) -> Result<(), String> {
        self.step(move |engine, now, commands| engine.apply(change.clone(), now, commands))
    }

    fn attempt(&mut self, limit: usize) -> Result<(), String> {
        self.step(|engine, now, commands| {
            let _ = (0..limit).all(|_| engine.schedule(now, commands));
        })
    }

    /// Has both engines take a step, which must want the same, and takes down what they want.
    fn step(&mut self, step: impl Fn(&mut Engine, i64, &mut Vec<Command>)) -> Result<(), String> {
        let mut commands = Vec::new();
        step(&mut self.engine, self.now, &mut commands);
        let mut twin_commands = Vec::new();
        step(&mut self.twin, self.now, &mut twin_commands);
        if commands != twin_commands {
            return Err(format!("commands {commands:?}, of the twin {twin_commands:?}"));
        }
        self.commands.extend_from_slice(&commands);
        commands.into_iter().try_for_each(|command| self.record_command(command))
    }

    /// Returns all commands, one per line, for the message of a failure.
    pub(crate) fn history(&self) -> String {
        let lines = self.commands.iter().map(|command| format!("  {command:?}"));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn record_command(&mut self, command: Command) -> Result<(), String> {
        match command {
            Command::Bind { pod, node, .. } => {
                if self.binds.iter().any(|bind| bind.uid == pod.uid) {
                    return Err(format!("{pod:?} has two binds in flight"));
                }
                self.assume(&pod.uid, &node)?;
                let shown = &self.known[&pod.uid].pod.resource_version;
                if pod.resource_version != *shown {
                    return Err(format!("{pod:?} is bound, but its version is {shown}"));
                }
                self.binds.push(PendingBind { uid: pod.uid, node, executed: None });
            }
            Command::PrepareVolumes { pod, ticket, node, requests, .. } => {
                self.assume(&pod.uid, &node)?;
                if let Some(known) = self.known.get_mut(&pod.uid) {
                    known.ticket = Some(ticket);
                }
                self.volume_preparations.push(VolumePreparation { uid: pod.uid, ticket, requests });
            }
            Command::Nominate { pod, node }
            | Command::ReportFailure { pod, nominate: Some(node), .. } => {
                let assumed_on =
                    self.known.get(&pod.uid).is_some_and(|known| known.assumed_on.is_some());
                self.nominations.record_decision(&pod.uid, node, assumed_on);
            }
            Command::ReportScheduled { pod, node } => {
                // The watch may have shown the deletion of the pod before the bind is answered.
                if let Some(known) = self.known.get(&pod.uid)
                    && known.node() != Some(&*node)
                {
                    let on = known.node();
                    return Err(format!("{pod:?} is reported on {node}, but is on {on:?}"));
                }
            }
            Command::ReportPreempted { victim, .. } => {
                let known = self.known.get_mut(&victim.uid).filter(|known| !known.bound);
                let Some(known) = known.filter(|known| known.assumed_on.is_some()) else {
                    return Err(format!("{victim:?} is reported preempted, but is not assumed"));
                };
                (known.assumed_on, known.ticket) = (None, None);
            }
            Command::DeleteVictim { victim, preemptor, node } => {
                self.check_eviction_target(&preemptor.uid, &node)?;
                if self.known.get(&victim.uid).is_none_or(|known| known.node().is_none()) {
                    return Err(format!("{victim:?} is evicted, but is on no node"));
                }
                let (victim, preemptor) = (victim.uid, preemptor.uid);
                self.evictions.push(PendingEviction { victim, preemptor });
            }
            Command::Evict { .. } => return Err("no planner requested an eviction".to_owned()),
            call @ (Command::AskExtenders { .. } | Command::AskExtendersAboutVictims { .. }) => {
                self.extender_calls.push(call);
            }
            Command::ReportFailure { nominate: None, .. }
            | Command::Warn { .. }
            | Command::Report { .. } => {}
        }
        Ok(())
    }

    /// Records that the engines assume a pod on a node, or bind it to the node where it is assumed.
    fn assume(&mut self, uid: &Uid, node: &Text) -> Result<(), String> {
        let Some(known) = self.known.get_mut(uid) else {
            return Err(format!("{uid} is not known"));
        };
        if known.bound || !known.pod.node.is_empty() {
            return Err(format!("{uid} is to be bound a second time"));
        }
        match &known.assumed_on {
            None => {
                known.assumed_on = Some(node.clone());
                self.nominations.forget(uid);
                self.check_extender_nodes(uid, node)?;
                self.check_capacity(uid)
            }
            Some(assumed_on) if assumed_on == node => Ok(()),
            Some(assumed_on) => {
                Err(format!("{uid} is assumed on {assumed_on} but bound to {node}"))
            }
        }
    }

    fn next_version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }
}

fn engine() -> Engine {
    let extender = Extender {
        url_prefix: "http://127.0.0.1:1".into(),
        filter_verb: "filter".into(),
        prioritize_verb: "prioritize".into(),
        preempt_verb: "preempt".into(),
        weight: 1,
        managed_resources: vec![ManagedResource { name: GPU.into(), ..Default::default() }],
        ..Extender::default()
    };
    let defaults = api::config::defaults(api::config::Gates::default());
    let config = Configuration { extenders: vec![extender], ..defaults };
    let profiles = Registry::default().profiles(&config).expect("the defaults are right");
    Engine::new(profiles, Settings { seed: Some(1), ..Settings::default() })
}

/// Returns the key at `which`, modulo the number of keys.
fn nth<K: Clone + Ord, V>(map: &BTreeMap<K, V>, which: usize) -> Option<K> {
    map.keys().nth(which.checked_rem(map.len())?).cloned()
}

/// Returns the change of a deleted object.
fn gone(kind: ObjectKind, namespace: &str, name: &str) -> Change {
    Change::ObjectGone(ObjectName { kind, namespace: namespace.into(), name: name.into() })
}
