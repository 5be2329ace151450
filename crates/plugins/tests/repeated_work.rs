//! A plugin that counts its calls shows that unchanged nodes are not filtered again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::change::Change;
use engine::command::Command;
use engine::engine::{Engine, Settings};
use engine::object::Pod;
use engine::testing::{labels, node, pod, profile};
use plugins::simple::{self, Class, NodePlugin, NodeView, Point, Rejection};

const NODES: usize = 200;
const NOW: i64 = 1_000_000_000;

/// Passes nodes with fewer than two pods, rejects pods labelled `large` everywhere, and counts its calls.
struct CountingPlugin(Arc<AtomicUsize>);

impl NodePlugin for CountingPlugin {
    const NAME: &'static str = "Counting";
    const POINTS: &'static [Point] = &[Point::Filter, Point::Score];

    fn filter(&self, pod: &Class, node: &NodeView) -> Result<(), Rejection> {
        self.0.fetch_add(1, Ordering::Relaxed);
        if pod.labels.get("size") == Some("large") {
            return Err(Rejection::unresolvable("too large"));
        }
        if node.requested("pods") < 2 { Ok(()) } else { Err(Rejection::unschedulable("full")) }
    }

    fn score(&self, _pod: &Class, _node: &NodeView) -> i64 {
        self.0.fetch_add(1, Ordering::Relaxed);
        50
    }
}

struct CountedScheduler {
    engine: Engine,
    calls: Arc<AtomicUsize>,
}

impl CountedScheduler {
    fn new() -> Self {
        let calls = Arc::new(AtomicUsize::new(0));
        let plugin = simple::plugin(CountingPlugin(Arc::clone(&calls)));
        let engine = Engine::new(vec![profile(plugin)], Settings::default());
        let mut scheduler = Self { engine, calls };
        for index in 0..NODES {
            scheduler.apply(Change::Node(node(&format!("n{index}")).into()));
        }
        scheduler
    }

    fn apply(&mut self, change: Change) -> Vec<Command> {
        let mut commands = Vec::new();
        self.engine.apply(change, NOW, &mut commands);
        commands
    }

    fn add(&mut self, mut pod: Pod) {
        pod.uid = (&*pod.name).into();
        pod.spec_mut().scheduler_name = "default-scheduler".into();
        self.apply(Change::Pod(pod.into()));
    }

    /// Adds a pod and tries it. Returns the commands and the number of calls of the plugin.
    fn decide(&mut self, pod: Pod) -> (Vec<Command>, usize) {
        self.add(pod);
        let before = self.calls.load(Ordering::Relaxed);
        let mut commands = Vec::new();
        self.engine.schedule(NOW, &mut commands);
        (commands, self.calls.load(Ordering::Relaxed) - before)
    }

    /// Places this number of pods on each node.
    fn fill(&mut self, on_each: usize) {
        for index in 0..NODES * on_each {
            let node = format!("n{}", index % NODES).as_str().into();
            self.add(Pod { node, ..pod(&format!("there-{index}")) });
        }
    }
}

fn failure(commands: &[Command]) -> &str {
    match commands {
        [Command::ReportFailure { message, .. }] => message,
        other => panic!("no failure: {other:?}"),
    }
}

#[test]
fn nominated_pods_do_not_have_every_node_looked_at_for_each_decision() {
    const NOMINATED: usize = 100;
    let mut scheduler = CountedScheduler::new();
    scheduler.fill(1);
    for index in 0..NOMINATED {
        let mut large = pod(&format!("large-{index}"));
        large.labels = labels(&[("size", "large")]);
        large.nominated_node = format!("n{index}").as_str().into();
        large.priority = 10;
        let (commands, _) = scheduler.decide(large);
        assert_eq!(
            failure(&commands),
            format!("0/{NODES} nodes are available: {NODES} too large.")
        );
    }
    // The first decisions of a class compute the evaluation that later ones share.
    for name in ["first", "second", "third"] {
        scheduler.decide(pod(name));
    }
    for index in 0..NODES - NOMINATED - 3 {
        let (commands, calls) = scheduler.decide(pod(&format!("pod-{index}")));
        let [Command::Bind { node, .. }] = &*commands else { panic!("{commands:?}") };
        let number: usize = node[1..].parse().expect("nodes have numbers");
        assert!(number >= NOMINATED, "{node} has no room beside the pod nominated for it");
        assert!(calls <= 10, "called {calls} times");
    }
    let (commands, _) = scheduler.decide(pod("last"));
    assert_eq!(failure(&commands), format!("0/{NODES} nodes are available: {NODES} full."));
}

#[test]
fn equal_pods_that_fit_nowhere_are_diagnosed_once() {
    let mut scheduler = CountedScheduler::new();
    scheduler.fill(2);
    let full = format!("0/{NODES} nodes are available: {NODES} full.");
    for index in 0..3 {
        let (commands, _) = scheduler.decide(pod(&format!("first-{index}")));
        assert_eq!(failure(&commands), full);
    }
    let (commands, calls) = scheduler.decide(pod("again"));
    assert_eq!((failure(&commands), calls), (&*full, 0));
    // One pod is deleted and another added, so one node has changed.
    scheduler.apply(Change::PodGone { uid: "there-7".into() });
    scheduler.add(Pod { node: "n7".into(), ..pod("another") });
    let (commands, calls) = scheduler.decide(pod("once-more"));
    assert_eq!(failure(&commands), full);
    assert!((1..=10).contains(&calls), "called {calls} times");
}
