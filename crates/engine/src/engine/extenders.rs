//! Attempts that wait for extenders.
//!
//! ```text
//! shortlist ──AskExtenders──▶ ExtendersAnswered ──▶ shortlist again, follow ──▶ a node: assume it
//!                                                     │ no node
//!                                                     ▼
//!             candidates ──AskExtendersAboutVictims──▶ ExtendersAnsweredAboutVictims ──▶ evict
//! ```
//!
//! Meanwhile the pod is in flight and other pods are scheduled. A verdict is applied to the state
//! at its arrival: a node that is no longer feasible is not chosen.

use crate::change::{ExtenderVerdict, NodeVictims};
use crate::command::Command;
use crate::cycle::decide::{Decision, DecisionInputs};
use crate::cycle::evaluation::Evaluation;
use crate::cycle::shortlist::{Shortlist, ShortlistOutcome, shortlist};
use crate::cycle::what_if::{Candidate, ExtenderPreemption};
use crate::framework::Extender;
use crate::index::PodIdx;
use crate::limits::{EXTENDER_CALLS_MAX, EXTENDER_CALLS_PER_ATTEMPT_MAX};
use crate::object::{Text, Uid};
use crate::queue::{QueueStage, QueuedPod};

use super::Engine;
use super::attempt::Failure;

/// An open extender call.
pub(super) struct ExtenderCall {
    /// Answers with another ticket are ignored.
    ticket: u64,
    /// Position at which the visit of nodes began.
    begun: usize,
    /// Number of calls in this attempt.
    asked: usize,
    kind: ExtenderCallKind,
}

enum ExtenderCallKind {
    /// About nodes, or only the pod's nominated node.
    Nodes { nominated: bool },
    /// About victims, with the earlier verdict on nodes.
    Victims(ExtenderVerdict),
}

/// Results of an attempt before a decision is carried out.
pub(super) struct AttemptSoFar {
    /// Verdict of the extenders on nodes; empty if they were not called.
    pub(super) verdict: ExtenderVerdict,
    /// Position at which the visit of nodes began.
    pub(super) begun: usize,
}

impl AttemptSoFar {
    /// Creates the results of an attempt without extender calls.
    pub(super) fn without_extenders(begun: usize) -> Self {
        Self { verdict: ExtenderVerdict::default(), begun }
    }
}

/// Outcome of one part of an attempt.
pub(super) enum AttemptOutcome {
    /// A node was assumed, or extenders were called.
    InProgress,
    /// The attempt failed.
    Failed(Failure),
}

impl Engine {
    /// Returns the positions of the extenders to call for a pod, among those that `matter` selects.
    pub(super) fn extenders_for(
        &self,
        queued: &QueuedPod,
        matter: impl Fn(&Extender) -> bool,
    ) -> Vec<usize> {
        let extenders = &self.core.profiles[queued.profile()].extenders;
        if extenders.is_empty() {
            return Vec::new();
        }
        let spec = self.core.state.spec(queued.pod);
        let concerned = |extender: &Extender| matter(extender) && extender.is_interested_in(spec);
        let positions = extenders.iter().enumerate().filter(|(_, extender)| concerned(extender));
        positions.map(|(position, _)| position).collect()
    }

    /// Calls extenders about nodes, or waits if too many calls are open.
    pub(super) fn ask_extenders(
        &mut self,
        queued: &QueuedPod,
        evaluation: &mut Evaluation,
        extenders: Vec<usize>,
    ) -> AttemptOutcome {
        if self.extender_calls.len() >= EXTENDER_CALLS_MAX {
            self.wait_for_slot(queued.pod);
            return AttemptOutcome::InProgress;
        }
        let begun = self.cursor.visit_start;
        match self.shortlist(queued, evaluation, begun, true) {
            Err(decision) => {
                let so_far = AttemptSoFar::without_extenders(begun);
                self.apply_decision(queued, evaluation, decision, so_far)
            }
            Ok(list) => {
                if !list.nominated {
                    let looked_at = list.feasible.len() + list.diagnosis.rejected_count();
                    self.cursor.visit_start = (begun + looked_at) % self.core.state.nodes.count();
                }
                let call = ExtenderCall {
                    ticket: 0,
                    begun,
                    asked: 1,
                    kind: ExtenderCallKind::Nodes { nominated: list.nominated },
                };
                self.send_nodes(queued, evaluation, list, extenders, call)
            }
        }
    }

    fn shortlist(
        &mut self,
        queued: &QueuedPod,
        evaluation: &mut Evaluation,
        mut begun: usize,
        nominated_first: bool,
    ) -> Result<Shortlist, Decision> {
        let inputs = DecisionInputs {
            nominator: &self.core.nominator,
            excluded: None,
            start: &mut begun,
            draw: None,
            column_pool: &mut self.column_pool,
        };
        let profile = &self.core.profiles[queued.profile()];
        shortlist(profile, evaluation, &mut self.core.state, queued.pod, &inputs, nominated_first)
    }

    fn send_nodes(
        &mut self,
        queued: &QueuedPod,
        evaluation: &mut Evaluation,
        list: Shortlist,
        extenders: Vec<usize>,
        call: ExtenderCall,
    ) -> AttemptOutcome {
        if list.feasible.is_empty() {
            let decision = Decision::Unschedulable(list.diagnosis.into());
            let so_far = AttemptSoFar::without_extenders(call.begun);
            return self.apply_decision(queued, evaluation, decision, so_far);
        }
        let names = list.feasible.iter().map(|node| Text::from(self.core.state.nodes.name(*node)));
        let nodes = names.collect();
        let ticket = self.open_call(queued.pod, call);
        self.commands.push(Command::AskExtenders {
            pod: self.pod_ref(queued.pod),
            ticket,
            extenders,
            nodes,
        });
        AttemptOutcome::InProgress
    }

    fn open_call(&mut self, pod: PodIdx, call: ExtenderCall) -> u64 {
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        self.extender_calls.insert(pod, ExtenderCall { ticket, ..call });
        ticket
    }

    /// Handles the extenders' verdict on nodes.
    pub(super) fn extenders_answered(
        &mut self,
        uid: &Uid,
        ticket: u64,
        verdict: Result<ExtenderVerdict, Text>,
    ) {
        self.resume(uid, ticket, |engine, queued, evaluation, call| {
            let ExtenderCallKind::Nodes { nominated } = call.kind else {
                return AttemptOutcome::InProgress;
            };
            match verdict {
                Err(text) => AttemptOutcome::Failed(Failure::error(text.to_string())),
                Ok(verdict) => engine.apply_verdict(queued, evaluation, &call, nominated, verdict),
            }
        });
    }

    fn apply_verdict(
        &mut self,
        queued: &QueuedPod,
        evaluation: &mut Evaluation,
        call: &ExtenderCall,
        nominated: bool,
        verdict: ExtenderVerdict,
    ) -> AttemptOutcome {
        let so_far = AttemptSoFar { verdict, begun: call.begun };
        let list = match self.shortlist(queued, evaluation, so_far.begun, nominated) {
            Ok(list) => list,
            Err(decision) => {
                return self.apply_decision(queued, evaluation, decision, so_far);
            }
        };
        let random = self.next_random();
        let profile = &self.core.profiles[queued.profile()];
        let verdict = &so_far.verdict;
        let decision = match list.follow(profile, evaluation, &mut self.core.state, verdict, random)
        {
            // The nominated node was rejected: ask about the other nodes.
            ShortlistOutcome::Decided(Decision::Unschedulable(_)) if nominated => None,
            ShortlistOutcome::Decided(decision) => Some(decision),
            ShortlistOutcome::AskAgain => None,
        };
        if let Some(decision) = decision {
            return self.apply_decision(queued, evaluation, decision, so_far);
        }
        if call.asked >= EXTENDER_CALLS_PER_ATTEMPT_MAX {
            let text = "the feasible nodes changed during each extender call";
            return AttemptOutcome::Failed(Failure::error(text.to_owned()));
        }
        let again = ExtenderCall {
            ticket: 0,
            begun: call.begun,
            asked: call.asked + 1,
            kind: ExtenderCallKind::Nodes { nominated: false },
        };
        let extenders = self.extenders_for(queued, |extender| extender.filters || extender.scores);
        match self.shortlist(queued, evaluation, again.begun, false) {
            Ok(list) => self.send_nodes(queued, evaluation, list, extenders, again),
            Err(decision) => self.apply_decision(queued, evaluation, decision, so_far),
        }
    }

    /// Handles the extenders' verdict on victims.
    pub(super) fn extenders_answered_about_victims(
        &mut self,
        uid: &Uid,
        ticket: u64,
        candidates: Result<Vec<NodeVictims>, Text>,
    ) {
        self.resume(uid, ticket, |engine, queued, evaluation, call| {
            let ExtenderCallKind::Victims(verdict) = call.kind else {
                return AttemptOutcome::InProgress;
            };
            let so_far = AttemptSoFar { verdict, begun: call.begun };
            let decision = match engine.shortlist(queued, evaluation, so_far.begun, false) {
                Err(decision) => decision,
                Ok(list) => {
                    let random = engine.next_random();
                    let profile = &engine.core.profiles[queued.profile()];
                    let verdict = &so_far.verdict;
                    match list.follow(profile, evaluation, &mut engine.core.state, verdict, random)
                    {
                        ShortlistOutcome::Decided(decision) => decision,
                        ShortlistOutcome::AskAgain => {
                            let text =
                                "a node became feasible during the extender call about victims";
                            return AttemptOutcome::Failed(Failure::error(text.to_owned()));
                        }
                    }
                }
            };
            let Decision::Unschedulable(diagnosis) = decision else {
                return engine.apply_decision(queued, evaluation, decision, so_far);
            };
            let victims = match candidates {
                Ok(candidates) => {
                    ExtenderPreemption::Answered(engine.resolve_candidates(&candidates))
                }
                Err(text) => ExtenderPreemption::Failed(text),
            };
            engine.handle_unschedulable(queued, evaluation, &diagnosis, victims, so_far)
        });
    }

    /// Looks the named candidates up. Candidates whose node or victims no longer exist are left
    /// out.
    fn resolve_candidates(&self, candidates: &[NodeVictims]) -> Vec<Candidate> {
        let candidates = candidates.iter().filter_map(|named| {
            let node = self.core.state.nodes.find(&named.node)?;
            let on_node = |pod: &PodIdx| self.core.state.pods.get(*pod).node == node;
            let found = named.victims.iter().map(|victim| self.core.state.pods.find(&victim.uid));
            let victims = found.map(|found| found.filter(on_node)).collect::<Option<_>>()?;
            Some(Candidate { node, victims, violations: named.violations })
        });
        candidates.collect()
    }

    /// Calls extenders about victims. If too many calls are open, the whole attempt starts again
    /// later.
    pub(super) fn ask_extenders_about_victims(
        &mut self,
        queued: &QueuedPod,
        candidates: &[Candidate],
        so_far: AttemptSoFar,
    ) {
        if self.extender_calls.len() >= EXTENDER_CALLS_MAX {
            self.wait_for_slot(queued.pod);
            return;
        }
        let named = candidates.iter().map(|candidate| NodeVictims {
            node: Text::from(self.core.state.nodes.name(candidate.node)),
            victims: candidate.victims.iter().map(|victim| self.pod_ref(*victim)).collect(),
            violations: candidate.violations,
        });
        let candidates = named.collect();
        let extenders = self.extenders_for(queued, |extender| extender.preempts);
        let AttemptSoFar { verdict, begun } = so_far;
        let call =
            ExtenderCall { ticket: 0, begun, asked: 1, kind: ExtenderCallKind::Victims(verdict) };
        let ticket = self.open_call(queued.pod, call);
        let pod = self.pod_ref(queued.pod);
        self.commands.push(Command::AskExtendersAboutVictims {
            pod,
            ticket,
            extenders,
            candidates,
        });
    }

    /// Continues the attempt of an answered call, and then starts those that wait for a free call.
    fn resume(
        &mut self,
        uid: &Uid,
        ticket: u64,
        go_on: impl FnOnce(&mut Self, &QueuedPod, &mut Evaluation, ExtenderCall) -> AttemptOutcome,
    ) {
        let asked_about =
            self.core.state.pods.find(uid).filter(|pod| {
                self.extender_calls.get(pod).is_some_and(|asked| asked.ticket == ticket)
            });
        if let Some(pod) = asked_about
            && let Some(asked) = self.extender_calls.remove(&pod)
            && let Some(queued) = self.in_flight(pod)
        {
            self.with_evaluation(&queued, |engine, evaluation| {
                go_on(engine, &queued, evaluation, asked)
            });
        }
        // Also if the pod was deleted meanwhile, since its call is closed.
        while self.extender_calls.len() < EXTENDER_CALLS_MAX
            && let Some(pod) = self.waiting_for_slot.pop_front()
        {
            if let Some(queued) = self.in_flight(pod) {
                self.begin_attempt(&queued);
            }
        }
    }

    /// Postpones an attempt until a call is closed; every open call is answered, so none waits
    /// forever.
    fn wait_for_slot(&mut self, pod: PodIdx) {
        self.waiting_for_slot.push_back(pod);
    }

    /// Cancels the extender calls of a pod that is not to be scheduled any more.
    pub(super) fn cancel_extender_calls(&mut self, pod: PodIdx) {
        self.extender_calls.remove(&pod);
        // The index may be reused by another pod.
        self.waiting_for_slot.retain(|other| *other != pod);
    }

    /// Returns the queue's record of a pod that is in an attempt.
    fn in_flight(&self, pod: PodIdx) -> Option<QueuedPod> {
        (self.queue.stage(pod) == Some(QueueStage::InFlight))
            .then(|| self.queue.get(pod).copied())?
    }
}
