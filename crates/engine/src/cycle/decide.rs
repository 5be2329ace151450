//! The decision on the node of one pod.

use std::sync::Arc;

use crate::bitset::NodeSet;
use crate::framework::profile::PluginPosition;
use crate::framework::{Code, Point, Profile, Rejection};
use crate::index::{NodeIdx, PodIdx};
use crate::queue::Nominator;
use crate::state::State;

use super::candidates::Candidates;
use super::choose::{TieBreak, any_winner};
use super::diagnosis::Diagnosis;
use super::evaluation::{Evaluation, PreFilterRejection};
use super::ranking::{ColumnPool, Ranking};
use super::rivals::Rivals;
use super::scores::{Scores, ScoringError};

/// Outcome of one decision.
#[derive(Debug)]
pub enum Decision {
    /// The pod goes to this node.
    Node {
        /// The node.
        node: NodeIdx,
        /// Number of feasible nodes.
        feasible: usize,
    },
    /// The cluster has no nodes.
    NoNodes,
    /// No node is feasible.
    Unschedulable(Arc<Diagnosis>),
    /// A plugin failed.
    Error(String),
}

/// Inputs of a decision beside the state.
pub struct DecisionInputs<'a> {
    /// Nominated pods.
    pub nominator: &'a Nominator,
    /// Nodes that are no candidates, although they may be feasible.
    pub excluded: Option<&'a NodeSet>,
    /// Position in the visiting order at which the visit begins; each decision advances it.
    pub start: &'a mut usize,
    /// Random number that chooses among ties; `None` applies upstream's rule.
    pub draw: Option<u64>,
    /// Reused memory.
    pub(crate) column_pool: &'a mut ColumnPool,
}

/// Chooses the node of a pod. The evaluation is that of the pod's class.
pub fn decide(
    profile: &Profile,
    evaluation: &mut Evaluation,
    state: &mut State,
    pod: PodIdx,
    inputs: &mut DecisionInputs,
) -> Decision {
    if state.nodes.count() == 0 {
        return Decision::NoNodes;
    }
    let begun = state.stopwatch.now();
    evaluation.refresh(profile, state);
    state.stopwatch.filtered(begun);
    let rivals = Rivals::of(inputs.nominator, state, pod);
    if evaluation.rejected.is_some() {
        return Decision::Unschedulable(evaluation.diagnose(profile, state, rivals));
    }
    let own = match try_nominated(evaluation, state, rivals, inputs.excluded) {
        Nominated::Fits(node) => return Decision::Node { node, feasible: 1 },
        Nominated::Rejected(rejected) => Some(rejected),
        Nominated::None => None,
    };
    let sample = nodes_to_find(profile, evaluation, state);
    if own.is_none()
        && sample.is_none()
        && !evaluation.can_fail()
        && evaluation.apply_nominations(state, rivals)
    {
        return decide_over_all(profile, evaluation, state, rivals, inputs);
    }
    let disputed = disputed_nodes(evaluation, state, rivals);
    let verdicts = Verdicts { own, disputed, excluded: inputs.excluded };
    decide_over_list(profile, evaluation, state, verdicts, sample, inputs)
}

/// Handles the common case: every feasible node is a candidate unless nominations block it.
fn decide_over_all(
    profile: &Profile,
    evaluation: &mut Evaluation,
    state: &mut State,
    rivals: Rivals,
    inputs: &mut DecisionInputs,
) -> Decision {
    let DecisionInputs { start, draw, column_pool, excluded, .. } = inputs;
    let begun = **start % state.nodes.count();
    if let Some((_, nodes)) = &evaluation.narrowed {
        // A full visit ends where it began; a narrowed one advances by the number of its nodes.
        **start = (begun + nodes.count()) % state.nodes.count();
    }
    if evaluation.open_count() == 0 {
        return Decision::Unschedulable(evaluation.diagnose(profile, state, rivals));
    }
    let candidates = match excluded {
        Some(excluded) => evaluation.exclude(excluded),
        None => Candidates::Open,
    };
    let feasible = evaluation.candidate_count(candidates);
    if feasible == 0 {
        return Decision::Unschedulable(Arc::new(Diagnosis::all_excluded(state)));
    }
    if feasible == 1 {
        let node = evaluation.candidates(candidates).0.iter().next().unwrap_or(NodeIdx::NONE);
        return Decision::Node { node, feasible };
    }
    let time = state.stopwatch.now();
    let ranking = evaluation.rank_nodes(profile, state, column_pool, candidates);
    let chosen = ranking.choose(draw.map_or(TieBreak::First(begun), TieBreak::Any));
    state.stopwatch.scored(time);
    let decision = match (ranking.failure(profile), chosen) {
        (Some(ScoringError(text)), _) => Decision::Error(text),
        (None, Some(node)) => Decision::Node { node, feasible },
        (None, None) => Decision::Error("no best node among the feasible ones".to_owned()),
    };
    // Many classes have a single pod, so a ranking is kept only from the second decision on.
    if !std::mem::replace(&mut evaluation.is_recurring, true)
        && let Some(ranking) = evaluation.ranking.take()
    {
        ranking.recycle(column_pool);
    }
    decision
}

fn decide_over_list(
    profile: &Profile,
    evaluation: &mut Evaluation,
    state: &mut State,
    verdicts: Verdicts,
    sample: Option<usize>,
    inputs: &mut DecisionInputs,
) -> Decision {
    let DecisionInputs { start, draw, .. } = inputs;
    let time = state.stopwatch.now();
    let visited = visit(profile, evaluation, state, verdicts, sample, **start);
    state.stopwatch.filtered(time);
    let (feasible, diagnosis) = match visited {
        Ok(visited) => visited,
        Err(error) => return Decision::Error(error),
    };
    let looked_at = feasible.len() + diagnosis.rejected_count();
    **start = (**start + looked_at) % state.nodes.count();
    if feasible.is_empty() {
        return Decision::Unschedulable(Arc::new(diagnosis));
    }
    if let [node] = *feasible {
        return Decision::Node { node, feasible: 1 };
    }
    let time = state.stopwatch.now();
    let scores = Scores::new(profile, &evaluation.class, state, &feasible);
    let winner = scores.map(|scores| match draw {
        Some(random) => any_winner(&scores.totals, *random),
        None => scores.winner(),
    });
    state.stopwatch.scored(time);
    match winner {
        Ok(Some(winner)) => Decision::Node { node: feasible[winner], feasible: feasible.len() },
        Ok(None) => Decision::Error("no best node among the feasible ones".to_owned()),
        Err(ScoringError(text)) => Decision::Error(text),
    }
}

/// Visits nodes until enough are feasible; the diagnosis holds the rejected ones.
pub(crate) fn visit(
    profile: &Profile,
    evaluation: &mut Evaluation,
    state: &State,
    verdicts: Verdicts,
    sample: Option<usize>,
    start: usize,
) -> Result<(Vec<NodeIdx>, Diagnosis), String> {
    let candidates: Vec<NodeIdx> = match &evaluation.narrowed {
        Some((_, nodes)) => {
            state.nodes.order().iter().copied().filter(|node| nodes.contains(*node)).collect()
        }
        None => state.nodes.order().to_vec(),
    };
    let mut feasible = Vec::new();
    let Verdicts { own, disputed, excluded } = verdicts;
    let mut diagnosis = Diagnosis::empty(profile, evaluation, state, own.as_ref());
    let wanted = sample.unwrap_or(usize::MAX);
    for offset in 0..candidates.len() {
        let node = candidates[(start + offset) % candidates.len()];
        if excluded.is_some_and(|excluded| excluded.contains(node)) {
            continue;
        }
        let verdict = verdict_of(evaluation, state, &disputed, node);
        if let Some((plugin, rejection)) = verdict {
            if rejection.code == Code::Error {
                return Err(rejection.message());
            }
            diagnosis.add(node, Some(plugin), rejection);
        } else if feasible.len() == wanted {
            break;
        } else {
            feasible.push(node);
        }
    }
    Ok((feasible, diagnosis))
}

/// A rejected node, with the plugin and its rejection.
pub(crate) type Rejected = (NodeIdx, PluginPosition, Rejection);

/// Verdicts that override those of the evaluation.
pub(crate) struct Verdicts<'a> {
    /// The pod's own nominated node, if it was rejected and PreFilter narrowed the nodes.
    pub(crate) own: Option<Rejected>,
    /// Nodes blocked by nominations of other pods, sorted.
    pub(crate) disputed: Vec<Rejected>,
    /// Nodes that are not visited.
    pub(crate) excluded: Option<&'a NodeSet>,
}

/// The rejection of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRejection {
    /// The plugin; `None` if several PreFilter plugins together left no node.
    pub plugin: Option<PluginPosition>,
    /// Its rejection.
    pub rejection: Rejection,
}

/// Runs all filters for a pod on one node, also with the pods nominated for it.
pub(crate) fn check_node(
    profile: &Profile,
    evaluation: &mut Evaluation,
    state: &mut State,
    nominator: &Nominator,
    pod: PodIdx,
    node: NodeIdx,
) -> Result<(), NodeRejection> {
    evaluation.refresh(profile, state);
    if let Some(PreFilterRejection { plugin, rejection }) = evaluation.rejected.clone() {
        return Err(NodeRejection { plugin, rejection });
    }
    if let Some((plugins, nodes)) = &evaluation.narrowed
        && !nodes.contains(node)
        && let Some(rejection) = Diagnosis::empty(profile, evaluation, state, None).absent
    {
        return Err(NodeRejection { plugin: plugins.last().copied(), rejection });
    }
    let rivals = Rivals::of(nominator, state, pod);
    match two_passes(evaluation, state, rivals, node) {
        None => Ok(()),
        Some((plugin, rejection)) => Err(NodeRejection { plugin: Some(plugin), rejection }),
    }
}

/// Outcome of trying the pod's nominated node before all others.
pub(crate) enum Nominated {
    /// The pod is not nominated, or the node is visited again with the others.
    None,
    /// The pod fits there.
    Fits(NodeIdx),
    /// The pod does not fit there, and PreFilter narrowed the nodes.
    Rejected(Rejected),
}

/// Tries the nominated node of a pod.
pub(crate) fn try_nominated(
    evaluation: &mut Evaluation,
    state: &mut State,
    rivals: Rivals,
    excluded: Option<&NodeSet>,
) -> Nominated {
    let own = rivals.own_node().filter(|own| state.nodes.present().contains(*own));
    let own = own.filter(|own| !excluded.is_some_and(|excluded| excluded.contains(*own)));
    let Some(own) = own else { return Nominated::None };
    match two_passes(evaluation, state, rivals, own) {
        None => Nominated::Fits(own),
        Some((plugin, rejection)) => {
            let rejected = (own, plugin, rejection);
            let narrowed = evaluation.narrowed.is_some();
            if narrowed { Nominated::Rejected(rejected) } else { Nominated::None }
        }
    }
}

/// Returns the plugin that rejects a node and its rejection, nominations of others included; `None`
/// if the node is feasible.
pub(crate) fn verdict_of(
    evaluation: &mut Evaluation,
    state: &State,
    disputed: &[Rejected],
    node: NodeIdx,
) -> Option<(PluginPosition, Rejection)> {
    if let Ok(found) = disputed.binary_search_by_key(&node, |(other, _, _)| *other) {
        let (_, plugin, rejection) = &disputed[found];
        return Some((*plugin, rejection.clone()));
    }
    let verdict = evaluation.verdict(state, node)?;
    Some(evaluation.rejection(state, node, verdict))
}

/// Returns the nodes that a nominated pod of equal or higher priority blocks for this pod, sorted.
pub(crate) fn disputed_nodes(
    evaluation: &mut Evaluation,
    state: &mut State,
    rivals: Rivals,
) -> Vec<Rejected> {
    let nodes = rivals.nodes(state);
    let disputed = nodes.iter().filter_map(|node| {
        let (plugin, rejection) = two_passes(evaluation, state, rivals, node)?;
        Some((node, plugin, rejection))
    });
    disputed.collect()
}

/// Runs upstream's two passes on one node: with its rivals and without them.
fn two_passes(
    evaluation: &mut Evaluation,
    state: &mut State,
    rivals: Rivals,
    node: NodeIdx,
) -> Option<(PluginPosition, Rejection)> {
    rivals.two_passes(evaluation, state, node, |evaluation, state, verdict| {
        evaluation.rejection(state, node, verdict)
    })
}

/// Returns the number of feasible nodes that suffice; `None` for all.
pub(crate) fn nodes_to_find(
    profile: &Profile,
    evaluation: &Evaluation,
    state: &State,
) -> Option<usize> {
    let nodes = match &evaluation.narrowed {
        Some((_, nodes)) => nodes.count(),
        None => state.nodes.count(),
    };
    let extended = profile.extenders.iter().any(|extender| extender.filters || extender.scores);
    if profile.at(Point::Score).is_empty() && !extended {
        return (nodes > 1).then_some(1);
    }
    let share = match profile.percentage_of_nodes_to_score? {
        0 => (50usize.saturating_sub(nodes / 125)).max(5),
        given => given as usize,
    };
    let enough = if nodes < 100 { nodes } else { (nodes * share / 100).max(100) };
    (enough < nodes).then_some(enough)
}

impl Evaluation {
    /// Returns the current ranking of the feasible nodes.
    pub(crate) fn rank(
        &mut self,
        profile: &Profile,
        state: &mut State,
        column_pool: &mut ColumnPool,
    ) -> &mut Ranking {
        self.rank_nodes(profile, state, column_pool, Candidates::AllFeasible)
    }

    /// Returns the current ranking of the candidates.
    fn rank_nodes(
        &mut self,
        profile: &Profile,
        state: &mut State,
        column_pool: &mut ColumnPool,
        candidates: Candidates,
    ) -> &mut Ranking {
        let kept = self.ranking.take();
        let (nodes, version) = self.candidates(candidates);
        let current = kept.and_then(|mut kept| kept.refresh(state, nodes, version).then_some(kept));
        let ranking = if let Some(ranking) = current {
            ranking
        } else {
            let nodes = (nodes, version);
            let (ranking, dependencies) =
                Ranking::new(profile, &self.class, state, nodes, column_pool);
            self.depend_on(dependencies, state);
            ranking
        };
        self.ranking.insert(ranking)
    }
}

#[cfg(test)]
mod tests;
