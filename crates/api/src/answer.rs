//! Where a pod would go and why, as data: what `jindou explain -o json` prints, in the form of the oracle's answers.

use std::collections::BTreeMap;

use engine::cycle::explain::Explanation;
use engine::engine::Engine;
use engine::framework::{Permit, Profile, Rejection};
use engine::object::Pod;
use engine::state::State;
use serde::Serialize;

/// The outcome of filtering and scoring one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeAnswer {
    /// `Success`, `Unschedulable` or `UnschedulableAndUnresolvable`.
    pub code: &'static str,
    /// The first plugin that rejected the node; empty for a feasible node.
    pub plugin: String,
    /// The reasons of that plugin.
    pub reasons: Vec<String>,
    /// Weighted score of each plugin.
    pub scores: BTreeMap<String, i64>,
    /// Sum of the scores.
    pub total: i64,
}

/// The victims that preemption would evict, and their node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PreemptionAnswer {
    /// The node; empty if preemption would not help.
    pub node: String,
    /// The victims as `namespace/name`, sorted.
    pub victims: Vec<String>,
}

/// A plugin that keeps a pod from being bound to the selected node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Objection {
    /// `Reserve` or `Permit`.
    pub point: &'static str,
    /// The plugin.
    pub plugin: String,
    /// The code of its rejection; `Wait` if it holds the pod back for now.
    pub code: &'static str,
    /// The reasons of its rejection.
    pub reasons: Vec<String>,
}

impl Objection {
    fn new(point: &'static str, plugin: &str, rejection: &Rejection) -> Self {
        let reasons = rejection.reasons.iter().map(ToString::to_string).collect();
        Self { point, plugin: plugin.to_owned(), code: rejection.code.name(), reasons }
    }
}

/// Where a pod would go and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// `namespace/name`.
    pub pod: String,
    /// The profile.
    pub scheduler: String,
    /// The selected node; empty if there is none.
    pub selected: String,
    /// The feasible nodes, sorted.
    pub feasible: Vec<String>,
    /// All nodes that were filtered.
    pub nodes: BTreeMap<String, NodeAnswer>,
    /// Why no node is feasible, in upstream's words; empty if one is.
    pub message: String,
    /// The victims that preemption would evict.
    pub preemption: PreemptionAnswer,
    /// Reserve and Permit plugins that object to the selected node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objections: Vec<Objection>,
    /// Changes that would make the pod schedulable.
    pub suggestions: Vec<String>,
    /// The error of a plugin, or that there are no nodes.
    #[serde(skip)]
    pub error: Option<String>,
    /// Number of nodes, including those that were not filtered.
    #[serde(skip)]
    pub node_count: usize,
}

/// Explains a pod on an engine that has the cluster's objects, without suggestions.
///
/// Returns `None` if no profile has the pod's scheduler name.
pub fn explain(engine: &mut Engine, pod: Pod, now: i64) -> Option<Answer> {
    let name = format!("{}/{}", pod.namespace, pod.name);
    engine.explain(pod, now, |state, profile, explanation| Answer {
        pod: name,
        ..answer(state, profile, &explanation)
    })
}

fn objections(profile: &Profile, explanation: &Explanation) -> Vec<Objection> {
    let reserve = explanation.reserve.iter().filter_map(|(plugin, rejection)| {
        Some(Objection::new("Reserve", profile.plugin_name(*plugin), rejection.as_ref()?))
    });
    let permit = explanation.permit.iter().filter_map(|(plugin, answer)| {
        let plugin = profile.plugin_name(*plugin);
        match answer {
            Permit::Allow => None,
            Permit::Deny(rejection) => Some(Objection::new("Permit", plugin, rejection)),
            Permit::Wait { .. } => Some(Objection {
                point: "Permit",
                plugin: plugin.to_owned(),
                code: "Wait",
                reasons: Vec::new(),
            }),
        }
    });
    reserve.chain(permit).collect()
}

fn answer(state: &State, profile: &Profile, explanation: &Explanation) -> Answer {
    let mut answer = Answer {
        scheduler: profile.name.clone(),
        message: explanation.message.clone(),
        error: explanation.error.clone(),
        node_count: state.nodes.count(),
        objections: objections(profile, explanation),
        ..Answer::default()
    };
    let node_name = |node| state.nodes.name(node).to_owned();
    if let Some(node) = explanation.selected {
        answer.selected = node_name(node);
    }
    for (position, node) in explanation.feasible.iter().enumerate() {
        let scores = explanation.scores.plugins.iter();
        let entry = NodeAnswer {
            code: "Success",
            scores: scores
                .map(|(plugin, column)| (profile.plugin_name(*plugin).to_owned(), column[position]))
                .collect(),
            total: explanation.scores.totals.get(position).copied().unwrap_or(0),
            ..NodeAnswer::default()
        };
        answer.nodes.insert(node_name(*node), entry);
    }
    answer.feasible = answer.nodes.keys().cloned().collect();
    for (node, plugin, rejection) in explanation.diagnosis.nodes() {
        let entry = NodeAnswer {
            code: rejection.code.name(),
            plugin: plugin.map_or_else(String::new, |p| profile.plugin_name(p).to_owned()),
            reasons: rejection.reasons.iter().map(ToString::to_string).collect(),
            ..NodeAnswer::default()
        };
        answer.nodes.insert(node_name(node), entry);
    }
    if let Some((node, victims)) = &explanation.post_filter.nominated {
        answer.preemption.node = node_name(*node);
        answer.preemption.victims = victims.iter().map(|pod| state.full_name(*pod)).collect();
        answer.preemption.victims.sort_unstable();
    }
    answer
}
