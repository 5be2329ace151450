//! Runs the PostFilter plugins for a pod without feasible nodes.

use crate::framework::profile::PluginPosition;
use crate::framework::{Point, PostFilterOutcome, Profile, Reason};
use crate::index::{NodeIdx, PodIdx};
use crate::queue::Nominator;
use crate::state::State;

use super::diagnosis::Diagnosis;
use super::evaluation::Evaluation;
use super::rivals::Rivals;
use super::what_if::{Candidate, ExtenderPreemption, PostFilter};

/// Combined result of the PostFilter plugins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostFilterReport {
    /// Reasons or error; empty if a plugin nominated a node.
    pub message: String,
    /// The nominated node and its victims.
    pub nominated: Option<(NodeIdx, Vec<PodIdx>)>,
    /// The plugin that nominated it.
    pub plugin: Option<PluginPosition>,
    /// Candidates among which extenders select first.
    pub candidates: Vec<Candidate>,
    /// Set if the pod's nomination must be cleared.
    pub clear_nomination: bool,
}

/// Input of the PostFilter plugins.
pub struct PostFilterInput<'a> {
    /// The pod without feasible nodes.
    pub pod: PodIdx,
    /// Nominated pods.
    pub nominator: &'a Nominator,
    /// Current time in nanoseconds since the epoch.
    pub now: i64,
    /// Random number.
    pub random: u64,
    /// Verdict of the extenders on victims.
    pub victims: ExtenderPreemption,
}

impl<'a> PostFilterInput<'a> {
    /// Creates an input without extenders.
    pub fn new(pod: PodIdx, nominator: &'a Nominator, now: i64, random: u64) -> Self {
        Self { pod, nominator, now, random, victims: ExtenderPreemption::NotNeeded }
    }
}

/// Runs the plugins in order until one nominates a node or fails.
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
        match profile.post_filter(*plugin, &mut cycle) {
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
