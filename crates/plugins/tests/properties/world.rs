//! A small cluster around two engines: an API server that does what it is told when it pleases, and
//! a record of what the engines were told.

use std::collections::BTreeMap;

use api::config::{Configuration, Extender, ManagedResource};
use engine::change::{Advice, Change, Storage, StorageName};
use engine::command::Command;
use engine::engine::{Engine, Settings};
use engine::framework::VolumeRequest;
use engine::object::{
    ClaimPhase, ClaimRef, Node, PersistentVolume, PersistentVolumeClaim, Pod, Text, Uid, Volume,
    VolumeAttachment, VolumePhase,
};
use plugins::registry::Registry;

use crate::checks::Room;
use crate::nominations::Nominations;
use crate::shapes::{self, GPU, NAMESPACES, SCHEDULER, VOLUMES, node_name};
use crate::steps::Step;

const MILLISECOND: i64 = 1_000_000;
/// Long enough for a pod that waits for an event to be tried without one.
const VERY_LONG: i64 = 360_000;

/// A pod that the engines know.
pub(crate) struct Known {
    /// As they were last told.
    pub(crate) pod: Pod,
    /// Where they hold a place for it by their own decision.
    pub(crate) held: Option<Text>,
    /// They were told that binding it succeeded.
    pub(crate) bound: bool,
    /// They were told that it was deleted to make room.
    pub(crate) deleted: bool,
    /// Of the preparation of its volumes that they wait for.
    ticket: Option<u64>,
}

impl Known {
    /// The node on which it counts.
    pub(crate) fn node(&self) -> Option<&str> {
        let shown = (!self.pod.node.is_empty()).then_some(&*self.pod.node);
        shown.or(self.held.as_deref())
    }
}

/// A bind command that was not answered yet.
struct Bind {
    uid: Uid,
    node: Text,
    /// Whether the API server did it, once it did anything.
    landed: Option<bool>,
}

/// A command to prepare volumes that was not answered yet.
struct Preparation {
    uid: Uid,
    ticket: u64,
    requests: Vec<VolumeRequest>,
}

/// A command to delete a pod that was not answered yet.
struct Eviction {
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
    pub(crate) known: BTreeMap<Uid, Known>,
    /// Pods that the commands of the engines changed, which the watch has not shown yet.
    unseen: Vec<Uid>,
    binds: Vec<Bind>,
    preparations: Vec<Preparation>,
    evictions: Vec<Eviction>,
    /// Where room was made, by the pod for which it was.
    pub(crate) rooms: BTreeMap<Uid, Room>,
    pub(crate) nominations: Nominations,
    /// Questions to extenders that were not answered yet.
    questions: Vec<Command>,
    /// Nodes that extenders left, for pods that concern them.
    left: BTreeMap<Uid, Vec<Text>>,
    /// What the engines wanted so far.
    wanted: Vec<Command>,
    /// Something changed since the last look at who waits that upstream has no event for.
    pub(crate) unannounced: bool,
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
            unseen: Vec::new(),
            binds: Vec::new(),
            preparations: Vec::new(),
            evictions: Vec::new(),
            rooms: BTreeMap::new(),
            nominations: Nominations::default(),
            questions: Vec::new(),
            left: BTreeMap::new(),
            wanted: Vec::new(),
            unannounced: false,
        }
    }

    /// Lets a step happen.
    pub(crate) fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Node(node) => {
                self.nodes.insert(node.name.clone(), (*node).clone());
                self.nominations.claim(&self.nodes, &self.known);
                self.tell(Change::Node((*node).into()))?;
            }
            Step::NodeGone(which) => {
                let name = node_name(which);
                if self.nodes.remove(&name).is_some() {
                    self.nominations.end_on(&name);
                }
                self.tell(Change::NodeGone(name))?;
            }
            Step::Pods(pod, count) => {
                for _ in 0..count {
                    self.come((*pod).clone())?;
                }
            }
            Step::Foreign(pod, node) => self.come(Pod { node: node_name(node), ..*pod })?,
            Step::Steal(which, node) => {
                self.change_pod(which, |pod| {
                    if pod.node.is_empty() && !pod.terminating && pod.gates.is_empty() {
                        pod.node = node_name(node);
                    }
                })?;
            }
            Step::Nominated(pod, node) => {
                self.come(Pod { nominated_node: node_name(node), ..*pod })?;
            }
            Step::Nominate(which, node) => self.nominate(which, node)?,
            Step::Write(which) => self.write(which)?,
            Step::Relabel(which, labels) => self.change_pod(which, |pod| pod.labels = labels)?,
            Step::Ungate(which) => self.change_pod(which, |pod| pod.gates = [].into())?,
            Step::Resize(which, (cpu, memory, _)) => {
                self.change_pod(which, |pod| {
                    // Amounts of devices cannot be changed.
                    let devices = pod.spec.requests.scalars.first().map_or(0, |scalar| scalar.1);
                    shapes::set_requests(pod.spec_mut(), cpu, memory, devices);
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
                    self.come_as(&pod.name.clone(), renewed(pod))?;
                }
            }
            Step::Namespace(namespace) => self.tell_quietly(Change::Namespace(namespace))?,
            Step::NamespaceGone(which) => {
                let name = NAMESPACES[which % NAMESPACES.len()].into();
                self.tell_quietly(Change::NamespaceGone(name))?;
            }
            Step::Workload(workload) => self.tell(Change::Workload(workload.into()))?,
            Step::WorkloadGone(workload) => self.tell(Change::WorkloadGone {
                kind: workload.kind,
                namespace: workload.namespace,
                name: workload.name,
            })?,
            Step::Budget(budget) => self.tell(Change::Budget(budget.into()))?,
            Step::BudgetGone(which) => {
                let namespace = NAMESPACES[which % NAMESPACES.len()].into();
                self.tell(Change::BudgetGone { namespace, name: "budget".into() })?;
            }
            Step::DeviceClass => {
                let (name, extended_resource) = shapes::device_class();
                self.tell(Change::DeviceClass { name, extended_resource })?;
            }
            Step::DeviceClassGone => {
                self.tell(Change::DeviceClassGone(shapes::device_class().0))?;
            }
            Step::Land(which, lands) => self.land(which, lands),
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
                if !self.unseen.is_empty() {
                    let uid = self.unseen[which % self.unseen.len()].clone();
                    self.show(&uid)?;
                }
            }
            Step::ShowAll => {
                while let Some(uid) = self.unseen.first().cloned() {
                    self.show(&uid)?;
                }
            }
            Step::Wait(milliseconds) => self.wait(milliseconds)?,
            Step::Schedule(limit) => self.tell(Change::Schedule { limit })?,
            other => self.change_storage(other)?,
        }
        Ok(())
    }

    /// Does and shows everything that the engines want.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        while !self.questions.is_empty() {
            self.answer_extenders(0, false, u64::MAX)?;
        }
        while !self.preparations.is_empty() {
            self.answer_volumes(0, false, true)?;
        }
        while !self.binds.is_empty() {
            self.answer_bind(0, false)?;
        }
        while !self.evictions.is_empty() {
            self.answer_eviction(0, false, true)?;
        }
        while !self.nominations.writes.is_empty() {
            self.write(0)?;
        }
        self.take(Step::ShowAll)
    }

    /// Whether nothing is on its way: the API server and the engines agree on who is where.
    pub(crate) fn is_settled(&self) -> bool {
        let answered = self.unseen.is_empty()
            && self.questions.is_empty()
            && self.nominations.writes.is_empty();
        answered && self.known.values().all(|known| known.held.is_none())
    }

    /// Whether pods have yet to be deleted to make room for this one.
    pub(crate) fn makes_room_for(&self, uid: &Uid) -> bool {
        self.evictions.iter().any(|eviction| eviction.preemptor == *uid)
    }

    /// Whether extenders are asked about a pod.
    pub(crate) fn asks_about(&self, uid: &Uid) -> bool {
        self.questions.iter().any(|question| match question {
            Command::Consult { pod, .. } | Command::ConsultOnVictims { pod, .. } => pod.uid == *uid,
            _ => false,
        })
    }

    fn change_storage(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Class(class) => self.tell(Change::Storage(Storage::Class(class).into())),
            Step::ClassGone(class) => {
                self.tell_quietly(Change::StorageGone(StorageName::Class(class.name)))
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
                let claim = shapes::ephemeral_claim(pods[which]);
                let key = (claim.namespace.clone(), claim.name.clone());
                if self.claims.contains_key(&key) { Ok(()) } else { self.set_claim(claim) }
            }
            Step::ClaimGone(which) => {
                let Some((namespace, name)) = nth(&self.claims, which) else { return Ok(()) };
                self.claims.remove(&(namespace.clone(), name.clone()));
                self.tell_quietly(Change::StorageGone(StorageName::Claim { namespace, name }))
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
                self.tell_quietly(Change::StorageGone(StorageName::Volume(name)))
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
                self.join(&claim, &volume)
            }
            Step::CsiNode(node) => self.tell(Change::Storage(Storage::CsiNode(node).into())),
            Step::CsiNodeGone(which) => {
                self.tell_quietly(Change::StorageGone(StorageName::CsiNode(node_name(which))))
            }
            Step::Driver(driver) => self.tell(Change::Storage(Storage::CsiDriver(driver).into())),
            Step::DriverGone => {
                let name = StorageName::CsiDriver("csi.example.com".into());
                self.tell_quietly(Change::StorageGone(name))
            }
            Step::Capacity(capacity) => {
                self.tell(Change::Storage(Storage::Capacity(capacity).into()))
            }
            Step::CapacityGone(capacity) => {
                let (namespace, name) = (capacity.namespace, capacity.name);
                self.tell_quietly(Change::StorageGone(StorageName::Capacity { namespace, name }))
            }
            Step::Attach(volume, node) => {
                let volume_name = VOLUMES[volume % VOLUMES.len()];
                let attachment = VolumeAttachment {
                    name: attachment(volume_name, node),
                    attacher: "csi.example.com".into(),
                    node: node_name(node),
                    volume_name: Some(volume_name.into()),
                };
                self.tell(Change::Storage(Storage::Attachment(attachment).into()))
            }
            Step::Detach(volume, node) => {
                let name = attachment(VOLUMES[volume % VOLUMES.len()], node);
                self.tell(Change::StorageGone(StorageName::Attachment(name)))
            }
            _ => unreachable!("all other steps are taken care of"),
        }
    }

    fn come(&mut self, pod: Pod) -> Result<(), String> {
        let name = format!("p{}", self.versions);
        self.come_as(&name, pod)
    }

    fn come_as(&mut self, name: &str, mut pod: Pod) -> Result<(), String> {
        pod.name = name.into();
        pod.uid = format!("uid-{}", self.next_version()).into();
        pod.creation_time = self.now;
        shapes::name_ephemeral_claims(&mut pod);
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
        self.unseen.retain(|unseen| unseen != uid);
        let version = self.next_version();
        let Some(pod) = self.pods.get_mut(uid) else {
            self.known.remove(uid);
            self.nominations.forget(uid);
            self.rooms.remove(uid);
            return self.tell(Change::PodGone { uid: uid.clone() });
        };
        pod.resource_version = version;
        let pod = pod.clone();
        if pod.node.is_empty() && *pod.spec.scheduler_name != *SCHEDULER {
            // Somebody else's to place.
            return self.tell(Change::Pod(Box::new(pod)));
        }
        let known = self.known.entry(uid.clone()).or_insert_with(|| Known {
            pod: pod.clone(),
            held: None,
            bound: false,
            deleted: false,
            ticket: None,
        });
        // Pods that terminate are no longer counted for spreading; the event comes when they are gone.
        self.unannounced |= pod.terminating && !known.pod.terminating;
        known.pod = pod.clone();
        if !pod.node.is_empty() || pod.terminating && !known.bound {
            known.held = None;
        }
        let held = known.held.is_some();
        if pod.node.is_empty() {
            self.nominations.show(uid, &pod.nominated_node, held);
        } else {
            self.nominations.forget(uid);
        }
        self.nominations.claim(&self.nodes, &self.known);
        self.tell(Change::Pod(Box::new(pod)))
    }

    /// Something else than the engines nominates a waiting pod; not while they are about to.
    fn nominate(&mut self, which: usize, node: usize) -> Result<(), String> {
        let Some(uid) = nth(&self.pods, which) else { return Ok(()) };
        let node = if node == 0 { "".into() } else { node_name(node) };
        let is_written = self.nominations.writes.iter().any(|(written, _)| *written == uid);
        let Some(pod) = self.pods.get_mut(&uid) else { return Ok(()) };
        if is_written
            || self.unseen.contains(&uid)
            || !pod.node.is_empty()
            || pod.nominated_node == node
        {
            return Ok(());
        }
        pod.nominated_node = node;
        self.nominations.foreign.insert(uid.clone());
        self.show(&uid)
    }

    /// Carries out the first write of a nomination of a pod.
    fn write(&mut self, which: usize) -> Result<(), String> {
        let Some((uid, node)) = self.nominations.next_write(which) else { return Ok(()) };
        if self.unseen.contains(&uid) {
            // The watch shows every change.
            self.show(&uid)?;
        }
        if let Some(stored) = self.pods.get_mut(&uid)
            && stored.node.is_empty()
            && stored.nominated_node != node
        {
            stored.nominated_node = node;
            self.unseen.push(uid);
        }
        Ok(())
    }

    fn set_claim(&mut self, mut claim: PersistentVolumeClaim) -> Result<(), String> {
        claim.resource_version = self.next_version().to_string().into();
        self.claims.insert((claim.namespace.clone(), claim.name.clone()), claim.clone());
        self.tell(Change::Storage(Storage::Claim(claim).into()))
    }

    fn set_volume(&mut self, mut volume: PersistentVolume) -> Result<(), String> {
        volume.resource_version = self.next_version().to_string().into();
        self.volumes.insert(volume.name.clone(), volume.clone());
        self.tell(Change::Storage(Storage::Volume(volume).into()))
    }

    /// Binds a claim and a volume to each other.
    fn join(&mut self, claim: &(Text, Text), volume: &Text) -> Result<(), String> {
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

    fn land(&mut self, which: usize, lands: bool) {
        if self.binds.is_empty() {
            return;
        }
        let which = which % self.binds.len();
        let bind = &mut self.binds[which];
        if bind.landed.is_some() {
            return;
        }
        let pod = self.pods.get_mut(&bind.uid);
        let free = pod.filter(|pod| lands && pod.node.is_empty() && !pod.terminating);
        bind.landed = Some(free.is_some());
        if let Some(pod) = free {
            pod.node = bind.node.clone();
            pod.start_time = Some(self.now);
            self.unseen.push(bind.uid.clone());
        }
    }

    fn answer_bind(&mut self, which: usize, lost: bool) -> Result<(), String> {
        if self.binds.is_empty() {
            return Ok(());
        }
        let which = which % self.binds.len();
        self.land(which, true);
        let Bind { uid, landed, .. } = self.binds.remove(which);
        let succeeded = landed == Some(true) && !lost;
        if let Some(known) = self.known.get_mut(&uid)
            && known.held.is_some()
        {
            known.bound = succeeded;
            if !succeeded {
                known.held = None;
            }
        }
        let failure = (!succeeded).then(|| "binding failed".into());
        self.tell(Change::Bound { uid, failure })
    }

    fn answer_volumes(
        &mut self,
        which: usize,
        fails: bool,
        shown_first: bool,
    ) -> Result<(), String> {
        if self.preparations.is_empty() {
            return Ok(());
        }
        let which = which % self.preparations.len();
        let Preparation { uid, ticket, requests } = self.preparations.remove(which);
        if fails {
            if let Some(known) = self.known.get_mut(&uid)
                && known.ticket == Some(ticket)
            {
                known.held = None;
            }
            let failure = Some("timed out".into());
            return self.tell(Change::VolumesReady { uid, ticket, failure });
        }
        let ready = Change::VolumesReady { uid, ticket, failure: None };
        if shown_first {
            self.prepare(&requests)?;
            self.tell(ready)
        } else {
            self.tell(ready)?;
            self.prepare(&requests)
        }
    }

    fn prepare(&mut self, requests: &[VolumeRequest]) -> Result<(), String> {
        for request in requests {
            match request {
                VolumeRequest::BindVolume { volume, namespace, claim } => {
                    self.join(&(namespace.clone(), claim.clone()), volume)?;
                }
                VolumeRequest::Provision { namespace, claim, node } => {
                    let key = (namespace.clone(), claim.clone());
                    let Some(mut claim) = self.claims.get(&key).cloned() else { continue };
                    claim.selected_node = Some(node.clone());
                    let volume = shapes::provisioned(&claim);
                    let name = volume.name.clone();
                    self.set_claim(claim)?;
                    self.set_volume(volume)?;
                    self.join(&key, &name)?;
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
        let Eviction { victim, preemptor } = self.evictions.remove(which);
        if !fails && at_once {
            self.pods.remove(&victim);
            self.unseen.push(victim.clone());
        } else if !fails && let Some(pod) = self.pods.get_mut(&victim) {
            pod.terminating = true;
            pod.preempted = true;
            self.unseen.push(victim.clone());
        }
        if !fails {
            if let Some(known) = self.known.get_mut(&victim) {
                // As when the watch shows that it terminates.
                self.unannounced |= !known.pod.terminating;
                known.deleted = true;
            }
            if let Some(room) = self.rooms.get_mut(&preemptor) {
                room.deleted.insert(victim.clone());
            }
        }
        let failure = fails.then(|| "forbidden".into());
        self.tell(Change::VictimHandled { preemptor, victim, failure })
    }

    /// Extenders answer one question. Of nodes they leave one at least: who is turned down by them
    /// everywhere waits although plugins would let it pass.
    fn answer_extenders(&mut self, which: usize, fails: bool, leave: u64) -> Result<(), String> {
        let Some(which) = which.checked_rem(self.questions.len()) else { return Ok(()) };
        let stays = |place: usize| leave >> (place % 64) & 1 == 1;
        match self.questions.remove(which) {
            Command::Consult { pod, ticket, nodes, .. } => {
                let any_stays = (0..nodes.len()).any(stays);
                let nodes = nodes.into_iter().enumerate();
                let left = nodes.filter(|(place, _)| stays(*place) || !any_stays);
                let left: Vec<Text> = left.map(|(_, node)| node).collect();
                self.left.insert(pod.uid.clone(), left.clone());
                let passed = left.into_iter().zip([30, 0, 100].into_iter().cycle()).collect();
                let advice = Advice { passed, failed: Vec::new() };
                let advice = if fails { Err("no answer".into()) } else { Ok(advice) };
                self.tell(Change::Advised { uid: pod.uid, ticket, advice })
            }
            Command::ConsultOnVictims { pod, ticket, candidates, .. } => {
                let left = candidates.into_iter().enumerate().filter(|(place, _)| stays(*place));
                let left = left.map(|(_, candidate)| candidate).collect();
                let candidates = if fails { Err("no answer".into()) } else { Ok(left) };
                self.tell(Change::VictimsAdvised { uid: pod.uid, ticket, candidates })
            }
            other => Err(format!("{other:?} is no question")),
        }
    }

    /// Whether extenders were asked about a node that is taken, if they have a say.
    fn check_left(&self, uid: &Uid, node: &Text) -> Result<(), String> {
        let Some(known) = self.known.get(uid) else { return Ok(()) };
        let concerns = known.pod.spec.requests.scalars.iter().any(|(name, _)| **name == *GPU);
        if concerns && !self.left.get(uid).is_some_and(|left| left.contains(node)) {
            return Err(format!("extenders did not leave {node} for {uid}"));
        }
        Ok(())
    }

    fn wait(&mut self, milliseconds: i64) -> Result<(), String> {
        self.now += milliseconds * MILLISECOND;
        self.tell(Change::Tick)
    }

    /// Tells what upstream has no event for.
    fn tell_quietly(&mut self, change: Change) -> Result<(), String> {
        self.unannounced = true;
        self.tell(change)
    }

    /// Lets so much time pass that pods are tried which wait for an event that never comes.
    pub(crate) fn wait_very_long(&mut self) -> Result<(), String> {
        self.wait(VERY_LONG)
    }

    /// Tells both engines, which must want the same, and takes down what they want.
    fn tell(&mut self, change: Change) -> Result<(), String> {
        let mut commands = Vec::new();
        self.engine.apply(change.clone(), self.now, &mut commands);
        let mut twin_commands = Vec::new();
        self.twin.apply(change, self.now, &mut twin_commands);
        if commands != twin_commands {
            return Err(format!("commands {commands:?}, of the twin {twin_commands:?}"));
        }
        self.wanted.extend_from_slice(&commands);
        commands.into_iter().try_for_each(|command| self.take_down(command))
    }

    /// What the engines wanted, for whoever looks for the reason of a failure.
    pub(crate) fn history(&self) -> String {
        let lines = self.wanted.iter().map(|command| format!("  {command:?}"));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn take_down(&mut self, command: Command) -> Result<(), String> {
        match command {
            Command::Bind { pod, node, resource_version, .. } => {
                if self.binds.iter().any(|bind| bind.uid == pod.uid) {
                    return Err(format!("{pod:?} is to be bound while it is being bound"));
                }
                self.hold(&pod.uid, &node)?;
                let shown = &self.known[&pod.uid].pod.resource_version;
                if resource_version != *shown {
                    return Err(format!("{pod:?} is bound as of {resource_version}, not {shown}"));
                }
                self.binds.push(Bind { uid: pod.uid, node, landed: None });
            }
            Command::PrepareVolumes { pod, ticket, node, requests, .. } => {
                self.hold(&pod.uid, &node)?;
                if let Some(known) = self.known.get_mut(&pod.uid) {
                    known.ticket = Some(ticket);
                }
                self.preparations.push(Preparation { uid: pod.uid, ticket, requests });
            }
            Command::Nominate { pod, node }
            | Command::ReportFailure { pod, nominate: Some(node), .. } => {
                let held = self.known.get(&pod.uid).is_some_and(|known| known.held.is_some());
                self.nominations.decide(&pod.uid, node, held);
            }
            Command::ReportScheduled { pod, node } => {
                let held = self.known.get(&pod.uid).and_then(|known| known.held.as_ref());
                if held != Some(&node) {
                    return Err(format!("{pod:?} is said to be on {node}, but is on {held:?}"));
                }
            }
            Command::ReportPreempted { victim, .. } => {
                let known = self.known.get_mut(&victim.uid).filter(|known| !known.bound);
                let Some(known) = known.filter(|known| known.held.is_some()) else {
                    return Err(format!("{victim:?} is not on its way to a node"));
                };
                (known.held, known.ticket) = (None, None);
            }
            Command::Evict { victim, preemptor, node } => {
                self.check_room_for(&preemptor.uid, &node)?;
                if self.known.get(&victim.uid).is_none_or(|known| known.node().is_none()) {
                    return Err(format!("{victim:?} has no place to give up"));
                }
                let (victim, preemptor) = (victim.uid, preemptor.uid);
                self.evictions.push(Eviction { victim, preemptor });
            }
            question @ (Command::Consult { .. } | Command::ConsultOnVictims { .. }) => {
                self.questions.push(question);
            }
            Command::ReportFailure { nominate: None, .. } | Command::Warn { .. } => {}
        }
        Ok(())
    }

    /// A place is held for a pod: a new one, or the one that is held already.
    fn hold(&mut self, uid: &Uid, node: &Text) -> Result<(), String> {
        let Some(known) = self.known.get_mut(uid) else {
            return Err(format!("{uid} is not known"));
        };
        if known.bound || !known.pod.node.is_empty() {
            return Err(format!("{uid} is to be bound a second time"));
        }
        match &known.held {
            None => {
                known.held = Some(node.clone());
                self.nominations.forget(uid);
                self.check_left(uid, node)?;
                self.check_room(uid)
            }
            Some(held) if held == node => Ok(()),
            Some(held) => Err(format!("{uid} is held on {held} but bound to {node}")),
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
fn renewed(pod: Pod) -> Pod {
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

fn attachment(volume: &str, node: usize) -> Text {
    format!("{volume}-{}", node_name(node)).into()
}
