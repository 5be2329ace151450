//! What must be true after every step.

use std::collections::BTreeSet;

use engine::framework::Code;
use engine::object::{Resources, Text, Uid};
use engine::queue::QueueStage;

use crate::world::{KnownPod, World};

/// Where room was made for a pod last.
pub(crate) struct EvictionTarget {
    node: Text,
    /// Victims of which the deletion succeeded.
    pub(crate) deleted: BTreeSet<Uid>,
}

impl World {
    /// Checks everything.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        self.engine.audit()?;
        self.check_positions()?;
        self.check_nominations()?;
        // A pod that was just placed wakes others only when the watch shows it.
        if self.is_settled() { self.check_unschedulable() } else { Ok(()) }
    }

    /// Nobody waits for an event who fits.
    fn check_unschedulable(&mut self) -> Result<(), String> {
        if std::mem::take(&mut self.changed_without_event) && self.engine.audit_waiting().is_err() {
            self.wait_until_retried()?;
        }
        self.engine.audit_waiting()
    }

    /// The engine that nobody looked into is as sound as the other.
    pub(crate) fn check_twin(&mut self) -> Result<(), String> {
        self.twin.audit().map_err(|wrong| format!("twin: {wrong}"))?;
        if self.is_settled() && !self.changed_without_event {
            self.twin.audit_waiting().map_err(|wrong| format!("twin: {wrong}"))?;
        }
        Ok(())
    }

    /// Every pod is where it should be: on its node, in one place of the queue, or both while it is
    /// bound.
    fn check_positions(&self) -> Result<(), String> {
        let (state, queue) = (self.engine.state(), self.engine.queue());
        let mut queued = 0;
        for (uid, known) in &self.known {
            let Some(index) = state.pods.find(uid) else {
                return Err(format!("{uid} is forgotten"));
            };
            let node = state.pods.get(index).node;
            let node = node.is_some().then(|| state.nodes.name(node));
            if node != known.node() {
                return Err(format!("{uid} is on {node:?}, not on {:?}", known.node()));
            }
            let place = queue.stage(index);
            if !is_position_valid(known, place, self.has_extender_call(uid)) {
                let node = known.node();
                return Err(format!("{uid} is on {node:?} and in {place:?}"));
            }
            let kept_out = !known.pod.gates.is_empty() || self.has_pending_evictions_for(uid);
            if place == Some(QueueStage::Gated) && !kept_out {
                return Err(format!("{uid} is kept out for no reason"));
            }
            queued += usize::from(place.is_some());
        }
        let (counted, listed) = (queue.counts().total(), queue.iter().count());
        if (counted, listed) != (queued, queued) {
            return Err(format!("{queued} pods wait, {listed} are queued, {counted} counted"));
        }
        if state.pods.count() != self.known.len() {
            let (have, want) = (state.pods.count(), self.known.len());
            return Err(format!("{have} pods are known instead of {want}"));
        }
        Ok(())
    }

    /// EvictionTarget is made for a pod on one node, as long as that helps.
    pub(crate) fn check_eviction_target(
        &mut self,
        preemptor: &Uid,
        node: &Text,
    ) -> Result<(), String> {
        if self.eviction_targets.get(preemptor).is_none_or(|room| room.node != *node) {
            let room = EvictionTarget { node: node.clone(), deleted: BTreeSet::new() };
            if let Some(before) = self.eviction_targets.insert(preemptor.clone(), room)
                && self.nominations.nodes.get(preemptor) == Some(&before.node)
                && self.awaits_eviction(preemptor, &before)
            {
                let before = before.node;
                return Err(format!("room is made for {preemptor} on {before}, and on {node} too"));
            }
        }
        Ok(())
    }

    /// Whether pods are leaving a node for a pod that may fit there then.
    fn awaits_eviction(&mut self, preemptor: &Uid, room: &EvictionTarget) -> bool {
        let Some(pod) = self.known.get(preemptor).map(|known| known.pod.clone()) else {
            return false;
        };
        let leaves = |uid: &Uid| {
            self.known.get(uid).is_some_and(|victim| {
                victim.node() == Some(&room.node) && victim.pod.priority < pod.priority
            })
        };
        if !room.deleted.iter().any(leaves) {
            return false;
        }
        let code = self.engine.explain(pod, self.now, |state, _, explanation| {
            state.nodes.find(&room.node).map(|node| explanation.diagnosis.code(node))
        });
        code.flatten() == Some(Code::Unschedulable)
    }

    /// A nomination ends when its pod is placed, bound or deleted, when its node goes, or when the
    /// engine or the API server says so; and not otherwise.
    fn check_nominations(&self) -> Result<(), String> {
        let state = self.engine.state();
        for uid in self.known.keys() {
            let node = state.pods.find(uid).and_then(|pod| self.engine.nominated_node(pod));
            let node = node.map(|node| state.nodes.name(node));
            let wanted = self.nominations.nodes.get(uid).map(|node| &**node);
            if node != wanted {
                return Err(format!("{uid} is nominated for {node:?}, not for {wanted:?}"));
            }
        }
        Ok(())
    }

    /// A node on which a pod was placed has enough of everything that the pod asks for.
    pub(crate) fn check_capacity(&self, uid: &Uid) -> Result<(), String> {
        let Some(known) = self.known.get(uid) else { return Ok(()) };
        let Some(name) = known.node() else { return Ok(()) };
        let Some(node) = self.nodes.get(name) else {
            return Err(format!("{uid} was placed on {name}, which does not exist"));
        };
        let there: Vec<&KnownPod> =
            self.known.values().filter(|k| k.node() == Some(name)).collect();
        if there.len() as i64 > node.allowed_pods {
            return Err(format!(
                "{} pods on {name}, which takes {}",
                there.len(),
                node.allowed_pods
            ));
        }
        for resource in requested_resources(&known.pod.spec.requests) {
            let amounts = there.iter().map(|k| k.pod.spec.requests_on_node.amount(resource));
            let (used, room) =
                (amounts.map(i128::from).sum::<i128>(), node.allocatable.amount(resource));
            if used > i128::from(room) {
                return Err(format!("{used} of {room} {resource} used on {name} by {uid}"));
            }
        }
        Ok(())
    }
}

fn is_position_valid(known: &KnownPod, place: Option<QueueStage>, asked_about: bool) -> bool {
    let waits = match place {
        None | Some(QueueStage::Binding) => false,
        Some(QueueStage::InFlight) => asked_about,
        Some(_) => true,
    };
    let terminates = known.pod.terminating || known.deleted;
    match (known.node(), known.bound) {
        // One that is being deleted is given up without being forgotten.
        (None, _) => waits || terminates && place == Some(QueueStage::Binding),
        (Some(_), false) if known.pod.node.is_empty() => place == Some(QueueStage::Binding),
        (Some(_), _) => place.is_none(),
    }
}

fn requested_resources(requests: &Resources) -> impl Iterator<Item = &str> {
    let scalars = requests.scalars.iter().map(|(name, _)| &**name);
    let all = ["cpu", "memory", "ephemeral-storage"].into_iter().chain(scalars);
    all.filter(|name| requests.amount(name) > 0)
}
