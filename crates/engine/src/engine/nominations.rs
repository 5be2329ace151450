//! Which nominations hold: those decided here, and those that the API server shows.
//!
//! ```text
//! decided here ──────────────▶ nominator ◀── shown by the API server, and not written here
//!      └─▶ written ─▶ shown                    └─ its node does not exist yet: taken over when it is added
//! ```
//!
//! A decision holds at once. The API server shows it later, perhaps after an earlier one that was
//! still being written, so a value that was written here never replaces what was decided since. A
//! nomination ends when its pod is assumed, bound or deleted, when its node is removed, when a more
//! important pod is nominated for the node, or when an attempt or the API server says so.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::command::Command;
use crate::framework::event::Object;
use crate::framework::{Action, Event, Resource};
use crate::index::{NodeIdx, PodIdx};
use crate::map::Map;
use crate::object::Text;
use crate::queue::{OwnedPod, QueueStage, WakeScope};

use super::Engine;

/// What a failed attempt means for the nomination of its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nomination {
    /// Nothing: it stays as it is (upstream's `ModeNoop`).
    Keep,
    /// It is for this node; `NONE` takes it away (upstream's `ModeOverride`).
    Override(NodeIdx),
}

/// Values written of one pod that are remembered until the API server shows them. The writer merges
/// values of one pod, so more than one that is being written and one that waits are rare.
const WRITTEN_MAX: usize = 8;

/// `status.nominatedNodeName` of waiting pods.
#[derive(Clone, Debug, Default)]
pub(super) struct Nominations {
    /// Pods of which the field was never set have none.
    fields: Map<PodIdx, NominationField>,
    /// Pods whose claim is [`NominationClaim::Open`] because the node of this name does not exist.
    awaiting: BTreeMap<Text, BTreeSet<PodIdx>>,
}

/// The field of one pod.
#[derive(Clone, Debug, Default)]
struct NominationField {
    /// As the API server showed it last.
    shown: Text,
    /// What was written since and is not shown yet, in order.
    written: Vec<Text>,
    claim: NominationClaim,
}

/// What the latest value means for the nominator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum NominationClaim {
    /// The nominator has it.
    #[default]
    Settled,
    /// The nominator gets it once the node exists and PreEnqueue lets the pod in.
    Open,
    /// Nothing: the node was removed.
    Ended,
}

impl NominationField {
    /// The latest value, shown or not.
    fn latest(&self) -> &Text {
        self.written.last().unwrap_or(&self.shown)
    }
}

impl Nominations {
    /// Notes the value that the API server shows. Returns whether it replaces what was decided here.
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

    /// Notes a value that is about to be written.
    pub(super) fn write(&mut self, pod: PodIdx, value: Text) {
        self.settle(pod);
        let field = self.fields.get_or_insert_with(pod, NominationField::default);
        if *field.latest() != value {
            field.written.push(value);
        }
        if field.written.len() > WRITTEN_MAX {
            field.written.remove(0);
        }
        self.drop_if_unset(pod);
    }

    /// A value that the API server does not show although it holds here.
    fn unconfirmed(&self, pod: PodIdx) -> Option<Text> {
        let field = self.fields.get(&pod)?;
        field.written.last().filter(|_| field.claim == NominationClaim::Settled).cloned()
    }

    /// The node that a pod is to be nominated for once that is possible.
    fn open_claim(&self, pod: PodIdx) -> Option<Text> {
        let field = self.fields.get(&pod)?;
        (field.claim == NominationClaim::Open).then(|| field.shown.clone())
    }

    /// Has an open claim looked at again when the node is added.
    fn await_node(&mut self, pod: PodIdx, name: Text) {
        self.awaiting.entry(name).or_default().insert(pod);
    }

    /// Ends an open claim.
    pub(super) fn settle(&mut self, pod: PodIdx) {
        self.stop_awaiting(pod);
        if let Some(field) = self.fields.get_mut(&pod) {
            field.claim = NominationClaim::Settled;
        }
    }

    /// The node for which a pod was nominated is removed.
    fn end(&mut self, pod: PodIdx) {
        if let Some(field) = self.fields.get_mut(&pod) {
            field.claim = NominationClaim::Ended;
        }
    }

    /// Forgets a pod that does not wait any more.
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
    /// Nominates a pod for a node; `NONE` ends its nomination. Returns whether a node is free of it now.
    fn nominate(&mut self, pod: PodIdx, node: NodeIdx) -> bool {
        let before = self.queue.nominator.node_of(pod);
        if before.unwrap_or(NodeIdx::NONE) != node {
            self.queue.nominator.nominate(pod, node);
            self.state.set_nominated(pod, node);
        }
        before.is_some_and(|before| before != node)
    }

    /// Carries out what a failed attempt, or a more important pod, decided, and returns the value to be
    /// written, if any is.
    pub(super) fn decide_nomination(
        &mut self,
        pod: PodIdx,
        nomination: Nomination,
        now: i64,
    ) -> Option<Text> {
        let Nomination::Override(node) = nomination else {
            return self.nominations.unconfirmed(pod);
        };
        let name =
            if node.is_some() { self.state.nodes.name(node).into() } else { Text::default() };
        self.nominations.write(pod, name.clone());
        let old = self.queue.nominator.node_of(pod).map(|_| self.owned_pod(pod));
        if self.nominate(pod, node)
            && let Some(old) = old
        {
            self.wake_up_to_priority(pod, &old, now);
        }
        Some(name)
    }

    /// Ends the nominations of less important pods for a node that another pod is nominated for now.
    pub(super) fn end_lower_nominations(
        &mut self,
        pod: PodIdx,
        node: NodeIdx,
        now: i64,
        commands: &mut Vec<Command>,
    ) {
        let priority = self.state.pods.get(pod).priority;
        for rival in self.queue.nominator.on(node).to_vec() {
            if self.state.pods.get(rival).priority >= priority {
                continue;
            }
            let none = Nomination::Override(NodeIdx::NONE);
            if let Some(node) = self.decide_nomination(rival, none, now) {
                commands.push(Command::Nominate { pod: self.name(rival), node });
            }
        }
    }

    /// The chosen node is taken: the pod is nominated for none any more. Returns that for which it was.
    pub(super) fn end_nomination(&mut self, pod: PodIdx) -> Option<NodeIdx> {
        self.nominations.settle(pod);
        self.state.set_nominated(pod, NodeIdx::NONE);
        self.queue.nominator.remove(pod)
    }

    /// Takes over the value that the API server shows of a pod. `old` is the pod as it was before.
    pub(super) fn observe_nomination(
        &mut self,
        pod: PodIdx,
        value: &Text,
        old: Option<&OwnedPod>,
        now: i64,
    ) {
        let before = self.queue.nominator.node_of(pod);
        if self.nominations.observe(pod, value) {
            self.nominate(pod, NodeIdx::NONE);
        }
        self.claim_nomination(pod);
        if before != self.queue.nominator.node_of(pod)
            && before.is_some()
            && let Some(old) = old
        {
            self.wake_up_to_priority(pod, old, now);
        }
    }

    /// Notes the value that the API server shows of a pod that is on its way to a node.
    pub(super) fn observe_nomination_while_assumed(&mut self, pod: PodIdx, value: &Text) {
        self.nominations.observe(pod, value);
        self.nominations.settle(pod);
    }

    /// Nominates a pod for the node that the API server shows, if that exists and PreEnqueue lets the
    /// pod in.
    pub(super) fn claim_nomination(&mut self, pod: PodIdx) {
        let Some(name) = self.nominations.open_claim(pod) else { return };
        let gated = self.queue.stage(pod) == Some(QueueStage::Gated);
        if gated && !self.preemptions.contains_key(&pod) {
            return;
        }
        match self.state.nodes.find(&name) {
            Some(node) => {
                self.nominations.settle(pod);
                self.nominate(pod, node);
            }
            None => self.nominations.await_node(pod, name),
        }
    }

    /// A node was added: pods that the API server shows as nominated for it are so from now on.
    pub(super) fn claim_nominations_for(&mut self, name: &str) {
        for pod in self.nominations.awaiting.remove(name).unwrap_or_default() {
            self.claim_nomination(pod);
        }
    }

    /// A node is about to be removed: nominations for it end.
    pub(super) fn end_nominations_for(&mut self, node: NodeIdx) {
        for pod in self.queue.nominator.remove_node(node) {
            self.state.set_nominated(pod, NodeIdx::NONE);
            self.nominations.end(pod);
        }
    }

    /// A nominated pod gave its place up: for pods that are no more important this is as if it had been
    /// deleted.
    pub(super) fn wake_up_to_priority(&mut self, pod: PodIdx, old: &OwnedPod, now: i64) {
        let priority = self.state.pods.get(pod).priority;
        let object = Object::Pod { old: Some(old.view()), new: None };
        let (resource, action) = (Resource::AssignedPod, Action::DELETE);
        let event = Event { resource, action, object, own: false };
        self.queue.move_all(&context_of!(self), &event, WakeScope::UpToPriority(priority), now);
    }

    /// Checks that the pods of these slots are nominated for what was decided or shown last, and that
    /// nodes, pods and nominator agree on it. Returns the first difference.
    pub(super) fn audit_nominations(&self, slots: Range<usize>) -> Result<(), String> {
        let nominator = &self.queue.nominator;
        for (pod, record) in self.state.pods.iter_within(slots) {
            let kept = nominator.node_of(pod);
            let name = kept.map_or("", |node| self.state.nodes.name(node));
            let wrong = |why: &str| Err(format!("{} {why}", self.state.full_name(pod)));
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
            if !self.state.nodes.present().contains(node) {
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
