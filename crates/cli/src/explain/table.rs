//! The table form of an explanation.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use api::answer::{Answer, NodeAnswer, Objection};

use crate::output::{BAD, GOOD, STRONG, columns, painted, printable, with_strong_head};

/// Maximum number of feasible nodes listed with their scores.
const NODES_SCORED_MAX: usize = 10;

/// Maximum number of nodes named for each reason.
const NODES_NAMED_MAX: usize = 3;

/// Returns the decision and its reasons as text.
pub fn table(answer: &Answer) -> String {
    let mut text = verdict(answer);
    if answer.error.is_none() {
        text += &scores(answer);
        text += &reasons(answer);
        text += &preemption(answer);
        text += &objections(answer);
    }
    if !answer.suggestions.is_empty() {
        let _ = writeln!(text, "\n{}", painted(STRONG, "What would help"));
        for suggestion in &answer.suggestions {
            let _ = writeln!(text, "  - {}", printable(suggestion));
        }
    }
    text
}

fn verdict(answer: &Answer) -> String {
    let pod = printable(&answer.pod);
    let all = answer.node_count;
    let (outcome, style) = match (&*answer.selected, &answer.error) {
        (_, Some(error)) => {
            let hint = if all == 0 { "; the cluster has no Node objects" } else { "" };
            (format!("{pod} cannot be decided: {}{hint}", printable(error)), BAD)
        }
        ("", None) => (format!("{pod} fits on none of {all} nodes"), BAD),
        (node, None) => (format!("{pod} goes to {}", printable(node)), GOOD),
    };
    let mut text = format!("{}\n", painted(style, &outcome));
    if answer.error.is_some() {
        return text;
    }
    if answer.selected.is_empty() {
        let _ = writeln!(text, "{}", printable(&answer.message));
    } else {
        let _ = writeln!(text, "{}", why(answer));
    }
    text
}

/// Returns why this feasible node was chosen.
fn why(answer: &Answer) -> String {
    let all = answer.node_count;
    let fit = match answer.feasible.len() {
        1 if all == 1 => return "It is the only node.".to_owned(),
        1 => return format!("It is the only one of {all} nodes that fits."),
        fit => format!("{fit} of {all} nodes fit"),
    };
    let Some(chosen) = answer.nodes.get(&answer.selected) else { return format!("{fit}.") };
    let others = feasible(answer).into_iter().filter(|(name, _)| **name != *answer.selected);
    let Some((second, next)) = others.clone().max_by_key(|(_, node)| node.total) else {
        return format!("{fit}.");
    };
    let total = chosen.total;
    if next.total == total {
        let equals = others.filter(|(_, node)| node.total == total).count();
        return format!(
            "{fit}; its total of {total} is the highest, and {equals} more have the same."
        );
    }
    let mut gains: Vec<(i64, &str)> = (chosen.scores.iter())
        .map(|(plugin, score)| (score - next.scores.get(plugin).unwrap_or(&0), &**plugin))
        .filter(|(gain, _)| *gain != 0)
        .collect();
    gains.sort_by_key(|(gain, plugin)| (-gain, *plugin));
    let gains: Vec<String> =
        gains.iter().map(|(gain, plugin)| format!("{plugin} {gain:+}")).collect();
    let second = printable(second);
    format!(
        "{fit}; its total of {total} is the highest. Ahead of {second} by {}.",
        gains.join(", ")
    )
}

fn feasible(answer: &Answer) -> Vec<(&String, &NodeAnswer)> {
    let mut nodes: Vec<_> =
        answer.nodes.iter().filter(|(_, node)| node.code == "Success").collect();
    nodes.sort_by_key(|(name, node)| (**name != answer.selected, -node.total, *name));
    nodes
}

/// Returns the scores of feasible nodes. Plugins with equal scores on all of them are combined in one line.
fn scores(answer: &Answer) -> String {
    let nodes = feasible(answer);
    if nodes.len() < 2 {
        return String::new();
    }
    let score = |node: &NodeAnswer, plugin: &str| node.scores.get(plugin).copied().unwrap_or(0);
    let first = nodes[0].1;
    let (equal, different): (Vec<_>, Vec<_>) = first.scores.keys().partition(|plugin| {
        nodes.iter().all(|(_, node)| score(node, plugin) == score(first, plugin))
    });
    let mut head = vec!["NODE".to_owned(), "TOTAL".to_owned()];
    head.extend(different.iter().map(|name| (*name).clone()));
    let mut rows = vec![head];
    for (name, node) in nodes.iter().take(NODES_SCORED_MAX) {
        let mut row = vec![(*name).clone(), node.total.to_string()];
        row.extend(different.iter().map(|plugin| score(node, plugin).to_string()));
        rows.push(row);
    }
    let mut text = format!("\n{}", with_strong_head(&columns(&rows)));
    if nodes.len() > NODES_SCORED_MAX {
        let _ = writeln!(text, "… and {} more", nodes.len() - NODES_SCORED_MAX);
    }
    if !equal.is_empty() {
        let equal: Vec<_> =
            equal.iter().map(|plugin| format!("{plugin} {}", score(first, plugin))).collect();
        let _ = writeln!(text, "Equal on all: {}", equal.join(", "));
    }
    text
}

/// Returns the rejected nodes, by reason.
fn reasons(answer: &Answer) -> String {
    let mut groups: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
    for (name, node) in answer.nodes.iter().filter(|(_, node)| node.code != "Success") {
        groups.entry((&node.plugin, node.reasons.join(", "))).or_default().push(name);
    }
    let mut sorted: Vec<_> = groups.into_iter().collect();
    sorted.sort_by_key(|(key, nodes)| (usize::MAX - nodes.len(), key.clone()));
    let mut rows = vec![["NODES", "PLUGIN", "REASON", "WHICH"].map(str::to_owned).to_vec()];
    for ((plugin, reason), nodes) in sorted {
        let mut named = nodes.iter().take(NODES_NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
        if nodes.len() > NODES_NAMED_MAX {
            named += ", …";
        }
        rows.push(vec![nodes.len().to_string(), plugin.to_owned(), reason, named]);
    }
    let mut text = String::new();
    if rows.len() > 1 {
        let _ = write!(text, "\n{}", with_strong_head(&columns(&rows)));
    }
    let unvisited = answer.node_count.saturating_sub(answer.nodes.len());
    if unvisited > 0 {
        let _ = writeln!(text, "\n{unvisited} more nodes were excluded by PreFilter.");
    }
    text
}

/// Returns what Reserve and Permit plugins object to the selected node.
fn objections(answer: &Answer) -> String {
    let mut text = String::new();
    for Objection { point, plugin, code, reasons } in &answer.objections {
        let reasons = if reasons.is_empty() {
            String::new()
        } else {
            format!(": {}", printable(&reasons.join(", ")))
        };
        let plugin = painted(STRONG, &printable(plugin));
        let _ =
            writeln!(text, "\n{plugin} would not let it be bound yet ({point}, {code}){reasons}.");
    }
    text
}

fn preemption(answer: &Answer) -> String {
    if answer.preemption.node.is_empty() {
        return String::new();
    }
    let node = printable(&answer.preemption.node);
    let victims = answer.preemption.victims.join(", ");
    let victims = printable(&victims);
    format!(
        "\n{} would make room on {node} by evicting {victims}.\n",
        painted(STRONG, "Preemption")
    )
}
