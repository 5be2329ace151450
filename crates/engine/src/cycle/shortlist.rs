//! The nodes that fit a pod, listed for extenders, and the choice among those they let pass.

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

/// Nodes to ask extenders about.
pub(crate) struct Shortlist {
    /// Nodes that fit, in visiting order.
    pub(crate) feasible: Vec<NodeIdx>,
    /// Why the others do not.
    pub(crate) diagnosis: Diagnosis,
    /// There is one node only: that for which the pod is nominated.
    pub(crate) nominated: bool,
}

/// Lists the nodes that fit, or only the one that the pod is nominated for if that fits and
/// `nominated_first`. The visit begins where the inputs say; the place is not moved on.
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
    let own = match try_nominated(evaluation, state, rivals) {
        Nominated::Fits(node) if nominated_first => {
            let (feasible, diagnosis) = (vec![node], Diagnosis::default());
            return Ok(Shortlist { feasible, diagnosis, nominated: true });
        }
        Nominated::Rejected(rejected) => Some(rejected),
        Nominated::Fits(_) | Nominated::None => None,
    };
    let disputed = disputed_nodes(evaluation, state, rivals);
    let sample = nodes_to_find(profile, evaluation, state);
    let verdicts = Verdicts { own, disputed };
    let visited = visit(profile, evaluation, state, verdicts, sample, *inputs.start);
    let (feasible, diagnosis) = visited.map_err(Decision::Error)?;
    Ok(Shortlist { feasible, diagnosis, nominated: false })
}

/// What following advice comes to.
pub(crate) enum ShortlistOutcome {
    Decided(Decision),
    /// No node that was let pass fits any more, but there are others now.
    AskAgain,
}

impl Shortlist {
    /// Chooses among the nodes that extenders let pass; of equally good ones any, by a random number.
    pub(crate) fn follow(
        self,
        profile: &Profile,
        evaluation: &Evaluation,
        state: &mut State,
        advice: &ExtenderVerdict,
        random: u64,
    ) -> ShortlistOutcome {
        let Self { feasible, mut diagnosis, .. } = self;
        let scores: BTreeMap<&str, i64> =
            advice.passed.iter().map(|(node, score)| (&**node, *score)).collect();
        let failures: BTreeMap<&str, &FailedNode> =
            advice.failed.iter().map(|failed| (&*failed.node, failed)).collect();
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
                // Without a reason it only counts.
                let reason = Some(failed.reason.to_string()).filter(|reason| !reason.is_empty());
                let reasons = reason.into_iter().map(Into::into).collect();
                let rejection = Rejection { code, reasons };
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
                        None => Decision::Error("no best node among those let pass".to_owned()),
                    }
                }
            },
        })
    }
}

#[cfg(test)]
mod tests;
