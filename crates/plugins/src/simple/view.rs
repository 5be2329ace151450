//! Nodes and pods as plugins in short form see them.

use engine::framework::PluginState;
use engine::index::NodeIdx;
use engine::object::{Labels, PodSpec, Taint};
use engine::state::State;

/// A node, as plugins see it.
#[derive(Clone, Copy)]
pub struct NodeView<'a> {
    pub(super) state: &'a State,
    pub(super) node: NodeIdx,
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
    /// Returns the time of the decision in nanoseconds since the epoch. A plugin that reads it says
    /// until when its results hold: see [`NodePlugin::valid_until`](super::NodePlugin::valid_until).
    pub fn now(&self) -> i64 {
        self.state.now()
    }

    /// Returns the plugin's state: see
    /// [`NodePlugin::initial_state`](super::NodePlugin::initial_state).
    pub fn plugin_state<T: PluginState>(&self) -> Option<&'a T> {
        self.state.plugin_states.get()
    }

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

    /// Returns the value of an annotation whose key the plugin declares: see
    /// [`NodePlugin::annotations`](super::NodePlugin::annotations).
    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        self.state.nodes.object(self.node).annotations.get(key)
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
