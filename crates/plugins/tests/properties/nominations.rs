//! For which nodes pods must be nominated, worked out from what was written and shown.

use std::collections::{BTreeMap, BTreeSet};

use engine::object::{Node, Text, Uid};

use crate::world::KnownPod;

/// Nominations as they must be.
#[derive(Default)]
pub(crate) struct Nominations {
    /// Nodes for which waiting pods must be nominated.
    pub(crate) nodes: BTreeMap<Uid, Text>,
    /// The same of pods that are kept out, or whose node does not exist.
    inactive: BTreeMap<Uid, Text>,
    /// Pods that the watch will pod_shown with a nomination that the engines did not write.
    pub(crate) foreign: BTreeSet<Uid>,
    /// Values of `status.nominatedNodeName` that are to be written, in order.
    pub(crate) writes: Vec<(Uid, Text)>,
}

impl Nominations {
    /// The watch shows a pod. A nomination that the engines had written says nothing: they decided it
    /// before, and perhaps another since.
    pub(crate) fn pod_shown(&mut self, uid: &Uid, node: &Text, assumed_on: bool) {
        if !self.foreign.remove(uid) || assumed_on {
            return;
        }
        self.forget(uid);
        if !node.is_empty() {
            self.inactive.insert(uid.clone(), node.clone());
        }
    }

    /// A pod is placed, bound or gone.
    pub(crate) fn forget(&mut self, uid: &Uid) {
        self.nodes.remove(uid);
        self.inactive.remove(uid);
    }

    /// A node goes.
    pub(crate) fn node_gone(&mut self, name: &Text) {
        self.nodes.retain(|_, node| node != name);
    }

    /// What was shown holds once the node exists and the pod is let in.
    pub(crate) fn activate(
        &mut self,
        nodes: &BTreeMap<Text, Node>,
        known: &BTreeMap<Uid, KnownPod>,
    ) {
        let is_active = |uid: &Uid, node: &Text| {
            nodes.contains_key(node) && known.get(uid).is_some_and(|pod| pod.pod.gates.is_empty())
        };
        let inactive = std::mem::take(&mut self.inactive).into_iter();
        let (activated, inactive): (BTreeMap<_, _>, BTreeMap<_, _>) =
            inactive.partition(|(uid, node)| is_active(uid, node));
        self.nodes.extend(activated);
        self.inactive = inactive;
    }

    /// The engines decided for which node a pod is nominated.
    pub(crate) fn record_decision(&mut self, uid: &Uid, node: Text, assumed_on: bool) {
        self.forget(uid);
        if !node.is_empty() && !assumed_on {
            self.nodes.insert(uid.clone(), node.clone());
        }
        self.writes.push((uid.clone(), node));
    }

    /// Takes out the first write of some pod.
    pub(crate) fn next_write(&mut self, which: usize) -> Option<(Uid, Text)> {
        let which = which.checked_rem(self.writes.len())?;
        let uid = &self.writes[which].0;
        let first = self.writes.iter().position(|(other, _)| other == uid)?;
        Some(self.writes.remove(first))
    }
}
