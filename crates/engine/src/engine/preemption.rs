//! Preemption: eviction of victims, or the return of victims that are not bound yet to the queue.
//!
//! ```text
//! victims chosen ─┬─ bound, or being bound ──▶ DeleteVictim ──▶ VictimHandled
//!                 │        all deleted: the Delete events wake the preemptor
//!                 │        one failed:  it is retried at once
//!                 └─ in Permit or Volumes ──▶ back to the queue, retried after backoff
//! ```
//!
//! PreEnqueue gates the preemptor until every eviction is answered: an attempt before would not see
//! all victims terminating and would choose others.

use crate::command::Command;
use crate::framework::profile::PluginPosition;
use crate::index::{NodeIdx, PodIdx};
use crate::object::{Text, Uid};
use crate::queue::QueuedPod;

use super::Engine;
use super::binding::BindingStage;

/// Evictions in progress for one preemptor.
pub(super) struct Preemption {
    /// The plugin that selected the victims.
    pub(super) plugin: PluginPosition,
    /// Victims whose eviction is not answered yet.
    unanswered: Vec<Uid>,
    /// All victims, including those that were already terminating.
    victims: Vec<Uid>,
    /// Set if an eviction failed.
    failed: bool,
}

impl Engine {
    /// Evicts victims from a node to make room for a preemptor.
    pub(super) fn evict_victims(
        &mut self,
        preemptor: &QueuedPod,
        plugin: PluginPosition,
        node: NodeIdx,
        victims: &[PodIdx],
    ) {
        let pod = preemptor.pod;
        let (preemptor_ref, node_name) =
            (self.pod_ref(pod), Text::from(self.core.state.nodes.name(node)));
        let mut preemption =
            Preemption { plugin, unanswered: Vec::new(), victims: Vec::new(), failed: false };
        for victim in victims {
            let index = *victim;
            let victim = self.pod_ref(index);
            let (preemptor_ref, node) = (preemptor_ref.clone(), node_name.clone());
            if let Some(reason) = self.requeue_reason(index, preemptor.profile(), plugin) {
                let preemptor = preemptor_ref;
                self.commands.push(Command::ReportPreempted { victim, preemptor, node });
                self.fail_binding(index, &reason);
                continue;
            }
            preemption.victims.push(victim.uid.clone());
            if !self.core.state.pods.get(index).terminating {
                preemption.unanswered.push(victim.uid.clone());
                let preemptor = preemptor_ref;
                self.commands.push(Command::DeleteVictim { victim, preemptor, node });
            }
        }
        if !preemption.unanswered.is_empty() {
            self.core.preemptions.insert(pod, preemption);
        }
    }

    /// Returns the reason with which a victim returns to the queue; `None` if it must be evicted.
    fn requeue_reason(
        &self,
        victim: PodIdx,
        profile: usize,
        plugin: PluginPosition,
    ) -> Option<String> {
        match self.bindings.get(&victim)?.stage {
            BindingStage::Permit { .. } => Some("preempted".to_owned()),
            BindingStage::Volumes { .. } => {
                Some(format!("preempted by {}", self.core.profiles[profile].plugin_name(plugin)))
            }
            BindingStage::Bind => None,
        }
    }

    /// Handles the outcome of `Command::DeleteVictim`. The watch may show the deletion before or after.
    pub(super) fn victim_handled(&mut self, preemptor: &Uid, victim: &Uid, failed: bool) {
        if let Some(victim) = self.core.state.pods.find(victim).filter(|_| !failed) {
            self.core.state.set_preempted(victim);
        }
        let Some(pod) = self.core.state.pods.find(preemptor) else { return };
        let Some(preemption) = self.core.preemptions.get_mut(&pod) else { return };
        // An answer of an earlier attempt is about a victim that is not awaited.
        let Some(place) = preemption.unanswered.iter().position(|uid| uid == victim) else {
            return;
        };
        preemption.unanswered.swap_remove(place);
        preemption.failed |= failed;
        if !preemption.unanswered.is_empty() {
            return;
        }
        let Some(Preemption { victims, failed, .. }) = self.core.preemptions.remove(&pod) else {
            return;
        };
        let on_node = |pod: PodIdx| self.core.state.pods.get(pod).node.is_some();
        let all_left =
            !victims.iter().any(|uid| self.core.state.pods.find(uid).is_some_and(on_node));
        if failed || all_left {
            self.queue.activate(&self.core, &[pod], self.core.state.now());
        } else {
            self.queue.ungate_after_backoff(&self.core, pod, self.core.state.now());
        }
    }
}
