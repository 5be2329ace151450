//! What-if: temporary changes of the pods on one node, always rolled back.
//!
//! It is the part of a [`Trial`](crate::engine::Trial) that concerns a single node: it changes only
//! the node's columns and one evaluation, so it needs no logs and no versions.

use crate::framework::{Class, NodeVerdict, Profile, Rejection};
use crate::index::{NodeIdx, PodIdx};
use crate::object::Text;
use crate::state::State;
use crate::state::nodes::NodeMark;

use super::diagnosis::Diagnosis;
use super::evaluation::Evaluation;
use super::rivals::Rivals;

/// A node on which evicting victims makes room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The node.
    pub node: NodeIdx,
    /// Pods to evict.
    pub victims: Vec<PodIdx>,
    /// Number of victims whose disruption budget would be violated.
    pub violations: usize,
}

/// Verdict of extenders on victims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtenderPreemption {
    /// No extender preempts.
    NotNeeded,
    /// Extenders must be asked: [`crate::framework::PostFilterOutcome::AskExtenders`].
    Required,
    /// The candidates that extenders left.
    Answered(Vec<Candidate>),
    /// The call failed with this error.
    Failed(Text),
}

/// Access for PostFilter plugins.
pub struct PostFilter<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// The pod without feasible nodes.
    pub pod: PodIdx,
    /// Reasons why no node is feasible.
    pub diagnosis: &'a Diagnosis,
    /// Current time in nanoseconds since the epoch; stands for the start time of pods that have
    /// none.
    pub now: i64,
    /// Random number, for the offset of the first candidate.
    pub random: u64,
    /// Verdict of the extenders on victims.
    pub victims: &'a ExtenderPreemption,
    pub(crate) state: &'a mut State,
    pub(crate) evaluation: &'a mut Evaluation,
    pub(crate) rivals: Rivals<'a>,
}

impl PostFilter<'_> {
    /// Returns the state.
    pub fn state(&self) -> &State {
        self.state
    }

    /// Returns the class of the pod.
    pub fn class(&self) -> &Class {
        &self.evaluation.class
    }

    /// Returns `true` if the plugin's PreFilter ran in this cycle.
    pub fn ran_pre_filter(&self, name: &str) -> bool {
        self.evaluation
            .pre_filters_run
            .iter()
            .any(|plugin| self.profile.plugin_name(*plugin) == name)
    }

    /// Starts a what-if on a node.
    pub fn what_if(&mut self, node: NodeIdx) -> WhatIf<'_> {
        WhatIf::new(self.state, self.evaluation, self.rivals, node)
    }
}

/// A what-if on one node. Dropping it rolls all changes back.
pub struct WhatIf<'a> {
    state: &'a mut State,
    evaluation: &'a mut Evaluation,
    rivals: Rivals<'a>,
    node: NodeIdx,
    before: Option<NodeMark>,
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
        let before = Some(state.nodes.mark(node));
        let (removed, added) = (Vec::new(), Vec::new());
        Self { state, evaluation, rivals, node, before, removed, added }
    }

    /// Removes a pod from the node.
    pub fn remove(&mut self, pod: PodIdx) {
        detach(self.state, self.evaluation, pod, self.node);
        self.removed.push(pod);
    }

    /// Puts a removed pod back.
    pub fn put_back(&mut self, pod: PodIdx) {
        attach(self.state, self.evaluation, pod, self.node);
        self.removed.retain(|other| *other != pod);
    }

    /// Runs the filters with the present pods; first also with the rivals nominated for this node.
    pub fn fits(&mut self) -> Result<(), Rejection> {
        self.judge(|what_if, verdict| {
            what_if.evaluation.rejection(what_if.state, what_if.node, verdict).1
        })
    }

    /// As [`Self::fits`] without the rejection, which costs less.
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

    /// Runs the filters once and passes a rejecting verdict to `read`.
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

    /// Returns the state with the what-if applied.
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
        if let Some(before) = self.before.take() {
            self.state.nodes.restore(before);
        }
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
