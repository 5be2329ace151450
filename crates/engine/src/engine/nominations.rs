//! Nominations: those decided here and those that the API server shows.
//!
//! ```text
//! decided here ──────────────▶ nominator ◀── shown by the API server, but not written here
//!      └─▶ written ─▶ shown                    └─ node does not exist yet: claimed when it is added
//! ```
//!
//! A decision applies at once. The API server shows it later, possibly after an earlier value that
//! was still being written, so a value written here never replaces a later decision. A nomination
//! ends when its pod is assumed, bound or deleted, when its node is removed, when a pod of higher
//! priority is nominated for the node, or by a decision or a value of the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::command::Command;
use crate::framework::event::Object;
use crate::framework::{Action, Event, Resource};
use crate::index::{NodeIdx, PodIdx};
use crate::limits::WRITTEN_NOMINATIONS_MAX;
use crate::map::Map;
use crate::object::Text;
use crate::queue::{OwnedPod, QueueStage, WakeScope};

use super::Engine;

/// Effect of a failed attempt on the nomination of its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nomination {
    /// The nomination stays (upstream's `ModeNoop`).
    Keep,
    /// The pod is nominated for this node; `NONE` clears the nomination (upstream's
    /// `ModeOverride`).
    Override(NodeIdx),
}

/// `status.nominatedNodeName` of waiting pods.
#[derive(Clone, Debug, Default)]
pub(super) struct Nominations {
    /// Fields by pod; pods whose field was never set have none.
    fields: Map<PodIdx, NominationField>,
    /// Pods with a claim that is [`NominationClaim::Open`] because the node of this name does not
    /// exist.
    awaiting: BTreeMap<Text, BTreeSet<PodIdx>>,
}

/// `status.nominatedNodeName` of one pod.
#[derive(Clone, Debug, Default)]
struct NominationField {
    /// Value that the API server showed last.
    shown: Text,
    /// Values written since and not shown yet, in order.
    written: Vec<Text>,
    claim: NominationClaim,
}

/// Effect of the latest value on the nominator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum NominationClaim {
    /// The nominator has it.
    #[default]
    Settled,
    /// The nominator gets it once the node exists and PreEnqueue admits the pod.
    Open,
    /// None, since the node was removed.
    Ended,
}

impl NominationField {
    /// Returns the latest value, shown or not.
    fn latest(&self) -> &Text {
        self.written.last().unwrap_or(&self.shown)
    }
}

impl Nominations {
    /// Records a value that the API server shows. Returns `true` if it replaces the decision made
    /// here.
    fn observe(&mut self, pod: PodIdx, value: &Text) -> bool {
        let shown = self.fields.get(&pod).map_or("", |field| &field.shown);
        if shown == value {
            return false;
        }
        self.stop_awaiting(pod);
        let field = self.fields.get_or_insert_with(pod, NominationField::default);
        field.shown = value.clone();
        let place = field.written.iter().position(|written| written == value);
        if let Some(place) = place {
            field.written.drain(..=place);
        } else {
            field.written.clear();
            field.claim =
                if value.is_empty() { NominationClaim::Settled } else { NominationClaim::Open };
        }
        self.drop_if_unset(pod);
        place.is_none()
    }

    /// Records a value that is about to be written.
    pub(super) fn write(&mut self, pod: PodIdx, value: Text) {
        self.settle(pod);
        let field = self.fields.get_or_insert_with(pod, NominationField::default);
        if *field.latest() != value {
            field.written.push(value);
        }
        if field.written.len() > WRITTEN_NOMINATIONS_MAX {
            field.written.remove(0);
        }
        self.drop_if_unset(pod);
    }

    /// Returns a value that applies here but that the API server does not show.
    fn unconfirmed(&self, pod: PodIdx) -> Option<Text> {
        let field = self.fields.get(&pod)?;
        field.written.last().filter(|_| field.claim == NominationClaim::Settled).cloned()
    }

    /// Returns the node name of an open claim.
    fn open_claim(&self, pod: PodIdx) -> Option<Text> {
        let field = self.fields.get(&pod)?;
        (field.claim == NominationClaim::Open).then(|| field.shown.clone())
    }

    /// Makes an open claim wait for a node.
    fn await_node(&mut self, pod: PodIdx, name: Text) {
        self.awaiting.entry(name).or_default().insert(pod);
    }

    /// Closes an open claim.
    pub(super) fn settle(&mut self, pod: PodIdx) {
        self.stop_awaiting(pod);
        if let Some(field) = self.fields.get_mut(&pod) {
            field.claim = NominationClaim::Settled;
        }
    }

    /// Ends the nomination of a pod whose node is removed.
    fn end(&mut self, pod: PodIdx) {
        if let Some(field) = self.fields.get_mut(&pod) {
            field.claim = NominationClaim::Ended;
        }
    }

    /// Drops the field of a pod that no longer waits.
    pub(super) fn forget(&mut self, pod: PodIdx) {
        self.stop_awaiting(pod);
        self.fields.remove(&pod);
    }

    fn stop_awaiting(&mut self, pod: PodIdx) {
        let Some(name) = self.open_claim(pod) else { return };
        let Some(pods) = self.awaiting.get_mut(&name) else { return };
        pods.remove(&pod);
        if pods.is_empty() {
            self.awaiting.remove(&name);
        }
    }

    fn drop_if_unset(&mut self, pod: PodIdx) {
        let unset = |field: &NominationField| field.shown.is_empty() && field.written.is_empty();
        if self.fields.get(&pod).is_some_and(unset) {
            self.fields.remove(&pod);
        }
    }
}

impl Engine {
    /// Nominates a pod for a node; `NONE` clears its nomination. Returns `true` if
    /// it was nominated for another node before.
    fn nominate(&mut self, pod: PodIdx, node: NodeIdx) -> bool {
        let before = self.core.nominator.node_of(pod);
        if before.unwrap_or(NodeIdx::NONE) != node {
            self.core.nominator.nominate(pod, node);
            self.core.state.set_nominated(pod, node);
        }
        before.is_some_and(|before| before != node)
    }

    /// Applies the decision of a failed attempt, or of a preemptor of higher priority, and returns
    /// the value to write, if any.
    pub(super) fn decide_nomination(
        &mut self,
        pod: PodIdx,
        nomination: Nomination,
    ) -> Option<Text> {
        let Nomination::Override(node) = nomination else {
            return self.nominations.unconfirmed(pod);
        };
        let name =
            if node.is_some() { self.core.state.nodes.name(node).into() } else { Text::default() };
        self.nominations.write(pod, name.clone());
        let old = self.core.nominator.node_of(pod).map(|_| self.owned_pod(pod));
        if self.nominate(pod, node)
            && let Some(old) = old
        {
            self.wake_up_to_priority(pod, &old);
        }
        Some(name)
    }

    /// Clears the nominations of pods with lower priority for a node that `pod` is nominated for
    /// now.
    pub(super) fn end_lower_nominations(&mut self, pod: PodIdx, node: NodeIdx) {
        let priority = self.core.state.pods.get(pod).priority;
        for rival in self.core.nominator.on(node).to_vec() {
            if self.core.state.pods.get(rival).priority >= priority {
                continue;
            }
            let none = Nomination::Override(NodeIdx::NONE);
            if let Some(node) = self.decide_nomination(rival, none) {
                self.commands.push(Command::Nominate { pod: self.pod_ref(rival), node });
            }
        }
    }

    /// Clears the nomination of an assumed pod and returns its node.
    pub(super) fn end_nomination(&mut self, pod: PodIdx) -> Option<NodeIdx> {
        self.nominations.settle(pod);
        self.core.state.set_nominated(pod, NodeIdx::NONE);
        self.core.nominator.remove(pod)
    }

    /// Applies the value that the API server shows of a waiting pod; `old` is the pod before the
    /// update.
    pub(super) fn observe_nomination(&mut self, pod: PodIdx, value: &Text, old: Option<&OwnedPod>) {
        let before = self.core.nominator.node_of(pod);
        if self.nominations.observe(pod, value) {
            self.nominate(pod, NodeIdx::NONE);
        }
        self.claim_nomination(pod);
        if before != self.core.nominator.node_of(pod)
            && before.is_some()
            && let Some(old) = old
        {
            self.wake_up_to_priority(pod, old);
        }
    }

    /// Records the value that the API server shows of an assumed pod.
    pub(super) fn observe_nomination_while_assumed(&mut self, pod: PodIdx, value: &Text) {
        self.nominations.observe(pod, value);
        self.nominations.settle(pod);
    }

    /// Nominates a pod for the node that the API server shows, if the node exists and PreEnqueue
    /// admits the pod.
    pub(super) fn claim_nomination(&mut self, pod: PodIdx) {
        let Some(name) = self.nominations.open_claim(pod) else { return };
        let gated = self.queue.stage(pod) == Some(QueueStage::Gated);
        if gated && !self.core.preemptions.contains_key(&pod) {
            return;
        }
        match self.core.state.nodes.find(&name) {
            Some(node) => {
                self.nominations.settle(pod);
                self.nominate(pod, node);
            }
            None => self.nominations.await_node(pod, name),
        }
    }

    /// Claims the nominations for a node that was added.
    pub(super) fn claim_nominations_for(&mut self, name: &str) {
        for pod in self.nominations.awaiting.remove(name).unwrap_or_default() {
            self.claim_nomination(pod);
        }
    }

    /// Clears the nominations for a node that is about to be removed.
    pub(super) fn end_nominations_for(&mut self, node: NodeIdx) {
        for pod in self.core.nominator.remove_node(node) {
            self.core.state.set_nominated(pod, NodeIdx::NONE);
            self.nominations.end(pod);
        }
    }

    /// Wakes pods up to the priority of a nominated pod that left its place, as if it had been
    /// deleted.
    pub(super) fn wake_up_to_priority(&mut self, pod: PodIdx, old: &OwnedPod) {
        let priority = self.core.state.pods.get(pod).priority;
        let object = Object::Pod { old: Some(old.view()), new: None };
        let (resource, action) = (Resource::AssignedPod, Action::DELETE);
        let event = Event { resource, action, object, own: false };
        self.queue.move_all(
            &self.core,
            &event,
            WakeScope::UpToPriority(priority),
            self.core.state.now(),
        );
    }

    /// Checks that the pods of a range of slots are nominated as decided or shown last, and that
    /// record and nominator agree. Returns the first difference.
    pub(super) fn audit_nominations(&self, slots: Range<usize>) -> Result<(), String> {
        let nominator = &self.core.nominator;
        for (pod, record) in self.core.state.pods.iter_within(slots) {
            let kept = nominator.node_of(pod);
            let name = kept.map_or("", |node| self.core.state.nodes.name(node));
            let wrong = |why: &str| Err(format!("{} {why}", self.core.state.full_name(pod)));
            if kept.unwrap_or(NodeIdx::NONE) != record.nominated {
                return wrong(
                    "is nominated for one node by its record and another by the nominator",
                );
            }
            let Some(node) = kept else {
                let stage = self.queue.stage(pod).filter(|stage| *stage != QueueStage::Binding);
                let waits = stage.is_some() && !record.node.is_some();
                if let Some(field) = self.nominations.fields.get(&pod).filter(|_| waits)
                    && field.claim == NominationClaim::Settled
                    && !field.latest().is_empty()
                {
                    return wrong(&format!("lost its nomination for {}", field.latest()));
                }
                continue;
            };
            if record.node.is_some() || self.queue.stage(pod).is_none() {
                return wrong(&format!("does not wait but is nominated for {name}"));
            }
            if !self.core.state.nodes.present().contains(node) {
                return wrong(&format!("is nominated for {name}, which does not exist"));
            }
            let field = self.nominations.fields.get(&pod);
            if field.is_none_or(|field| {
                *field.latest() != name || field.claim != NominationClaim::Settled
            }) {
                return wrong(&format!("is nominated for {name}, not for {field:?}"));
            }
        }
        Ok(())
    }
}
