//! Preemption with the default plugins. The orders of answers and watch events are tested in the engine.

use api::config::Gates;
use engine::change::Change;
use engine::command::Command;
use engine::engine::{Engine, Settings};
use engine::index::PodIdx;
use engine::object::{Node, Pod, PodSpec, Resources, Text, Volume};
use engine::queue::QueueStage;
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

/// A running pod of low priority.
fn low(name: &str, node: &str, milli: i64) -> Pod {
    Pod { node: node.into(), start_time: Some(1), ..pod(name, milli, 0) }
}

/// A waiting pod of high priority.
fn high(name: &str, milli: i64) -> Pod {
    pod(name, milli, 10)
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

/// An engine, audited after each change.
struct PreemptionHarness {
    engine: Engine,
    now: i64,
}

impl PreemptionHarness {
    fn new(nodes: &[&str]) -> Self {
        let configuration = api::config::defaults(Gates::default());
        let profiles =
            Registry::default().profiles(&configuration).expect("the defaults are right");
        let engine = Engine::new(profiles, Settings::default());
        let mut harness = Self { engine, now: 1000 * SECOND };
        for name in nodes {
            harness.node(name);
        }
        harness
    }

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
        step(&mut self.engine, self.now, &mut commands);
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
        self.attempt(1000)
    }

    /// Waits until backoffs end, then makes all attempts that are due.
    fn later(&mut self) -> Vec<Command> {
        self.now += 20 * SECOND;
        self.step(Engine::tick);
        self.schedule()
    }

    /// Waits until unschedulable pods are tried without an event.
    fn much_later(&mut self) -> Vec<Command> {
        self.now += 400 * SECOND;
        self.later()
    }

    fn find(&self, uid: &str) -> PodIdx {
        self.engine.state().pods.find(&uid.into()).expect("the pod is known")
    }

    fn nominated(&self, uid: &str) -> Option<&str> {
        let node = self.engine.nominator().node_of(self.find(uid))?;
        Some(self.engine.state().nodes.name(node))
    }

    fn place(&self, uid: &str) -> Option<QueueStage> {
        self.engine.queue().stage(self.find(uid))
    }
}

/// Returns the victims of the commands, in order.
fn evicted(commands: &[Command]) -> Vec<&str> {
    let evictions = commands.iter().filter_map(|command| match command {
        Command::DeleteVictim { victim, .. } => Some(&*victim.name),
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

/// Returns the values of `status.nominatedNodeName` that the commands write for a pod.
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
    let node = harness.nominated("p").expect("it is nominated for a node").to_owned();
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
    // A version from before the deletion does not end the wait for it.
    harness.show(Pod { preempted: true, ..low(&victim, &node, 4000) });
    assert_eq!(evicted(&harness.much_later()), Vec::<&str>::new());
    harness.apply(gone(&victim));
    assert_eq!(bound(&harness.later()), [("p", &*node)]);
}

#[test]
fn a_victim_that_waits_for_volumes_is_tried_again_instead_of_being_deleted() {
    let mut harness = PreemptionHarness::new(&["n1"]);
    let class = json!({"kind": "StorageClass", "metadata": {"name": "late"}, "provisioner": "example.com/disks", "volumeBindingMode": "WaitForFirstConsumer"});
    let claim = json!({
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "default", "name": "claim", "uid": "claim"},
        "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    });
    for change in api::snapshot::from_values([class, claim]).objects.into_changes() {
        harness.apply(change);
    }
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
