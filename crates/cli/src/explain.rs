//! The decision about a pod and its reasons, as data.

mod suggest;
pub mod table;

use std::collections::BTreeMap;

use engine::cycle::explain::Explanation;
use engine::engine::Engine;
use engine::framework::Profile;
use engine::object::Pod;
use engine::state::State;
use plugins::registry::Registry;
use serde::Serialize;
use serde_json::{Value, json};

/// The verdict on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeAnswer {
    /// `Success`, `Unschedulable` or `UnschedulableAndUnresolvable`.
    pub code: &'static str,
    /// The first plugin that rejected the node; empty for a feasible node.
    pub plugin: String,
    /// Its reasons.
    pub reasons: Vec<String>,
    /// Weighted score of each plugin.
    pub scores: BTreeMap<String, i64>,
    /// Sum of the scores.
    pub total: i64,
}

/// The preemption that would make the pod fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PreemptionAnswer {
    /// The node, or empty.
    pub node: String,
    /// The pods, sorted.
    pub victims: Vec<String>,
}

/// The decision about a pod and its reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// `namespace/name`.
    pub pod: String,
    /// The profile.
    pub scheduler: String,
    /// The node, or empty.
    pub selected: String,
    /// Feasible nodes, sorted.
    pub feasible: Vec<String>,
    /// All nodes that were not excluded by PreFilter.
    pub nodes: BTreeMap<String, NodeAnswer>,
    /// Upstream's message if no node fits; otherwise empty.
    pub message: String,
    /// The preemption that would make the pod fit.
    pub preemption: PreemptionAnswer,
    /// Changes that would make the pod fit.
    pub suggestions: Vec<String>,
    /// Error that prevented a decision: a plugin failed, or there are no nodes.
    #[serde(skip)]
    pub error: Option<String>,
    /// Number of all nodes, including those that PreFilter excluded.
    #[serde(skip)]
    pub node_count: usize,
}

/// Explains a pod with suggestions, and with an error as the message.
///
/// Returns `None` if no profile has its scheduler name.
pub fn explain_with_suggestions(engine: &mut Engine, pod: &Pod, now: i64) -> Option<Answer> {
    let mut answer = explain(engine, pod.clone(), now)?;
    if let Some(error) = &answer.error {
        answer.message.clone_from(error);
    } else if answer.selected.is_empty() {
        answer.suggestions = suggest::suggest(engine, pod);
    }
    if !pod.gates.is_empty() {
        let gates = pod.gates.join(", ");
        let text =
            format!("remove the scheduling gates ({gates}): the pod is not scheduled before");
        answer.suggestions.insert(0, text);
    }
    Some(answer)
}

/// Explains a pod on an engine with the objects of a cluster. Returns `None` if no profile has its scheduler
/// name.
pub fn explain(engine: &mut Engine, pod: Pod, now: i64) -> Option<Answer> {
    let name = format!("{}/{}", pod.namespace, pod.name);
    engine.explain(pod, now, |state, profile, explanation| Answer {
        pod: name,
        ..answer(state, profile, &explanation)
    })
}

fn answer(state: &State, profile: &Profile, explanation: &Explanation) -> Answer {
    let mut answer = Answer {
        scheduler: profile.name.clone(),
        message: explanation.message.clone(),
        error: explanation.error.clone(),
        node_count: state.nodes.count(),
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

/// Answers a conformance case: `{"config", "objects", "pod"}` in, an answer or its problems out.
pub fn case(case: &Value) -> Value {
    let registry = Registry::default();
    let text = match &case["config"] {
        Value::Null => String::new(),
        config => config.to_string(),
    };
    let configuration = if text.is_empty() {
        api::config::defaults(api::config::Gates::default())
    } else {
        let read = api::config::read(&text);
        match read.config {
            Some(configuration) => configuration,
            None => return json!({"id": case["id"], "configErrors": lines(&read.problems)}),
        }
    };
    let profiles = match registry.profiles(&configuration) {
        Ok(profiles) => profiles,
        Err(problems) => return json!({"id": case["id"], "configErrors": lines(&problems)}),
    };
    let objects = case["objects"].as_array().cloned().unwrap_or_default();
    let snapshot = api::snapshot::from_values(objects);
    let lowered = api::snapshot::from_values([case["pod"].clone()]);
    let mut problems = lines(&snapshot.problems);
    problems.extend(lines(&lowered.problems));
    let Some(pod) = lowered.objects.pods.into_iter().next() else {
        problems.push("the case has no pod".to_owned());
        return json!({"id": case["id"], "error": problems.join("; ")});
    };
    // Like upstream's scheduler, go on with objects that the API server would have refused.
    let mut engine = crate::cluster::engine(profiles, snapshot.objects);
    match explain(&mut engine, pod, 0) {
        Some(answer) => {
            let mut value = json!(answer);
            value["id"] = case["id"].clone();
            if let Some(error) = answer.error {
                value["error"] = error.into();
            }
            value
        }
        None => json!({"id": case["id"], "error": "no profile has this scheduler name"}),
    }
}

fn lines<T: ToString>(problems: &[T]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}
