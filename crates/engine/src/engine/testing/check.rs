//! Invariants of the engine that hold after every change.

use crate::engine::binding::BindingStage;
use crate::index::{NodeIdx, PodIdx, ResourceIdx};
use crate::queue::QueueStage;

use super::Harness;

impl Harness {
    /// Checks the engine against its own audit and against the invariants below.
    #[track_caller]
    pub(super) fn check(&mut self) {
        let checked = self
            .engine
            .audit()
            .and_then(|()| self.engine.audit_decisions())
            .and_then(|()| self.check_sums())
            .and_then(|()| self.check_positions())
            .and_then(|()| self.check_reservations());
        if let Err(wrong) = checked {
            panic!("{wrong}");
        }
    }

    /// The requests on a node are the sum over the pods whose record names the node.
    fn check_sums(&self) -> Result<(), String> {
        let state = &self.engine.core.state;
        for slot in 0..state.nodes.slots() {
            let node = NodeIdx::from(slot);
            let on_node = || state.pods.iter().filter(|(_, record)| record.node == node);
            let cpu: i64 = on_node().map(|(pod, _)| state.spec(pod).requests_on_node.cpu).sum();
            let kept = state.nodes.requested_of(ResourceIdx::CPU, node);
            if kept != cpu || state.nodes.pods(node).len() != on_node().count() {
                let name = state.nodes.name(node);
                return Err(format!("{name}: {kept}m requested, its pods request {cpu}m"));
            }
        }
        Ok(())
    }

    /// A pod is on a node by the API server's word, or assumed on a node and binding, or queued, or in
    /// flight; and in one of these places only.
    fn check_positions(&self) -> Result<(), String> {
        let engine = &self.engine;
        let mut queued = 0;
        for (pod, record) in engine.core.state.pods.iter() {
            let stage = engine.queue.stage(pod);
            queued += usize::from(stage.is_some());
            let asked = engine.extender_calls.contains_key(&pod);
            let in_line = engine.waiting_for_slot.iter().filter(|other| **other == pod).count();
            let binding = engine.bindings.get(&pod).map(|binding| &binding.stage);
            let waits = engine.core.state.waiting_on_permit().any(|waiting| waiting == pod);
            let is_sound = match (record.node.is_some(), record.assumed, binding) {
                (true, _, None) => stage.is_none(),
                (true, true, Some(BindingStage::Permit { waits })) => {
                    stage == Some(QueueStage::InFlight) && !waits.is_empty()
                }
                (true, true, Some(_)) => stage == Some(QueueStage::Binding),
                (true, false, Some(_)) | (false, _, Some(_)) => false,
                (false, true, None) => false,
                // Stage Binding: an attempt was skipped because the pod is being deleted.
                (false, false, None) => match stage {
                    Some(QueueStage::InFlight) => asked || in_line == 1,
                    Some(QueueStage::Binding) | None => record.terminating,
                    Some(_) => true,
                },
            };
            let waits_for_extenders = usize::from(asked) + in_line;
            let is_open = stage == Some(QueueStage::InFlight) && !record.node.is_some();
            let at_permit = matches!(binding, Some(BindingStage::Permit { .. }));
            if !is_sound || waits_for_extenders != usize::from(is_open) || waits != at_permit {
                let name = &record.name;
                let node = self.node_of(name);
                return Err(format!("{name} is on {node:?} and in {stage:?}, open: {asked}"));
            }
        }
        if engine.queue.counts().total() != queued {
            return Err(format!("{queued} pods are queued, {:?}", engine.queue.counts()));
        }
        Ok(())
    }

    /// Every Reserve plugin holds a reservation for the pods that are being bound, and none for pods that
    /// are not on a node.
    fn check_reservations(&self) -> Result<(), String> {
        let engine = &self.engine;
        let reserved = self.script.reserved.lock();
        let has = |plugin, pod: PodIdx| {
            reserved.contains(&(plugin, engine.core.state.pods.get(pod).uid.clone()))
        };
        for (pod, record) in engine.core.state.pods.iter() {
            let held = ["ReserveA", "ReserveB"].map(|plugin| has(plugin, pod));
            let is_sound = if engine.bindings.contains_key(&pod) {
                held == [true; 2]
            } else {
                record.node.is_some() || held == [false; 2]
            };
            if !is_sound {
                return Err(format!("{} has reservations {held:?}", record.name));
            }
        }
        Ok(())
    }
}
