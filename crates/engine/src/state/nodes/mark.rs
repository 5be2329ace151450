//! What an undo needs of a node beside its sums, which adding and subtracting restore exactly.

use crate::index::{NodeIdx, PodIdx};
use crate::object::{HostPort, Text};

use super::Nodes;

/// What an undo restores of a node beside its sums.
#[derive(Clone, Debug)]
pub(crate) struct NodeMark {
    node: NodeIdx,
    pods: Vec<PodIdx>,
    ports: Vec<HostPort>,
}

impl NodeMark {
    /// Returns the node.
    pub(crate) fn node(&self) -> NodeIdx {
        self.node
    }
}

impl Nodes {
    /// Saves what [`Self::attach`] and [`Self::detach`] cannot invert: the order of the pods on a
    /// node and its ports.
    pub(crate) fn mark(&self, node: NodeIdx) -> NodeMark {
        NodeMark { node, pods: self.pods(node).to_vec(), ports: self.ports(node).to_vec() }
    }

    /// Restores order and ports once the same pods are on the node again.
    pub(crate) fn restore(&mut self, mark: NodeMark) {
        debug_assert_eq!(mark.pods.len(), self.pods[mark.node.at()].len());
        self.pods[mark.node.at()] = mark.pods;
        self.ports[mark.node.at()] = mark.ports;
    }

    /// Returns `true` if a node does not exist and no pod but this one names it.
    pub(crate) fn is_orphan_of(&self, node: NodeIdx, pod: PodIdx) -> bool {
        self.objects[node.at()].is_none() && self.pods[node.at()] == [pod]
    }

    /// Gives the slot that was freed last its name back.
    pub(crate) fn reclaim(&mut self, node: NodeIdx, name: &Text) {
        let freed = self.free.pop();
        debug_assert_eq!(freed, Some(node), "slots are reclaimed in the inverse order");
        self.set_name(node, name.clone());
    }
}
