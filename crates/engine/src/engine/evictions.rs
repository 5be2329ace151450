//! Evictions that a planner requests: at most one at a time of each pod.
//!
//! Preemption does not use them: it deletes its victims even if that violates a disruption budget.

use crate::change::EvictionOutcome;
use crate::command::Command;
use crate::object::Uid;

use super::Engine;

/// A request to evict a pod, as far as its disruption budgets permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionRequest {
    /// UID of the pod.
    pub uid: Uid,
    /// Reason of the event about the pod.
    pub reason: &'static str,
    /// Text of that event.
    pub note: String,
    /// Seconds in which the pod may end; `None` leaves it to the pod.
    pub grace_period: Option<i64>,
    /// Asks the API server whether it would evict the pod, without doing it.
    pub dry_run: bool,
}

/// What is known of the last eviction of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionState {
    /// The API server has not answered.
    InFlight,
    /// The API server has answered.
    Answered(EvictionOutcome),
}

impl Engine {
    /// Requests the eviction of a pod. Returns `false` without a command if the pod is on no node,
    /// terminates already or has an eviction in flight.
    pub fn evict(&mut self, request: EvictionRequest, commands: &mut Vec<Command>) -> bool {
        let EvictionRequest { uid, reason, note, grace_period, dry_run } = request;
        let Some(pod) = self.core.state.pods.find(&uid) else { return false };
        let record = self.core.state.pods.get(pod);
        if !record.node.is_some() || record.assumed || record.terminating {
            return false;
        }
        if self.evictions.get(&uid) == Some(&EvictionState::InFlight) {
            return false;
        }
        self.evictions.insert(uid, EvictionState::InFlight);
        let pod = self.pod_ref(pod);
        commands.push(Command::Evict { pod, reason, note, grace_period, dry_run });
        true
    }

    /// Returns what is known of the last eviction of a pod that exists.
    pub fn eviction(&self, pod: &Uid) -> Option<&EvictionState> {
        self.evictions.get(pod)
    }

    /// Handles the outcome of `Command::Evict`. The watch may show the deletion before or after.
    pub(super) fn eviction_answered(&mut self, uid: &Uid, outcome: EvictionOutcome) {
        if let Some(eviction) = self.evictions.get_mut(uid) {
            *eviction = EvictionState::Answered(outcome);
        }
    }
}
