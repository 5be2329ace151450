//! Room that is made for pods, and kept free for them, in every order in which answers and the watch
//! can tell of it.

use api::config::Gates;
use engine::change::{Change, Storage};
use engine::command::Command;
use engine::engine::{Engine, Settings};
use engine::framework::{Permit, Plugin, Point};
use engine::index::{NodeIdx, PodIdx};
use engine::object::{Node, Pod, PodSpec, Resources, Text, Uid, Volume};
use engine::queue::Place;
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
struct Stage {
    engine: Engine,
    now: i64,
}

impl Stage {
    fn new(nodes: &[&str]) -> Self {
        Self::with(&Registry::default(), nodes)
    }

    fn with(registry: &Registry, nodes: &[&str]) -> Self {
        let configuration = api::config::defaults(Gates::default());
        let profiles = registry.profiles(&configuration).expect("the defaults are right");
        let engine = Engine::new(profiles, Settings::default());
        let mut stage = Self { engine, now: 1000 * SECOND };
        for name in nodes {
            stage.node(name);
        }
        stage
    }

    fn tell(&mut self, change: Change) -> Vec<Command> {
        let mut commands = Vec::new();
        self.engine.apply(change, self.now, &mut commands);
        self.engine.audit().expect("incremental state equals state from scratch");
        commands
    }

    fn node(&mut self, name: &str) {
        self.tell(Change::Node(four_cores(name).into()));
    }

    fn show(&mut self, pod: Pod) -> Vec<Command> {
        self.tell(Change::Pod(Box::new(pod)))
    }

    fn schedule(&mut self) -> Vec<Command> {
        self.tell(Change::Schedule { limit: 1000 })
    }

    /// Lets backoffs end, then makes all attempts that are due.
    fn later(&mut self) -> Vec<Command> {
        self.now += 20 * SECOND;
        self.tell(Change::Tick);
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

    fn place(&self, uid: &str) -> Option<Place> {
        self.engine.queue().place(self.find(uid))
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
        let mut stage = Stage::new(&["n1"]);
        stage.show(low("v", "n1", 4000));
        stage.show(high("p", 4000));
        assert_eq!(evicted(&stage.schedule()), ["v"]);
        for change in order {
            stage.tell(change);
            assert_eq!(stage.later(), []);
            assert_eq!((stage.nominated("p"), stage.attempts("p")), (Some("n1"), 1));
        }
        assert_eq!(stage.place("p"), Some(Place::Unschedulable));
        stage.tell(gone("v"));
        assert_eq!(bound(&stage.later()), [("p", "n1")]);
    }
}

#[test]
fn a_preemptor_whose_victims_are_gone_before_the_answer_is_tried_at_once() {
    let mut stage = Stage::new(&["n1"]);
    stage.show(low("v", "n1", 4000));
    stage.show(high("p", 4000));
    stage.schedule();
    stage.tell(gone("v"));
    assert_eq!(stage.later(), [], "the deletion is not answered yet");
    stage.tell(handled("p", "v", None));
    assert_eq!(bound(&stage.schedule()), [("p", "n1")]);
}

#[test]
fn a_preemptor_that_is_tried_while_its_victims_terminate_evicts_no_others() {
    let names: Vec<String> = (0..200).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut stage = Stage::new(&names);
    for name in &names {
        stage.show(low(&format!("low-on-{name}"), name, 4000));
    }
    stage.show(high("p", 4000));
    let commands = stage.schedule();
    let victim = evicted(&commands)[0].to_owned();
    let node = stage.nominated("p").expect("room is made on a node").to_owned();
    stage.tell(handled("p", &victim, None));
    // Neither the terminating victim nor the nomination was shown by the watch yet.
    for _ in 0..3 {
        let commands = stage.much_later();
        assert_eq!(evicted(&commands), Vec::<&str>::new());
        assert_eq!(stage.nominated("p"), Some(&*node));
        assert_eq!(written(&commands, "p"), [&*node], "it is written until it is shown");
    }
    stage.show(Pod { nominated_node: (&*node).into(), ..high("p", 4000) });
    assert_eq!(written(&stage.much_later(), "p"), Vec::<&str>::new());
    // A version from before the deletion says nothing about it.
    stage.show(Pod { preempted: true, ..low(&victim, &node, 4000) });
    assert_eq!(evicted(&stage.much_later()), Vec::<&str>::new());
    stage.tell(gone(&victim));
    assert_eq!(bound(&stage.later()), [("p", &*node)]);
}

#[test]
fn a_victim_that_cannot_be_deleted_is_answered_for_before_the_next_attempt() {
    let mut stage = Stage::new(&["n1", "n2"]);
    for name in ["a", "b"] {
        stage.show(low(name, "n1", 2000));
    }
    stage.show(Pod { priority: 1, ..low("c", "n2", 4000) });
    stage.show(high("p", 4000));
    let mut victims = evicted(&stage.schedule()).join(" ");
    assert!(victims == "a b" || victims == "b a", "{victims}");
    stage.tell(handled("p", "a", Some("403")));
    assert_eq!(stage.later(), [], "b is being deleted");
    stage.tell(handled("p", "b", None));
    victims = evicted(&stage.schedule()).join(" ");
    assert_eq!((&*victims, stage.attempts("p")), ("", 2), "b leaves the node it is nominated for");
    stage.tell(gone("b"));
    assert_eq!(evicted(&stage.later()), ["a"]);
    stage.tell(handled("p", "a", None));
    stage.tell(gone("a"));
    assert_eq!(bound(&stage.later()), [("p", "n1")]);
}

#[test]
fn an_answer_to_an_earlier_attempt_does_not_stand_for_another_victim() {
    let mut stage = Stage::new(&["n1", "n2"]);
    stage.show(low("a", "n1", 4000));
    stage.show(high("p", 4000));
    stage.show(Pod { priority: 20, ..low("x", "n2", 4000) });
    assert_eq!(evicted(&stage.schedule()), ["a"]);
    stage.tell(handled("p", "a", Some("timeout")));
    // The node is lost to the preemptor, and there is another.
    stage.tell(Change::NodeGone("n1".into()));
    stage.tell(gone("x"));
    stage.show(low("b", "n2", 2000));
    stage.show(low("c", "n2", 2000));
    let mut victims = evicted(&stage.later()).join(" ");
    assert!(victims == "b c" || victims == "c b", "{victims}");
    stage.tell(handled("p", "a", None));
    stage.tell(handled("p", "b", None));
    stage.tell(handled("p", "b", None));
    victims = evicted(&stage.later()).join(" ");
    assert_eq!((&*victims, stage.attempts("p")), ("", 2), "c is not answered for");
}

#[test]
fn an_earlier_nomination_that_is_shown_late_does_not_replace_a_later_one() {
    let mut stage = Stage::new(&["n1"]);
    stage.show(low("v", "n1", 4000));
    stage.show(high("p", 4000));
    stage.schedule();
    stage.tell(handled("p", "v", None));
    // The node can never take it any more; another node can.
    stage.tell(Change::Node(Node { unschedulable: true, ..four_cores("n1") }.into()));
    stage.node("n2");
    stage.show(low("w", "n2", 4000));
    assert_eq!(evicted(&stage.much_later()), ["w"]);
    assert_eq!(stage.nominated("p"), Some("n2"));
    stage.show(Pod { nominated_node: "n1".into(), ..high("p", 4000) });
    assert_eq!(stage.nominated("p"), Some("n2"), "this was decided before");
    stage.show(Pod { nominated_node: "n2".into(), ..high("p", 4000) });
    assert_eq!(stage.nominated("p"), Some("n2"));
    // This was not written here.
    stage.show(Pod { nominated_node: "n1".into(), ..high("p", 4000) });
    assert_eq!(stage.nominated("p"), Some("n1"));
    stage.show(high("p", 4000));
    assert_eq!(stage.nominated("p"), None);
}

#[test]
fn a_pod_that_is_read_before_its_node_is_nominated_when_the_node_comes() {
    let mut stage = Stage::new(&[]);
    stage.show(Pod { nominated_node: "n1".into(), ..high("p", 4000) });
    stage.show(terminating(low("v", "n1", 4000)));
    assert_eq!(stage.nominated("p"), None);
    stage.node("n2");
    stage.show(low("w", "n2", 4000));
    stage.node("n1");
    assert_eq!(stage.nominated("p"), Some("n1"));
    assert_eq!(evicted(&stage.schedule()), Vec::<&str>::new(), "its victim terminates already");
    stage.show(pod("small", 1000, 0));
    stage.tell(gone("v"));
    assert_eq!(bound(&stage.later()), [("p", "n1")], "what it waited for is kept for it");
}

#[test]
fn a_gated_pod_is_nominated_when_it_is_let_in() {
    let mut stage = Stage::new(&["n1"]);
    let waiting = Pod { nominated_node: "n1".into(), ..high("p", 1000) };
    stage.show(Pod { gates: ["later".into()].into(), ..waiting.clone() });
    assert_eq!(stage.nominated("p"), None);
    stage.show(waiting);
    assert_eq!(stage.nominated("p"), Some("n1"));
}

#[test]
fn nothing_is_inherited_from_a_node_that_went() {
    let mut stage = Stage::new(&["n1"]);
    let mut spec = spec(64_000);
    spec.never_preempts = true;
    let large = || Pod { nominated_node: "n1".into(), spec: spec.clone().into(), ..high("p", 0) };
    stage.show(large());
    stage.schedule();
    assert_eq!(stage.nominated("p"), Some("n1"), "such a failure leaves it as it is");
    stage.tell(Change::NodeGone("n1".into()));
    stage.node("n9");
    assert_eq!(stage.engine.state().nodes.slots(), 1, "the slot is used again");
    stage.much_later();
    assert_eq!(stage.nominated("p"), None);
    stage.show(Pod { labels: engine::testing::labels(&[("a", "b")]), ..large() });
    stage.much_later();
    assert_eq!(stage.nominated("p"), None);
    stage.show(pod("small", 1000, 0));
    assert_eq!(bound(&stage.schedule()), [("small", "n9")]);
}

#[test]
fn a_less_important_pod_loses_its_nomination_to_a_more_important_one() {
    let mut stage = Stage::new(&["n1"]);
    stage.show(low("v", "n1", 4000));
    stage.show(high("p", 4000));
    stage.schedule();
    stage.tell(handled("p", "v", None));
    stage.show(pod("higher", 4000, 20));
    let commands = stage.schedule();
    assert_eq!(evicted(&commands), Vec::<&str>::new(), "the victim terminates already");
    assert_eq!(written(&commands, "p").first(), Some(&""));
    assert_eq!((stage.nominated("p"), stage.nominated("higher")), (None, Some("n1")));
}

#[test]
fn a_nomination_that_the_api_server_never_showed_wakes_others_when_it_ends() {
    let mut stage = Stage::new(&["n1", "n2"]);
    stage.show(low("v", "n1", 4000));
    stage.show(Pod { priority: 20, ..low("x", "n2", 4000) });
    stage.show(high("p", 4000));
    stage.schedule();
    stage.show(pod("small", 1000, 5));
    stage.tell(handled("p", "v", None));
    stage.tell(gone("v"));
    // The room is there, but it is kept free for the preemptor, which is backing off.
    stage.show(Pod { priority: 20, ..low("y", "n1", 3000) });
    let commands = stage.schedule();
    assert_eq!(stage.nominated("p"), None, "it can never fit now");
    assert_eq!(bound(&commands), [("small", "n1")]);
}

#[test]
fn a_victim_that_waits_for_volumes_is_tried_again_instead_of_being_deleted() {
    let mut stage = Stage::new(&["n1"]);
    let class = json!({"metadata": {"name": "late"}, "provisioner": "example.com/disks", "volumeBindingMode": "WaitForFirstConsumer"});
    let claim = json!({
        "metadata": {"namespace": "default", "name": "claim", "uid": "claim"},
        "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    });
    let class = api::lower::storage_class(&class).0.expect("a class");
    let claim = api::lower::persistent_volume_claim(&claim).0.expect("a claim");
    stage.tell(Change::Storage(Storage::Class(class).into()));
    stage.tell(Change::Storage(Storage::Claim(claim).into()));
    let mut slow = pod("slow", 4000, 0);
    slow.spec_mut().volumes = [Volume::Claim { name: "claim".into() }].into();
    stage.show(slow);
    let tickets = |commands: &[Command]| -> Vec<u64> {
        let tickets = commands.iter().filter_map(|command| match command {
            Command::PrepareVolumes { ticket, .. } => Some(*ticket),
            _ => None,
        });
        tickets.collect()
    };
    let first = tickets(&stage.schedule())[0];
    stage.show(high("p", 4000));
    let commands = stage.schedule();
    assert_eq!(evicted(&commands), Vec::<&str>::new());
    let told = commands.iter().any(|command| {
        matches!(command, Command::ReportPreempted { victim, .. } if *victim.name == *"slow")
    });
    assert!(told, "{commands:?}");
    assert_eq!(written(&commands, "slow"), [""]);
    assert_eq!(stage.place("slow"), Some(Place::ErrorBackoff));
    assert_eq!(bound(&commands), [("p", "n1")], "no other pod is tried, so backoff is cut short");
    stage.node("n2");
    let second = tickets(&stage.later())[0];
    let ready = |ticket| Change::VolumesReady { uid: "slow".into(), ticket, failure: None };
    assert_eq!(bound(&stage.tell(ready(first))), [], "this was prepared for another node");
    assert_eq!(bound(&stage.tell(ready(second))), [("slow", "n2")]);
}

/// Makes pods named `slow` wait for permission.
struct Patience;

impl Plugin for Patience {
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
    let build = |_: Option<&_>| Ok(Box::new(Patience) as Box<dyn Plugin>);
    let registry = Registry::default().with("NodeName", &[Point::Permit], Box::new(build));
    let mut stage = Stage::with(&registry, &["n1"]);
    stage.show(low("v", "n1", 2000));
    stage.show(pod("slow", 2000, 0));
    stage.schedule();
    assert_eq!(stage.place("slow"), Some(Place::InFlight));
    stage.show(high("p", 4000));
    let commands = stage.schedule();
    assert_eq!(evicted(&commands), ["v"]);
    assert_eq!(stage.place("slow"), Some(Place::ErrorBackoff));
    let allowed =
        Change::Permission { uid: "slow".into(), plugin: "NodeName".into(), denied: None };
    assert_eq!(stage.tell(allowed), [], "it does not wait any more");
    stage.tell(handled("p", "v", None));
    stage.tell(gone("v"));
    assert_eq!(bound(&stage.schedule()), [("p", "n1")]);
}

#[test]
fn a_victim_that_is_being_bound_is_deleted() {
    let mut stage = Stage::new(&["n1"]);
    stage.show(pod("slow", 4000, 0));
    assert_eq!(bound(&stage.schedule()), [("slow", "n1")]);
    stage.show(high("p", 4000));
    assert_eq!(evicted(&stage.schedule()), ["slow"]);
    let uid: Uid = "slow".into();
    stage.tell(Change::Bound { uid, failure: Some("gone".into()) });
    stage.tell(handled("p", "slow", None));
    assert_eq!(stage.nominated("p"), Some("n1"));
}
