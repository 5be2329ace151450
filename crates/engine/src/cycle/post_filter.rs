//! Asks the PostFilter plugins what can be done for a pod that fits nowhere.

use crate::framework::profile::PluginPosition;
use crate::framework::{Point, PostFilterOutcome, Profile, Reason};
use crate::index::{NodeIdx, PodIdx};
use crate::queue::Nominator;
use crate::state::State;

use super::diagnosis::Diagnosis;
use super::evaluation::Evaluation;
use super::rivals::Rivals;
use super::what_if::{Candidate, ExtenderPreemption, PostFilter};

/// What the PostFilter plugins came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostFilterReport {
    /// What they had to say; empty when one of them found a way.
    pub message: String,
    /// The node found, and the pods that must leave it.
    pub nominated: Option<(NodeIdx, Vec<PodIdx>)>,
    /// The plugin that found it.
    pub plugin: Option<PluginPosition>,
    /// Nodes on which room can be made, if extenders are to be asked about them first.
    pub candidates: Vec<Candidate>,
    /// The pod's nomination is to be taken back.
    pub clear_nomination: bool,
}

/// Where and when a PostFilter runs.
pub struct PostFilterInput<'a> {
    /// The pod that fits nowhere.
    pub pod: PodIdx,
    /// Pods nominated for nodes.
    pub nominator: &'a Nominator,
    /// The time in nanoseconds since the epoch.
    pub now: i64,
    /// A random number.
    pub random: u64,
    /// What extenders say about victims.
    pub victims: ExtenderPreemption,
}

impl<'a> PostFilterInput<'a> {
    /// One in which extenders have no say.
    pub fn new(pod: PodIdx, nominator: &'a Nominator, now: i64, random: u64) -> Self {
        Self { pod, nominator, now, random, victims: ExtenderPreemption::NotNeeded }
    }
}

/// Asks the plugins in order: the first that finds a way or fails ends it.
pub fn post_filter(
    profile: &Profile,
    evaluation: &mut Evaluation,
    state: &mut State,
    diagnosis: &Diagnosis,
    input: &PostFilterInput,
) -> PostFilterReport {
    let mut report = PostFilterReport::default();
    let rivals = Rivals::of(input.nominator, state, input.pod);
    let mut all_reasons: Vec<Reason> = Vec::new();
    for plugin in profile.at(Point::PostFilter) {
        let mut cycle = PostFilter {
            profile,
            pod: input.pod,
            diagnosis,
            now: input.now,
            random: input.random,
            victims: &input.victims,
            state,
            evaluation,
            rivals,
        };
        match profile.plugins[*plugin].post_filter(&mut cycle) {
            PostFilterOutcome::Unschedulable { reasons, clear_nomination } => {
                all_reasons.extend(reasons);
                report.clear_nomination |= clear_nomination;
            }
            PostFilterOutcome::Nominate { node, victims } => {
                report.nominated = Some((node, victims));
                report.plugin = Some(*plugin);
                return report;
            }
            PostFilterOutcome::AskExtenders(candidates) => {
                report.candidates = candidates;
                return report;
            }
            PostFilterOutcome::Error(reason) => {
                report.message = reason.into_owned();
                return report;
            }
        }
    }
    report.message = all_reasons.join(", ");
    report
}

#[cfg(test)]
mod tests;
