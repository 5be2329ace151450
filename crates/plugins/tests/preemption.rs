//! Room that is made for pods, and kept free for them, in every order in which answers and the watch
//! can apply of it.

use api::config::Gates;
use engine::change::{Change, Storage};
use engine::command::Command;
use engine::engine::{Engine, Settings};
use engine::framework::{Permit, Plugin, Point};
use engine::index::{NodeIdx, PodIdx};
use engine::object::{Node, Pod, PodSpec, Resources, Text, Uid, Volume};
use engine::queue::QueueStage;
use engine::state::State;
use engine::testing::node;
use plugins::registry::Registry;
use serde_json::json;

const SECOND: i64 = 1_000_000_000;

/// A node with four cores and room for many pods.
fn four_cores(name: &str) -> Node {
    Node { allocatable: cpu(4000), ..node(name) }
}

fn cpu(cpu: i64) -> Resources {
    Resources { cpu, memory: 1 << 30, ephemeral: 0, scalars: Box::default() }
}

fn spec(milli: i64) -> PodSpec {
    let requests = Resources { memory: 0, ..cpu(milli) };
    PodSpec {
        scheduler_name: "default-scheduler".into(),
        requests: requests.clone(),
        requests_on_node: requests,
        ..PodSpec::default()
    }
}

/// A waiting pod whose uid is its name.
fn pod(name: &str, milli: i64, priority: i32) -> Pod {
    let uid = name.into();
    Pod { uid, priority, spec: spec(milli).into(), ..engine::testing::pod(name) }
}

/// A running pod that others may displace.
fn low(name: &str, node: &str, milli: i64) -> Pod {
    Pod { node: node.into(), start_time: Some(1), ..pod(name, milli, 0) }
}

/// A waiting pod that may displace others.
fn high(name: &str, milli: i64) -> Pod {
    pod(name, milli, 10)
}

fn terminating(pod: Pod) -> Pod {
    Pod { terminating: true, preempted: true, ..pod }
}

fn gone(uid: &str) -> Change {
    Change::PodGone { uid: uid.into() }
}

fn handled(preemptor: &str, victim: &str, failure: Option<&str>) -> Change {
    Change::VictimHandled {
        preemptor: preemptor.into(),
        victim: victim.into(),
        failure: failure.map(Text::from),
    }
}

/// An engine, checked after each change.
struct PreemptionHarness {
    engine: Engine,
    now: i64,
}

impl PreemptionHarness {
    fn new(nodes: &[&str]) -> Self {
        Self::with(&Registry::default(), nodes)
    }

    fn with(registry: &Registry, nodes: &[&str]) -> Self {
        let configuration = api::config::defaults(Gates::default());
        let profiles = registry.profiles(&configuration).expect("the defaults are right");
        let engine = Engine::new(profiles, Settings::default());
        let mut harness = Self { engine, now: 1000 * SECOND };
        for name in nodes {
            harness.node(name);
        }
        harness
    }

    fn apply(&mut self, change: Change) -> Vec<Command> {
        let mut commands = Vec::new();
        self.engine.apply(change, self.now, &mut commands);
        self.engine.audit().expect("incremental state equals state from scratch");
        commands
    }

    fn node(&mut self, name: &str) {
        self.apply(Change::Node(four_cores(name).into()));
    }

    fn show(&mut self, pod: Pod) -> Vec<Command> {
        self.apply(Change::Pod(Box::new(pod)))
    }

    fn schedule(&mut self) -> Vec<Command> {
        self.apply(Change::Schedule { limit: 1000 })
    }

    /// Lets backoffs end, then makes all attempts that are due.
    fn later(&mut self) -> Vec<Command> {
        self.now += 20 * SECOND;
        self.apply(Change::Tick);
        self.schedule()
    }

    /// Lets pods be tried that wait for an event.
    fn much_later(&mut self) -> Vec<Command> {
        self.now += 400 * SECOND;
        self.later()
    }

    fn find(&self, uid: &str) -> PodIdx {
        self.engine.state().pods.find(&uid.into()).expect("the pod is known")
    }

    fn nominated(&self, uid: &str) -> Option<&str> {
        let node = self.engine.queue().nominator.node_of(self.find(uid))?;
        Some(self.engine.state().nodes.name(node))
    }

    fn place(&self, uid: &str) -> Option<QueueStage> {
        self.engine.queue().stage(self.find(uid))
    }

    fn attempts(&self, uid: &str) -> u32 {
        self.engine.queue().get(self.find(uid)).map_or(0, |queued| queued.attempts)
    }
}

/// The pods to be deleted, in order.
fn evicted(commands: &[Command]) -> Vec<&str> {
    let evictions = commands.iter().filter_map(|command| match command {
        Command::Evict { victim, .. } => Some(&*victim.name),
        _ => None,
    });
    evictions.collect()
}

fn bound(commands: &[Command]) -> Vec<(&str, &str)> {
    let binds = commands.iter().filter_map(|command| match command {
        Command::Bind { pod, node, .. } => Some((&*pod.name, &**node)),
        _ => None,
    });
    binds.collect()
}

/// The values of `status.nominatedNodeName` to be written of a pod.
fn written<'a>(commands: &'a [Command], name: &str) -> Vec<&'a str> {
    let values = commands.iter().filter_map(|command| match command {
        Command::Nominate { pod, node }
        | Command::ReportFailure { pod, nominate: Some(node), .. }
            if *pod.name == *name =>
        {
            Some(&**node)
        }
        _ => None,
    });
    values.collect()
}

#[test]
fn a_preemptor_waits_for_its_victim_whichever_connection_answers_first() {
    let shown = || Change::Pod(Box::new(terminating(low("v", "n1", 4000))));
    let answered = || handled("p", "v", None);
    for order in [[shown(), answered()], [answered(), shown()]] {
        let mut harness = PreemptionHarness::new(&["n1"]);
        harness.show(low("v", "n1", 4000));
        harness.show(high("p", 4000));
        assert_eq!(evicted(&harness.schedule()), ["v"]);
        for change in order {
            harness.apply(change);
            assert_eq!(harness.later(), []);
            assert_eq!((harness.nominated("p"), harness.attempts("p")), (Some("n1"), 1));
        }
        assert_eq!(harness.place("p"), Some(QueueStage::Unschedulable));
        harness.apply(gone("v"));
        assert_eq!(bound(&harness.later()), [("p", "n1")]);
    }
}

#[test]
fn a_preemptor_whose_victims_are_gone_before_the_answer_is_tried_at_once() {
    let mut harness = PreemptionHarness::new(&["n1"]);
    harness.show(low("v", "n1", 4000));
    harness.show(high("p", 4000));
    harness.schedule();
    harness.apply(gone("v"));
    assert_eq!(harness.later(), [], "the deletion is not answered yet");
    harness.apply(handled("p", "v", None));
    assert_eq!(bound(&harness.schedule()), [("p", "n1")]);
}

#[test]
fn a_preemptor_that_is_tried_while_its_victims_terminate_evicts_no_others() {
    let names: Vec<String> = (0..200).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut harness = PreemptionHarness::new(&names);
    for name in &names {
        harness.show(low(&format!("low-on-{name}"), name, 4000));
    }
    harness.show(high("p", 4000));
    let commands = harness.schedule();
    let victim = evicted(&commands)[0].to_owned();
    let node = harness.nominated("p").expect("room is made on a node").to_owned();
    harness.apply(handled("p", &victim, None));
    // Neither the terminating victim nor the nomination was shown by the watch yet.
    for _ in 0..3 {
        let commands = harness.much_later();
        assert_eq!(evicted(&commands), Vec::<&str>::new());
        assert_eq!(harness.nominated("p"), Some(&*node));
        assert_eq!(written(&commands, "p"), [&*node], "it is written until it is shown");
    }
    harness.show(Pod { nominated_node: (&*node).into(), ..high("p", 4000) });
    assert_eq!(written(&harness.much_later(), "p"), Vec::<&str>::new());
    // A version from before the deletion says nothing about it.
    harness.show(Pod { preempted: true, ..low(&victim, &node, 4000) });
    assert_eq!(evicted(&harness.much_later()), Vec::<&str>::new());
    harness.apply(gone(&victim));
    assert_eq!(bound(&harness.later()), [("p", &*node)]);
}

#[test]
fn a_victim_that_cannot_be_deleted_is_answered_for_before_the_next_attempt() {
    let mut harness = PreemptionHarness::new(&["n1", "n2"]);
    for name in ["a", "b"] {
        harness.show(low(name, "n1", 2000));
    }
    harness.show(Pod { priority: 1, ..low("c", "n2", 4000) });
    harness.show(high("p", 4000));
    let mut victims = evicted(&harness.schedule()).join(" ");
    assert!(victims == "a b" || victims == "b a", "{victims}");
    harness.apply(handled("p", "a", Some("403")));
    assert_eq!(harness.later(), [], "b is being deleted");
    harness.apply(handled("p", "b", None));
    victims = evicted(&harness.schedule()).join(" ");
    assert_eq!(
        (&*victims, harness.attempts("p")),
        ("", 2),
        "b leaves the node it is nominated for"
    );
    harness.apply(gone("b"));
    assert_eq!(evicted(&harness.later()), ["a"]);
    harness.apply(handled("p", "a", None));
    harness.apply(gone("a"));
    assert_eq!(bound(&harness.later()), [("p", "n1")]);
}

#[test]
fn an_answer_to_an_earlier_attempt_does_not_stand_for_another_victim() {
    let mut harness = PreemptionHarness::new(&["n1", "n2"]);
    harness.show(low("a", "n1", 4000));
    harness.show(high("p", 4000));
    harness.show(Pod { priority: 20, ..low("x", "n2", 4000) });
    assert_eq!(evicted(&harness.schedule()), ["a"]);
    harness.apply(handled("p", "a", Some("timeout")));
    // The node is lost to the preemptor, and there is another.
    harness.apply(Change::NodeGone("n1".into()));
    harness.apply(gone("x"));
    harness.show(low("b", "n2", 2000));
    harness.show(low("c", "n2", 2000));
    let mut victims = evicted(&harness.later()).join(" ");
    assert!(victims == "b c" || victims == "c b", "{victims}");
    harness.apply(handled("p", "a", None));
    harness.apply(handled("p", "b", None));
    harness.apply(handled("p", "b", None));
    victims = evicted(&harness.later()).join(" ");
    assert_eq!((&*victims, harness.attempts("p")), ("", 2), "c is not answered for");
}

#[test]
fn an_earlier_nomination_that_is_shown_late_does_not_replace_a_later_one() {
    let mut harness = PreemptionHarness::new(&["n1"]);
    harness.show(low("v", "n1", 4000));
    harness.show(high("p", 4000));
    harness.schedule();
    harness.apply(handled("p", "v", None));
    // The node can never take it any more; another node can.
    harness.apply(Change::Node(Node { unschedulable: true, ..four_cores("n1") }.into()));
    harness.node("n2");
    harness.show(low("w", "n2", 4000));
    assert_eq!(evicted(&harness.much_later()), ["w"]);
    assert_eq!(harness.nominated("p"), Some("n2"));
    harness.show(Pod { nominated_node: "n1".into(), ..high("p", 4000) });
    assert_eq!(harness.nominated("p"), Some("n2"), "this was decided before");
    harness.show(Pod { nominated_node: "n2".into(), ..high("p", 4000) });
    assert_eq!(harness.nominated("p"), Some("n2"));
    // This was not written here.
    harness.show(Pod { nominated_node: "n1".into(), ..high("p", 4000) });
    assert_eq!(harness.nominated("p"), Some("n1"));
    harness.show(high("p", 4000));
    assert_eq!(harness.nominated("p"), None);
}

#[test]
fn a_pod_that_is_read_before_its_node_is_nominated_when_the_node_comes() {
    let mut harness = PreemptionHarness::new(&[]);
    harness.show(Pod { nominated_node: "n1".into(), ..high("p", 4000) });
    harness.show(terminating(low("v", "n1", 4000)));
    assert_eq!(harness.nominated("p"), None);
    harness.node("n2");
    harness.show(low("w", "n2", 4000));
    harness.node("n1");
    assert_eq!(harness.nominated("p"), Some("n1"));
    assert_eq!(evicted(&harness.schedule()), Vec::<&str>::new(), "its victim terminates already");
    harness.show(pod("small", 1000, 0));
    harness.apply(gone("v"));
    assert_eq!(bound(&harness.later()), [("p", "n1")], "what it waited for is kept for it");
}

#[test]
fn a_gated_pod_is_nominated_when_it_is_let_in() {
    let mut harness = PreemptionHarness::new(&["n1"]);
    let waiting = Pod { nominated_node: "n1".into(), ..high("p", 1000) };
    harness.show(Pod { gates: ["later".into()].into(), ..waiting.clone() });
    assert_eq!(harness.nominated("p"), None);
    harness.show(waiting);
    assert_eq!(harness.nominated("p"), Some("n1"));
}

#[test]
fn nothing_is_inherited_from_a_node_that_went() {
    let mut harness = PreemptionHarness::new(&["n1"]);
    let mut spec = spec(64_000);
    spec.never_preempts = true;
    let large = || Pod { nominated_node: "n1".into(), spec: spec.clone().into(), ..high("p", 0) };
    harness.show(large());
    harness.schedule();
    assert_eq!(harness.nominated("p"), Some("n1"), "such a failure leaves it as it is");
    harness.apply(Change::NodeGone("n1".into()));
    harness.node("n9");
    assert_eq!(harness.engine.state().nodes.slots(), 1, "the slot is used again");
    harness.much_later();
    assert_eq!(harness.nominated("p"), None);
    harness.show(Pod { labels: engine::testing::labels(&[("a", "b")]), ..large() });
    harness.much_later();
    assert_eq!(harness.nominated("p"), None);
    harness.show(pod("small", 1000, 0));
    assert_eq!(bound(&harness.schedule()), [("small", "n9")]);
}

#[test]
fn a_less_important_pod_loses_its_nomination_to_a_more_important_one() {
    let mut harness = PreemptionHarness::new(&["n1"]);
    harness.show(low("v", "n1", 4000));
    harness.show(high("p", 4000));
    harness.schedule();
    harness.apply(handled("p", "v", None));
    harness.show(pod("higher", 4000, 20));
    let commands = harness.schedule();
    assert_eq!(evicted(&commands), Vec::<&str>::new(), "the victim terminates already");
    assert_eq!(written(&commands, "p").first(), Some(&""));
    assert_eq!((harness.nominated("p"), harness.nominated("higher")), (None, Some("n1")));
}

#[test]
fn a_nomination_that_the_api_server_never_showed_wakes_others_when_it_ends() {
    let mut harness = PreemptionHarness::new(&["n1", "n2"]);
    harness.show(low("v", "n1", 4000));
    harness.show(Pod { priority: 20, ..low("x", "n2", 4000) });
    harness.show(high("p", 4000));
    harness.schedule();
    harness.show(pod("small", 1000, 5));
    harness.apply(handled("p", "v", None));
    harness.apply(gone("v"));
    // The room is there, but it is kept free for the preemptor, which is backing off.
    harness.show(Pod { priority: 20, ..low("y", "n1", 3000) });
    let commands = harness.schedule();
    assert_eq!(harness.nominated("p"), None, "it can never fit now");
    assert_eq!(bound(&commands), [("small", "n1")]);
}

#[test]
fn a_victim_that_waits_for_volumes_is_tried_again_instead_of_being_deleted() {
    let mut harness = PreemptionHarness::new(&["n1"]);
    let class = json!({"metadata": {"name": "late"}, "provisioner": "example.com/disks", "volumeBindingMode": "WaitForFirstConsumer"});
    let claim = json!({
        "metadata": {"namespace": "default", "name": "claim", "uid": "claim"},
        "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    });
    let class = api::lower::storage_class(&class).0.expect("a class");
    let claim = api::lower::persistent_volume_claim(&claim).0.expect("a claim");
    harness.apply(Change::Storage(Storage::Class(class).into()));
    harness.apply(Change::Storage(Storage::Claim(claim).into()));
    let mut slow = pod("slow", 4000, 0);
    slow.spec_mut().volumes = [Volume::Claim { name: "claim".into() }].into();
    harness.show(slow);
    let tickets = |commands: &[Command]| -> Vec<u64> {
        let tickets = commands.iter().filter_map(|command| match command {
            Command::PrepareVolumes { ticket, .. } => Some(*ticket),
            _ => None,
        });
        tickets.collect()
    };
    let first = tickets(&harness.schedule())[0];
    harness.show(high("p", 4000));
    let commands = harness.schedule();
    assert_eq!(evicted(&commands), Vec::<&str>::new());
    let told = commands.iter().any(|command| {
        matches!(command, Command::ReportPreempted { victim, .. } if *victim.name == *"slow")
    });
    assert!(told, "{commands:?}");
    assert_eq!(written(&commands, "slow"), [""]);
    assert_eq!(harness.place("slow"), Some(QueueStage::ErrorBackoff));
    assert_eq!(bound(&commands), [("p", "n1")], "no other pod is tried, so backoff is cut short");
    harness.node("n2");
    let second = tickets(&harness.later())[0];
    let ready = |ticket| Change::VolumesReady { uid: "slow".into(), ticket, failure: None };
    assert_eq!(bound(&harness.apply(ready(first))), [], "this was prepared for another node");
    assert_eq!(bound(&harness.apply(ready(second))), [("slow", "n2")]);
}

/// Makes pods named `slow` wait for permission.
struct WaitingPermit;

impl Plugin for WaitingPermit {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::Permit]
    }

    fn permit(&self, state: &State, pod: PodIdx, _: NodeIdx) -> Permit {
        match &*state.pods.get(pod).name {
            "slow" => Permit::Wait { timeout: 600 * SECOND },
            _ => Permit::Allow,
        }
    }
}

#[test]
fn a_victim_that_waits_for_permission_is_tried_again_instead_of_being_deleted() {
    let build = |_: Option<&_>| Ok(Box::new(WaitingPermit) as Box<dyn Plugin>);
    let registry = Registry::default().with("NodeName", &[Point::Permit], Box::new(build));
    let mut harness = PreemptionHarness::with(&registry, &["n1"]);
    harness.show(low("v", "n1", 2000));
    harness.show(pod("slow", 2000, 0));
    harness.schedule();
    assert_eq!(harness.place("slow"), Some(QueueStage::InFlight));
    harness.show(high("p", 4000));
    let commands = harness.schedule();
    assert_eq!(evicted(&commands), ["v"]);
    assert_eq!(harness.place("slow"), Some(QueueStage::ErrorBackoff));
    let allowed =
        Change::Permission { uid: "slow".into(), plugin: "NodeName".into(), denied: None };
    assert_eq!(harness.apply(allowed), [], "it does not wait any more");
    harness.apply(handled("p", "v", None));
    harness.apply(gone("v"));
    assert_eq!(bound(&harness.schedule()), [("p", "n1")]);
}

#[test]
fn a_victim_that_is_being_bound_is_deleted() {
    let mut harness = PreemptionHarness::new(&["n1"]);
    harness.show(pod("slow", 4000, 0));
    assert_eq!(bound(&harness.schedule()), [("slow", "n1")]);
    harness.show(high("p", 4000));
    assert_eq!(evicted(&harness.schedule()), ["slow"]);
    let uid: Uid = "slow".into();
    harness.apply(Change::Bound { uid, failure: Some("gone".into()) });
    harness.apply(handled("p", "slow", None));
    assert_eq!(harness.nominated("p"), Some("n1"));
}
