//! Extenders of a configuration, with the default plugins. Their calls are tested in the engine.

use api::config::{Configuration, Extender, Gates, ManagedResource};
use engine::change::{Change, ExtenderVerdict, FailedNode, NodeVictims};
use engine::command::{Command, PodRef};
use engine::engine::{Engine, Settings};
use engine::object::{ClusterObject, Node, Pod, PodSpec, Resources, Text, Uid};
use engine::queue::QueueStage;
use engine::testing::node;
use plugins::registry::Registry;

const GPU: &str = "example.com/gpu";
const SECOND: i64 = 1_000_000_000;

fn extender() -> Extender {
    Extender {
        url_prefix: "http://127.0.0.1:1".into(),
        filter_verb: "filter".into(),
        prioritize_verb: "prioritize".into(),
        weight: 1,
        managed_resources: vec![ManagedResource { name: GPU.into(), ignored_by_scheduler: false }],
        ..Extender::default()
    }
}

/// A pod whose uid is its name.
fn pod(name: &str) -> Pod {
    Pod { uid: name.into(), ..engine::testing::pod(name) }
}

/// An engine and its time.
struct ExtenderHarness {
    engine: Engine,
    now: i64,
    commands: Vec<Command>,
}

impl ExtenderHarness {
    fn new(extenders: Vec<Extender>, nodes: &[&str]) -> Self {
        let defaults = api::config::defaults(Gates::default());
        let configuration = Configuration { extenders, ..defaults };
        let profiles =
            Registry::default().profiles(&configuration).expect("the configuration is valid");
        let engine = Engine::new(profiles, Settings::default());
        let mut harness = Self { engine, now: 1000 * SECOND, commands: Vec::new() };
        for name in nodes {
            harness
                .apply(Change::Node(Node { allocatable: amounts(4000, 4), ..node(name) }.into()));
        }
        harness
    }

    /// Applies a change and returns the commands that follow.
    fn apply(&mut self, change: Change) -> Vec<Command> {
        self.step(|engine, now, commands| engine.apply(change, now, commands))
    }

    fn attempt(&mut self, limit: usize) -> Vec<Command> {
        self.step(|engine, now, commands| {
            let _ = (0..limit).all(|_| engine.schedule(now, commands));
        })
    }

    fn step(&mut self, step: impl FnOnce(&mut Engine, i64, &mut Vec<Command>)) -> Vec<Command> {
        step(&mut self.engine, self.now, &mut self.commands);
        self.engine.audit().expect("incremental state equals state from scratch");
        std::mem::take(&mut self.commands)
    }

    fn add(&mut self, pod: Pod) {
        assert_eq!(self.apply(Change::Pod(Box::new(pod))), []);
    }

    fn schedule(&mut self) -> Vec<Command> {
        self.attempt(1000)
    }

    fn advise(
        &mut self,
        (uid, ticket): (Uid, u64),
        verdict: Result<ExtenderVerdict, &str>,
    ) -> Vec<Command> {
        self.apply(Change::ExtendersAnswered { uid, ticket, verdict: verdict.map_err(Text::from) })
    }

    fn place(&self, uid: &str) -> Option<QueueStage> {
        self.engine.queue().stage(self.engine.state().pods.find(&uid.into())?)
    }
}

fn amounts(cpu: i64, gpus: i64) -> Resources {
    let scalars = if gpus == 0 { Box::default() } else { [(GPU.into(), gpus)].into() };
    Resources { cpu, memory: 1 << 30, ephemeral: 0, scalars }
}

fn spec(cpu: i64, gpus: i64) -> PodSpec {
    let requests = Resources { memory: 0, ..amounts(cpu, gpus) };
    PodSpec {
        scheduler_name: "default-scheduler".into(),
        requests: requests.clone(),
        requests_on_node: requests,
        ..PodSpec::default()
    }
}

fn on_gpus(name: &str, cpu: i64) -> Pod {
    Pod { spec: spec(cpu, 1).into(), ..pod(name) }
}

fn passed(nodes: &[(&str, i64)]) -> ExtenderVerdict {
    let passed = nodes.iter().map(|(node, score)| (Text::from(*node), *score)).collect();
    ExtenderVerdict { passed, ..ExtenderVerdict::default() }
}

fn failed(nodes: &[(&str, &str, bool)]) -> ExtenderVerdict {
    let failed = nodes.iter().map(|(node, reason, unresolvable)| FailedNode {
        node: (*node).into(),
        reason: (*reason).into(),
        unresolvable: *unresolvable,
    });
    ExtenderVerdict { failed: failed.collect(), ..ExtenderVerdict::default() }
}

/// Returns pod, ticket and nodes of the only command, which must be an extender call.
fn question(commands: &[Command]) -> ((Uid, u64), Vec<&str>) {
    let [Command::AskExtenders { pod, ticket, extenders, nodes }] = commands else {
        panic!("not one extender call: {commands:?}");
    };
    assert_eq!(**extenders, [0]);
    ((pod.uid.clone(), *ticket), nodes.iter().map(|node| &**node).collect())
}

fn bound(commands: &[Command]) -> Vec<(&str, &str)> {
    let binds = commands.iter().map(|command| match command {
        Command::Bind { pod, node, .. } => (&*pod.name, &**node),
        other => panic!("not a bind: {other:?}"),
    });
    binds.collect()
}

fn failure(commands: &[Command]) -> (&'static str, &str) {
    match commands {
        [Command::ReportFailure { reason, message, .. }] => (reason, message),
        other => panic!("not one failure: {other:?}"),
    }
}

#[test]
fn scores_of_extenders_add_to_those_of_plugins() {
    let mut harness = ExtenderHarness::new(vec![extender()], &["a", "b", "c"]);
    harness.add(on_gpus("p", 100));
    let commands = harness.schedule();
    let (ticket, nodes) = question(&commands);
    assert_eq!(nodes, ["a", "b", "c"]);
    assert_eq!(harness.place("p"), Some(QueueStage::InFlight));
    let commands = harness.advise(ticket, Ok(passed(&[("a", 0), ("b", 10), ("c", 0)])));
    assert_eq!(bound(&commands), [("p", "b")]);
}

#[test]
fn a_pod_that_extenders_turn_down_everywhere_waits_for_anything_to_happen() {
    let mut harness = ExtenderHarness::new(vec![extender()], &["a", "b"]);
    harness.add(on_gpus("p", 100));
    let (ticket, _) = question(&harness.schedule());
    let verdict = failed(&[("a", "gpu is hot", true), ("b", "gpu is gone", true)]);
    let commands = harness.advise(ticket, Ok(verdict));
    let (reason, message) = failure(&commands);
    assert_eq!(reason, "Unschedulable");
    let refusal = "0/2 nodes are available: 1 gpu is gone, 1 gpu is hot.";
    assert!(message.starts_with(refusal), "{message}");
    assert_eq!(harness.place("p"), Some(QueueStage::Unschedulable));
    harness.now += 60 * SECOND;
    let driver = engine::object::volume::CsiDriver { name: "d".into(), ..Default::default() };
    harness.apply(Change::Object(ClusterObject::CsiDriver(driver.into())));
    question(&harness.schedule());
}

#[test]
fn pods_that_do_not_concern_them_go_on() {
    let mut harness = ExtenderHarness::new(vec![extender()], &["a", "b"]);
    harness.add(on_gpus("p", 100));
    question(&harness.schedule());
    harness.add(Pod { spec: spec(100, 0).into(), ..pod("q") });
    assert_eq!(bound(&harness.schedule()).len(), 1);
}

#[test]
fn the_extender_that_binds_is_named() {
    let binder = Extender {
        filter_verb: String::new(),
        prioritize_verb: String::new(),
        bind_verb: "bind".into(),
        ..extender()
    };
    let mut harness = ExtenderHarness::new(vec![binder], &["a"]);
    harness.add(on_gpus("p", 100));
    harness.add(Pod { spec: spec(100, 0).into(), ..pod("q") });
    let commands = harness.schedule();
    let extenders = commands.iter().map(|command| match command {
        Command::Bind { pod, extender, .. } => (&*pod.name, *extender),
        other => panic!("not a bind: {other:?}"),
    });
    assert_eq!(extenders.collect::<Vec<_>>(), [("p", Some(0)), ("q", None)]);
}

/// An extender that only takes part in preemption.
fn preempting_extender() -> Extender {
    Extender {
        filter_verb: String::new(),
        prioritize_verb: String::new(),
        weight: 0,
        preempt_verb: "preempt".into(),
        ..extender()
    }
}

/// A full cluster and a preemptor. Returns the extender call about its candidates.
fn with_extender_call_on_victims() -> (ExtenderHarness, u64, Vec<NodeVictims>) {
    let mut harness = ExtenderHarness::new(vec![preempting_extender()], &["a", "b"]);
    for (name, home) in [("x", "a"), ("y", "b")] {
        harness.add(Pod { spec: spec(3000, 0).into(), node: home.into(), ..pod(name) });
    }
    harness.add(Pod { priority: 10, ..on_gpus("p", 3000) });
    let commands = harness.schedule();
    let [Command::AskExtendersAboutVictims { pod, ticket, extenders, candidates }] = &*commands
    else {
        panic!("not one extender call: {commands:?}");
    };
    assert_eq!((&*pod.name, &**extenders), ("p", &[0][..]));
    let mut candidates = candidates.clone();
    candidates.sort_by(|one, other| one.node.cmp(&other.node));
    (harness, *ticket, candidates)
}

fn evicted(commands: &[Command]) -> Vec<&PodRef> {
    let evictions = commands.iter().filter_map(|command| match command {
        Command::DeleteVictim { victim, .. } => Some(victim),
        _ => None,
    });
    evictions.collect()
}

#[test]
fn extenders_pick_among_the_candidates_of_preemption() {
    let (mut harness, ticket, candidates) = with_extender_call_on_victims();
    let names: Vec<_> = candidates.iter().map(|c| (&*c.node, &*c.victims[0].name)).collect();
    assert_eq!(names, [("a", "x"), ("b", "y")]);
    let left = Ok(vec![candidates[1].clone()]);
    let commands = harness.apply(Change::ExtendersAnsweredAboutVictims {
        uid: "p".into(),
        ticket,
        candidates: left,
    });
    assert_eq!(evicted(&commands), [&candidates[1].victims[0]]);
}

#[test]
fn nobody_is_evicted_from_where_the_pod_no_longer_fits() {
    let (mut harness, ticket, candidates) = with_extender_call_on_victims();
    harness.add(Pod { spec: spec(900, 0).into(), node: "b".into(), priority: 10, ..pod("z") });
    harness.add(Pod { spec: spec(900, 0).into(), node: "b".into(), priority: 10, ..pod("zz") });
    let left = Ok(vec![candidates[1].clone()]);
    let commands = harness.apply(Change::ExtendersAnsweredAboutVictims {
        uid: "p".into(),
        ticket,
        candidates: left,
    });
    assert_eq!(evicted(&commands), [] as [&PodRef; 0]);
    assert!(failure(&commands).1.ends_with("preemption: no candidate node for preemption"));
}

#[test]
fn nobody_is_evicted_when_extenders_leave_no_candidate_or_fail() {
    let (mut harness, ticket, _) = with_extender_call_on_victims();
    let candidates = Ok(Vec::new());
    let commands = harness.apply(Change::ExtendersAnsweredAboutVictims {
        uid: "p".into(),
        ticket,
        candidates,
    });
    assert_eq!(failure(&commands).0, "Unschedulable");
    let (mut harness, ticket, _) = with_extender_call_on_victims();
    let candidates = Err("no answer".into());
    let commands = harness.apply(Change::ExtendersAnsweredAboutVictims {
        uid: "p".into(),
        ticket,
        candidates,
    });
    assert!(failure(&commands).1.contains("no answer"), "{commands:?}");
    assert_eq!(harness.place("p"), Some(QueueStage::Unschedulable));
}
