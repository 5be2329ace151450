//! The scorer: preferred node affinity of the pod and of the configuration.

use engine::bitset::NodeSet;
use engine::framework::scorer::{SCORE_MAX, proportional};
use engine::framework::{Extremes, Reason, Scorer};
use engine::index::NodeIdx;
use engine::object::{NodeAffinity, NodeTerm, Operator};
use engine::state::State;

use super::nodes::nodes_of_term;

/// Prepares the scorer of a pod's preferred terms and those that the configuration adds.
pub(super) fn prepare(
    added: &NodeAffinity,
    own: &NodeAffinity,
    state: &mut State,
) -> Option<Box<dyn Scorer>> {
    if own.preferred.is_none() && added.preferred.is_none() {
        return None;
    }
    let own = own.preferred.as_deref().unwrap_or_default();
    let added = added.preferred.as_deref().unwrap_or_default();
    let has_effect = |(weight, term): &&(i32, NodeTerm)| *weight != 0 && !term.is_empty();
    let preferred = added.iter().chain(own).filter(has_effect);
    let preferred: Vec<_> = preferred
        .map(|(weight, term)| (i64::from(*weight), nodes_of_term(state, term)))
        .filter(|(_, nodes)| !nodes.is_empty())
        .collect();
    let constant = constant_score(&preferred, state.nodes.present());
    Some(Box::new(PreferredNodes { preferred, constant, failure: failure(own) }))
}

/// Weights of the preferred terms, with the nodes that match them.
struct PreferredNodes {
    preferred: Vec<(i64, NodeSet)>,
    constant: Option<i64>,
    failure: Option<String>,
}

impl Scorer for PreferredNodes {
    fn score(&mut self, _state: &State, node: NodeIdx) -> i64 {
        let gains = self.preferred.iter().filter(|(_, nodes)| nodes.contains(node));
        gains.map(|(weight, _)| weight).sum()
    }

    fn score_all(&mut self, _state: &State, raw: &mut [i64]) {
        raw.fill(0);
        for (weight, nodes) in &self.preferred {
            for node in nodes.iter() {
                raw[node.at()] += weight;
            }
        }
    }

    fn constant(&self) -> Option<i64> {
        self.constant
    }

    fn normalises(&self) -> bool {
        true
    }

    fn normalise(&self, raw: i64, extremes: Extremes) -> i64 {
        proportional(raw, extremes)
    }

    fn failure(&self) -> Option<Reason> {
        self.failure.clone().map(Reason::from)
    }
}

/// Returns the final score if it is the same on all nodes.
fn constant_score(preferred: &[(i64, NodeSet)], present: &NodeSet) -> Option<i64> {
    let all = preferred.iter().all(|(_, nodes)| nodes == present);
    let gain: i64 = preferred.iter().map(|(weight, _)| weight).sum();
    all.then_some(if gain == 0 { 0 } else { SCORE_MAX })
}

/// Returns upstream's error for malformed preferred terms, which prevents scoring.
fn failure(preferred: &[(i32, NodeTerm)]) -> Option<String> {
    let malformed = preferred.iter().enumerate();
    let malformed = malformed.filter(|(_, (weight, term))| *weight != 0 && term.malformed);
    let problems: Vec<_> =
        malformed.flat_map(|(index, (_, term))| problems_of_term(index, term)).collect();
    match &problems[..] {
        [] => None,
        [problem] => Some(problem.clone()),
        problems => Some(format!("[{}]", problems.join(", "))),
    }
}

/// Returns the problems of a malformed term. The API server lets only one kind through: a value of `Gt`
/// or `Lt` that is not an integer.
fn problems_of_term(index: usize, term: &NodeTerm) -> Vec<String> {
    let expressions = term.expressions.iter().enumerate();
    let compared = expressions.filter(|(_, e)| matches!(e.operator, Operator::Gt | Operator::Lt));
    let values = compared.flat_map(|(at, e)| e.values.iter().map(move |value| (at, value)));
    let not_integers = values.filter(|(_, value)| value.parse::<i64>().is_err());
    let mut problems: Vec<_> = not_integers
        .map(|(at, value)| {
            format!(
                "[{index}].matchExpressions[{at}].values[0]: Invalid value: {value:?}: \
                 for 'Gt', 'Lt' operators, the value must be an integer"
            )
        })
        .collect();
    if problems.is_empty() {
        problems.push(format!("[{index}]: Invalid value: the term cannot be read"));
    }
    problems
}
