//! Attempts in which extenders have a say.
//!
//! ```text
//! shortlist ──Consult──▶ extenders ──Advised──▶ shortlist again, follow ──▶ a node: take it
//!                                                     │ fits nowhere
//!                                                     ▼
//!                            candidates ──ConsultOnVictims──▶ extenders ──▶ one of them
//! ```
//!
//! Meanwhile the pod is in flight, and others are placed. What extenders say is held against the state
//! as it is by then: nothing is taken that does not fit any more.

use crate::change::{Advice, VictimsOn};
use crate::command::Command;
use crate::cycle::decide::{Circumstances, Decision};
use crate::cycle::evaluation::Evaluation;
use crate::cycle::shortlist::{Followed, Shortlist, shortlist};
use crate::cycle::what_if::{Candidate, VictimAdvice};
use crate::framework::Extender;
use crate::index::PodIdx;
use crate::limits::{CONSULTATIONS_MAX, CONSULTATIONS_OF_ONE_POD_MAX};
use crate::object::{Text, Uid};
use crate::queue::{Place, QueuedPod};

use super::Engine;
use super::attempt::Failure;

/// A question to extenders that is not answered yet.
pub(super) struct Consultation {
    /// Answers to other questions are of no interest.
    ticket: u64,
    /// Where the visit of nodes began.
    begun: usize,
    /// How often they were asked in this attempt.
    asked: usize,
    about: About,
}

enum About {
    /// Nodes, or only the one that the pod is nominated for.
    Nodes { nominated: bool },
    /// Victims; and what they said about nodes before.
    Victims(Advice),
}

/// What an attempt has come to know before a decision is carried out.
pub(super) struct Known {
    /// What extenders said about nodes, if they were asked.
    pub(super) advice: Advice,
    /// Where the visit of nodes began.
    pub(super) begun: usize,
}

impl Known {
    /// Extenders were not asked.
    pub(super) fn by_itself(begun: usize) -> Self {
        Self { advice: Advice::default(), begun }
    }
}

/// What became of an attempt so far.
pub(super) enum Progress {
    /// A node was taken, or extenders are asked.
    Going,
    /// It failed.
    Failed(Failure),
}

impl Engine {
    /// The extenders that have a say about a pod in some matter, by their positions.
    pub(super) fn advisers(
        &self,
        queued: &QueuedPod,
        matter: impl Fn(&Extender) -> bool,
    ) -> Vec<usize> {
        let extenders = &self.profiles[queued.profile()].extenders;
        if extenders.is_empty() {
            return Vec::new();
        }
        let spec = self.state.spec(queued.pod);
        let concerned = |extender: &Extender| matter(extender) && extender.concerns(spec);
        let positions = extenders.iter().enumerate().filter(|(_, extender)| concerned(extender));
        positions.map(|(position, _)| position).collect()
    }

    /// Asks extenders about nodes, or leaves that for later when too many questions are open.
    pub(super) fn consult(
        &mut self,
        queued: &QueuedPod,
        evaluation: &mut Evaluation,
        advisers: Vec<usize>,
        now: i64,
        commands: &mut Vec<Command>,
    ) -> Progress {
        if self.consulting.len() >= CONSULTATIONS_MAX {
            self.line_up(queued.pod);
            return Progress::Going;
        }
        let begun = self.start;
        match self.list(queued, evaluation, begun, true) {
            Err(decision) => {
                let known = Known::by_itself(begun);
                self.carry_out(queued, evaluation, decision, known, now, commands)
            }
            Ok(list) => {
                if !list.nominated {
                    let looked_at = list.feasible.len() + list.diagnosis.rejected_count();
                    self.start = (begun + looked_at) % self.state.nodes.count();
                }
                let consultation = Consultation {
                    ticket: 0,
                    begun,
                    asked: 1,
                    about: About::Nodes { nominated: list.nominated },
                };
                self.ask(queued, evaluation, list, advisers, consultation, now, commands)
            }
        }
    }

    fn list(
        &mut self,
        queued: &QueuedPod,
        evaluation: &mut Evaluation,
        mut begun: usize,
        nominated_first: bool,
    ) -> Result<Shortlist, Decision> {
        let circumstances = Circumstances {
            nominator: &self.queue.nominator,
            start: &mut begun,
            draw: None,
            spare: &mut self.spare,
            stopwatch: &mut self.stopwatch,
        };
        let profile = &self.profiles[queued.profile()];
        shortlist(profile, evaluation, &mut self.state, queued.pod, &circumstances, nominated_first)
    }

    #[expect(clippy::too_many_arguments, reason = "all of one attempt")]
    fn ask(
        &mut self,
        queued: &QueuedPod,
        evaluation: &mut Evaluation,
        list: Shortlist,
        extenders: Vec<usize>,
        consultation: Consultation,
        now: i64,
        commands: &mut Vec<Command>,
    ) -> Progress {
        if list.feasible.is_empty() {
            let decision = Decision::Unschedulable(list.diagnosis.into());
            let known = Known::by_itself(consultation.begun);
            return self.carry_out(queued, evaluation, decision, known, now, commands);
        }
        let names = list.feasible.iter().map(|node| Text::from(self.state.nodes.name(*node)));
        let nodes = names.collect();
        let ticket = self.open(queued.pod, consultation);
        commands.push(Command::Consult { pod: self.name(queued.pod), ticket, extenders, nodes });
        Progress::Going
    }

    fn open(&mut self, pod: PodIdx, consultation: Consultation) -> u64 {
        self.tickets += 1;
        let ticket = self.tickets;
        self.consulting.insert(pod, Consultation { ticket, ..consultation });
        ticket
    }

    /// Extenders answered about nodes.
    pub(super) fn advised(
        &mut self,
        uid: &Uid,
        ticket: u64,
        advice: Result<Advice, Text>,
        now: i64,
        commands: &mut Vec<Command>,
    ) {
        self.resume(uid, ticket, now, commands, |engine, queued, evaluation, asked, commands| {
            let About::Nodes { nominated } = asked.about else { return Progress::Going };
            match advice {
                Err(text) => Progress::Failed(Failure::error(text.to_string())),
                Ok(advice) => {
                    engine.follow(queued, evaluation, &asked, nominated, advice, now, commands)
                }
            }
        });
    }

    #[expect(clippy::too_many_arguments, reason = "all of one attempt")]
    fn follow(
        &mut self,
        queued: &QueuedPod,
        evaluation: &mut Evaluation,
        asked: &Consultation,
        nominated: bool,
        advice: Advice,
        now: i64,
        commands: &mut Vec<Command>,
    ) -> Progress {
        let known = Known { advice, begun: asked.begun };
        let list = match self.list(queued, evaluation, known.begun, nominated) {
            Ok(list) => list,
            Err(decision) => {
                return self.carry_out(queued, evaluation, decision, known, now, commands);
            }
        };
        let random = self.next_random();
        let profile = &self.profiles[queued.profile()];
        let advice = &known.advice;
        let decision = match list.follow(profile, evaluation, &mut self.state, advice, random) {
            // The node it was nominated for will not do: the others are looked at.
            Followed::Decided(Decision::Unschedulable(_)) if nominated => None,
            Followed::Decided(decision) => Some(decision),
            Followed::AskAgain => None,
        };
        if let Some(decision) = decision {
            return self.carry_out(queued, evaluation, decision, known, now, commands);
        }
        if asked.asked >= CONSULTATIONS_OF_ONE_POD_MAX {
            let text = "the nodes that fit changed each time while extenders were asked about them";
            return Progress::Failed(Failure::error(text.to_owned()));
        }
        let again = Consultation {
            ticket: 0,
            begun: asked.begun,
            asked: asked.asked + 1,
            about: About::Nodes { nominated: false },
        };
        let advisers = self.advisers(queued, |extender| extender.filters || extender.scores);
        match self.list(queued, evaluation, again.begun, false) {
            Ok(list) => self.ask(queued, evaluation, list, advisers, again, now, commands),
            Err(decision) => self.carry_out(queued, evaluation, decision, known, now, commands),
        }
    }

    /// Extenders answered about victims.
    pub(super) fn victims_advised(
        &mut self,
        uid: &Uid,
        ticket: u64,
        candidates: Result<Vec<VictimsOn>, Text>,
        now: i64,
        commands: &mut Vec<Command>,
    ) {
        self.resume(uid, ticket, now, commands, |engine, queued, evaluation, asked, commands| {
            let About::Victims(advice) = asked.about else { return Progress::Going };
            let known = Known { advice, begun: asked.begun };
            let decision = match engine.list(queued, evaluation, known.begun, false) {
                Err(decision) => decision,
                Ok(list) => {
                    let random = engine.next_random();
                    let profile = &engine.profiles[queued.profile()];
                    let advice = &known.advice;
                    match list.follow(profile, evaluation, &mut engine.state, advice, random) {
                        Followed::Decided(decision) => decision,
                        Followed::AskAgain => {
                            let text = "nodes came to fit while extenders were asked about victims";
                            return Progress::Failed(Failure::error(text.to_owned()));
                        }
                    }
                }
            };
            let Decision::Unschedulable(diagnosis) = decision else {
                return engine.carry_out(queued, evaluation, decision, known, now, commands);
            };
            let said = match candidates {
                Ok(candidates) => VictimAdvice::Given(engine.resolve(&candidates)),
                Err(text) => VictimAdvice::Failed(text),
            };
            engine.fits_nowhere(queued, evaluation, &diagnosis, said, known, now, commands)
        });
    }

    /// Candidates by what they are now; where something is gone, it is none any more.
    fn resolve(&self, candidates: &[VictimsOn]) -> Vec<Candidate> {
        let candidates = candidates.iter().filter_map(|named| {
            let node = self.state.nodes.find(&named.node)?;
            let on_node = |pod: &PodIdx| self.state.pods.get(*pod).node == node;
            let found = named.victims.iter().map(|victim| self.state.pods.find(&victim.uid));
            let victims = found.map(|found| found.filter(on_node)).collect::<Option<_>>()?;
            Some(Candidate { node, victims, violations: named.violations })
        });
        candidates.collect()
    }

    /// Asks extenders about victims, or has the whole attempt made later when too many questions are open.
    pub(super) fn consult_on_victims(
        &mut self,
        queued: &QueuedPod,
        candidates: &[Candidate],
        known: Known,
        commands: &mut Vec<Command>,
    ) {
        if self.consulting.len() >= CONSULTATIONS_MAX {
            self.line_up(queued.pod);
            return;
        }
        let named = candidates.iter().map(|candidate| VictimsOn {
            node: Text::from(self.state.nodes.name(candidate.node)),
            victims: candidate.victims.iter().map(|victim| self.name(*victim)).collect(),
            violations: candidate.violations,
        });
        let candidates = named.collect();
        let extenders = self.advisers(queued, |extender| extender.preempts);
        let Known { advice, begun } = known;
        let consultation =
            Consultation { ticket: 0, begun, asked: 1, about: About::Victims(advice) };
        let ticket = self.open(queued.pod, consultation);
        let pod = self.name(queued.pod);
        commands.push(Command::ConsultOnVictims { pod, ticket, extenders, candidates });
    }

    /// Goes on with a pod whose question was answered, and then with those that could not ask yet.
    fn resume(
        &mut self,
        uid: &Uid,
        ticket: u64,
        now: i64,
        commands: &mut Vec<Command>,
        go_on: impl FnOnce(
            &mut Self,
            &QueuedPod,
            &mut Evaluation,
            Consultation,
            &mut Vec<Command>,
        ) -> Progress,
    ) {
        let asked_about = self
            .state
            .pods
            .find(uid)
            .filter(|pod| self.consulting.get(pod).is_some_and(|asked| asked.ticket == ticket));
        if let Some(pod) = asked_about
            && let Some(asked) = self.consulting.remove(&pod)
            && let Some(queued) = self.in_flight(pod)
        {
            self.try_pod(&queued, now, commands, |engine, evaluation, commands| {
                go_on(engine, &queued, evaluation, asked, commands)
            });
        }
        // Also when the answer is about a pod that is gone: it was one of the open questions.
        while self.consulting.len() < CONSULTATIONS_MAX
            && let Some(pod) = self.lined_up.pop_front()
        {
            if let Some(queued) = self.in_flight(pod) {
                self.begin(&queued, now, commands);
            }
        }
    }

    /// Leaves a pod for when fewer questions are open. Each of them is answered, so that time comes.
    fn line_up(&mut self, pod: PodIdx) {
        self.lined_up.push_back(pod);
    }

    /// A pod is not to be placed any more.
    pub(super) fn drop_questions(&mut self, pod: PodIdx) {
        self.consulting.remove(&pod);
        // Another pod may get its index.
        self.lined_up.retain(|other| *other != pod);
    }

    /// A pod in the middle of an attempt, as the queue knows it now.
    fn in_flight(&self, pod: PodIdx) -> Option<QueuedPod> {
        (self.queue.place(pod) == Some(Place::InFlight)).then(|| self.queue.get(pod).copied())?
    }
}
