//! Plugins of your own that look at one node at a time: implement [`NodePlugin`] and register it.
//!
//! ```
//! use plugins::registry::Registry;
//! use plugins::simple::{self, Class, NodePlugin, NodeView, Point, Rejection};
//!
//! struct NoSpot;
//!
//! impl NodePlugin for NoSpot {
//!     fn filter(&self, _pod: &Class, node: &NodeView) -> Result<(), Rejection> {
//!         match node.label("example.com/spot") {
//!             Some("true") => Err(Rejection::unresolvable("node(s) were spot nodes")),
//!             _ => Ok(()),
//!         }
//!     }
//! }
//!
//! const POINTS: &[Point] = &[Point::Filter];
//! let build = Box::new(|_: Option<&_>| Ok(simple::plugin("NoSpot", POINTS, NoSpot)));
//! let registry = Registry::default().with("NoSpot", POINTS, build);
//! assert!(registry.contains("NoSpot"));
//! ```
//!
//! A plugin that is asked for tens of thousands of nodes, or that needs to know of pods on *other*
//! nodes, implements [`engine::framework::Plugin`] instead.

use std::sync::Arc;

use engine::framework::scorer::{proportional, proportional_reversed};
use engine::framework::{
    Action, Code, Extremes, Filter, NodeVerdict, PreFilterResult, Preparation, Resource, Scorer,
    Subscription,
};
use engine::index::NodeIdx;
use engine::object::{Labels, PodSpec, Taint};
use engine::state::State;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub use api::config::PluginArgs as Args;
pub use engine::framework::{Class, Plugin, Point, Rejection};

/// A plugin that judges one node at a time. Implement what you need.
///
/// Answers may depend on nothing but the arguments, the pod and what the view shows of the node:
/// they are kept and asked for again only when one of these changes.
pub trait NodePlugin: Send + Sync + 'static {
    /// May the pod go to the node? [`Rejection::unresolvable`] says that removing pods cannot help.
    fn filter(&self, _pod: &Class, _node: &NodeView) -> Result<(), Rejection> {
        Ok(())
    }

    /// How good the node is. After scaling (see [`NodePlugin::scale`]) it must lie between 0 and 100.
    fn score(&self, _pod: &Class, _node: &NodeView) -> i64 {
        0
    }

    /// How scores become numbers between 0 and 100.
    fn scale(&self) -> Scale {
        Scale::AsIs
    }

    /// Whether answers depend on the pods on the node, or on what these request. If not, say so:
    /// it saves work.
    fn reads_pods(&self) -> bool {
        true
    }
}

/// How scores become numbers between 0 and 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// They are that already. Anything else fails the attempt, as it does upstream.
    AsIs,
    /// The highest becomes 100, the others in proportion. None may be negative.
    MoreIsBetter,
    /// Zero becomes 100 and the highest becomes 0. None may be negative.
    LessIsBetter,
}

/// What a plugin sees of a node.
#[derive(Clone, Copy)]
pub struct NodeView<'a> {
    state: &'a State,
    node: NodeIdx,
}

/// What a plugin sees of a pod on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedPod<'a> {
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// Labels.
    pub labels: &'a Labels,
    /// Spec.
    pub spec: &'a PodSpec,
}

impl<'a> NodeView<'a> {
    /// Name.
    pub fn name(&self) -> &'a str {
        self.state.nodes.name(self.node)
    }

    /// Labels.
    pub fn labels(&self) -> &'a Labels {
        &self.state.nodes.object(self.node).labels
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.labels().get(key)
    }

    /// Taints.
    pub fn taints(&self) -> &'a [Taint] {
        &self.state.nodes.object(self.node).taints
    }

    /// How much of a resource the node offers: cpu in thousandths, memory in bytes, pods as a number.
    pub fn allocatable(&self, resource: &str) -> i64 {
        let nodes = &self.state.nodes;
        if resource == PODS {
            return nodes.allowed_pods()[self.node.at()];
        }
        let index = self.state.resources.get(resource);
        index.map_or(0, |index| nodes.allocatable_of(index, self.node))
    }

    /// How much of a resource the pods on the node request.
    pub fn requested(&self, resource: &str) -> i64 {
        let nodes = &self.state.nodes;
        if resource == PODS {
            return nodes.pods(self.node).len() as i64;
        }
        let index = self.state.resources.get(resource);
        index.map_or(0, |index| nodes.requested_of(index, self.node))
    }

    /// The pods on the node, in no particular order.
    pub fn pods(&self) -> impl Iterator<Item = PlacedPod<'a>> + use<'a> {
        let state = self.state;
        state.nodes.pods(self.node).iter().map(move |pod| PlacedPod {
            namespace: state.namespace(*pod),
            name: &state.pods.get(*pod).name,
            labels: state.labels(*pod),
            spec: state.spec(*pod),
        })
    }
}

const PODS: &str = "pods";

/// Makes a plugin for the engine. Points are [`Point::Filter`], [`Point::Score`], or both.
pub fn plugin(name: &str, points: &'static [Point], plugin: impl NodePlugin) -> Box<dyn Plugin> {
    Box::new(NodePluginAdapter { name: name.to_owned(), points, plugin: Arc::new(plugin) })
}

/// Reads the arguments of a plugin from its `pluginConfig`, or says where they are wrong and what was found.
///
/// Arguments that are not given are read as `{}`; `apiVersion` and `kind` may be there and mean nothing.
pub fn args<T: DeserializeOwned>(args: Option<&Args>) -> Result<T, String> {
    let mut fields = match args {
        None | Some(Args::Other(Value::Null)) => Map::new(),
        Some(Args::Other(Value::Object(fields))) => fields.clone(),
        Some(Args::Other(value)) => {
            return Err(format!("args: found {value}, expected named fields"));
        }
        Some(_) => return Err("its name is that of an in-tree plugin with other args".to_owned()),
    };
    fields.retain(|name, _| !matches!(&**name, "apiVersion" | "kind"));
    serde_path_to_error::deserialize(Value::Object(fields)).map_err(|error| {
        match error.path().to_string() {
            path if path == "." => format!("args: {}", error.inner()),
            path => format!("args.{path}: {}", error.inner()),
        }
    })
}

struct NodePluginAdapter<P> {
    name: String,
    points: &'static [Point],
    plugin: Arc<P>,
}

impl<P: NodePlugin> NodePluginAdapter<P> {
    fn for_class(&self, class: &Class) -> PluginForClass<P> {
        PluginForClass { plugin: Arc::clone(&self.plugin), class: class.clone() }
    }
}

impl<P: NodePlugin> Plugin for NodePluginAdapter<P> {
    fn name(&self) -> &str {
        &self.name
    }

    fn points(&self) -> &'static [Point] {
        self.points
    }

    fn prepare_filter(&self, class: &Class, _preparation: &mut Preparation) -> PreFilterResult {
        PreFilterResult::Filter(Box::new(self.for_class(class)))
    }

    fn prepare_score(
        &self,
        class: &Class,
        _preparation: &mut Preparation,
    ) -> Option<Box<dyn Scorer>> {
        Some(Box::new(self.for_class(class)))
    }

    /// Everything that can change an answer for some node.
    fn subscriptions(&self) -> Vec<Subscription> {
        let mut all = vec![
            Subscription { resource: Resource::Node, action: Action::ADD.with(Action::UPDATE) },
            Subscription { resource: Resource::UnschedulablePod, action: Action::UPDATE },
        ];
        if self.plugin.reads_pods() {
            all.push(Subscription { resource: Resource::AssignedPod, action: Action::ALL });
        }
        all
    }
}

/// The plugin with the class that it is asked about.
struct PluginForClass<P> {
    plugin: Arc<P>,
    class: Class,
}

impl<P: NodePlugin> Filter for PluginForClass<P> {
    fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict {
        let answer = self.plugin.filter(&self.class, &NodeView { state, node });
        if answer.is_ok() { NodeVerdict::PASS } else { NodeVerdict(1) }
    }

    /// Asks again: texts may hold anything, so keeping them could take any amount of memory.
    fn rejection(&self, state: &State, node: NodeIdx, _answer: NodeVerdict) -> Rejection {
        let answer = self.plugin.filter(&self.class, &NodeView { state, node });
        let mut rejection = answer.err().unwrap_or_else(|| {
            Rejection::unschedulable("node(s) were turned down for a reason that changes")
        });
        // A plugin that judges one node has no say over the attempt as a whole.
        if rejection.code != Code::UnschedulableAndUnresolvable {
            rejection.code = Code::Unschedulable;
        }
        rejection
    }

    fn rejection_varies(&self, _answer: NodeVerdict) -> bool {
        true
    }

    fn reads_pods(&self) -> bool {
        self.plugin.reads_pods()
    }
}

/// Scores further from zero than this could overflow when they are scaled.
const SCORE_LIMIT: i64 = i64::MAX / 100;

impl<P: NodePlugin> Scorer for PluginForClass<P> {
    fn score(&mut self, state: &State, node: NodeIdx) -> i64 {
        let score = self.plugin.score(&self.class, &NodeView { state, node });
        score.clamp(-SCORE_LIMIT, SCORE_LIMIT)
    }

    fn reads_pods(&self) -> bool {
        self.plugin.reads_pods()
    }

    fn normalises(&self) -> bool {
        self.plugin.scale() != Scale::AsIs
    }

    fn normalise(&self, raw: i64, extremes: Extremes) -> i64 {
        match self.plugin.scale() {
            Scale::AsIs => raw,
            Scale::MoreIsBetter => proportional(raw, extremes),
            Scale::LessIsBetter => proportional_reversed(raw, extremes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::cycle::evaluation::Evaluation;
    use engine::object::{Node, Pod, TaintEffect};
    use engine::testing::{
        class, displace, labels, node, place, pod, profile, scores, state, verdict_if, verdicts,
    };
    use serde::Deserialize;
    use serde_json::json;

    const POINTS: &[Point] = &[Point::Filter, Point::Score];

    /// At most so many pods of the same app on a node; scores are what `score` says.
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
        plugin("MaxPodsPerApp", POINTS, implementation)
    }

    #[test]
    fn reasons_may_tell_of_the_node() {
        assert_eq!(
            verdicts(simple(MaxPodsPerApp::default()), web_class(), &mut cluster()),
            ["a: Unschedulable a has 2 pods of web", "b: ok", "c: ok"]
        );
    }

    #[test]
    fn what_if_questions_see_the_pods_that_would_be_there() {
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
    fn answers_follow_the_pods_on_the_node() {
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
    fn scores_are_scaled_as_the_plugin_says() {
        let pods = |node: &NodeView| node.requested("pods");
        let none = |_: &NodeView| 0;
        let huge = |node: &NodeView| i64::MAX >> node.requested("pods");
        for (score, scale, expected) in [
            (pods as fn(&NodeView) -> i64, Scale::AsIs, ["a: 2", "b: 1", "c: 0"]),
            (pods, Scale::MoreIsBetter, ["a: 100", "b: 50", "c: 0"]),
            (pods, Scale::LessIsBetter, ["a: 0", "b: 50", "c: 100"]),
            (none, Scale::MoreIsBetter, ["a: 0", "b: 0", "c: 0"]),
            (none, Scale::LessIsBetter, ["a: 100", "b: 100", "c: 100"]),
            (huge, Scale::MoreIsBetter, ["a: 100", "b: 100", "c: 100"]),
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
    fn other_codes_than_upstream_knows_for_nodes_are_refusals() {
        struct Fails;
        impl NodePlugin for Fails {
            fn filter(&self, _pod: &Class, _node: &NodeView) -> Result<(), Rejection> {
                Err(Rejection::error("no"))
            }
        }
        let plugin = plugin("Fails", POINTS, Fails);
        assert_eq!(
            verdicts(plugin, web_class(), &mut state([node("a")], [])),
            ["a: Unschedulable no"]
        );
    }

    #[test]
    fn pods_wake_only_plugins_that_read_them() {
        struct Reads(bool);
        impl NodePlugin for Reads {
            fn reads_pods(&self) -> bool {
                self.0
            }
        }
        for reads in [false, true] {
            let plugin = plugin("Reads", POINTS, Reads(reads));
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
    fn wrong_args_are_told_with_their_place() {
        for (value, expected) in [
            (json!([1]), "args: found [1], expected named fields"),
            (json!("x"), "args: found \"x\", expected named fields"),
            (json!({"podLimit": "3"}), "args.podLimit: invalid type: string \"3\", expected i64"),
            (
                json!({"racks": ["r1", 2]}),
                "args.racks[1]: invalid type: integer `2`, expected a string",
            ),
            (
                json!({"rack": []}),
                "args.rack: unknown field `rack`, expected `podLimit` or `racks`",
            ),
        ] {
            let found = args::<Limits>(Some(&Args::Other(value)));
            assert_eq!(found.expect_err("they are wrong"), expected);
        }
    }
}
