//! The harness, and impure plugins that its checker catches.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::testing::TestScheduler;
use crate::{
    Action, Args, Class, NodePlugin, NodeView, Point, Registry, Rejection, Resource, Subscription,
};

/// Reads the time without saying until when its verdict holds.
struct Impatient;

impl NodePlugin for Impatient {
    const NAME: &'static str = "Impatient";
    const POINTS: &'static [Point] = &[Point::Filter];

    fn new(_args: Option<&Args>) -> Result<Self, String> {
        Ok(Self)
    }

    fn filter(&self, _pod: &Class, node: &NodeView) -> Result<(), Rejection> {
        let is_even = (node.now() / 60_000_000_000) % 2 == 0;
        if is_even { Ok(()) } else { Err(Rejection::unresolvable("the minute is odd")) }
    }
}

/// Counts its own calls.
#[derive(Default)]
struct Counter(AtomicI64);

impl NodePlugin for Counter {
    const NAME: &'static str = "Counter";
    const POINTS: &'static [Point] = &[Point::Score];

    fn new(_args: Option<&Args>) -> Result<Self, String> {
        Ok(Self::default())
    }

    fn score(&self, _pod: &Class, _node: &NodeView) -> i64 {
        self.0.fetch_add(1, Ordering::Relaxed) % 100
    }
}

/// Reads a label of nodes, but misses that they change.
struct Inattentive;

impl NodePlugin for Inattentive {
    const NAME: &'static str = "Inattentive";
    const POINTS: &'static [Point] = &[Point::Filter];

    fn new(_args: Option<&Args>) -> Result<Self, String> {
        Ok(Self)
    }

    fn filter(&self, _pod: &Class, node: &NodeView) -> Result<(), Rejection> {
        node.label("ready").map(|_| ()).ok_or_else(|| Rejection::unresolvable("it is not ready"))
    }

    fn events(&self) -> Vec<Subscription> {
        vec![Subscription { resource: Resource::Node, action: Action::DELETE }]
    }
}

fn scheduler(plugin: &str) -> TestScheduler {
    let registry = Registry::default()
        .with_plugin::<Impatient>()
        .with_plugin::<Counter>()
        .with_plugin::<Inattentive>();
    let configuration = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: \
         [{{plugins: {{multiPoint: {{enabled: [{plugin}]}}}}}}]"
    );
    TestScheduler::new(&registry, &configuration).without_checks()
}

fn node(name: &str, labels: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{{labels}}}}}, \
         status: {{allocatable: {{pods: 2, cpu: 1}}}}}}"
    )
}

fn pod(name: &str, more: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, \
         spec: {{{more} containers: [{{name: main, resources: {{requests: {{cpu: 500m}}}}}}]}}}}"
    )
}

#[test]
fn a_filter_that_reads_the_time_without_its_end_is_caught() {
    let mut scheduler = scheduler("{name: Impatient}");
    scheduler.apply(&node("n1", ""));
    scheduler.at("2026-01-01T00:01:00Z");
    scheduler.apply(&pod("a", ""));
    assert_eq!(scheduler.check(), Ok(()));
    scheduler.advance(Duration::from_secs(59));
    assert_eq!(scheduler.check(), Ok(()));
    scheduler.advance(Duration::from_secs(1));
    let wrong = scheduler.check().expect_err("the cached verdict is outdated");
    assert!(wrong.starts_with("Impatient rejected default/a, which fits on n1 now"), "{wrong}");
}

#[test]
fn a_scorer_with_a_memory_is_caught() {
    let mut scheduler = scheduler("{name: Counter}");
    scheduler.apply(&format!("{}\n---\n{}", node("n1", ""), node("n2", "")));
    scheduler.apply(&pod("a", ""));
    let wrong = scheduler.check().expect_err("scores are not the same twice");
    assert!(wrong.starts_with("Counter answers differently about a on n"), "{wrong}");
}

#[test]
fn a_plugin_that_misses_a_change_is_caught() {
    let mut scheduler = scheduler("{name: Inattentive}");
    scheduler.apply(&node("n1", ""));
    scheduler.apply(&pod("a", ""));
    assert_eq!(scheduler.check(), Ok(()));
    scheduler.apply(&node("n1", "ready: '1'"));
    let wrong = scheduler.check().expect_err("the pod could be placed");
    assert!(wrong.starts_with("Inattentive rejected default/a, which fits on n1 now"), "{wrong}");
}

#[test]
#[should_panic(expected = "Counter answers differently about a")]
fn every_step_checks() {
    let registry = Registry::default().with_plugin::<Counter>();
    let configuration = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                         profiles: [{plugins: {multiPoint: {enabled: [{name: Counter}]}}}]";
    let mut scheduler = TestScheduler::new(&registry, configuration);
    scheduler.apply(&format!("{}\n---\n{}", node("n1", ""), node("n2", "")));
    scheduler.apply(&pod("a", ""));
}

#[test]
fn pods_are_placed_evicted_and_shown_with_their_reasons() {
    let mut scheduler = scheduler("{name: DefaultPreemption}");
    scheduler.apply(&node("n1", ""));
    for name in ["a", "b", "c"] {
        scheduler.apply(&pod(name, ""));
    }
    assert_eq!(scheduler.bound(), [("a".into(), "n1".into()), ("b".into(), "n1".into())]);
    let (name, reason) = scheduler.waiting().remove(0);
    assert!(name == "c" && reason.contains("Insufficient cpu"), "{name}: {reason}");
    scheduler.apply(&pod("vip", "priority: 9,"));
    assert_eq!(scheduler.bound_to("default/vip"), Some("n1"));
    let preempted = scheduler.events().iter().filter(|event| event.reason == "Preempted");
    assert_eq!(preempted.count(), 1);
    scheduler.delete("vip");
    scheduler.advance(Duration::from_secs(10));
    assert_eq!(scheduler.bound_to("c"), Some("n1"));
    scheduler.delete_node("n1");
    scheduler.apply(&pod("late", ""));
    assert!(scheduler.reason("late").is_some());
    assert_eq!(scheduler.check(), Ok(()));
}

#[test]
#[should_panic(expected = "there is no pod other/a")]
fn an_unknown_pod_is_a_mistake_of_the_test() {
    let mut scheduler = scheduler("");
    scheduler.apply(&pod("a", ""));
    scheduler.delete("other/a");
}

#[test]
#[should_panic(expected = "the scheduler reads no ConfigMap")]
fn objects_that_change_nothing_are_a_mistake_of_the_test() {
    scheduler("").apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}");
}
