//! Compares two answers to a case.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

/// The aspect in which two answers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Aspect {
    /// One side crashed or panicked.
    Crash,
    /// Only one side rejected the case.
    Error,
    /// The profile.
    Scheduler,
    /// The code, plugin or reasons of a node.
    Filter,
    /// The weighted score of a plugin on a node.
    Score,
    /// The sum of the scores of a node.
    Total,
    /// The set of feasible nodes.
    Feasible,
    /// The selected node, with different totals.
    Selected,
    /// The selected node, with equal totals.
    Tie,
    /// The failure message.
    Message,
    /// The node and victims of preemption.
    Preemption,
}

/// One difference between two answers.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub(crate) aspect: Aspect,
    /// The node; empty if the difference concerns the whole case.
    pub(crate) node: String,
    /// The plugin; empty if none is known.
    pub(crate) plugin: String,
    /// Upstream's value, as JSON.
    pub(crate) oracle: String,
    /// Jindou's value, as JSON.
    pub(crate) ours: String,
}

impl Difference {
    /// Returns `true` if only the order of nodes with equal totals differs.
    pub(crate) fn is_tie(&self) -> bool {
        self.aspect == Aspect::Tie
    }

    /// Returns the kind of the difference, by which reports group cases.
    pub(crate) fn signature(&self) -> String {
        if self.plugin.is_empty() {
            format!("{:?}", self.aspect)
        } else {
            format!("{:?} {}", self.aspect, self.plugin)
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.signature())?;
        if !self.node.is_empty() {
            write!(f, " on {}", self.node)?;
        }
        write!(f, "\n    upstream: {}\n    ours:     {}", self.oracle, self.ours)
    }
}

/// Returns all differences between the oracle's answer and Jindou's.
pub(crate) fn compare(oracle: &Value, ours: &Value) -> Vec<Difference> {
    let mut found = DifferenceList(Vec::new());
    let crash_of = |answer: &Value| {
        ["crash", "panic"].iter().find_map(|key| answer[key].as_str()).map(str::to_owned)
    };
    if let (oracle, ours @ Some(_)) | (oracle @ Some(_), ours) = (crash_of(oracle), crash_of(ours))
    {
        found.add(
            Aspect::Crash,
            "",
            "",
            &oracle.unwrap_or_default().into(),
            &ours.unwrap_or_default().into(),
        );
        return found.0;
    }
    match (error_of(oracle), error_of(ours)) {
        (None, None) => {}
        (Some(_), Some(_)) => return found.0,
        (left, right) => {
            let side = if left.is_some() { "upstream" } else { "ours" };
            let (left, right) = (left.unwrap_or_default(), right.unwrap_or_default());
            let text = format!("{left}{right}");
            let text = text
                .strip_prefix("Pod ")
                .and_then(|text| text.split_once(": "))
                .map_or(text.as_str(), |(_, rest)| rest);
            let text = text.chars().filter(|letter| !letter.is_ascii_digit());
            let kind = format!("only {side}: {}", text.take(50).collect::<String>());
            found.add(Aspect::Error, "", &kind, &left.into(), &right.into());
            return found.0;
        }
    }
    found.add_if_unequal(Aspect::Scheduler, &oracle["scheduler"], &ours["scheduler"]);
    compare_nodes(oracle, ours, &mut found);
    if texts(&oracle["feasible"]) != texts(&ours["feasible"]) {
        found.add(Aspect::Feasible, "", "", &oracle["feasible"], &ours["feasible"]);
    }
    compare_selected(oracle, ours, &mut found);
    found.add_if_unequal(Aspect::Message, &oracle["message"], &ours["message"]);
    compare_preemption(oracle, ours, &mut found);
    found.0.sort_by_key(|difference| difference.aspect);
    found.0
}

struct DifferenceList(Vec<Difference>);

impl DifferenceList {
    fn add(&mut self, aspect: Aspect, node: &str, plugin: &str, oracle: &Value, ours: &Value) {
        let (node, plugin) = (node.to_owned(), plugin.to_owned());
        self.0.push(Difference {
            aspect,
            node,
            plugin,
            oracle: oracle.to_string(),
            ours: ours.to_string(),
        });
    }

    /// Adds a difference if the texts differ; absent, null and the empty string are equal.
    fn add_if_unequal(&mut self, aspect: Aspect, oracle: &Value, ours: &Value) {
        if oracle.as_str().unwrap_or_default() != ours.as_str().unwrap_or_default() {
            self.add(aspect, "", "", oracle, ours);
        }
    }
}

/// Returns the error with which a side rejected the case.
pub(crate) fn error_of(answer: &Value) -> Option<String> {
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) if text.is_empty() => None,
        Value::Array(list) if list.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => Some(
            list.iter()
                .map(|item| item.as_str().unwrap_or_default())
                .collect::<Vec<_>>()
                .join("; "),
        ),
        other => Some(other.to_string()),
    };
    text(&answer["error"]).or_else(|| text(&answer["configErrors"]))
}

fn texts(list: &Value) -> BTreeSet<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn compare_nodes(oracle: &Value, ours: &Value, found: &mut DifferenceList) {
    let names = |answer: &Value| {
        answer["nodes"]
            .as_object()
            .into_iter()
            .flat_map(|map| map.keys().cloned())
            .collect::<BTreeSet<_>>()
    };
    for name in names(oracle).union(&names(ours)) {
        let (left, right) = (&oracle["nodes"][name], &ours["nodes"][name]);
        let verdict = |node: &Value| {
            (
                node["code"].as_str().unwrap_or_default().to_owned(),
                node["plugin"].as_str().unwrap_or_default().to_owned(),
            )
        };
        if verdict(left) != verdict(right) || texts(&left["reasons"]) != texts(&right["reasons"]) {
            let plugin = left["plugin"]
                .as_str()
                .filter(|plugin| !plugin.is_empty())
                .or(right["plugin"].as_str())
                .unwrap_or_default();
            found.add(Aspect::Filter, name, plugin, left, right);
            continue;
        }
        let plugins = |node: &Value| {
            node["scores"]
                .as_object()
                .into_iter()
                .flat_map(|map| map.keys().cloned())
                .collect::<BTreeSet<_>>()
        };
        let before = found.0.len();
        for plugin in plugins(left).union(&plugins(right)) {
            let (a, b) = (&left["scores"][plugin], &right["scores"][plugin]);
            // A plugin that is skipped has the same effect as one that scores every node zero.
            if a.as_i64().unwrap_or_default() != b.as_i64().unwrap_or_default() {
                found.add(Aspect::Score, name, plugin, a, b);
            }
        }
        if found.0.len() == before
            && left["total"].as_i64().unwrap_or_default()
                != right["total"].as_i64().unwrap_or_default()
        {
            found.add(Aspect::Total, name, "", &left["total"], &right["total"]);
        }
    }
}

fn compare_selected(oracle: &Value, ours: &Value, found: &mut DifferenceList) {
    let (left, right) = (
        oracle["selected"].as_str().unwrap_or_default(),
        ours["selected"].as_str().unwrap_or_default(),
    );
    if left == right {
        return;
    }
    let total = |node: &str| oracle["nodes"][node]["total"].as_i64();
    let tie = !left.is_empty()
        && !right.is_empty()
        && total(left).is_some()
        && total(left) == total(right);
    found.add(
        if tie { Aspect::Tie } else { Aspect::Selected },
        "",
        "",
        &oracle["selected"],
        &ours["selected"],
    );
}

fn compare_preemption(oracle: &Value, ours: &Value, found: &mut DifferenceList) {
    let choice = |value: &Value| {
        (
            value["node"].as_str().unwrap_or_default().to_owned(),
            texts(&value["victims"]).into_iter().map(str::to_owned).collect::<BTreeSet<_>>(),
        )
    };
    let chosen = choice(&ours["preemption"]);
    let ties = oracle["preemptionTies"].as_array();
    if choice(&oracle["preemption"]) != chosen
        && !ties.into_iter().flatten().any(|tie| choice(tie) == chosen)
    {
        found.add(Aspect::Preemption, "", "", &oracle["preemption"], &ours["preemption"]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer() -> Value {
        json!({
            "id": "1", "pod": "default/subject", "scheduler": "default-scheduler", "selected": "a", "feasible": ["a", "b"],
            "nodes": {
                "a": {"code": "Success", "plugin": "", "reasons": [], "scores": {"TaintToleration": 300}, "total": 300},
                "b": {"code": "Success", "plugin": "", "reasons": [], "scores": {"TaintToleration": 300}, "total": 300},
                "c": {"code": "Unschedulable", "plugin": "NodePorts", "reasons": ["x", "y"], "scores": {}, "total": 0},
            },
            "message": "", "preemption": null, "preemptionTies": [],
        })
    }

    #[track_caller]
    fn check(change: impl Fn(&mut Value), want: &[&str]) {
        let mut ours = answer();
        change(&mut ours);
        let found: Vec<String> =
            compare(&answer(), &ours).iter().map(Difference::signature).collect();
        assert_eq!(found, want);
    }

    #[test]
    fn each_kind_of_difference_is_found() {
        check(|_| {}, &[]);
        check(|ours| ours["nodes"]["c"]["reasons"] = json!(["y", "x"]), &[]);
        check(|ours| ours["nodes"]["c"]["reasons"] = json!(["y"]), &["Filter NodePorts"]);
        check(|ours| ours["nodes"]["c"]["code"] = json!("Success"), &["Filter NodePorts"]);
        check(
            |ours| ours["nodes"]["b"]["scores"]["TaintToleration"] = json!(299),
            &["Score TaintToleration"],
        );
        check(|ours| ours["nodes"]["b"]["total"] = json!(299), &["Total"]);
        check(|ours| ours["selected"] = json!("b"), &["Tie"]);
        check(|ours| ours["selected"] = json!("c"), &["Selected"]);
        check(|ours| ours["feasible"] = json!(["b"]), &["Feasible"]);
        check(|ours| ours["message"] = json!("no"), &["Message"]);
        check(|ours| ours["scheduler"] = json!("x"), &["Scheduler"]);
        check(|ours| ours["error"] = json!("no"), &["Error only ours: no"]);
        check(|ours| ours["panic"] = json!("boom"), &["Crash"]);
        check(
            |ours| ours["preemption"] = json!({"node": "c", "victims": ["default/v"]}),
            &["Preemption"],
        );
    }

    #[test]
    fn any_of_the_tied_preemption_candidates_is_accepted() {
        let mut oracle = answer();
        oracle["preemption"] = json!({"node": "a", "victims": ["x", "y"]});
        oracle["preemptionTies"] = json!([{"node": "b", "victims": ["z"]}]);
        let mut ours = oracle.clone();
        ours["preemption"] = json!({"node": "b", "victims": ["z"]});
        assert!(compare(&oracle, &ours).is_empty());
        ours["preemption"] = json!({"node": "b", "victims": ["x"]});
        assert_eq!(compare(&oracle, &ours).len(), 1);
    }
}
