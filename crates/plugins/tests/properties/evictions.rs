//! Full nodes and preemptors: in whatever order evictions are answered and shown, no more victims are
//! deleted than the preemptors need.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use engine::change::Change;
use engine::command::Command;
use engine::engine::{Engine, Settings};
use engine::object::{Node, Pod, PodSpec, Resources, Text, Uid};
use plugins::registry::Registry;
use proptest::prelude::*;

const MILLISECOND: i64 = 1_000_000;
const CORES: i64 = 4000;

/// Size of a case.
#[derive(Clone, Copy, Debug)]
struct ClusterSize {
    nodes: usize,
    /// Pods on each node, which fill it together.
    victims: usize,
    /// Pods that need a whole node each.
    preemptors: usize,
    /// Pods that fit as soon as a victim is gone, and never preempt.
    small: usize,
}

/// An eviction without an answer so far.
struct PendingDeletion {
    victim: Uid,
    preemptor: Uid,
}

/// An API server and an engine; each step of the test moves one part of them forward.
struct FullCluster {
    engine: Engine,
    now: i64,
    pods: BTreeMap<Uid, Pod>,
    deletions: Vec<PendingDeletion>,
    /// Answers that the engine has not received.
    answers: Vec<Change>,
    /// Terminating pods.
    terminating: Vec<Uid>,
    /// Nominations that are not written, in order.
    writes: VecDeque<(Uid, Text)>,
    /// Changes that the watch has not shown, in order.
    shown: VecDeque<Change>,
    deleted: BTreeSet<Uid>,
    /// The nodes from which victims were evicted, by preemptor.
    eviction_targets: BTreeMap<Uid, BTreeSet<Text>>,
    bound: BTreeMap<Uid, Text>,
}

impl FullCluster {
    fn new(size: ClusterSize) -> Self {
        let configuration = api::config::defaults(api::config::Gates::default());
        let profiles =
            Registry::default().profiles(&configuration).expect("the defaults are right");
        let mut cluster = Self {
            engine: Engine::new(profiles, Settings::default()),
            now: 1_000_000 * MILLISECOND,
            pods: BTreeMap::new(),
            deletions: Vec::new(),
            answers: Vec::new(),
            terminating: Vec::new(),
            writes: VecDeque::new(),
            shown: VecDeque::new(),
            deleted: BTreeSet::new(),
            eviction_targets: BTreeMap::new(),
            bound: BTreeMap::new(),
        };
        for number in 0..size.nodes {
            let name = format!("n{number}");
            let allocatable = amounts(CORES);
            cluster
                .apply(Change::Node(Node { allocatable, ..engine::testing::node(&name) }.into()));
            for victim in 0..size.victims {
                let milli = CORES / size.victims as i64;
                let low = pod(&format!("low-{number}-{victim}"), milli, 0);
                cluster.create_pod(Pod { node: (&*name).into(), start_time: Some(1), ..low });
            }
        }
        for number in 0..size.preemptors {
            cluster.create_pod(pod(&format!("high-{number}"), CORES, 10));
        }
        for number in 0..size.small {
            let mut small = pod(&format!("small-{number}"), 1000, 5);
            small.spec_mut().never_preempts = true;
            cluster.create_pod(small);
        }
        cluster
    }

    fn create_pod(&mut self, pod: Pod) {
        self.pods.insert(pod.uid.clone(), pod.clone());
        self.apply(Change::Pod(Box::new(pod)));
    }

    fn apply(&mut self, change: Change) {
        self.act(|engine, now, commands| engine.apply(change, now, commands));
    }

    fn act(&mut self, act: impl FnOnce(&mut Engine, i64, &mut Vec<Command>)) {
        let mut commands = Vec::new();
        act(&mut self.engine, self.now, &mut commands);
        for command in commands {
            self.record_command(command);
        }
    }

    fn record_command(&mut self, command: Command) {
        match command {
            Command::Bind { pod, node, .. } => {
                self.bound.insert(pod.uid.clone(), node.clone());
                self.change(&pod.uid, |pod| pod.node = node);
                self.answers.push(Change::Bound { uid: pod.uid, failure: None });
            }
            Command::Nominate { pod, node }
            | Command::ReportFailure { pod, nominate: Some(node), .. } => {
                self.writes.push_back((pod.uid, node));
            }
            Command::DeleteVictim { victim, preemptor, node } => {
                self.deleted.insert(victim.uid.clone());
                self.eviction_targets.entry(preemptor.uid.clone()).or_default().insert(node);
                self.deletions
                    .push(PendingDeletion { victim: victim.uid, preemptor: preemptor.uid });
            }
            _ => {}
        }
    }

    /// Changes a pod on the API server; the watch shows it later.
    fn change(&mut self, uid: &Uid, change: impl FnOnce(&mut Pod)) {
        if let Some(pod) = self.pods.get_mut(uid) {
            change(pod);
            self.shown.push_back(Change::Pod(Box::new(pod.clone())));
        }
    }

    /// Moves one part forward: answers an eviction, delivers an answer, removes a terminating pod, writes
    /// a nomination, shows a change, lets time pass, or schedules.
    fn step(&mut self, kind: u8, which: usize) {
        match kind {
            0 => {
                if let Some(place) = which.checked_rem(self.deletions.len()) {
                    let PendingDeletion { victim, preemptor } = self.deletions.swap_remove(place);
                    self.change(&victim, |pod| pod.preempted = true);
                    self.change(&victim, |pod| pod.terminating = true);
                    if self.pods.contains_key(&victim) && !self.terminating.contains(&victim) {
                        self.terminating.push(victim.clone());
                    }
                    self.answers.push(Change::VictimHandled { preemptor, victim, failure: None });
                }
            }
            1 => {
                if let Some(place) = which.checked_rem(self.answers.len()) {
                    let answer = self.answers.swap_remove(place);
                    self.apply(answer);
                }
            }
            2 => {
                if let Some(place) = which.checked_rem(self.terminating.len()) {
                    let uid = self.terminating.swap_remove(place);
                    self.pods.remove(&uid);
                    self.shown.push_back(Change::PodGone { uid });
                }
            }
            3 => {
                if let Some((uid, node)) = self.writes.pop_front()
                    && self.pods.get(&uid).is_some_and(|pod| pod.nominated_node != node)
                {
                    self.change(&uid, |pod| pod.nominated_node = node);
                }
            }
            4 | 5 => {
                if let Some(change) = self.shown.pop_front() {
                    self.apply(change);
                }
            }
            6 => {
                self.now += which as i64 * 20 * MILLISECOND;
                self.act(Engine::tick);
            }
            _ => self.act(|engine, now, commands| {
                let _ = (0..=which % 3).all(|_| engine.schedule(now, commands));
            }),
        }
    }

    /// Repeats all steps until nothing is pending.
    fn settle(&mut self) {
        let idle = |cluster: &Self| {
            cluster.deletions.is_empty()
                && cluster.answers.is_empty()
                && cluster.terminating.is_empty()
                && cluster.writes.is_empty()
                && cluster.shown.is_empty()
        };
        for _ in 0..30 {
            while !idle(self) || self.engine.queue().has_next() {
                (0..=7).for_each(|kind| self.step(kind, 0));
            }
            self.now += 2000 * MILLISECOND;
            self.act(Engine::tick);
        }
    }

    fn check(&mut self, size: ClusterSize) -> Result<(), String> {
        self.engine.audit()?;
        let needed = size.preemptors.min(size.nodes) * size.victims;
        if self.deleted.len() != needed {
            return Err(format!("{} pods were deleted, not {needed}", self.deleted.len()));
        }
        if let Some((preemptor, nodes)) =
            self.eviction_targets.iter().find(|(_, nodes)| nodes.len() != 1)
        {
            return Err(format!("victims of {preemptor} were evicted from {nodes:?}"));
        }
        let bound = self.bound.keys().filter(|uid| uid.to_string().starts_with("high")).count();
        if bound != size.preemptors.min(size.nodes) {
            return Err(format!("{bound} of {} pods were bound", size.preemptors));
        }
        Ok(())
    }

    /// A scheduler that starts now and lists kinds in any order has the same nominations.
    fn check_restart(&self, pods_first: bool) -> Result<(), String> {
        let mut other = Self::new(ClusterSize { nodes: 0, victims: 1, preemptors: 0, small: 0 });
        let state = self.engine.state();
        let nodes = state.nodes.present().iter().map(|node| state.nodes.object(node).clone());
        let nodes: Vec<Change> = nodes.map(|node| Change::Node(node.into())).collect();
        let pods = self.pods.values().map(|pod| Change::Pod(Box::new(pod.clone()))).collect();
        let kinds: [Vec<Change>; 2] = if pods_first { [pods, nodes] } else { [nodes, pods] };
        kinds.into_iter().flatten().for_each(|change| other.apply(change));
        other.engine.audit()?;
        for pod in self.pods.values().filter(|pod| pod.node.is_empty()) {
            let engine = &other.engine;
            let index = engine.state().pods.find(&pod.uid).ok_or("a pod is not known")?;
            let node = engine.nominator().node_of(index);
            let node = node.map_or("", |node| engine.state().nodes.name(node));
            if node != pod.nominated_node {
                return Err(format!("{} is nominated for {node:?} after a restart", pod.uid));
            }
        }
        Ok(())
    }
}

fn amounts(cpu: i64) -> Resources {
    Resources { cpu, memory: 1 << 30, ephemeral: 0, scalars: Box::default() }
}

fn pod(name: &str, milli: i64, priority: i32) -> Pod {
    let requests = Resources { memory: 0, ..amounts(milli) };
    let spec = PodSpec {
        scheduler_name: "default-scheduler".into(),
        requests: requests.clone(),
        requests_on_node: requests,
        ..PodSpec::default()
    };
    Pod { uid: name.into(), priority, spec: spec.into(), ..engine::testing::pod(name) }
}

fn size() -> impl Strategy<Value = ClusterSize> {
    (1..=8_usize, 1..=4_usize, 1..=8_usize, 0..=4_usize).prop_map(
        |(nodes, victims, preemptors, small)| ClusterSize { nodes, victims, preemptors, small },
    )
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn no_more_victims_are_deleted_than_preemptors_need(
        size in size(),
        steps in prop::collection::vec((0..=9_u8, 0..64_usize), 1..200),
        pods_first in any::<bool>(),
    ) {
        let mut cluster = FullCluster::new(size);
        for (kind, which) in steps {
            cluster.step(kind, which);
            cluster.engine.audit().map_err(TestCaseError::fail)?;
        }
        cluster.check_restart(pods_first).map_err(TestCaseError::fail)?;
        cluster.settle();
        cluster.check(size).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn many_preemptors_at_once_delete_no_more_than_they_need() {
    for (nodes, preemptors) in [(50, 20), (50, 30), (300, 200)] {
        let size = ClusterSize { nodes, victims: 1, preemptors, small: 5 };
        let mut cluster = FullCluster::new(size);
        let mut number = 7_u64;
        for _ in 0..10 * nodes {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (kind, which) = ((number >> 33) % 10, (number >> 40) as usize % 1024);
            cluster.step(kind as u8, which % 64);
        }
        cluster.settle();
        assert_eq!(cluster.check(size), Ok(()), "{nodes} nodes, {preemptors} preemptors");
    }
}
