//! An API server with its pods, and the commands that are not answered yet.

use std::collections::BTreeMap;

use crate::change::{Change, ExtenderVerdict, FailedNode};
use crate::command::Command;
use crate::engine::Settings;
use crate::engine::testing::*;
use crate::framework::Extender;
use crate::index::ResourceIdx;
use crate::object::{Node, Pod, Text, Uid};
use crate::queue::QueueStage;
use crate::testing::labels;

use super::Step;

const GPU: &str = "example.com/gpu";
const NODES: usize = 4;

pub(super) struct World {
    harness: Harness,
    /// Pods as the API server has them.
    pods: BTreeMap<String, Pod>,
    nodes: BTreeMap<String, Node>,
    /// Commands that wait for an answer.
    open: Vec<Command>,
    /// Answers that were given.
    given: Vec<Change>,
    /// Pods reported as scheduled since the last answer to a bind.
    reported: Vec<Uid>,
    /// All commands so far.
    pub(super) issued: Vec<String>,
    /// Pods that were created so far.
    created: usize,
}

impl World {
    pub(super) fn new(seed: Option<u64>) -> Self {
        let managed = vec![GPU.into()];
        let extender = Extender { managed, filters: true, preempts: true, ..Extender::default() };
        let settings = Settings { seed, ..Settings::default() };
        Self {
            harness: Harness::with(vec![extender], settings, &[]),
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            open: Vec::new(),
            given: Vec::new(),
            reported: Vec::new(),
            issued: Vec::new(),
            created: 0,
        }
    }

    pub(super) fn make(&mut self, step: &Step) {
        match *step {
            Step::AddPod { cpu, priority, traits } => self.add_pod(cpu, priority, traits),
            Step::Show { pod } => self.change_pod(pod, |_| ()),
            Step::Ungate { pod } => self.change_pod(pod, |pod| pod.gates = Box::default()),
            Step::Relabel { pod } => self.change_pod(pod, |pod| {
                pod.labels =
                    if pod.labels.is_empty() { labels(&[("a", "b")]) } else { labels(&[]) };
            }),
            Step::Terminate { pod } => self.change_pod(pod, |pod| pod.terminating = true),
            Step::Delete { pod } => {
                if let Some(name) = self.pod_name(pod) {
                    self.pods.remove(&name);
                    self.tell(gone(&name));
                }
            }
            Step::BindElsewhere { pod, node } => {
                let node = format!("n{}", node % NODES);
                self.change_pod(pod, |pod| {
                    if pod.node.is_empty() && !pod.terminating {
                        pod.node = node.into();
                    }
                });
            }
            Step::SetNode { node, cpu, cordoned } => {
                let name = format!("n{}", node % NODES);
                let node = Node { unschedulable: cordoned, ..node_with(&name, cpu) };
                self.nodes.insert(name, node.clone());
                self.tell(Change::Node(node.into()));
            }
            Step::RemoveNode { node } => {
                let name = format!("n{}", node % NODES);
                self.nodes.remove(&name);
                self.tell(Change::NodeGone(name.into()));
            }
            Step::Schedule { limit } => self.schedule(limit),
            Step::Wait { seconds } => {
                self.harness.now += seconds * SECOND;
                self.tick();
            }
            Step::Permit { pod, allow } => {
                let waiting = self.waiting_at_permit();
                if let Some(place) = pod.checked_rem(waiting.len()) {
                    let name = &waiting[place];
                    let denied = (!allow).then(|| Text::from("denied"));
                    let (uid, plugin) = (name.as_str().into(), "PermitA".into());
                    self.give(Change::Permission { uid, plugin, denied });
                }
            }
            Step::Answer { command, outcome } => {
                if let Some(place) = command.checked_rem(self.open.len()) {
                    let command = self.open.remove(place);
                    self.answer(command, outcome);
                }
            }
            Step::Repeat { answer } => {
                if let Some(place) = answer.checked_rem(self.given.len()) {
                    // A second answer about a pod that is being bound anew would be taken for the first.
                    if !matches!(self.given[place], Change::Bound { .. }) {
                        self.tell(self.given[place].clone());
                    }
                }
            }
        }
    }

    fn add_pod(&mut self, cpu: i64, priority: i32, traits: u8) {
        self.created += 1;
        let name = format!("p{}", self.created);
        let mut pod = important(&name, cpu, priority);
        if traits & 0b11 == 1 {
            pod = with_claim(pod);
        }
        if traits & 0b1100 == 0b0100 {
            self.harness.wait_at("PermitA", &name, MINUTE);
        }
        if traits & 0b11_0000 == 0b01_0000 {
            pod.spec_mut().requests.scalars = [(Text::from(GPU), 1)].into();
        }
        match traits >> 6 {
            0 => pod.gates = ["later".into()].into(),
            1 => pod.nominated_node = format!("n{}", self.created % NODES).into(),
            _ => {}
        }
        self.pods.insert(name, pod.clone());
        self.tell(Change::Pod(Box::new(pod)));
    }

    fn pod_name(&self, which: usize) -> Option<String> {
        let place = which.checked_rem(self.pods.len())?;
        self.pods.keys().nth(place).cloned()
    }

    /// Changes a pod of the API server, and has the watch show it.
    fn change_pod(&mut self, which: usize, change: impl FnOnce(&mut Pod)) {
        let Some(name) = self.pod_name(which) else { return };
        let pod = self.pods.get_mut(&name).unwrap();
        change(pod);
        let pod = pod.clone();
        self.tell(Change::Pod(Box::new(pod)));
    }

    fn tell(&mut self, change: Change) {
        let issued = self.harness.tell(change);
        self.take_commands(issued);
    }

    fn tick(&mut self) {
        let issued = self.harness.tick();
        self.take_commands(issued);
    }

    fn take_commands(&mut self, issued: Vec<String>) {
        self.issued.extend(issued);
        for command in std::mem::take(&mut self.harness.commands) {
            let nominated = match &command {
                Command::Nominate { pod, node } => Some((pod, node)),
                Command::ReportFailure { pod, nominate: Some(node), .. } => Some((pod, node)),
                _ => None,
            };
            if let Some((pod, node)) = nominated
                && let Some(known) = self.pods.get_mut(&*pod.name)
            {
                known.nominated_node = node.clone();
            }
            if let Command::Bind { pod, .. } | Command::PrepareVolumes { pod, .. } = &command {
                let known = &self.pods[&*pod.name];
                assert!(!known.terminating, "{} is being deleted", pod.name);
            }
            match command {
                Command::ReportScheduled { pod, .. } => self.reported.push(pod.uid),
                Command::Bind { .. }
                | Command::PrepareVolumes { .. }
                | Command::AskExtenders { .. }
                | Command::AskExtendersAboutVictims { .. }
                | Command::DeleteVictim { .. } => self.open.push(command),
                _ => {}
            }
        }
    }

    fn give(&mut self, answer: Change) {
        self.given.push(answer.clone());
        self.tell(answer);
    }

    /// Makes attempts, and checks that no node is overcommitted by them.
    fn schedule(&mut self, limit: usize) {
        let before = self.open.len();
        let issued = self.harness.attempt(limit);
        self.take_commands(issued);
        for command in &self.open[before..] {
            let Command::Bind { node, pod, .. } = command else { continue };
            let nodes = &self.harness.engine.core.state.nodes;
            let node = nodes.find(node).expect("pods are bound to nodes that exist");
            assert!(self.nodes.get(nodes.name(node)).is_some_and(|node| !node.unschedulable));
            let requested = nodes.requested_of(ResourceIdx::CPU, node);
            let allocatable = nodes.allocatable_of(ResourceIdx::CPU, node);
            assert!(requested <= allocatable, "{} overcommits its node", pod.name);
        }
    }

    fn waiting_at_permit(&self) -> Vec<String> {
        let engine = &self.harness.engine;
        let pods = engine.core.state.waiting_on_permit();
        pods.map(|pod| engine.core.state.pods.get(pod).name.to_string()).collect()
    }

    /// Answers a command. Outcome 0 is success.
    fn answer(&mut self, command: Command, outcome: u8) {
        let failure = (outcome % 4 == 3).then(|| Text::from("refused"));
        match command {
            Command::Bind { pod, node, .. } => self.answer_bind(&pod.name, node, outcome),
            Command::PrepareVolumes { pod, ticket, .. } => {
                self.give(Change::VolumesReady { uid: pod.uid, ticket, failure });
            }
            Command::AskExtenders { pod, ticket, nodes, .. } => {
                let verdict = match outcome % 4 {
                    0 | 1 => Ok(ExtenderVerdict {
                        passed: nodes.into_iter().map(|node| (node, 1)).collect(),
                        ..ExtenderVerdict::default()
                    }),
                    2 => {
                        let reject = |node| FailedNode {
                            node,
                            reason: "no".into(),
                            unresolvable: outcome % 8 == 2,
                        };
                        let failed = nodes.into_iter().map(reject).collect();
                        Ok(ExtenderVerdict { failed, ..ExtenderVerdict::default() })
                    }
                    _ => Err("timeout".into()),
                };
                self.give(Change::ExtendersAnswered { uid: pod.uid, ticket, verdict });
            }
            Command::AskExtendersAboutVictims { pod, ticket, mut candidates, .. } => {
                candidates.truncate(if outcome % 4 == 2 { 0 } else { 2 });
                let candidates = if outcome % 4 == 3 { Err("no".into()) } else { Ok(candidates) };
                let uid = pod.uid;
                self.give(Change::ExtendersAnsweredAboutVictims { uid, ticket, candidates });
            }
            Command::DeleteVictim { victim, preemptor, .. } => {
                if failure.is_none()
                    && let Some(known) = self.pods.get_mut(&*victim.name)
                {
                    (known.terminating, known.preempted) = (true, true);
                }
                let (preemptor, victim) = (preemptor.uid, victim.uid);
                self.give(Change::VictimHandled { preemptor, victim, failure });
            }
            _ => {}
        }
    }

    fn answer_bind(&mut self, name: &str, node: Text, outcome: u8) {
        let uid: Uid = name.into();
        let known = self.pods.get_mut(name);
        let bindable = known.filter(|pod| pod.node.is_empty() && !pod.terminating);
        let Some(pod) = bindable.filter(|_| outcome % 4 != 3) else {
            return self.give(Change::Bound { uid, failure: Some("409 Conflict".into()) });
        };
        pod.node = node;
        let shown = Change::Pod(Box::new(pod.clone()));
        // The watch may overtake the answer.
        if outcome % 4 == 1 {
            self.tell(shown);
        }
        assert_eq!(self.reported, [], "only the answer to a bind reports a pod");
        self.give(Change::Bound { uid: uid.clone(), failure: None });
        assert_eq!(std::mem::take(&mut self.reported), [uid], "each bind is reported once");
    }

    /// Answers everything with success until no more happens, and checks that every pod is bound, gated or
    /// rejected for a reason.
    pub(super) fn settle(&mut self) {
        for _ in 0..100 {
            let before = self.issued.len();
            self.round();
            let has_placed = self.issued[before..]
                .iter()
                .any(|text| !text.starts_with("Unschedulable") && !text.starts_with("nominate"));
            if !has_placed && self.open.is_empty() && self.waiting_at_permit().is_empty() {
                return self.check_settled();
            }
        }
        panic!("it goes on and on: {:?}", &self.issued[self.issued.len() - 20..]);
    }

    fn round(&mut self) {
        for name in self.pods.keys().cloned().collect::<Vec<_>>() {
            if self.pods[&name].terminating {
                self.pods.remove(&name);
                self.tell(gone(&name));
            } else {
                let pod = self.pods[&name].clone();
                self.tell(Change::Pod(Box::new(pod)));
            }
        }
        while !self.open.is_empty() || !self.waiting_at_permit().is_empty() {
            for command in std::mem::take(&mut self.open) {
                self.answer(command, 0);
            }
            for name in self.waiting_at_permit() {
                self.tell(allowed(&name, "PermitA"));
            }
        }
        // Longer than pods wait for an event, so that those that were denied or failed are tried again.
        self.harness.now += 400 * SECOND;
        self.tick();
        self.schedule(1000);
    }

    fn check_settled(&mut self) {
        for (name, pod) in &self.pods {
            let (node, stage) = (self.harness.node_of(name), self.harness.stage(name));
            if pod.node.is_empty() {
                let waits = matches!(
                    stage,
                    Some(QueueStage::Unschedulable | QueueStage::Gated | QueueStage::ErrorBackoff)
                );
                assert!(waits && node.is_none(), "{name} is in {stage:?} and on {node:?}");
                assert_eq!(stage == Some(QueueStage::Gated), !pod.gates.is_empty(), "{name}");
            } else {
                assert_eq!((node, stage), (Some(&*pod.node), None), "{name}");
            }
        }
        assert_eq!(self.harness.engine.core.state.pods.count(), self.pods.len());
        self.harness.engine.audit_waiting().unwrap();
    }
}
