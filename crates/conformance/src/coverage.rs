//! Counts what the cases of a run exercised, so that a run without differences is known to have covered everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use crate::compare::error_of;

/// Number of occurrences by name.
type CountsByName = BTreeMap<String, u64>;

/// The outcomes and inputs of a run, counted from the cases and the oracle's answers.
#[derive(Default)]
pub(crate) struct Coverage {
    cases: u64,
    outcomes: CountsByName,
    rejecting_cases: CountsByName,
    rejected_nodes: CountsByName,
    scoring_cases: CountsByName,
    deciding_cases: CountsByName,
    reasons: CountsByName,
    pre_filter: CountsByName,
    post_filter: CountsByName,
    errors: CountsByName,
    config: CountsByName,
    topics: CountsByName,
}

impl Coverage {
    /// Counts one case and the oracle's answer to it.
    pub(crate) fn add(&mut self, case: &Value, topics: &[String], answer: &Value) {
        self.cases += 1;
        for topic in topics {
            bump(&mut self.topics, topic);
        }
        self.add_config(&case["config"]);
        let feasible = answer["feasible"].as_array().map_or(0, Vec::len);
        let outcome = if let Some(crash) = answer["crash"].as_str() {
            bump(&mut self.errors, &format!("crash: {}", plain(crash)));
            "oracle crashed"
        } else if let Some(error) = error_of(answer) {
            bump(&mut self.errors, &plain(&error));
            "error"
        } else {
            match feasible {
                0 => "no node feasible",
                1 => "one node feasible",
                _ => "several nodes feasible",
            }
        };
        bump(&mut self.outcomes, outcome);
        let nodes = case["objects"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|object| object["kind"] == "Node")
            .count();
        if nodes > 100 {
            bump(&mut self.outcomes, "more than 100 nodes");
            if feasible > 1 && answer["nodes"].as_object().is_some_and(|map| map.len() < nodes) {
                bump(&mut self.outcomes, "more than 100 nodes, search stopped early");
            }
        }
        self.add_preemption(answer);
        self.add_nodes(answer);
        self.add_message(answer);
    }

    fn add_preemption(&mut self, answer: &Value) {
        let Some(node) = answer["preemption"]["node"].as_str().filter(|node| !node.is_empty())
        else {
            return;
        };
        bump(&mut self.outcomes, "preemption found a node");
        if answer["preemption"]["victims"].as_array().is_some_and(|victims| victims.len() > 1) {
            bump(&mut self.outcomes, "preemption with several victims");
        }
        if answer["preemptionTies"]
            .as_array()
            .is_some_and(|ties| ties.iter().any(|tie| tie["node"] != node))
        {
            bump(&mut self.outcomes, "preemption with ties");
        }
    }

    fn add_nodes(&mut self, answer: &Value) {
        let mut rejecting = BTreeSet::new();
        let mut scores: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
        for node in answer["nodes"].as_object().into_iter().flat_map(|map| map.values()) {
            let plugin = node["plugin"].as_str().unwrap_or_default();
            if node["code"] != "Success" && !plugin.is_empty() {
                bump(&mut self.rejected_nodes, plugin);
                rejecting.insert(plugin.to_owned());
            }
            let code = node["code"].as_str().unwrap_or_default();
            for reason in node["reasons"].as_array().into_iter().flatten().filter_map(Value::as_str)
            {
                bump(&mut self.reasons, &format!("{plugin}: {} [{code}]", plain(reason)));
            }
            for (plugin, score) in node["scores"].as_object().into_iter().flatten() {
                scores.entry(plugin).or_default().insert(score.as_i64().unwrap_or_default());
            }
        }
        for plugin in rejecting {
            bump(&mut self.rejecting_cases, &plugin);
        }
        for (plugin, values) in scores {
            bump(&mut self.scoring_cases, plugin);
            if values.len() > 1 {
                bump(&mut self.deciding_cases, plugin);
            }
        }
    }

    fn add_message(&mut self, answer: &Value) {
        let message = answer["message"].as_str().unwrap_or_default();
        if message.is_empty() {
            return;
        }
        let rejected = answer["nodes"].as_object().is_some_and(|map| {
            map.values().any(|node| !node["plugin"].as_str().unwrap_or_default().is_empty())
        });
        if !message.starts_with("0/") {
            bump(&mut self.errors, &format!("message: {}", plain(message)));
        } else if !rejected {
            bump(&mut self.outcomes, "PreFilter rejection");
            let text = message.split_once("available: ").map_or(message, |(_, rest)| rest);
            bump(&mut self.pre_filter, &plain(text));
        }
        if let Some((_, text)) = message.split_once("preemption: ") {
            bump(&mut self.outcomes, "preemption attempted in vain");
            let reasons = text.split_once("available: ").map_or(text, |(_, rest)| rest);
            for reason in reasons.trim_end_matches('.').split(", ") {
                bump(&mut self.post_filter, &plain(reason));
            }
        }
    }

    fn add_config(&mut self, config: &Value) {
        if config.is_null() {
            bump(&mut self.config, "default");
            return;
        }
        let profiles = config["profiles"].as_array().map_or(0, Vec::len);
        if profiles > 1 {
            bump(&mut self.config, "several profiles");
        }
        if config["percentageOfNodesToScore"].is_number() {
            bump(&mut self.config, "percentageOfNodesToScore");
        }
        let mut seen = BTreeSet::new();
        for profile in config["profiles"].as_array().into_iter().flatten() {
            for (point, set) in profile["plugins"].as_object().into_iter().flatten() {
                for (list, entries) in set.as_object().into_iter().flatten() {
                    let all = entries
                        .as_array()
                        .is_some_and(|entries| entries.iter().any(|entry| entry["name"] == "*"));
                    seen.insert(format!("{point} {list}{}", if all { " *" } else { "" }));
                }
            }
            for entry in profile["pluginConfig"].as_array().into_iter().flatten() {
                let name = entry["name"].as_str().unwrap_or_default();
                let strategy = entry["args"]["scoringStrategy"]["type"]
                    .as_str()
                    .map_or(String::new(), |kind| format!(" {kind}"));
                seen.insert(format!("{name}Args{strategy}"));
            }
        }
        for name in seen {
            bump(&mut self.config, &name);
        }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<34}{:>14}{:>14}{:>14}{:>14}",
            "plugin", "rejects cases", "nodes", "scores cases", "decides"
        )?;
        let names: BTreeSet<&String> =
            self.rejecting_cases.keys().chain(self.scoring_cases.keys()).collect();
        for name in names {
            let count = |counts: &CountsByName| counts.get(name).copied().unwrap_or_default();
            let cells = [
                &self.rejecting_cases,
                &self.rejected_nodes,
                &self.scoring_cases,
                &self.deciding_cases,
            ]
            .map(count);
            writeln!(
                f,
                "{name:<34}{:>14}{:>14}{:>14}{:>14}",
                cells[0], cells[1], cells[2], cells[3]
            )?;
        }
        for (title, counts) in [
            ("outcomes", &self.outcomes),
            ("reasons (nodes)", &self.reasons),
            ("PreFilter messages", &self.pre_filter),
            ("preemption reasons", &self.post_filter),
            ("errors", &self.errors),
            ("configurations", &self.config),
            ("topics", &self.topics),
        ] {
            writeln!(f, "{title}:")?;
            let mut sorted: Vec<(&String, &u64)> = counts.iter().collect();
            sorted.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            for (name, count) in sorted {
                writeln!(
                    f,
                    "  {count:>7} {:>5.1}%  {name}",
                    *count as f64 * 100.0 / self.cases.max(1) as f64
                )?;
            }
        }
        Ok(())
    }
}

fn bump(counts: &mut CountsByName, name: &str) {
    *counts.entry(name.to_owned()).or_default() += 1;
}

/// Returns a text without digits and quoted names, so that equal errors about different objects count as one.
fn plain(text: &str) -> String {
    let mut result = String::new();
    let mut quoted = false;
    for letter in text.chars() {
        if letter == '"' {
            quoted = !quoted;
            result.push('"');
        } else if !quoted && letter.is_ascii_digit() {
            if !result.ends_with('#') {
                result.push('#');
            }
        } else if !quoted {
            result.push(letter);
        }
    }
    result.chars().take(160).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_errors_about_different_objects_count_as_one() {
        assert_eq!(plain("pod \"a1\" needs 12 of 345"), "pod \"\" needs # of #");
        assert_eq!(plain("pod \"b\" needs 7 of 8"), plain("pod \"a1\" needs 12 of 345"));
    }

    #[test]
    fn a_score_decides_only_if_nodes_differ_in_it() {
        let scores =
            |a: i64, b: i64| json!({"code": "Success", "scores": {"Same": 5, "Differs": a + b}});
        let answer =
            json!({"feasible": ["n1", "n2"], "nodes": {"n1": scores(1, 1), "n2": scores(1, 2)}});
        let mut coverage = Coverage::default();
        coverage.add(&json!({}), &["Taints".to_owned()], &answer);
        assert_eq!(coverage.outcomes["several nodes feasible"], 1);
        assert_eq!(coverage.scoring_cases.len(), 2);
        assert_eq!(coverage.deciding_cases.keys().collect::<Vec<_>>(), ["Differs"]);
        assert_eq!(coverage.topics["Taints"], 1);
    }
}
