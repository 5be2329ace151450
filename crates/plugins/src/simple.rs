//! Custom plugins that look at one node at a time: implement [`NodePlugin`] and register it.
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
//! A plugin that depends on pods of *other* nodes, or that must be fast on tens of thousands of nodes,
//! implements [`engine::framework::Plugin`] instead.

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

/// A plugin that looks at one node at a time. All methods have defaults; implement those you need.
///
/// Results must depend only on the arguments, the pod and the [`NodeView`]: they are cached, and the
/// methods are called again only when one of these changes.
pub trait NodePlugin: Send + Sync + 'static {
    /// Accepts or rejects a node. [`Rejection::unresolvable`] means that evicting pods cannot help.
    fn filter(&self, _pod: &Class, _node: &NodeView) -> Result<(), Rejection> {
        Ok(())
    }

    /// Returns the raw score of a node. After scaling (see [`NodePlugin::scale`]) it must lie between 0
    /// and 100.
    fn score(&self, _pod: &Class, _node: &NodeView) -> i64 {
        0
    }

    /// Returns how raw scores are scaled to the range of 0 to 100.
    fn scale(&self) -> Scale {
        Scale::AsIs
    }

    /// Returns `true` if results depend on the pods of the node or on their requests. `false` saves the
    /// calls after each change of these pods.
    fn reads_pods(&self) -> bool {
        true
    }
}

/// Scaling of raw scores to the range of 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// No scaling. A score outside of the range fails the scheduling attempt, as it does upstream.
    AsIs,
    /// The highest score becomes 100, the others are scaled in proportion. Scores must not be negative.
    MoreIsBetter,
    /// Zero becomes 100 and the highest score becomes 0. Scores must not be negative.
    LessIsBetter,
}

/// A node, as plugins see it.
#[derive(Clone, Copy)]
pub struct NodeView<'a> {
    state: &'a State,
    node: NodeIdx,
}

/// A pod on a node, as plugins see it.
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
    /// Returns the name.
    pub fn name(&self) -> &'a str {
        self.state.nodes.name(self.node)
    }

    /// Returns the labels.
    pub fn labels(&self) -> &'a Labels {
        &self.state.nodes.object(self.node).labels
    }

    /// Returns the value of a label.
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.labels().get(key)
    }

    /// Returns the taints.
    pub fn taints(&self) -> &'a [Taint] {
        &self.state.nodes.object(self.node).taints
    }

    /// Returns the allocatable amount of a resource: cpu in thousandths of a core, memory in bytes, other
    /// resources (also `pods`) as a number.
    pub fn allocatable(&self, resource: &str) -> i64 {
        let nodes = &self.state.nodes;
        if resource == PODS {
            return nodes.allowed_pods()[self.node.at()];
        }
        let index = self.state.resources.get(resource);
        index.map_or(0, |index| nodes.allocatable_of(index, self.node))
    }

    /// Returns the amount of a resource that the pods on the node request.
    pub fn requested(&self, resource: &str) -> i64 {
        let nodes = &self.state.nodes;
        if resource == PODS {
            return nodes.pods(self.node).len() as i64;
        }
        let index = self.state.resources.get(resource);
        index.map_or(0, |index| nodes.requested_of(index, self.node))
    }

    /// Returns the pods on the node, in no particular order.
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

/// Adapts a plugin for the engine. `points` is [`Point::Filter`], [`Point::Score`], or both.
pub fn plugin(name: &str, points: &'static [Point], plugin: impl NodePlugin) -> Box<dyn Plugin> {
    Box::new(NodePluginAdapter { name: name.to_owned(), points, plugin: Arc::new(plugin) })
}

/// Reads the arguments of a plugin from its `pluginConfig`, or returns the wrong field and its value.
///
/// Absent arguments are read as `{}`; `apiVersion` and `kind` are ignored.
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

    /// Returns all events that can change a result for some node.
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

/// The plugin, with the class that it filters or scores for.
struct PluginForClass<P> {
    plugin: Arc<P>,
    class: Class,
}

impl<P: NodePlugin> Filter for PluginForClass<P> {
    fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict {
        let result = self.plugin.filter(&self.class, &NodeView { state, node });
        if result.is_ok() { NodeVerdict::PASS } else { NodeVerdict(1) }
    }

    /// Calls the plugin again: every node may have a text of its own, so caching them is not bounded.
    fn rejection(&self, state: &State, node: NodeIdx, _answer: NodeVerdict) -> Rejection {
        let result = self.plugin.filter(&self.class, &NodeView { state, node });
        let mut rejection = result.err().unwrap_or_else(|| {
            Rejection::unschedulable("node(s) were rejected without a stable reason")
        });
        // A rejection of one node must not fail the attempt as a whole.
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

/// Largest absolute raw score; scaling larger ones could overflow.
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
mod tests;
