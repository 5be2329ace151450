//! Preemption: eviction of victims, or the return of victims that are not bound yet to the queue.
//!
//! ```text
//! victims chosen ─┬─ bound, or being bound ──▶ Evict ──▶ VictimHandled ─┬─ all deleted: the Delete
//!                 │                                                     │  events wake the preemptor
//!                 │                                                     └─ one failed: retried at once
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
        let (preemptor_name, node_name) =
            (self.name(pod), Text::from(self.core.state.nodes.name(node)));
        let mut preemption =
            Preemption { plugin, unanswered: Vec::new(), victims: Vec::new(), failed: false };
        for victim in victims {
            let name = self.name(*victim);
            let (preemptor_name, node) = (preemptor_name.clone(), node_name.clone());
            if let Some(reason) = self.requeue_reason(*victim, preemptor.profile(), plugin) {
                let (victim_name, preemptor) = (name, preemptor_name);
                self.commands.push(Command::ReportPreempted {
                    victim: victim_name,
                    preemptor,
                    node,
                });
                self.fail_binding(*victim, &reason);
                continue;
            }
            preemption.victims.push(name.uid.clone());
            if !self.core.state.pods.get(*victim).terminating {
                preemption.unanswered.push(name.uid.clone());
                self.commands.push(Command::Evict {
                    victim: name,
                    preemptor: preemptor_name,
                    node,
                });
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

    /// Handles the outcome of `Command::Evict`. The watch may show the deletion before or after.
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
