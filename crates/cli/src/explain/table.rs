//! An answer as people read it.

use std::collections::BTreeMap;

use super::Answer;
use crate::output::columns;

/// How many feasible nodes are listed with their scores.
const LISTED: usize = 10;

/// Where the pod goes and why, or why nowhere.
pub fn table(answer: &Answer) -> String {
    let mut text = String::new();
    match (&*answer.selected, &answer.error) {
        (_, Some(error)) => text += &format!("{} cannot be decided: {error}\n", answer.pod),
        ("", None) => text += &format!("{} fits on no node.\n\n{}\n", answer.pod, answer.message),
        (node, None) => {
            let (fit, all) = (answer.feasible.len(), answer.nodes.len());
            text += &format!("{} goes to {node} ({fit} of {all} nodes fit).\n", answer.pod);
        }
    }
    text += &scores(answer);
    text += &reasons(answer);
    if !answer.preemption.node.is_empty() {
        let victims = answer.preemption.victims.join(", ");
        text += &format!(
            "\nPreemption would make room on {} by removing {victims}.\n",
            answer.preemption.node
        );
    }
    if !answer.suggestions.is_empty() {
        text += "\nWhat would help:\n";
        for suggestion in &answer.suggestions {
            text += &format!("  - {suggestion}\n");
        }
    }
    text
}

fn scores(answer: &Answer) -> String {
    let mut feasible: Vec<_> =
        answer.nodes.iter().filter(|(_, node)| node.code == "Success").collect();
    if feasible.len() < 2 {
        return String::new();
    }
    feasible.sort_by_key(|(name, node)| (**name != answer.selected, -node.total, (*name).clone()));
    let plugins: Vec<&String> = feasible[0].1.scores.keys().collect();
    let mut head = vec!["NODE".to_owned(), "TOTAL".to_owned()];
    head.extend(plugins.iter().map(|name| (*name).clone()));
    let mut rows = vec![head];
    for (name, node) in feasible.iter().take(LISTED) {
        let mut row = vec![(*name).clone(), node.total.to_string()];
        row.extend(plugins.iter().map(|p| node.scores.get(*p).unwrap_or(&0).to_string()));
        rows.push(row);
    }
    let mut text = format!("\n{}", columns(&rows));
    if feasible.len() > LISTED {
        text += &format!("… and {} more\n", feasible.len() - LISTED);
    }
    text
}

fn reasons(answer: &Answer) -> String {
    let mut groups: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
    for (name, node) in answer.nodes.iter().filter(|(_, node)| node.code != "Success") {
        groups.entry((&node.plugin, node.reasons.join(", "))).or_default().push(name);
    }
    if groups.is_empty() {
        return String::new();
    }
    let mut rows = vec![["COUNT", "PLUGIN", "REASON", "NODES"].map(str::to_owned).to_vec()];
    let mut sorted: Vec<_> = groups.into_iter().collect();
    sorted.sort_by_key(|(key, nodes)| (usize::MAX - nodes.len(), key.clone()));
    for ((plugin, reason), nodes) in sorted {
        let mut listed = nodes.iter().take(3).copied().collect::<Vec<_>>().join(", ");
        if nodes.len() > 3 {
            listed += ", …";
        }
        rows.push(vec![nodes.len().to_string(), plugin.to_owned(), reason, listed]);
    }
    format!("\n{}", columns(&rows))
}
