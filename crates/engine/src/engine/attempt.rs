//! Scheduling attempts, from the queue to a bind or a reason.

use crate::command::Command;
use crate::cycle::decide::{Decision, DecisionInputs, decide};
use crate::cycle::diagnosis::Diagnosis;
use crate::cycle::evaluation::Evaluation;
use crate::cycle::post_filter::{PostFilterInput, post_filter};
use crate::cycle::what_if::ExtenderPreemption;
use crate::framework::profile::PluginPosition;
use crate::framework::{Code, Permit, Point, Rejection, Reservation};
use crate::index::{NodeIdx, PodIdx};
use crate::limits::PERMIT_TIMEOUT_MAX;
use crate::queue::{PluginSet, QueuedPod};

use super::Engine;
use super::binding::{BindingCycle, BindingStage};
use super::extenders::{AttemptOutcome, AttemptSoFar};
use super::nominations::Nomination;

/// A failed attempt.
pub(super) struct Failure {
    /// `Unschedulable` or `SchedulerError`.
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) rejectors: PluginSet,
    pub(super) pending: PluginSet,
    pub(super) nomination: Nomination,
}

impl Failure {
    /// Creates the failure of an error; the pod is retried after backoff.
    pub(super) fn error(message: String) -> Self {
        Self {
            reason: "SchedulerError",
            message,
            rejectors: PluginSet::EMPTY,
            pending: PluginSet::EMPTY,
            nomination: Nomination::Override(NodeIdx::NONE),
        }
    }

    /// Creates the failure of a plugin's rejection of the chosen node, after the filters.
    fn on_chosen_node(plugin: PluginPosition, rejection: &Rejection) -> Self {
        let pending = rejection.code == Code::Pending;
        let set = PluginSet::one(plugin);
        let reasons: Vec<String> =
            rejection.reasons.iter().map(|reason| format!("1 {reason}")).collect();
        Self {
            reason: "Unschedulable",
            message: format!("0/1 nodes are available: {}.", reasons.join(", ")),
            rejectors: if pending { PluginSet::EMPTY } else { set },
            pending: if pending { set } else { PluginSet::EMPTY },
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
            let begun = engine.visit_start;
            let draw = engine.is_seeded.then(|| engine.next_random());
            let mut inputs = DecisionInputs {
                nominator: &engine.core.nominator,
                start: &mut engine.visit_start,
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
        let evaluator = self.core.classes.representative(&self.core.state, profile, queued.class);
        let mut evaluation = if let Some(kept) = self.core.classes.take_evaluation(evaluator) {
            kept
        } else {
            let class = self.core.classes.class(evaluator).clone();
            let begun = self.core.state.stopwatch.now();
            let evaluation = Evaluation::new(profile, class, &mut self.core.state);
            self.core.state.stopwatch.filtered(begun);
            Box::new(evaluation)
        };
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
    fn assume_and_reserve(&mut self, queued: &QueuedPod, node: NodeIdx) -> Result<(), Failure> {
        let pod = queued.pod;
        self.core.state.assume(pod, node);
        let nominated = self.end_nomination(pod);
        if nominated.is_some_and(|other| other != node) {
            // Beyond upstream: the space kept free on the other node is available again.
            let old = self.owned_pod(pod);
            self.wake_up_to_priority(pod, &old);
        }
        let profile = &self.core.profiles[queued.profile()];
        for plugin in profile.at(Point::Reserve) {
            let mut reservation = Reservation { state: &mut self.core.state, pod, node };
            if let Err(rejection) = profile.reserve(*plugin, &mut reservation) {
                let failure =
                    self.failure_on_chosen_node("Reserve", queued.profile(), *plugin, &rejection);
                self.unreserve_all(queued.profile(), pod);
                return Err(failure);
            }
        }
        let mut waits = Vec::new();
        for plugin in self.core.profiles[queued.profile()].at(Point::Permit) {
            let profile = &self.core.profiles[queued.profile()];
            match profile.permit(*plugin, &self.core.state, pod, node) {
                Permit::Allow => {}
                Permit::Wait { timeout } => {
                    waits.push((
                        *plugin,
                        self.core.now.saturating_add(timeout.min(PERMIT_TIMEOUT_MAX)),
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
            self.waiting_on_permit.insert(pod);
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
        Failure::on_chosen_node(plugin, rejection)
    }

    /// Runs Unreserve in reverse order and removes the pod from its node.
    pub(super) fn unreserve_all(&mut self, profile: usize, pod: PodIdx) {
        let node = self.core.state.pods.get(pod).node;
        let profile = &self.core.profiles[profile];
        for plugin in profile.at(Point::Reserve).iter().rev() {
            let state = &mut self.core.state;
            profile.unreserve(*plugin, &mut Reservation { state, pod, node });
        }
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
            ..PostFilterInput::new(queued.pod, nominator, self.core.now, random)
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
            rejectors,
            pending: PluginSet::EMPTY,
            nomination,
        };
        if let (Some((node, victims)), Some(plugin)) = (report.nominated, report.plugin) {
            self.evict_victims(queued, plugin, node, &victims);
        }
        AttemptOutcome::Failed(failure)
    }

    /// Returns a pod to the queue after a failed attempt and reports the reason.
    pub(super) fn fail_attempt(&mut self, pod: PodIdx, failure: Failure) {
        let (rejectors, pending) = (failure.rejectors, failure.pending);
        self.queue.add_unschedulable(&self.core, pod, rejectors, pending, self.core.now);
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
