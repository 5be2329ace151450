//! Explanations: one decision with everything that led to it.

use crate::framework::profile::PluginPosition;
use crate::framework::{Class, Code, Permit, Profile, Rejection};
use crate::index::{NodeIdx, PodIdx};
use crate::state::State;

use super::decide::{Nominated, disputed_nodes, nodes_to_find, try_nominated, verdict_of};
use super::diagnosis::Diagnosis;
use super::evaluation::Evaluation;
use super::post_filter::{PostFilterInput, PostFilterReport, post_filter};
use super::rivals::Rivals;
use super::scores::{Scores, ScoringError};

/// A decision with everything that led to it.
#[derive(Clone, Debug, Default)]
pub struct Explanation {
    /// Chosen node.
    pub selected: Option<NodeIdx>,
    /// Feasible nodes in visiting order.
    pub feasible: Vec<NodeIdx>,
    /// Rejections of the other nodes.
    pub diagnosis: Diagnosis,
    /// Scores of the feasible nodes, in the same order; empty if there are fewer than two.
    pub scores: Scores,
    /// Result of PostFilter, if no node is feasible.
    pub post_filter: PostFilterReport,
    /// Upstream's message, if no node is feasible.
    pub message: String,
    /// Error, if a plugin failed or there are no nodes.
    pub error: Option<String>,
    /// Reserve plugins that were asked about the chosen node, in order, with their rejection; the
    /// first that rejects is the last. Filled by [`crate::engine::Engine::explain`].
    pub reserve: Vec<(PluginPosition, Option<Rejection>)>,
    /// Permit plugins that were asked about it, with their answers; a denial is the last. None are
    /// asked if a Reserve plugin rejects. Filled by [`crate::engine::Engine::explain`].
    pub permit: Vec<(PluginPosition, Permit)>,
}

/// Explains the decision on a pod of the class. Evaluates everything from scratch.
pub fn explain(
    profile: &Profile,
    class: Class,
    state: &mut State,
    input: &PostFilterInput,
) -> Explanation {
    let mut explanation = Explanation::default();
    if state.nodes.count() == 0 {
        explanation.error = Some("no nodes available to schedule pods".to_owned());
        return explanation;
    }
    let mut evaluation = Evaluation::new(profile, class, state);
    explanation.diagnosis = Diagnosis::empty(profile, &evaluation, state, None);
    if evaluation.rejected.is_none() {
        visit_nodes(profile, &mut evaluation, state, input, &mut explanation);
    } else if let Some(rejected) = &evaluation.rejected
        && rejected.rejection.code == Code::Error
    {
        let plugin = rejected.plugin.map_or("", |plugin| profile.plugin_name(plugin));
        let text = rejected.rejection.message();
        explanation.error = Some(format!("running PreFilter plugin {plugin:?}: {text}"));
        return explanation;
    }
    if explanation.error.is_some() {
        return explanation;
    }
    match explanation.feasible.len() {
        0 => {
            let diagnosis = &explanation.diagnosis;
            let report = post_filter(profile, &mut evaluation, state, diagnosis, input);
            explanation.message = diagnosis.text(&report.message);
            explanation.post_filter = report;
        }
        1 => explanation.selected = Some(explanation.feasible[0]),
        _ => match Scores::new(profile, &evaluation.class, state, &explanation.feasible) {
            Ok(scores) => {
                explanation.selected = scores.winner().map(|winner| explanation.feasible[winner]);
                explanation.scores = scores;
            }
            Err(ScoringError(text)) => explanation.error = Some(text),
        },
    }
    explanation
}

fn visit_nodes(
    profile: &Profile,
    evaluation: &mut Evaluation,
    state: &mut State,
    input: &PostFilterInput,
    explanation: &mut Explanation,
) {
    let rivals = Rivals::of(input.nominator, state, input.pod);
    match try_nominated(evaluation, state, rivals, None) {
        Nominated::Fits(node) => {
            explanation.feasible.push(node);
            return;
        }
        Nominated::Rejected(rejected) => {
            explanation.diagnosis = Diagnosis::empty(profile, evaluation, state, Some(&rejected));
        }
        Nominated::None => {}
    }
    let disputed = disputed_nodes(evaluation, state, rivals);
    let wanted = nodes_to_find(profile, evaluation, state).unwrap_or(usize::MAX);
    let narrowed = evaluation.narrowed.as_ref().map(|(_, nodes)| nodes.clone());
    let order: Vec<NodeIdx> = state.nodes.order().to_vec();
    for node in order {
        if narrowed.as_ref().is_some_and(|nodes| !nodes.contains(node)) {
            continue;
        }
        let verdict = verdict_of(evaluation, state, &disputed, node);
        match verdict {
            Some((plugin, rejection)) => {
                if rejection.code == Code::Error {
                    explanation.error = Some(rejection.message());
                    return;
                }
                explanation.diagnosis.add(node, Some(plugin), rejection);
            }
            None if explanation.feasible.len() == wanted => return,
            None => explanation.feasible.push(node),
        }
    }
}

/// Returns the class of a pod in the state.
pub fn class_of(state: &State, pod: PodIdx, node_name: &str) -> Class {
    let record = state.pods.get(pod);
    let spec = &state.specs.get(record.spec).spec;
    let owns_claims =
        spec.volumes.iter().any(|v| matches!(v, crate::object::Volume::Ephemeral { .. }));
    Class {
        namespace: state.namespace(pod).into(),
        labels: state.labels(pod).clone(),
        node_name: node_name.into(),
        uid: if owns_claims { record.uid.clone() } else { "".into() },
        spec: std::sync::Arc::clone(spec),
    }
}

#[cfg(test)]
mod tests;
