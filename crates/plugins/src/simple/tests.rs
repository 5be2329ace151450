//! Tests of the adapter, on a plugin that limits the pods of an app.

use super::*;
use engine::cycle::evaluation::Evaluation;
use engine::object::{Node, Pod, PodSpec, Taint, TaintEffect};
use engine::testing::{
    class, displace, labels, node, place, pod, profile, scores, state, verdict_if, verdicts,
};
use serde::Deserialize;
use serde_json::json;

/// Allows at most `count` pods of the same app on a node, and scores by the function `score`.
struct MaxPodsPerApp {
    count: usize,
    scale: Scale,
    score: fn(&NodeView) -> i64,
}

impl Default for MaxPodsPerApp {
    fn default() -> Self {
        Self { count: 1, scale: Scale::AsIs, score: |_| 50 }
    }
}

impl NodePlugin for MaxPodsPerApp {
    const NAME: &'static str = "MaxPodsPerApp";
    const POINTS: &'static [Point] = &[Point::Filter, Point::Score];

    fn filter(&self, class: &Class, node: &NodeView) -> Result<(), Rejection> {
        let app = class.labels.get("app");
        let found = node.pods().filter(|pod| pod.labels.get("app") == app).count();
        if found <= self.count {
            return Ok(());
        }
        let (node, app) = (node.name(), app.unwrap_or("?"));
        Err(Rejection::unschedulable(format!("{node} has {found} pods of {app}")))
    }

    fn score(&self, _class: &Class, node: &NodeView) -> i64 {
        (self.score)(node)
    }

    fn scale(&self) -> Scale {
        self.scale
    }

    fn excluded_score(&self) -> i64 {
        30
    }
}

fn web(name: &str, node: &str) -> Pod {
    let mut pod = Pod { node: node.into(), labels: labels(&[("app", "web")]), ..pod(name) };
    pod.spec_mut().requests_on_node.cpu = 100;
    pod.spec_mut().requests_on_node.scalars = [("example.com/slot".into(), 2)].into();
    pod
}

fn cluster() -> State {
    let full = [web("w1", "a"), web("w2", "a"), web("w3", "b"), web("pending", "")];
    state([node("a"), node("b"), node("c")], full)
}

fn web_class() -> Class {
    Class { labels: labels(&[("app", "web")]), ..class(PodSpec::default()) }
}

fn simple(implementation: MaxPodsPerApp) -> Box<dyn Plugin> {
    plugin(implementation)
}

#[test]
fn reasons_may_differ_between_nodes() {
    assert_eq!(
        verdicts(simple(MaxPodsPerApp::default()), web_class(), &mut cluster()),
        ["a: Unschedulable a has 2 pods of web", "b: ok", "c: ok"]
    );
}

#[test]
fn a_what_if_sees_the_supposed_pods() {
    for (node, added, removed, expected) in [
        ("a", &[][..], &["w2"][..], "ok"),
        ("b", &["pending"], &[], "Unschedulable b has 2 pods of web"),
        ("b", &["pending"], &["w3"], "ok"),
    ] {
        let plugin = simple(MaxPodsPerApp::default());
        let verdict = verdict_if(plugin, web_class(), &mut cluster(), node, added, removed);
        assert_eq!(verdict, expected, "{node} {added:?} {removed:?}");
    }
}

#[test]
fn verdicts_follow_the_pods_on_the_node() {
    let mut state = cluster();
    let profile = profile(simple(MaxPodsPerApp::default()));
    let mut evaluation = Evaluation::new(&profile, web_class(), &mut state);
    let mut feasible = |state: &mut State| {
        evaluation.refresh(&profile, state);
        let nodes = evaluation.feasible().iter();
        nodes.map(|node| state.nodes.name(node).to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(feasible(&mut state), "b c");
    place(&mut state, "pending", "b");
    assert_eq!(feasible(&mut state), "c");
    displace(&mut state, "w1");
    assert_eq!(feasible(&mut state), "a c");
}

#[test]
fn scores_are_scaled_as_the_plugin_specifies() {
    let pods = |node: &NodeView| node.requested("pods");
    let none = |_: &NodeView| 0;
    let no_pods_excluded = |node: &NodeView| match node.requested("pods") {
        0 => EXCLUDED,
        pods => pods,
    };
    let huge = |node: &NodeView| i64::MAX >> node.requested("pods");
    for (score, scale, expected) in [
        (pods as fn(&NodeView) -> i64, Scale::AsIs, ["a: 2", "b: 1", "c: 0"]),
        (pods, Scale::MoreIsBetter, ["a: 100", "b: 50", "c: 0"]),
        (pods, Scale::LessIsBetter, ["a: 0", "b: 50", "c: 100"]),
        (none, Scale::MoreIsBetter, ["a: 0", "b: 0", "c: 0"]),
        (none, Scale::LessIsBetter, ["a: 100", "b: 100", "c: 100"]),
        (huge, Scale::MoreIsBetter, ["a: 100", "b: 100", "c: 100"]),
        (no_pods_excluded, Scale::MoreIsBetter, ["a: 100", "b: 50", "c: 30"]),
        (no_pods_excluded, Scale::LessIsBetter, ["a: 0", "b: 50", "c: 30"]),
    ] {
        let plugin = simple(MaxPodsPerApp { scale, score, ..MaxPodsPerApp::default() });
        let found = scores(&*plugin, &web_class(), &mut cluster()).expect("it scores");
        assert_eq!(found, expected, "{scale:?}");
    }
}

#[test]
fn the_view_shows_the_node() {
    let taint = Taint { key: "k".into(), value: "".into(), effect: TaintEffect::NoExecute };
    let labelled =
        Node { labels: labels(&[("zone", "z1")]), taints: [taint.clone()].into(), ..node("a") };
    let state = state([labelled], [web("w1", "a"), web("w2", "a")]);
    let view = NodeView { state: &state, node: state.nodes.order()[0] };
    assert_eq!((view.name(), view.label("zone"), view.label("rack")), ("a", Some("z1"), None));
    assert_eq!(view.taints(), [taint]);
    for (resource, allocatable, requested) in [
        ("cpu", 4000, 200),
        ("memory", 8 << 30, 0),
        ("pods", 110, 2),
        ("example.com/slot", 0, 4),
        ("example.com/unknown", 0, 0),
    ] {
        assert_eq!(view.allocatable(resource), allocatable, "{resource}");
        assert_eq!(view.requested(resource), requested, "{resource}");
    }
    let mut names: Vec<_> = view.pods().map(|pod| (pod.namespace, pod.name)).collect();
    names.sort_unstable();
    assert_eq!(names, [("default", "w1"), ("default", "w2")]);
}

#[test]
fn an_error_for_one_node_is_a_plain_rejection() {
    struct Fails;
    impl NodePlugin for Fails {
        const NAME: &'static str = "Fails";
        const POINTS: &'static [Point] = &[Point::Filter];

        fn filter(&self, _pod: &Class, _node: &NodeView) -> Result<(), Rejection> {
            Err(Rejection::error("no"))
        }
    }
    let plugin = plugin(Fails);
    assert_eq!(verdicts(plugin, web_class(), &mut state([node("a")], [])), ["a: Unschedulable no"]);
}

#[test]
fn pods_wake_only_plugins_that_read_them() {
    struct Reads(bool);
    impl NodePlugin for Reads {
        const NAME: &'static str = "Reads";
        const POINTS: &'static [Point] = &[Point::Filter];

        fn reads_pods(&self) -> bool {
            self.0
        }
    }
    for reads in [false, true] {
        let plugin = plugin(Reads(reads));
        let subscribed = plugin.subscriptions();
        let on_pods = subscribed.iter().any(|s| s.resource == Resource::AssignedPod);
        assert_eq!(on_pods, reads);
    }
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Limits {
    pod_limit: i64,
    racks: Vec<String>,
}

#[test]
fn args_are_read_with_defaults() {
    let read = |value| args::<Limits>(Some(&Args::Other(value)));
    assert_eq!(args::<Limits>(None), Ok(Limits::default()));
    assert_eq!(read(Value::Null), Ok(Limits::default()));
    let typed = json!({"apiVersion": "example.com/v1", "kind": "LimitsArgs", "podLimit": 3});
    assert_eq!(read(typed), Ok(Limits { pod_limit: 3, racks: Vec::new() }));
}

#[test]
fn wrong_args_are_reported_with_their_path() {
    for (value, expected) in [
        (json!([1]), "args: found [1], expected named fields"),
        (json!("x"), "args: found \"x\", expected named fields"),
        (json!({"podLimit": "3"}), "args.podLimit: invalid type: string \"3\", expected i64"),
        (
            json!({"racks": ["r1", 2]}),
            "args.racks[1]: invalid type: integer `2`, expected a string",
        ),
        (json!({"rack": []}), "args.rack: unknown field `rack`, expected `podLimit` or `racks`"),
    ] {
        let found = args::<Limits>(Some(&Args::Other(value)));
        assert_eq!(found.expect_err("they are wrong"), expected);
    }
}
