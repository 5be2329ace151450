//! The order in which nodes are visited: round robin over zones, as in upstream's node tree.

use std::sync::Arc;

use crate::index::NodeIdx;
use crate::object::{Labels, Text};

/// The visiting order and its inverse.
#[derive(Clone, Debug, Default)]
pub struct VisitOrder {
    /// Nodes by position.
    pub nodes: Vec<NodeIdx>,
    /// Positions by node slot; `u32::MAX` for slots without a node.
    pub position_of: Vec<u32>,
}

/// Nodes by zone; zones in order of first appearance, nodes in order of arrival.
#[derive(Clone, Debug, Default)]
pub struct NodeOrder {
    zones: Vec<(Text, Vec<NodeIdx>)>,
    visit_order: Arc<VisitOrder>,
    /// Set if a node was added or removed since the order was computed.
    stale: bool,
}

impl NodeOrder {
    /// Appends a node to its zone.
    pub(crate) fn add(&mut self, node: NodeIdx, labels: &Labels) {
        self.stale = true;
        self.file(node, labels);
    }

    fn file(&mut self, node: NodeIdx, labels: &Labels) {
        let zone = zone_of(labels);
        match self.zones.iter_mut().find(|(name, _)| *name == zone) {
            Some((_, nodes)) => nodes.push(node),
            None => self.zones.push((zone, vec![node])),
        }
    }

    /// Removes a node and its zone if that is empty; the zone returns at the end of the zones.
    pub(crate) fn remove(&mut self, node: NodeIdx, labels: &Labels) {
        self.stale = true;
        self.unfile(node, labels);
    }

    fn unfile(&mut self, node: NodeIdx, labels: &Labels) {
        let zone = zone_of(labels);
        if let Some((_, nodes)) = self.zones.iter_mut().find(|(name, _)| *name == zone) {
            nodes.retain(|other| *other != node);
        }
        self.zones.retain(|(_, nodes)| !nodes.is_empty());
    }

    /// Moves a node whose zone labels changed. The visiting order changes only when nodes are added
    /// or removed.
    pub(crate) fn update(&mut self, node: NodeIdx, old: &Labels, new: &Labels) {
        if zone_of(old) != zone_of(new) {
            self.unfile(node, old);
            self.file(node, new);
        }
    }

    /// Recomputes the visiting order if nodes were added or removed: the first node of each zone,
    /// then the second of each, and so on.
    pub(crate) fn refresh(&mut self) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        let total = self.zones.iter().map(|(_, nodes)| nodes.len()).sum();
        let mut order = Vec::with_capacity(total);
        let mut round = 0;
        while order.len() < total {
            order.extend(self.zones.iter().filter_map(|(_, nodes)| nodes.get(round)));
            round += 1;
        }
        let slots = order.iter().map(|node: &NodeIdx| node.at() + 1).max().unwrap_or(0);
        let mut position_of = vec![u32::MAX; slots];
        for (position, node) in order.iter().enumerate() {
            position_of[node.at()] = position as u32;
        }
        self.visit_order = Arc::new(VisitOrder { nodes: order, position_of });
    }

    /// Recomputes the order for a read that must leave no trace; [`Self::end_peek`] ends it.
    pub(crate) fn peek(&mut self) -> OrderPeek {
        let stale = self.stale;
        self.refresh();
        OrderPeek(stale)
    }

    /// Restores the pending recomputation, which then happens at the next attempt.
    pub(crate) fn end_peek(&mut self, before: OrderPeek) {
        self.stale |= before.0;
    }

    /// Returns the nodes in visiting order.
    pub fn nodes(&self) -> &[NodeIdx] {
        debug_assert!(!self.stale, "the order is refreshed before it is read");
        &self.visit_order.nodes
    }

    /// Returns the shared visiting order.
    pub fn visit_order(&self) -> &Arc<VisitOrder> {
        &self.visit_order
    }
}

/// Stores whether a recomputation of the order was pending.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct OrderPeek(bool);

fn zone_of(labels: &Labels) -> Text {
    let label = |old: &str, new: &str| labels.get(old).or_else(|| labels.get(new)).unwrap_or("");
    let region = label("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region");
    let zone = label("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone");
    if region.is_empty() && zone.is_empty() {
        return "".into();
    }
    format!("{region}:\0:{zone}").into()
}

#[cfg(test)]
mod tests;
