//! Where one pod goes.

use crate::framework::profile::PluginPosition;
use crate::framework::{Code, Point, Profile, Rejection};
use crate::index::{NodeIdx, PodIdx};
use crate::state::State;
use crate::stopwatch::Stopwatch;

use super::diagnosis::Diagnosis;
use super::evaluation::Evaluation;
use super::ranking::{Ranking, Spare};
use super::scores::{Scores, ScoringFailed};
use super::what_if::WhatIf;

/// What came of one attempt.
#[derive(Debug)]
pub enum Decision {
    /// The pod goes to this node.
    Node {
        /// The node.
        node: NodeIdx,
        /// How many nodes were feasible.
        feasible: usize,
    },
    /// There is no node at all.
    NoNodes,
    /// No node fits.
    Unschedulable(Diagnosis),
    /// A plugin failed.
    Error(String),
}

/// Who else wants to go where: pods nominated for nodes, and the place where the visit begins.
pub struct Circumstances<'a> {
    /// Pods nominated for nodes, in order of nomination.
    pub nominated: &'a [PodIdx],
    /// Place in the visiting order at which the visit begins; moved on by each decision.
    pub start: &'a mut usize,
    /// Memory to work in.
    pub(crate) spare: &'a mut Spare,
    /// Measures, if anybody wants to know.
    pub(crate) stopwatch: &'a mut Stopwatch,
}

/// Decides where a pod goes. The evaluation is that of the pod's class.
pub fn decide(
    profile: &Profile,
    evaluation: &mut Evaluation,
    state: &mut State,
    pod: PodIdx,
    circumstances: &mut Circumstances,
) -> Decision {
    if state.nodes.count() == 0 {
        return Decision::NoNodes;
    }
    let begun = circumstances.stopwatch.now();
    evaluation.refresh(profile, state);
    circumstances.stopwatch.filtered(begun);
    if evaluation.rejected.is_some() {
        return Decision::Unschedulable(Diagnosis::new(profile, evaluation, state));
    }
    let nominated = circumstances.nominated;
    let own = match try_nominated(evaluation, state, pod, nominated) {
        Nominated::Fits(node) => return Decision::Node { node, feasible: 1 },
        Nominated::Rejected(rejected) => Some(rejected),
        Nominated::None => None,
    };
    let disputed = disputed_nodes(evaluation, state, pod, nominated);
    let sample = nodes_to_find(profile, evaluation, state);
    if disputed.is_empty() && own.is_none() && sample.is_none() && !evaluation.can_fail() {
        return decide_over_all(profile, evaluation, state, circumstances);
    }
    let verdicts = Verdicts { own, disputed };
    decide_over_list(profile, evaluation, state, verdicts, sample, circumstances)
}

/// The usual case: every node counts and nobody else has a claim.
fn decide_over_all(
    profile: &Profile,
    evaluation: &mut Evaluation,
    state: &mut State,
    circumstances: &mut Circumstances,
) -> Decision {
    let Circumstances { start, spare, stopwatch, .. } = circumstances;
    let begun = **start % state.nodes.count();
    if let Some((_, nodes)) = &evaluation.narrowed {
        // A full visit ends where it began; a narrowed one moves on by the nodes it looked at.
        **start = (begun + nodes.count()) % state.nodes.count();
    }
    let feasible = evaluation.feasible_count();
    if feasible == 0 {
        return Decision::Unschedulable(Diagnosis::new(profile, evaluation, state));
    }
    if feasible == 1 {
        let node = evaluation.feasible().iter().next().unwrap_or(NodeIdx::NONE);
        return Decision::Node { node, feasible };
    }
    let time = stopwatch.now();
    let ranking = evaluation.rank(profile, state, spare);
    let chosen = ranking.choose(begun);
    stopwatch.scored(time);
    let decision = match (ranking.failure(profile), chosen) {
        (Some(ScoringFailed(text)), _) => Decision::Error(text),
        (None, Some(node)) => Decision::Node { node, feasible },
        (None, None) => Decision::Error("no best node among the feasible ones".to_owned()),
    };
    // Many classes have one pod only. What was worked out is kept from the second decision on.
    if !std::mem::replace(&mut evaluation.recurs, true)
        && let Some(ranking) = evaluation.ranking.take()
    {
        ranking.recycle(spare);
    }
    decision
}

fn decide_over_list(
    profile: &Profile,
    evaluation: &mut Evaluation,
    state: &mut State,
    verdicts: Verdicts,
    sample: Option<usize>,
    circumstances: &mut Circumstances,
) -> Decision {
    let Circumstances { start, stopwatch, .. } = circumstances;
    let time = stopwatch.now();
    let visited = visit(profile, evaluation, state, verdicts, sample, **start);
    stopwatch.filtered(time);
    let (feasible, diagnosis) = match visited {
        Ok(visited) => visited,
        Err(error) => return Decision::Error(error),
    };
    **start = (**start + feasible.len() + diagnosis.nodes.len()) % state.nodes.count();
    if feasible.is_empty() {
        return Decision::Unschedulable(diagnosis);
    }
    if let [node] = *feasible {
        return Decision::Node { node, feasible: 1 };
    }
    let time = stopwatch.now();
    let scores = Scores::new(profile, &evaluation.class, state, &feasible);
    let winner = scores.map(|scores| scores.winner());
    stopwatch.scored(time);
    match winner {
        Ok(Some(winner)) => Decision::Node { node: feasible[winner], feasible: feasible.len() },
        Ok(None) => Decision::Error("no best node among the feasible ones".to_owned()),
        Err(ScoringFailed(text)) => Decision::Error(text),
    }
}

/// Looks at node after node until enough are feasible. The diagnosis tells of the others.
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
    let Verdicts { own, disputed } = verdicts;
    let mut diagnosis = Diagnosis::empty(profile, evaluation, state, own.as_ref());
    let wanted = sample.unwrap_or(usize::MAX);
    for offset in 0..candidates.len() {
        let node = candidates[(start + offset) % candidates.len()];
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

/// A node that was turned down, by whom and why.
pub(crate) type Rejected = (NodeIdx, PluginPosition, Rejection);

/// Verdicts that are not those of the evaluation.
pub(crate) struct Verdicts {
    /// The pod's own nominated node, where plugins narrowed the choice.
    pub(crate) own: Option<Rejected>,
    /// Nodes that somebody else is nominated for.
    pub(crate) disputed: Vec<Rejected>,
}

/// What became of the node that a pod is nominated for, which is looked at before all others.
pub(crate) enum Nominated {
    /// The pod is not nominated, or the node is looked at again with the others.
    None,
    /// It takes the pod.
    Fits(NodeIdx),
    /// It does not, and plugins narrowed the choice of the others.
    Rejected(Rejected),
}

/// Looks at the node that a pod is nominated for.
pub(crate) fn try_nominated(
    evaluation: &mut Evaluation,
    state: &mut State,
    pod: PodIdx,
    nominated: &[PodIdx],
) -> Nominated {
    let own = state.pods.get(pod).nominated;
    if !own.is_some() || !state.nodes.present().contains(own) {
        return Nominated::None;
    }
    match two_pass(evaluation, state, pod, nominated, own) {
        None => Nominated::Fits(own),
        Some((plugin, rejection)) => {
            let rejected = (own, plugin, rejection);
            let narrowed = evaluation.narrowed.is_some();
            if narrowed { Nominated::Rejected(rejected) } else { Nominated::None }
        }
    }
}

/// Who turns a node down and why, with regard to who else is nominated for it; `None` when it is feasible.
pub(crate) fn verdict_of(
    evaluation: &mut Evaluation,
    state: &State,
    disputed: &[Rejected],
    node: NodeIdx,
) -> Option<(PluginPosition, Rejection)> {
    if let Some((_, plugin, rejection)) = disputed.iter().find(|(other, _, _)| *other == node) {
        return Some((*plugin, rejection.clone()));
    }
    let verdict = evaluation.verdict(state, node)?;
    Some(evaluation.rejection(state, node, verdict))
}

/// Nodes for which an equally or more important pod is nominated and that do not take both.
pub(crate) fn disputed_nodes(
    evaluation: &mut Evaluation,
    state: &mut State,
    pod: PodIdx,
    nominated: &[PodIdx],
) -> Vec<Rejected> {
    let rivals = nominated.iter().filter(|rival| is_rival(state, pod, **rival));
    let nodes = rivals.map(|rival| state.pods.get(*rival).nominated);
    let mut nodes: Vec<NodeIdx> =
        nodes.filter(|node| state.nodes.present().contains(*node)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut disputed = Vec::new();
    for node in nodes {
        if let Some((plugin, rejection)) = two_pass(evaluation, state, pod, nominated, node) {
            disputed.push((node, plugin, rejection));
        }
    }
    disputed
}

fn is_rival(state: &State, pod: PodIdx, other: PodIdx) -> bool {
    other != pod
        && state.pods.get(other).nominated.is_some()
        && state.pods.get(other).priority >= state.pods.get(pod).priority
}

/// Upstream's two passes: with the rivals on the node, then without them.
fn two_pass(
    evaluation: &mut Evaluation,
    state: &mut State,
    pod: PodIdx,
    nominated: &[PodIdx],
    node: NodeIdx,
) -> Option<(PluginPosition, Rejection)> {
    let rivals: Vec<PodIdx> = nominated
        .iter()
        .copied()
        .filter(|rival| is_rival(state, pod, *rival) && state.pods.get(*rival).nominated == node)
        .collect();
    if !rivals.is_empty() {
        let mut with_rivals = WhatIf::new(state, evaluation, pod, &[], node);
        for rival in &rivals {
            with_rivals.add(*rival);
        }
        if let Some(rejected) = with_rivals.check_with_plugin() {
            return Some(rejected);
        }
    }
    WhatIf::new(state, evaluation, pod, &[], node).check_with_plugin()
}

/// How many feasible nodes are enough; `None` for all of them.
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
    /// The ranking of the feasible nodes, brought up to date.
    pub(crate) fn rank(
        &mut self,
        profile: &Profile,
        state: &mut State,
        spare: &mut Spare,
    ) -> &mut Ranking {
        let kept = self.ranking.take();
        let current = kept.and_then(|mut ranking| {
            ranking.refresh(state, self.feasible(), self.feasible_version()).then_some(ranking)
        });
        let ranking = current.unwrap_or_else(|| {
            let (ranking, areas) = Ranking::new(
                profile,
                &self.class,
                state,
                (self.feasible(), self.feasible_version()),
                spare,
            );
            self.depend_on(areas, state);
            ranking
        });
        self.ranking.insert(ranking)
    }
}
