//! The nominations that the engines must hold, computed from what was written and shown.

use std::collections::{BTreeMap, BTreeSet};

use engine::object::{Node, Text, Uid};

use crate::world::KnownPod;

/// The expected nominations.
#[derive(Default)]
pub(crate) struct Nominations {
    /// The nominated node of each waiting pod.
    pub(crate) nodes: BTreeMap<Uid, Text>,
    /// Nominations of gated pods, and for nodes that do not exist.
    inactive: BTreeMap<Uid, Text>,
    /// Pods that the watch will show with a nomination by another program.
    pub(crate) foreign: BTreeSet<Uid>,
    /// Values of `status.nominatedNodeName` that are not written yet, in order.
    pub(crate) writes: Vec<(Uid, Text)>,
}

impl Nominations {
    /// The watch shows a pod. A nomination that the engines had written changes nothing: they know it
    /// already, and may have decided on another node since.
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

    /// A node is deleted.
    pub(crate) fn node_gone(&mut self, name: &Text) {
        self.nodes.retain(|_, node| node != name);
    }

    /// A shown nomination holds once its node exists and the pod is not gated.
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
