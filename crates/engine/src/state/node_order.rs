//! The order in which nodes are visited: round robin over zones, as upstream's node tree.

use crate::index::NodeIdx;
use crate::object::{Labels, Text};

/// Nodes by zone, zones in order of first appearance, nodes in order of arrival.
#[derive(Clone, Debug, Default)]
pub struct NodeOrder {
    zones: Vec<(Text, Vec<NodeIdx>)>,
    order: Vec<NodeIdx>,
}

impl NodeOrder {
    /// Adds a node to the end of its zone.
    pub(crate) fn add(&mut self, node: NodeIdx, labels: &Labels) {
        let zone = zone_of(labels);
        match self.zones.iter_mut().find(|(name, _)| *name == zone) {
            Some((_, nodes)) => nodes.push(node),
            None => self.zones.push((zone, vec![node])),
        }
    }

    /// Removes a node; an empty zone goes too, and comes back at the end.
    pub(crate) fn remove(&mut self, node: NodeIdx, labels: &Labels) {
        let zone = zone_of(labels);
        if let Some((_, nodes)) = self.zones.iter_mut().find(|(name, _)| *name == zone) {
            nodes.retain(|other| *other != node);
        }
        self.zones.retain(|(_, nodes)| !nodes.is_empty());
    }

    /// Moves a node whose zone labels changed. The visiting order stays until a node comes or goes.
    pub(crate) fn update(&mut self, node: NodeIdx, old: &Labels, new: &Labels) {
        if zone_of(old) != zone_of(new) {
            self.remove(node, old);
            self.add(node, new);
        }
    }

    /// Lays the visiting order anew: the first node of each zone, then the second of each, ….
    pub(crate) fn rebuild(&mut self) {
        let total = self.zones.iter().map(|(_, nodes)| nodes.len()).sum();
        self.order.clear();
        let mut round = 0;
        while self.order.len() < total {
            self.order.extend(self.zones.iter().filter_map(|(_, nodes)| nodes.get(round)));
            round += 1;
        }
    }

    /// The nodes in visiting order.
    pub fn nodes(&self) -> &[NodeIdx] {
        &self.order
    }
}

fn zone_of(labels: &Labels) -> Text {
    let label = |old: &str, new: &str| labels.get(old).or_else(|| labels.get(new)).unwrap_or("");
    let region = label("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region");
    let zone = label("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone");
    if region.is_empty() && zone.is_empty() {
        return "".into();
    }
    format!("{region}:\0:{zone}").into()
}
