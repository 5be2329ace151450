//! Feasible nodes to pass to extenders, and the choice among those that they accept.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::change::{ExtenderVerdict, FailedNode};
use crate::framework::{Code, Profile, Rejection};
use crate::index::{NodeIdx, PodIdx};
use crate::state::State;

use super::choose::any_winner;
use super::decide::{
    Decision, DecisionInputs, Nominated, Verdicts, disputed_nodes, nodes_to_find, try_nominated,
    visit,
};
use super::diagnosis::Diagnosis;
use super::evaluation::Evaluation;
use super::rivals::Rivals;
use super::scores::{Scores, ScoringError};

/// Nodes to pass to extenders.
pub(crate) struct Shortlist {
    /// Feasible nodes in visiting order.
    pub(crate) feasible: Vec<NodeIdx>,
    /// Rejections of the other nodes.
    pub(crate) diagnosis: Diagnosis,
    /// Set if the only node is the pod's nominated node.
    pub(crate) nominated: bool,
}

/// Lists the feasible nodes, or only the nominated node if it is feasible and `nominated_first` is
/// set. The visit begins at the start of `inputs`, which is not advanced.
pub(crate) fn shortlist(
    profile: &Profile,
    evaluation: &mut Evaluation,
    state: &mut State,
    pod: PodIdx,
    inputs: &DecisionInputs,
    nominated_first: bool,
) -> Result<Shortlist, Decision> {
    if state.nodes.count() == 0 {
        return Err(Decision::NoNodes);
    }
    evaluation.refresh(profile, state);
    let rivals = Rivals::of(inputs.nominator, state, pod);
    if evaluation.rejected.is_some() {
        return Err(Decision::Unschedulable(evaluation.diagnose(profile, state, rivals)));
    }
    let own = match try_nominated(evaluation, state, rivals, inputs.excluded) {
        Nominated::Fits(node) if nominated_first => {
            let (feasible, diagnosis) = (vec![node], Diagnosis::default());
            return Ok(Shortlist { feasible, diagnosis, nominated: true });
        }
        Nominated::Rejected(rejected) => Some(rejected),
        Nominated::Fits(_) | Nominated::None => None,
    };
    let disputed = disputed_nodes(evaluation, state, rivals);
    let sample = nodes_to_find(profile, evaluation, state);
    let verdicts = Verdicts { own, disputed, excluded: inputs.excluded };
    let visited = visit(profile, evaluation, state, verdicts, sample, *inputs.start);
    let (feasible, diagnosis) = visited.map_err(Decision::Error)?;
    Ok(Shortlist { feasible, diagnosis, nominated: false })
}

/// Outcome of [`Shortlist::follow`].
pub(crate) enum ShortlistOutcome {
    Decided(Decision),
    /// None of the accepted nodes is feasible any more, but others are.
    AskAgain,
}

impl Shortlist {
    /// Chooses among the nodes that extenders accepted; a random number breaks ties.
    pub(crate) fn follow(
        self,
        profile: &Profile,
        evaluation: &Evaluation,
        state: &mut State,
        verdict: &ExtenderVerdict,
        random: u64,
    ) -> ShortlistOutcome {
        let Self { feasible, mut diagnosis, .. } = self;
        let scores: BTreeMap<&str, i64> =
            verdict.passed.iter().map(|(node, score)| (&**node, *score)).collect();
        let failures: BTreeMap<&str, &FailedNode> =
            verdict.failed.iter().map(|failed| (&*failed.node, failed)).collect();
        let mut passed = Vec::new();
        let mut unknown = false;
        for node in feasible {
            let name = state.nodes.name(node);
            if let Some(score) = scores.get(name) {
                passed.push((node, *score));
            } else if let Some(failed) = failures.get(name) {
                let code = if failed.unresolvable {
                    Code::UnschedulableAndUnresolvable
                } else {
                    Code::Unschedulable
                };
                // A rejection without a reason only counts.
                let reason = Some(failed.reason.to_string()).filter(|reason| !reason.is_empty());
                let reasons = reason.into_iter().map(Into::into).collect();
                let rejection = Rejection::new(code, reasons);
                diagnosis.add(node, profile.extender_plugin(), rejection);
            } else {
                unknown = true;
            }
        }
        let nodes: Vec<NodeIdx> = passed.iter().map(|(node, _)| *node).collect();
        ShortlistOutcome::Decided(match *nodes {
            [] if unknown => return ShortlistOutcome::AskAgain,
            [] => Decision::Unschedulable(Arc::new(diagnosis)),
            [node] => Decision::Node { node, feasible: 1 },
            _ => match Scores::new(profile, &evaluation.class, state, &nodes) {
                Err(ScoringError(text)) => Decision::Error(text),
                Ok(scores) => {
                    let own = scores.totals.iter();
                    let totals =
                        own.zip(&passed).map(|(own, (_, theirs))| own.saturating_add(*theirs));
                    match any_winner(&totals.collect::<Vec<_>>(), random) {
                        Some(best) => Decision::Node { node: nodes[best], feasible: nodes.len() },
                        None => Decision::Error(
                            "no best node among those that the extenders accepted".to_owned(),
                        ),
                    }
                }
            },
        })
    }
}

#[cfg(test)]
mod tests;
