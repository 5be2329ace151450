//! A small cluster around two engines: an API server that does what it is told when it pleases, and
//! a record of what the engines were told.

use std::collections::BTreeMap;

use api::config::{Configuration, Extender, ManagedResource};
use engine::change::{Change, ExtenderVerdict, Storage, StorageName};
use engine::command::Command;
use engine::engine::{Engine, Settings};
use engine::framework::VolumeRequest;
use engine::object::{
    ClaimPhase, ClaimRef, Node, PersistentVolume, PersistentVolumeClaim, Pod, Text, Uid, Volume,
    VolumeAttachment, VolumePhase,
};
use plugins::registry::Registry;

use crate::checks::EvictionTarget;
use crate::generators::{self, GPU, NAMESPACES, SCHEDULER, VOLUMES, node_name};
use crate::nominations::Nominations;
use crate::steps::Step;

const MILLISECOND: i64 = 1_000_000;
/// Long enough for a pod that waits for an event to be tried without one.
const UNSCHEDULABLE_WAIT_MS: i64 = 360_000;

/// A pod that the engines know.
pub(crate) struct KnownPod {
    /// As they were last told.
    pub(crate) pod: Pod,
    /// Where they assume a place for it by their own decision.
    pub(crate) assumed_on: Option<Text>,
    /// They were told that binding it succeeded.
    pub(crate) bound: bool,
    /// They were told that it was deleted to make room.
    pub(crate) deleted: bool,
    /// Of the preparation of its volumes that they wait for.
    ticket: Option<u64>,
}

impl KnownPod {
    /// The node on which it counts.
    pub(crate) fn node(&self) -> Option<&str> {
        let shown = (!self.pod.node.is_empty()).then_some(&*self.pod.node);
        shown.or(self.assumed_on.as_deref())
    }
}

/// A bind command that was not answered yet.
struct PendingBind {
    uid: Uid,
    node: Text,
    /// Whether the API server did it, once it did anything.
    executed: Option<bool>,
}

/// A command to prepare volumes that was not answered yet.
struct VolumePreparation {
    uid: Uid,
    ticket: u64,
    requests: Vec<VolumeRequest>,
}

/// A command to delete a pod that was not answered yet.
struct PendingEviction {
    victim: Uid,
    preemptor: Uid,
}

pub(crate) struct World {
    /// Every change goes to this one, which is looked into after every step …
    pub(crate) engine: Engine,
    /// … and to this one, which is not: looking must make no difference.
    pub(crate) twin: Engine,
    pub(crate) now: i64,
    versions: u64,
    /// What the API server has.
    pub(crate) nodes: BTreeMap<Text, Node>,
    pods: BTreeMap<Uid, Pod>,
    claims: BTreeMap<(Text, Text), PersistentVolumeClaim>,
    volumes: BTreeMap<Text, PersistentVolume>,
    /// What the engines were told.
    pub(crate) known: BTreeMap<Uid, KnownPod>,
    /// Pods that the commands of the engines changed, which the watch has not shown yet.
    undelivered: Vec<Uid>,
    binds: Vec<PendingBind>,
    volume_preparations: Vec<VolumePreparation>,
    evictions: Vec<PendingEviction>,
    /// Where room was made, by the pod for which it was.
    pub(crate) eviction_targets: BTreeMap<Uid, EvictionTarget>,
    pub(crate) nominations: Nominations,
    /// Questions to extenders that were not answered yet.
    extender_calls: Vec<Command>,
    /// Nodes that extenders extender_nodes, for pods that concern them.
    extender_nodes: BTreeMap<Uid, Vec<Text>>,
    /// What the engines commands so far.
    commands: Vec<Command>,
    /// Something changed since the last look at who waits that upstream has no event for.
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

    /// Lets a step happen.
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
                    self.create_pod_as(&pod.name.clone(), recreated(pod))?;
                }
            }
            Step::Namespace(namespace) => self.apply_without_event(Change::Namespace(namespace))?,
            Step::NamespaceGone(which) => {
                let name = NAMESPACES[which % NAMESPACES.len()].into();
                self.apply_without_event(Change::NamespaceGone(name))?;
            }
            Step::Workload(workload) => self.apply(Change::Workload(workload.into()))?,
            Step::WorkloadGone(workload) => self.apply(Change::WorkloadGone {
                kind: workload.kind,
                namespace: workload.namespace,
                name: workload.name,
            })?,
            Step::Budget(budget) => self.apply(Change::Budget(budget.into()))?,
            Step::BudgetGone(which) => {
                let namespace = NAMESPACES[which % NAMESPACES.len()].into();
                self.apply(Change::BudgetGone { namespace, name: "budget".into() })?;
            }
            Step::DeviceClass => {
                let (name, extended_resource) = generators::device_class();
                self.apply(Change::DeviceClass { name, extended_resource })?;
            }
            Step::DeviceClassGone => {
                self.apply(Change::DeviceClassGone(generators::device_class().0))?;
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

    /// Does and shows everything that the engines want.
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

    /// Whether nothing is on its way: the API server and the engines agree on who is where.
    pub(crate) fn is_settled(&self) -> bool {
        let answered = self.undelivered.is_empty()
            && self.extender_calls.is_empty()
            && self.nominations.writes.is_empty();
        answered && self.known.values().all(|known| known.assumed_on.is_none())
    }

    /// Whether pods have yet to be deleted to make room for this one.
    pub(crate) fn has_pending_evictions_for(&self, uid: &Uid) -> bool {
        self.evictions.iter().any(|eviction| eviction.preemptor == *uid)
    }

    /// Whether extenders are asked about a pod.
    pub(crate) fn has_extender_call(&self, uid: &Uid) -> bool {
        self.extender_calls.iter().any(|question| match question {
            Command::AskExtenders { pod, .. } | Command::AskExtendersAboutVictims { pod, .. } => {
                pod.uid == *uid
            }
            _ => false,
        })
    }

    fn change_storage(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Class(class) => self.apply(Change::Storage(Storage::Class(class).into())),
            Step::ClassGone(class) => {
                self.apply_without_event(Change::StorageGone(StorageName::Class(class.name)))
            }
            Step::Claim(claim) => {
                let key = (claim.namespace.clone(), claim.name.clone());
                // What a claim asks for cannot be changed.
                if self.claims.contains_key(&key) { Ok(()) } else { self.set_claim(claim) }
            }
            Step::EphemeralClaim(which) => {
                let with_ephemeral = |pod: &&Pod| {
                    pod.spec.volumes.iter().any(|v| matches!(v, Volume::Ephemeral { .. }))
                };
                let pods: Vec<&Pod> = self.pods.values().filter(with_ephemeral).collect();
                let Some(which) = which.checked_rem(pods.len()) else { return Ok(()) };
                let claim = generators::ephemeral_claim(pods[which]);
                let key = (claim.namespace.clone(), claim.name.clone());
                if self.claims.contains_key(&key) { Ok(()) } else { self.set_claim(claim) }
            }
            Step::ClaimGone(which) => {
                let Some((namespace, name)) = nth(&self.claims, which) else { return Ok(()) };
                self.claims.remove(&(namespace.clone(), name.clone()));
                self.apply_without_event(Change::StorageGone(StorageName::Claim {
                    namespace,
                    name,
                }))
            }
            Step::Volume(volume) => match self.volumes.get(&volume.name) {
                // Where the data is, and who may use it, cannot be changed.
                Some(old) => {
                    let old = old.clone();
                    self.set_volume(PersistentVolume { labels: volume.labels, ..old })
                }
                None => self.set_volume(*volume),
            },
            Step::VolumeGone(which) => {
                let Some(name) = nth(&self.volumes, which) else { return Ok(()) };
                self.volumes.remove(&name);
                self.apply_without_event(Change::StorageGone(StorageName::Volume(name)))
            }
            Step::Join(claim, volume) => {
                let (Some(claim), Some(volume)) =
                    (nth(&self.claims, claim), nth(&self.volumes, volume))
                else {
                    return Ok(());
                };
                if self.claims[&claim].is_bound() || self.volumes[&volume].claim_ref.is_some() {
                    return Ok(());
                }
                self.bind_claim(&claim, &volume)
            }
            Step::CsiNode(node) => self.apply(Change::Storage(Storage::CsiNode(node).into())),
            Step::CsiNodeGone(which) => self
                .apply_without_event(Change::StorageGone(StorageName::CsiNode(node_name(which)))),
            Step::Driver(driver) => self.apply(Change::Storage(Storage::CsiDriver(driver).into())),
            Step::DriverGone => {
                let name = StorageName::CsiDriver("csi.example.com".into());
                self.apply_without_event(Change::StorageGone(name))
            }
            Step::Capacity(capacity) => {
                self.apply(Change::Storage(Storage::Capacity(capacity).into()))
            }
            Step::CapacityGone(capacity) => {
                let (namespace, name) = (capacity.namespace, capacity.name);
                self.apply_without_event(Change::StorageGone(StorageName::Capacity {
                    namespace,
                    name,
                }))
            }
            Step::Attach(volume, node) => {
                let volume_name = VOLUMES[volume % VOLUMES.len()];
                let attachment_name = VolumeAttachment {
                    name: attachment_name(volume_name, node),
                    attacher: "csi.example.com".into(),
                    node: node_name(node),
                    volume_name: Some(volume_name.into()),
                };
                self.apply(Change::Storage(Storage::Attachment(attachment_name).into()))
            }
            Step::Detach(volume, node) => {
                let name = attachment_name(VOLUMES[volume % VOLUMES.len()], node);
                self.apply(Change::StorageGone(StorageName::Attachment(name)))
            }
            _ => unreachable!("all other steps are taken care of"),
        }
    }

    fn create_pod(&mut self, pod: Pod) -> Result<(), String> {
        let name = format!("p{}", self.versions);
        self.create_pod_as(&name, pod)
    }

    fn create_pod_as(&mut self, name: &str, mut pod: Pod) -> Result<(), String> {
        pod.name = name.into();
        pod.uid = format!("uid-{}", self.next_version()).into();
        pod.creation_time = self.now;
        generators::name_ephemeral_claims(&mut pod);
        if !pod.node.is_empty() {
            pod.start_time = Some(self.now);
            pod.gates = [].into();
        }
        let uid = pod.uid.clone();
        if !pod.nominated_node.is_empty() {
            self.nominations.foreign.insert(uid.clone());
        }
        self.pods.insert(uid.clone(), pod);
        self.show(&uid)
    }

    fn change_pod(&mut self, which: usize, change: impl FnOnce(&mut Pod)) -> Result<(), String> {
        let Some(uid) = nth(&self.pods, which) else { return Ok(()) };
        if let Some(pod) = self.pods.get_mut(&uid) {
            change(pod);
        }
        self.show(&uid)
    }

    /// Shows what the API server has of a pod.
    fn show(&mut self, uid: &Uid) -> Result<(), String> {
        self.undelivered.retain(|undelivered| undelivered != uid);
        let version = self.next_version();
        let Some(pod) = self.pods.get_mut(uid) else {
            self.known.remove(uid);
            self.nominations.forget(uid);
            self.eviction_targets.remove(uid);
            return self.apply(Change::PodGone { uid: uid.clone() });
        };
        pod.resource_version = version;
        let pod = pod.clone();
        if pod.node.is_empty() && *pod.spec.scheduler_name != *SCHEDULER {
            // Somebody else's to place.
            return self.apply(Change::Pod(Box::new(pod)));
        }
        let known = self.known.entry(uid.clone()).or_insert_with(|| KnownPod {
            pod: pod.clone(),
            assumed_on: None,
            bound: false,
            deleted: false,
            ticket: None,
        });
        // Pods that terminate are no longer counted for spreading; the event comes when they are gone.
        self.changed_without_event |= pod.terminating && !known.pod.terminating;
        known.pod = pod.clone();
        if !pod.node.is_empty() || pod.terminating && !known.bound {
            known.assumed_on = None;
        }
        let assumed_on = known.assumed_on.is_some();
        if pod.node.is_empty() {
            self.nominations.pod_shown(uid, &pod.nominated_node, assumed_on);
        } else {
            self.nominations.forget(uid);
        }
        self.nominations.activate(&self.nodes, &self.known);
        self.apply(Change::Pod(Box::new(pod)))
    }

    /// Something else than the engines nominates a waiting pod; not while they are about to.
    fn nominate_externally(&mut self, which: usize, node: usize) -> Result<(), String> {
        let Some(uid) = nth(&self.pods, which) else { return Ok(()) };
        let node = if node == 0 { "".into() } else { node_name(node) };
        let is_written = self.nominations.writes.iter().any(|(written, _)| *written == uid);
        let Some(pod) = self.pods.get_mut(&uid) else { return Ok(()) };
        if is_written
            || self.undelivered.contains(&uid)
            || !pod.node.is_empty()
            || pod.nominated_node == node
        {
            return Ok(());
        }
        pod.nominated_node = node;
        self.nominations.foreign.insert(uid.clone());
        self.show(&uid)
    }

    /// Carries out the first write_nomination of a nomination of a pod.
    fn write_nomination(&mut self, which: usize) -> Result<(), String> {
        let Some((uid, node)) = self.nominations.next_write(which) else { return Ok(()) };
        if self.undelivered.contains(&uid) {
            // The watch shows every change.
            self.show(&uid)?;
        }
        if let Some(stored) = self.pods.get_mut(&uid)
            && stored.node.is_empty()
            && stored.nominated_node != node
        {
            stored.nominated_node = node;
            self.undelivered.push(uid);
        }
        Ok(())
    }

    fn set_claim(&mut self, mut claim: PersistentVolumeClaim) -> Result<(), String> {
        claim.resource_version = self.next_version().to_string().into();
        self.claims.insert((claim.namespace.clone(), claim.name.clone()), claim.clone());
        self.apply(Change::Storage(Storage::Claim(claim).into()))
    }

    fn set_volume(&mut self, mut volume: PersistentVolume) -> Result<(), String> {
        volume.resource_version = self.next_version().to_string().into();
        self.volumes.insert(volume.name.clone(), volume.clone());
        self.apply(Change::Storage(Storage::Volume(volume).into()))
    }

    /// Binds a claim and a volume to each other.
    fn bind_claim(&mut self, claim: &(Text, Text), volume: &Text) -> Result<(), String> {
        let (Some(mut claim), Some(mut volume)) =
            (self.claims.get(claim).cloned(), self.volumes.get(volume).cloned())
        else {
            return Ok(());
        };
        volume.claim_ref = Some(ClaimRef {
            namespace: claim.namespace.clone(),
            name: claim.name.clone(),
            uid: claim.uid.clone(),
        });
        volume.phase = VolumePhase::Bound;
        claim.volume_name = volume.name.clone();
        claim.phase = ClaimPhase::Bound;
        claim.bind_completed = true;
        self.set_volume(volume)?;
        self.set_claim(claim)
    }

    fn execute_bind(&mut self, which: usize, accepted: bool) {
        if self.binds.is_empty() {
            return;
        }
        let which = which % self.binds.len();
        let bind = &mut self.binds[which];
        if bind.executed.is_some() {
            return;
        }
        let pod = self.pods.get_mut(&bind.uid);
        let free = pod.filter(|pod| accepted && pod.node.is_empty() && !pod.terminating);
        bind.executed = Some(free.is_some());
        if let Some(pod) = free {
            pod.node = bind.node.clone();
            pod.start_time = Some(self.now);
            self.undelivered.push(bind.uid.clone());
        }
    }

    fn answer_bind(&mut self, which: usize, lost: bool) -> Result<(), String> {
        if self.binds.is_empty() {
            return Ok(());
        }
        let which = which % self.binds.len();
        self.execute_bind(which, true);
        let PendingBind { uid, executed, .. } = self.binds.remove(which);
        let succeeded = executed == Some(true) && !lost;
        if let Some(known) = self.known.get_mut(&uid)
            && known.assumed_on.is_some()
        {
            known.bound = succeeded;
            if !succeeded {
                known.assumed_on = None;
            }
        }
        let failure = (!succeeded).then(|| "binding failed".into());
        self.apply(Change::Bound { uid, failure })
    }

    fn answer_volumes(
        &mut self,
        which: usize,
        fails: bool,
        shown_first: bool,
    ) -> Result<(), String> {
        if self.volume_preparations.is_empty() {
            return Ok(());
        }
        let which = which % self.volume_preparations.len();
        let VolumePreparation { uid, ticket, requests } = self.volume_preparations.remove(which);
        if fails {
            if let Some(known) = self.known.get_mut(&uid)
                && known.ticket == Some(ticket)
            {
                known.assumed_on = None;
            }
            let failure = Some("timed out".into());
            return self.apply(Change::VolumesReady { uid, ticket, failure });
        }
        let ready = Change::VolumesReady { uid, ticket, failure: None };
        if shown_first {
            self.prepare(&requests)?;
            self.apply(ready)
        } else {
            self.apply(ready)?;
            self.prepare(&requests)
        }
    }

    fn prepare(&mut self, requests: &[VolumeRequest]) -> Result<(), String> {
        for request in requests {
            match request {
                VolumeRequest::BindVolume { volume, namespace, claim } => {
                    self.bind_claim(&(namespace.clone(), claim.clone()), volume)?;
                }
                VolumeRequest::Provision { namespace, claim, node } => {
                    let key = (namespace.clone(), claim.clone());
                    let Some(mut claim) = self.claims.get(&key).cloned() else { continue };
                    claim.selected_node = Some(node.clone());
                    let volume = generators::provisioned(&claim);
                    let name = volume.name.clone();
                    self.set_claim(claim)?;
                    self.set_volume(volume)?;
                    self.bind_claim(&key, &name)?;
                }
            }
        }
        Ok(())
    }

    fn answer_eviction(&mut self, which: usize, fails: bool, at_once: bool) -> Result<(), String> {
        if self.evictions.is_empty() {
            return Ok(());
        }
        let which = which % self.evictions.len();
        let PendingEviction { victim, preemptor } = self.evictions.remove(which);
        if !fails && at_once {
            self.pods.remove(&victim);
            self.undelivered.push(victim.clone());
        } else if !fails && let Some(pod) = self.pods.get_mut(&victim) {
            pod.terminating = true;
            pod.preempted = true;
            self.undelivered.push(victim.clone());
        }
        if !fails {
            if let Some(known) = self.known.get_mut(&victim) {
                // As when the watch shows that it terminates.
                self.changed_without_event |= !known.pod.terminating;
                known.deleted = true;
            }
            if let Some(room) = self.eviction_targets.get_mut(&preemptor) {
                room.deleted.insert(victim.clone());
            }
        }
        let failure = fails.then(|| "forbidden".into());
        self.apply(Change::VictimHandled { preemptor, victim, failure })
    }

    /// Extenders answer one question. Of nodes they leave one at least: who is turned down by them
    /// everywhere waits although plugins would let it pass.
    fn answer_extenders(&mut self, which: usize, fails: bool, leave: u64) -> Result<(), String> {
        let Some(which) = which.checked_rem(self.extender_calls.len()) else { return Ok(()) };
        let stays = |place: usize| leave >> (place % 64) & 1 == 1;
        match self.extender_calls.remove(which) {
            Command::AskExtenders { pod, ticket, nodes, .. } => {
                let any_stays = (0..nodes.len()).any(stays);
                let nodes = nodes.into_iter().enumerate();
                let extender_nodes = nodes.filter(|(place, _)| stays(*place) || !any_stays);
                let extender_nodes: Vec<Text> = extender_nodes.map(|(_, node)| node).collect();
                self.extender_nodes.insert(pod.uid.clone(), extender_nodes.clone());
                let passed =
                    extender_nodes.into_iter().zip([30, 0, 100].into_iter().cycle()).collect();
                let verdict = ExtenderVerdict { passed, failed: Vec::new() };
                let verdict = if fails { Err("no answer".into()) } else { Ok(verdict) };
                self.apply(Change::ExtendersAnswered { uid: pod.uid, ticket, verdict })
            }
            Command::AskExtendersAboutVictims { pod, ticket, candidates, .. } => {
                let extender_nodes =
                    candidates.into_iter().enumerate().filter(|(place, _)| stays(*place));
                let extender_nodes = extender_nodes.map(|(_, candidate)| candidate).collect();
                let candidates = if fails { Err("no answer".into()) } else { Ok(extender_nodes) };
                self.apply(Change::ExtendersAnsweredAboutVictims {
                    uid: pod.uid,
                    ticket,
                    candidates,
                })
            }
            other => Err(format!("{other:?} is no question")),
        }
    }

    /// Whether extenders were asked about a node that is taken, if they have a say.
    fn check_extender_nodes(&self, uid: &Uid, node: &Text) -> Result<(), String> {
        let Some(known) = self.known.get(uid) else { return Ok(()) };
        let concerns = known.pod.spec.requests.scalars.iter().any(|(name, _)| **name == *GPU);
        if concerns
            && !self
                .extender_nodes
                .get(uid)
                .is_some_and(|extender_nodes| extender_nodes.contains(node))
        {
            return Err(format!("extenders did not leave {node} for {uid}"));
        }
        Ok(())
    }

    fn wait(&mut self, milliseconds: i64) -> Result<(), String> {
        self.now += milliseconds * MILLISECOND;
        self.step(Engine::tick)
    }

    /// Tells what upstream has no event for.
    fn apply_without_event(&mut self, change: Change) -> Result<(), String> {
        self.changed_without_event = true;
        self.apply(change)
    }

    /// Lets so much time pass that pods are tried which wait for an event that never comes.
    pub(crate) fn wait_until_retried(&mut self) -> Result<(), String> {
        self.wait(UNSCHEDULABLE_WAIT_MS)
    }

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

    /// What the engines commands, for whoever looks for the reason of a failure.
    pub(crate) fn history(&self) -> String {
        let lines = self.commands.iter().map(|command| format!("  {command:?}"));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn record_command(&mut self, command: Command) -> Result<(), String> {
        match command {
            Command::Bind { pod, node, .. } => {
                if self.binds.iter().any(|bind| bind.uid == pod.uid) {
                    return Err(format!("{pod:?} is to be bound while it is being bound"));
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
                    return Err(format!("{pod:?} is said to be on {node}, but is on {on:?}"));
                }
            }
            Command::ReportPreempted { victim, .. } => {
                let known = self.known.get_mut(&victim.uid).filter(|known| !known.bound);
                let Some(known) = known.filter(|known| known.assumed_on.is_some()) else {
                    return Err(format!("{victim:?} is not on its way to a node"));
                };
                (known.assumed_on, known.ticket) = (None, None);
            }
            Command::DeleteVictim { victim, preemptor, node } => {
                self.check_eviction_target(&preemptor.uid, &node)?;
                if self.known.get(&victim.uid).is_none_or(|known| known.node().is_none()) {
                    return Err(format!("{victim:?} has no place to give up"));
                }
                let (victim, preemptor) = (victim.uid, preemptor.uid);
                self.evictions.push(PendingEviction { victim, preemptor });
            }
            question
            @ (Command::AskExtenders { .. } | Command::AskExtendersAboutVictims { .. }) => {
                self.extender_calls.push(question);
            }
            Command::Evict { .. } => return Err("no planner requested an eviction".to_owned()),
            Command::ReportFailure { nominate: None, .. } | Command::Warn { .. } => {}
        }
        Ok(())
    }

    /// A place is assumed_on for a pod: a new one, or the one that is assumed_on already.
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

/// A pod as its controller makes it anew.
fn recreated(pod: Pod) -> Pod {
    Pod {
        node: "".into(),
        nominated_node: "".into(),
        terminating: false,
        preempted: false,
        start_time: None,
        ..pod
    }
}

/// Any key of a map.
fn nth<K: Clone + Ord, V>(map: &BTreeMap<K, V>, which: usize) -> Option<K> {
    map.keys().nth(which.checked_rem(map.len())?).cloned()
}

fn attachment_name(volume: &str, node: usize) -> Text {
    format!("{volume}-{}", node_name(node)).into()
}
