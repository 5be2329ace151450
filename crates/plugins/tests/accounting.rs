//! The requests of pods on nodes are summed exactly, even beyond 64 bits.

use engine::change::Change;
use engine::command::Command;
use engine::engine::{Engine, Settings};
use engine::index::ResourceIdx;
use engine::object::{Pod, PodSpec, Resources, Text};
use engine::testing::node;
use plugins::registry::Registry;

const GIB: i64 = 1 << 30;
/// `8Ei`, which is lowered to the largest 64-bit value.
const HUGE: i64 = i64::MAX;

/// An engine and its time.
struct AccountingHarness {
    engine: Engine,
    now: i64,
}

impl AccountingHarness {
    /// Creates an engine with nodes of 4 cores and 8 GiB.
    fn new(nodes: &[&str]) -> Self {
        let defaults = api::config::defaults(api::config::Gates::default());
        let profiles = Registry::default().profiles(&defaults).expect("the defaults are right");
        let mut harness = Self { engine: Engine::new(profiles, Settings::default()), now: 0 };
        for name in nodes {
            harness.apply(Change::Node(node(name).into()));
        }
        harness
    }

    /// Applies a change and audits the engine.
    fn apply(&mut self, change: Change) -> Vec<Command> {
        self.step(|engine, now, commands| engine.apply(change, now, commands))
    }

    fn attempt(&mut self, limit: usize) -> Vec<Command> {
        self.step(|engine, now, commands| {
            let _ = (0..limit).all(|_| engine.schedule(now, commands));
        })
    }

    fn step(&mut self, step: impl FnOnce(&mut Engine, i64, &mut Vec<Command>)) -> Vec<Command> {
        let mut commands = Vec::new();
        self.now += 60_000_000_000;
        step(&mut self.engine, self.now, &mut commands);
        self.engine.audit().expect("incremental state equals state from scratch");
        commands
    }

    fn add_pod(&mut self, name: &str, node: &str, memory: i64) {
        self.apply(Change::Pod(Box::new(pod(name, node, memory))));
    }

    fn remove_pod(&mut self, name: &str) {
        self.apply(Change::PodGone { uid: name.into() });
    }

    /// Schedules all pods that fit. Returns the nodes to which they are bound.
    fn bound(&mut self) -> Vec<Text> {
        let commands = self.attempt(100);
        let bound = commands.into_iter().filter_map(|command| match command {
            Command::Bind { node, .. } => Some(node),
            _ => None,
        });
        bound.collect()
    }

    fn requested(&self, node: &str) -> i64 {
        let nodes = &self.engine.state().nodes;
        nodes.requested_of(ResourceIdx::MEMORY, nodes.find(node).expect("the node is there"))
    }
}

fn spec(memory: i64) -> PodSpec {
    let requests = Resources { memory, ..Resources::default() };
    PodSpec {
        scheduler_name: "default-scheduler".into(),
        requests_for_score: requests.clone(),
        requests_on_node: requests.clone(),
        requests,
        non_zero_cpu: 100,
        non_zero_memory: memory,
        ..PodSpec::default()
    }
}

/// A pod whose uid is its name.
fn pod(name: &str, node: &str, memory: i64) -> Pod {
    Pod {
        uid: name.into(),
        node: node.into(),
        spec: spec(memory).into(),
        ..engine::testing::pod(name)
    }
}

#[test]
fn a_pod_that_asked_for_8ei_and_left_leaves_its_node_as_full_as_before() {
    let mut harness = AccountingHarness::new(&["n"]);
    harness.add_pod("resident", "n", 6 * GIB);
    harness.add_pod("huge", "n", HUGE);
    harness.remove_pod("huge");
    assert_eq!(harness.requested("n"), 6 * GIB);
    harness.add_pod("next", "", 6 * GIB);
    assert_eq!(harness.bound(), [""; 0]);
    harness.remove_pod("resident");
    assert_eq!(harness.bound(), ["n"]);
}

#[test]
fn a_node_with_several_huge_pods_is_full_until_the_last_of_them_left() {
    let mut harness = AccountingHarness::new(&["n"]);
    for name in ["a", "b", "c"] {
        harness.add_pod(name, "n", HUGE);
    }
    harness.add_pod("next", "", 1);
    for name in ["a", "b", "c"] {
        assert_eq!((harness.requested("n"), harness.bound()), (HUGE, vec![]));
        harness.remove_pod(name);
    }
    assert_eq!((harness.requested("n"), harness.bound()), (0, vec!["n".into()]));
}

#[test]
fn a_pod_that_is_resized_to_8ei_and_back_counts_for_what_it_asks_for() {
    let mut harness = AccountingHarness::new(&["n"]);
    harness.add_pod("resident", "n", 6 * GIB);
    harness.add_pod("resized", "n", GIB);
    for (memory, requested) in [(HUGE, HUGE), (HUGE - 1, HUGE), (GIB, 7 * GIB)] {
        harness.add_pod("resized", "n", memory);
        assert_eq!(harness.requested("n"), requested);
    }
}

#[test]
fn a_node_that_gets_the_slot_of_one_with_a_huge_pod_begins_empty() {
    let mut harness = AccountingHarness::new(&["a"]);
    harness.add_pod("resident", "a", GIB);
    harness.add_pod("huge", "a", HUGE);
    harness.remove_pod("huge");
    harness.remove_pod("resident");
    harness.apply(Change::NodeGone("a".into()));
    harness.apply(Change::Node(node("b").into()));
    assert_eq!(harness.requested("b"), 0);
}

#[test]
fn a_node_with_a_huge_pod_is_liked_less_than_an_empty_one() {
    // Pods without a memory request fit beside it, and are scored by the default request.
    let mut harness = AccountingHarness::new(&["huge", "empty"]);
    harness.add_pod("huge", "huge", HUGE);
    harness.add_pod("huge-too", "huge", HUGE);
    let small = Pod {
        spec: PodSpec {
            requests: Resources { cpu: 100, ..Resources::default() },
            requests_on_node: Resources { cpu: 100, ..Resources::default() },
            requests_for_score: Resources { cpu: 100, memory: 200 << 20, ..Resources::default() },
            ..spec(0)
        }
        .into(),
        ..pod("small", "", 0)
    };
    harness.apply(Change::Pod(Box::new(small)));
    assert_eq!(harness.bound(), ["empty"]);
}

#[test]
fn nothing_is_kept_for_each_node_of_what_pods_ask_nothing_of() {
    let mut harness = AccountingHarness::new(&["n"]);
    let name = |number: i64| Text::from(format!("example.com/r{number:04}"));
    let scalars: Box<[_]> = (0..1000).map(|number| (name(number), 0)).collect();
    let mut none = spec(0);
    none.requests_on_node.scalars = scalars.clone();
    none.requests.scalars = scalars;
    let none = Pod { spec: none.into(), ..pod("none", "n", 0) };
    harness.apply(Change::Pod(Box::new(none)));
    let state = harness.engine.state();
    let last = state.resources.get(&name(999)).expect("the name is known");
    assert!(state.nodes.requested(last).is_none(), "there is no column for it");
}

#[test]
fn a_pod_that_is_too_large_is_not_scheduled_and_people_are_told_why() {
    let reason = "spec.tolerations: found 16385 entries, expected at most 16384";
    let too_large = |name: &str, node: &str| Pod {
        spec: PodSpec { too_large: Some(reason.into()), ..spec(6 * GIB) }.into(),
        ..pod(name, node, 0)
    };
    let mut harness = AccountingHarness::new(&["n"]);
    harness.apply(Change::Pod(Box::new(too_large("waits", ""))));
    let commands = harness.attempt(100);
    let told: Vec<_> = commands
        .iter()
        .filter_map(|command| match command {
            Command::ReportFailure { reason, message, .. } => Some((*reason, &**message)),
            _ => None,
        })
        .collect();
    let [("Unschedulable", message)] = *told else { panic!("{commands:?}") };
    assert!(message.starts_with(&format!("0/1 nodes are available: {reason}.")), "{message}");
    // It is not tried again without an event.
    harness.step(Engine::tick);
    assert_eq!(harness.attempt(100), []);
    // On a node its requests are counted.
    harness.apply(Change::Pod(Box::new(too_large("runs", "n"))));
    harness.add_pod("next", "", 6 * GIB);
    assert_eq!((harness.requested("n"), harness.bound()), (6 * GIB, vec![]));
}
