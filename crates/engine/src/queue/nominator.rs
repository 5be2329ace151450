//! Nominated pods. Filters count them on their node for pods of equal or lower priority.

use crate::change_log::ChangeLog;
use crate::index::{NodeIdx, PodIdx};
use crate::limits::NODE_CHANGES_MAX;
use crate::map::Map;

/// Nominated pods by node, and nodes by nominated pod.
///
/// Nodes are slots of the node table: call [`Nominator::remove_node`] before a slot is freed.
#[derive(Clone, Debug)]
pub struct Nominator {
    all: Vec<PodIdx>,
    by_node: Map<NodeIdx, Vec<PodIdx>>,
    node_of: Map<PodIdx, NodeIdx>,
    /// Log of nodes whose nominated pods changed.
    changes: ChangeLog<NodeIdx>,
}

/// A nomination and its positions in the order of nomination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NominationMark {
    pod: PodIdx,
    node: NodeIdx,
    position: usize,
    position_on_node: usize,
}

impl Default for Nominator {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            by_node: Map::default(),
            node_of: Map::default(),
            changes: ChangeLog::new(NODE_CHANGES_MAX),
        }
    }
}

impl Nominator {
    /// Returns all nominated pods, in order of nomination.
    pub fn all(&self) -> &[PodIdx] {
        &self.all
    }

    /// Returns the pods nominated for a node, in order of nomination.
    pub fn on(&self, node: NodeIdx) -> &[PodIdx] {
        self.by_node.get(&node).map_or(&[], |pods| pods)
    }

    /// Returns the log of nodes whose nominated pods changed, which evaluations follow.
    pub fn changes(&self) -> &ChangeLog<NodeIdx> {
        &self.changes
    }

    /// Returns the node for which a pod is nominated.
    pub fn node_of(&self, pod: PodIdx) -> Option<NodeIdx> {
        self.node_of.get(&pod).copied()
    }

    /// Nominates a pod, last in order; `NONE` clears its nomination.
    pub fn nominate(&mut self, pod: PodIdx, node: NodeIdx) {
        self.remove(pod);
        if !node.is_some() {
            return;
        }
        self.all.push(pod);
        self.by_node.get_or_insert_with(node, Vec::new).push(pod);
        self.node_of.insert(pod, node);
        self.changes.push(node);
    }

    /// Records an update of a pod, such as new requests, if it is nominated.
    pub fn pod_changed(&mut self, pod: PodIdx) {
        if let Some(node) = self.node_of(pod) {
            self.changes.push(node);
        }
    }

    /// Returns the nomination of a pod with its positions, for [`Self::restore`].
    pub(crate) fn mark(&self, pod: PodIdx) -> Option<NominationMark> {
        let node = self.node_of(pod)?;
        let position = self.all.iter().position(|other| *other == pod)?;
        let position_on_node = self.on(node).iter().position(|other| *other == pod)?;
        Some(NominationMark { pod, node, position, position_on_node })
    }

    /// Restores a nomination that was cleared.
    pub(crate) fn restore(&mut self, mark: NominationMark) {
        let NominationMark { pod, node, position, position_on_node } = mark;
        self.all.insert(position, pod);
        self.by_node.get_or_insert_with(node, Vec::new).insert(position_on_node, pod);
        self.node_of.insert(pod, node);
        self.changes.push(node);
    }

    /// Clears the nomination of a pod and returns its node.
    pub fn remove(&mut self, pod: PodIdx) -> Option<NodeIdx> {
        let node = self.node_of.remove(&pod)?;
        self.changes.push(node);
        self.all.retain(|other| *other != pod);
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.retain(|other| *other != pod);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
        Some(node)
    }

    /// Clears all nominations for a node and returns the pods.
    pub fn remove_node(&mut self, node: NodeIdx) -> Vec<PodIdx> {
        let pods = self.by_node.remove(&node).unwrap_or_default();
        for pod in &pods {
            self.node_of.remove(pod);
        }
        if !pods.is_empty() {
            self.changes.push(node);
            self.all.retain(|pod| self.node_of.contains_key(pod));
        }
        pods
    }

    /// Returns `true` if the three tables agree.
    pub(crate) fn is_sound(&self) -> bool {
        self.all.len() == self.node_of.len()
            && self.all.iter().all(|pod| {
                let node = self.node_of(*pod);
                node.is_some_and(|node| self.on(node).iter().filter(|p| *p == pod).count() == 1)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(nominator: &Nominator, node: u32) -> Vec<u32> {
        assert!(nominator.is_sound());
        nominator.on(NodeIdx(node)).iter().map(|pod| pod.0).collect()
    }

    #[test]
    fn pods_of_a_node_are_in_order_of_nomination() {
        let mut nominator = Nominator::default();
        nominator.nominate(PodIdx(3), NodeIdx(1));
        nominator.nominate(PodIdx(1), NodeIdx(1));
        nominator.nominate(PodIdx(2), NodeIdx(2));
        assert_eq!(pods(&nominator, 1), [3, 1]);
        nominator.nominate(PodIdx(3), NodeIdx(1));
        assert_eq!(pods(&nominator, 1), [1, 3], "a new nomination is the last");
        assert_eq!(nominator.all(), [PodIdx(1), PodIdx(2), PodIdx(3)]);
        assert_eq!(nominator.node_of(PodIdx(2)), Some(NodeIdx(2)));
    }

    #[test]
    fn nominating_for_no_node_ends_a_nomination() {
        let mut nominator = Nominator::default();
        nominator.nominate(PodIdx(1), NodeIdx(1));
        nominator.nominate(PodIdx(1), NodeIdx::NONE);
        assert_eq!(pods(&nominator, 1), []);
        assert_eq!(nominator.all(), []);
        assert_eq!(nominator.node_of(PodIdx(1)), None);
    }

    #[test]
    fn a_removed_node_takes_its_nominations_along() {
        let mut nominator = Nominator::default();
        for pod in 0..4 {
            nominator.nominate(PodIdx(pod), NodeIdx(pod % 2));
        }
        assert_eq!(nominator.remove_node(NodeIdx(0)), [PodIdx(0), PodIdx(2)]);
        assert_eq!(nominator.remove_node(NodeIdx(0)), []);
        assert_eq!(nominator.all(), [PodIdx(1), PodIdx(3)]);
        assert_eq!(nominator.remove(PodIdx(1)), Some(NodeIdx(1)));
        assert_eq!(nominator.remove(PodIdx(1)), None);
        assert_eq!(pods(&nominator, 1), [3]);
    }
}
