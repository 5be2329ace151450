//! Scheduling attempts, from the queue to a bind or a reason.

use std::sync::Arc;

use crate::command::Command;
use crate::cycle::decide::{Decision, DecisionInputs, decide};
use crate::cycle::diagnosis::Diagnosis;
use crate::cycle::evaluation::Evaluation;
use crate::cycle::post_filter::{PostFilterInput, post_filter};
use crate::cycle::what_if::ExtenderPreemption;
use crate::framework::profile::PluginPosition;
use crate::framework::{BindContext, Code, Effects, Permit, Point, Rejection};
use crate::index::{NodeIdx, PodIdx};
use crate::limits::PERMIT_TIMEOUT_MAX;
use crate::queue::{FailedAttempt, PluginSet, QueuedPod};

use super::Engine;
use super::binding::{BindingCycle, BindingStage};
use super::extenders::{AttemptOutcome, AttemptSoFar};
use super::nominations::Nomination;

/// A failed attempt.
pub(super) struct Failure {
    /// `Unschedulable` or `SchedulerError`.
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) attempt: FailedAttempt,
    pub(super) nomination: Nomination,
}

impl Failure {
    /// Creates the failure of an error; the pod is retried after backoff.
    pub(super) fn error(message: String) -> Self {
        Self {
            reason: "SchedulerError",
            message,
            attempt: FailedAttempt::default(),
            nomination: Nomination::Override(NodeIdx::NONE),
        }
    }

    /// Creates the failure of a plugin's rejection of the chosen node, after the filters.
    pub(super) fn on_chosen_node(plugin: Option<PluginPosition>, rejection: &Rejection) -> Self {
        let pending = rejection.code == Code::Pending;
        let set = plugin.map_or(PluginSet::EMPTY, PluginSet::one);
        let reasons: Vec<String> =
            rejection.reasons.iter().map(|reason| format!("1 {reason}")).collect();
        Self {
            reason: "Unschedulable",
            message: format!("0/1 nodes are available: {}.", reasons.join(", ")),
            attempt: FailedAttempt {
                rejectors: if pending { PluginSet::EMPTY } else { set },
                pending: if pending { set } else { PluginSet::EMPTY },
                retry_at: rejection.until,
            },
            nomination: Nomination::Override(NodeIdx::NONE),
        }
    }
}

impl Engine {
    /// Makes an attempt for the next pod. Returns `false` if there is none.
    pub(super) fn attempt(&mut self) -> bool {
        let Some(queued) = self.queue.pop(&self.core) else { return false };
        self.core.state.stopwatch.begin_attempt();
        self.begin_attempt(&queued);
        self.core.state.stopwatch.end_attempt();
        true
    }

    /// Starts the attempt of a pod.
    pub(super) fn begin_attempt(&mut self, queued: &QueuedPod) {
        self.claim_nomination(queued.pod);
        self.with_evaluation(queued, |engine, evaluation| {
            let extenders =
                engine.extenders_for(queued, |extender| extender.filters || extender.scores);
            if !extenders.is_empty() {
                return engine.ask_extenders(queued, evaluation, extenders);
            }
            let begun = engine.cursor.visit_start;
            let draw = engine.cursor.is_seeded.then(|| engine.next_random());
            let mut inputs = DecisionInputs {
                nominator: &engine.core.nominator,
                excluded: None,
                start: &mut engine.cursor.visit_start,
                draw,
                column_pool: &mut engine.column_pool,
            };
            let profile = &engine.core.profiles[queued.profile()];
            let state = &mut engine.core.state;
            let decision = decide(profile, evaluation, state, queued.pod, &mut inputs);
            engine.core.state.stopwatch.decided(queued.profile(), &decision);
            engine.apply_decision(
                queued,
                evaluation,
                decision,
                AttemptSoFar::without_extenders(begun),
            )
        });
    }

    /// Runs one part of an attempt with the evaluation of the pod's class.
    pub(super) fn with_evaluation(
        &mut self,
        queued: &QueuedPod,
        part: impl FnOnce(&mut Self, &mut Evaluation) -> AttemptOutcome,
    ) {
        if self.core.state.pods.get(queued.pod).terminating {
            self.skip_deleted(queued.pod);
            return;
        }
        self.core.state.nodes.refresh_order();
        let profile = &self.core.profiles[queued.profile()];
        let begun = self.core.state.stopwatch.now();
        let (classes, state) = (&mut self.core.classes, &mut self.core.state);
        let (evaluator, mut evaluation) = classes.take_or_evaluate(state, profile, queued.class);
        self.core.state.stopwatch.filtered(begun);
        let progress = part(self, &mut evaluation);
        self.core.classes.keep_if_recurring(&mut self.core.state, evaluator, evaluation);
        if let AttemptOutcome::Failed(failure) = progress {
            self.fail_attempt(queued.pod, failure);
        }
    }

    /// Carries out a decision.
    pub(super) fn apply_decision(
        &mut self,
        queued: &QueuedPod,
        evaluation: &mut Evaluation,
        decision: Decision,
        so_far: AttemptSoFar,
    ) -> AttemptOutcome {
        AttemptOutcome::Failed(match decision {
            Decision::Node { node, .. } => match self.assume_and_reserve(queued, node) {
                Ok(()) => return AttemptOutcome::InProgress,
                Err(failure) => failure,
            },
            Decision::NoNodes => Failure {
                reason: "Unschedulable",
                ..Failure::error("no nodes available to schedule pods".to_owned())
            },
            Decision::Error(message) => Failure::error(message),
            Decision::Unschedulable(diagnosis) => {
                let extenders = self.extenders_for(queued, |extender| extender.preempts);
                let victims = if extenders.is_empty() {
                    ExtenderPreemption::NotNeeded
                } else {
                    ExtenderPreemption::Required
                };
                return self.handle_unschedulable(queued, evaluation, &diagnosis, victims, so_far);
            }
        })
    }

    fn skip_deleted(&mut self, pod: PodIdx) {
        let message = format!("skip schedule deleting pod: {}", self.core.state.full_name(pod));
        self.commands.push(Command::Warn { pod: self.pod_ref(pod), message });
        self.queue.done(&self.core, pod);
    }

    /// Assumes the pod on its node, then runs Reserve and Permit.
    pub(super) fn assume_and_reserve(
        &mut self,
        queued: &QueuedPod,
        node: NodeIdx,
    ) -> Result<(), Failure> {
        let pod = queued.pod;
        self.core.state.assume(pod, node);
        let nominated = self.end_nomination(pod);
        if nominated.is_some_and(|other| other != node) {
            // Beyond upstream: the space kept free on the other node is available again.
            let old = self.owned_pod(pod);
            self.wake_up_to_priority(pod, &old);
        }
        let profiles = Arc::clone(&self.core.profiles);
        for plugin in profiles[queued.profile()].at(Point::Reserve) {
            let (reserved, effects) = self.core.reserve_by(queued.profile(), *plugin, pod, node);
            self.core.request(queued.profile(), *plugin, effects);
            if let Err(rejection) = reserved {
                let failure =
                    self.failure_on_chosen_node("Reserve", queued.profile(), *plugin, &rejection);
                self.unreserve_all(queued.profile(), pod);
                return Err(failure);
            }
        }
        let mut waits = Vec::new();
        for plugin in self.core.profiles[queued.profile()].at(Point::Permit) {
            let profile = &self.core.profiles[queued.profile()];
            let mut effects = Effects::default();
            let state = &self.core.state;
            let mut context = BindContext { state, pod, node, effects: &mut effects };
            let permit = profile.permit(*plugin, &mut context);
            self.core.request(queued.profile(), *plugin, effects);
            match permit {
                Permit::Allow => {}
                Permit::Wait { timeout } => {
                    waits.push((
                        *plugin,
                        self.core.state.now().saturating_add(timeout.min(PERMIT_TIMEOUT_MAX)),
                    ));
                }
                Permit::Deny(rejection) => {
                    let failure = self.failure_on_chosen_node(
                        "Permit",
                        queued.profile(),
                        *plugin,
                        &rejection,
                    );
                    self.unreserve_all(queued.profile(), pod);
                    return Err(failure);
                }
            }
        }
        let waits_for_permission = !waits.is_empty();
        let binding =
            BindingCycle { profile: queued.profile(), node, stage: BindingStage::Permit { waits } };
        self.bindings.insert(pod, binding);
        if waits_for_permission {
            self.core.state.set_waiting_on_permit(pod, true);
            self.publish_nominated_node(pod, node);
        } else {
            self.pre_bind_or_send(pod);
        }
        Ok(())
    }

    /// Returns the failure of a plugin that rejected the chosen node or failed on it.
    pub(super) fn failure_on_chosen_node(
        &self,
        point: &str,
        profile: usize,
        plugin: PluginPosition,
        rejection: &Rejection,
    ) -> Failure {
        if rejection.code == Code::Error {
            let name = self.core.profiles[profile].plugin_name(plugin);
            let text = rejection.message();
            return Failure::error(format!("running {point} plugin {name:?}: {text}"));
        }
        Failure::on_chosen_node(Some(plugin), rejection)
    }

    /// Runs Unreserve in reverse order and removes the pod from its node.
    pub(super) fn unreserve_all(&mut self, profile: usize, pod: PodIdx) {
        let node = self.core.state.pods.get(pod).node;
        self.core.unreserve(profile, pod, node, |core, plugin, effects| {
            core.request(profile, plugin, effects);
        });
        self.core.state.displace(pod);
    }

    pub(super) fn handle_unschedulable(
        &mut self,
        queued: &QueuedPod,
        evaluation: &mut Evaluation,
        diagnosis: &Diagnosis,
        victims: ExtenderPreemption,
        so_far: AttemptSoFar,
    ) -> AttemptOutcome {
        if let Some(rejected) = &evaluation.rejected
            && rejected.rejection.code == Code::Error
        {
            let profile = &self.core.profiles[queued.profile()];
            let name = rejected.plugin.map_or("", |plugin| profile.plugin_name(plugin));
            let text = rejected.rejection.message();
            let text = format!("running PreFilter plugin {name:?}: {text}");
            return AttemptOutcome::Failed(Failure::error(text));
        }
        let random = self.next_random();
        let nominator = &self.core.nominator;
        let input = PostFilterInput {
            victims,
            ..PostFilterInput::new(queued.pod, nominator, self.core.state.now(), random)
        };
        let profile = &self.core.profiles[queued.profile()];
        let report = post_filter(profile, evaluation, &mut self.core.state, diagnosis, &input);
        if !report.candidates.is_empty() {
            self.ask_extenders_about_victims(queued, &report.candidates, so_far);
            return AttemptOutcome::InProgress;
        }
        let mut rejectors = PluginSet::EMPTY;
        diagnosis.rejectors().into_iter().for_each(|plugin| rejectors.insert(plugin));
        let nomination = match &report.nominated {
            Some((node, _)) => Nomination::Override(*node),
            None if report.clear_nomination => Nomination::Override(NodeIdx::NONE),
            None => Nomination::Keep,
        };
        let failure = Failure {
            reason: "Unschedulable",
            message: diagnosis.text(&report.message),
            attempt: FailedAttempt {
                rejectors,
                pending: PluginSet::EMPTY,
                retry_at: evaluation.valid_until(),
            },
            nomination,
        };
        if let (Some((node, victims)), Some(plugin)) = (report.nominated, report.plugin) {
            self.evict_victims(queued, plugin, node, &victims);
        }
        AttemptOutcome::Failed(failure)
    }

    /// Returns a pod to the queue after a failed attempt and reports the reason.
    pub(super) fn fail_attempt(&mut self, pod: PodIdx, failure: Failure) {
        let now = self.core.state.now();
        self.queue.add_unschedulable(&self.core, pod, failure.attempt, now);
        let nominate = self.decide_nomination(pod, failure.nomination);
        self.commands.push(Command::ReportFailure {
            pod: self.pod_ref(pod),
            reason: failure.reason,
            message: failure.message,
            nominate,
        });
        if let Nomination::Override(node) = failure.nomination
            && node.is_some()
        {
            self.end_lower_nominations(pod, node);
        }
    }
}
