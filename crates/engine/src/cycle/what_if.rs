//! What if some pods were elsewhere? Asked of one node at a time, and always undone.

use crate::framework::{Class, NodeVerdict, Profile, Rejection};
use crate::index::{NodeIdx, PodIdx};
use crate::object::{HostPort, Text};
use crate::state::State;

use super::diagnosis::Diagnosis;
use super::evaluation::Evaluation;
use super::rivals::Rivals;

/// A node on which room can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The node.
    pub node: NodeIdx,
    /// Pods that must leave it.
    pub victims: Vec<PodIdx>,
    /// How many of them a disruption budget protects.
    pub violations: usize,
}

/// What extenders say about victims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtenderPreemption {
    /// None has a say.
    NotNeeded,
    /// They are to be asked: [`crate::framework::PostFilterOutcome::AskExtenders`].
    Required,
    /// They were asked, and left these candidates.
    Answered(Vec<Candidate>),
    /// They were asked in vain.
    Failed(Text),
}

/// What a PostFilter plugin has to work with.
pub struct PostFilter<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// The pod that fits nowhere.
    pub pod: PodIdx,
    /// Why it fits nowhere.
    pub diagnosis: &'a Diagnosis,
    /// The time in nanoseconds since the epoch, standing for the start of pods that have not started.
    pub now: i64,
    /// A random number, for where to begin.
    pub random: u64,
    /// What extenders say about victims.
    pub victims: &'a ExtenderPreemption,
    pub(crate) state: &'a mut State,
    pub(crate) evaluation: &'a mut Evaluation,
    pub(crate) rivals: Rivals<'a>,
}

impl PostFilter<'_> {
    /// The state.
    pub fn state(&self) -> &State {
        self.state
    }

    /// The class of the pod.
    pub fn class(&self) -> &Class {
        &self.evaluation.class
    }

    /// Whether a plugin was asked to pre-filter in this cycle.
    pub fn ran_pre_filter(&self, name: &str) -> bool {
        self.evaluation
            .pre_filters_run
            .iter()
            .any(|plugin| self.profile.plugin_name(*plugin) == name)
    }

    /// Begins to ask what-if questions about a node.
    pub fn what_if(&mut self, node: NodeIdx) -> WhatIf<'_> {
        WhatIf::new(self.state, self.evaluation, self.rivals, node)
    }
}

/// Questions about one node. Dropping it puts everything back.
pub struct WhatIf<'a> {
    state: &'a mut State,
    evaluation: &'a mut Evaluation,
    rivals: Rivals<'a>,
    node: NodeIdx,
    pods: Vec<PodIdx>,
    ports: Vec<HostPort>,
    removed: Vec<PodIdx>,
    added: Vec<PodIdx>,
}

impl<'a> WhatIf<'a> {
    pub(crate) fn new(
        state: &'a mut State,
        evaluation: &'a mut Evaluation,
        rivals: Rivals<'a>,
        node: NodeIdx,
    ) -> Self {
        let pods = state.nodes.pods(node).to_vec();
        let ports = state.nodes.ports(node).to_vec();
        let (removed, added) = (Vec::new(), Vec::new());
        Self { state, evaluation, rivals, node, pods, ports, removed, added }
    }

    /// Takes a pod that is on the node away.
    pub fn remove(&mut self, pod: PodIdx) {
        detach(self.state, self.evaluation, pod, self.node);
        self.removed.push(pod);
    }

    /// Puts a pod that was taken away back.
    pub fn put_back(&mut self, pod: PodIdx) {
        attach(self.state, self.evaluation, pod, self.node);
        self.removed.retain(|other| *other != pod);
    }

    /// Whether the pod fits now; also with the pods nominated for this node that are at least as important.
    pub fn fits(&mut self) -> Result<(), Rejection> {
        self.judge(|what_if, verdict| {
            what_if.evaluation.rejection(what_if.state, what_if.node, verdict).1
        })
    }

    /// As [`Self::fits`] for those who do not ask why, which costs less.
    pub fn passes(&mut self) -> bool {
        self.judge(|_, _| ()).is_ok()
    }

    fn judge<E>(&mut self, explain: impl Fn(&Self, (usize, NodeVerdict)) -> E) -> Result<(), E> {
        let rivals = self.rivals.on(self.state, self.node);
        if !rivals.is_empty() {
            for rival in &rivals {
                attach(self.state, self.evaluation, *rival, self.node);
                self.added.push(*rival);
            }
            let verdict = self.check(&explain);
            for rival in rivals {
                detach(self.state, self.evaluation, rival, self.node);
                self.added.retain(|other| *other != rival);
            }
            verdict?;
        }
        self.check(&explain)
    }

    /// Runs the filters once, as things are in this question, and has the answer read if it is no pass.
    pub(crate) fn check_and_read<T>(
        &mut self,
        read: impl FnOnce(&Evaluation, &State, (usize, NodeVerdict)) -> T,
    ) -> Option<T> {
        let verdict = self.evaluation.check(self.state, self.node)?;
        Some(read(self.evaluation, self.state, verdict))
    }

    fn check<E>(&mut self, explain: &impl Fn(&Self, (usize, NodeVerdict)) -> E) -> Result<(), E> {
        let verdict = self.evaluation.check(self.state, self.node);
        verdict.map_or(Ok(()), |verdict| Err(explain(self, verdict)))
    }

    pub(crate) fn add(&mut self, pod: PodIdx) {
        attach(self.state, self.evaluation, pod, self.node);
        self.added.push(pod);
    }

    /// The state as it is in this question.
    pub fn state(&self) -> &State {
        self.state
    }
}

impl Drop for WhatIf<'_> {
    fn drop(&mut self) {
        for pod in std::mem::take(&mut self.added) {
            detach(self.state, self.evaluation, pod, self.node);
        }
        for pod in std::mem::take(&mut self.removed) {
            attach(self.state, self.evaluation, pod, self.node);
        }
        self.state.nodes.restore_pod_order(self.node, std::mem::take(&mut self.pods));
        self.state.nodes.restore_ports(self.node, std::mem::take(&mut self.ports));
    }
}

fn attach(state: &mut State, evaluation: &mut Evaluation, pod: PodIdx, node: NodeIdx) {
    let spec = state.pods.get(pod).spec;
    state.nodes.attach(pod, node, state.specs.get(spec));
    for filter in &mut evaluation.filters {
        filter.filter.add_pod(state, pod, node);
    }
}

fn detach(state: &mut State, evaluation: &mut Evaluation, pod: PodIdx, node: NodeIdx) {
    let spec = state.pods.get(pod).spec;
    state.nodes.detach(pod, node, state.specs.get(spec));
    for filter in &mut evaluation.filters {
        filter.filter.remove_pod(state, pod, node);
    }
}

#[cfg(test)]
mod tests;
