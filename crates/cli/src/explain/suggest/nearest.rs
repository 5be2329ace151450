//! Suggestions about misspelt labels, values, resources and node names.

use std::collections::BTreeMap;

use engine::object::{Labels, NodeTerm, Operator};
use engine::state::State;

use super::question::{Question, clipped, counted, listed};

/// Longest text that is compared: the cost is quadratic, and real texts are shorter.
const COMPARED_BYTES_MAX: usize = 256;

/// Maximum number of entries of one list that are checked.
const ENTRIES_CHECKED_MAX: usize = 64;

/// Returns likely mistakes in labels, values, resources and node names.
pub(super) fn mistakes(question: &Question) -> Vec<String> {
    let mut mistakes = Vec::new();
    let spec = &question.class.spec;
    let state = &question.state;
    if !question.class.node_name.is_empty() {
        mistakes.extend(unknown_node(state, &question.class.node_name));
    }
    let selector = spec.node_selector.iter().flat_map(Labels::iter);
    for (key, value) in selector.take(ENTRIES_CHECKED_MAX) {
        mistakes.extend(unknown_label(state, "nodeSelector", key, &[value]));
    }
    for (key, values) in
        in_expressions(spec.node_affinity.required.as_deref()).take(ENTRIES_CHECKED_MAX)
    {
        mistakes.extend(unknown_label(state, "node affinity", key, &values));
    }
    let terms = spec.pod_affinity.required.iter();
    let affinity = terms.map(|term| ("pod affinity", &*term.topology_key));
    let spread =
        super::hard_spread(spec).map(|constraint| ("spread constraint", &*constraint.topology_key));
    for (field, key) in affinity.chain(spread).take(ENTRIES_CHECKED_MAX) {
        mistakes.extend(unknown_key(state, &format!("{field} by {}", clipped(key)), key));
    }
    for (name, amount) in spec.requests.scalars.iter().take(ENTRIES_CHECKED_MAX) {
        if *amount > 0 {
            mistakes.extend(unknown_resource(state, name));
        }
    }
    mistakes.dedup();
    mistakes
}

/// Returns the `key In values` expressions of node affinity.
fn in_expressions(terms: Option<&[NodeTerm]>) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let expressions = terms.into_iter().flatten().flat_map(|term| &term.expressions);
    expressions.filter(|expression| expression.operator == Operator::In).map(|e| {
        (&*e.key, e.values.iter().take(ENTRIES_CHECKED_MAX).map(|value| &**value).collect())
    })
}

/// Returns a message if no node has the label with one of these values.
fn unknown_label(state: &State, field: &str, key: &str, wanted: &[&str]) -> Option<String> {
    let values = counts(state, |labels, add| labels.get(key).into_iter().for_each(add));
    if wanted.is_empty() || wanted.iter().any(|value| values.contains_key(value)) {
        return None;
    }
    let joined = listed(wanted);
    let field = format!("{field} {}={joined}", clipped(key));
    if values.is_empty() {
        return unknown_key(state, &field, key);
    }
    let near = wanted.iter().filter_map(|value| nearest(value, &values)).min();
    Some(match near {
        Some((_, value)) => {
            let nodes = counted(values[value], "node");
            format!("{field}: no node has it; did you mean {} ({nodes})?", clipped(value))
        }
        None => format!("{field}: no node has it; nodes have {}", most_frequent(&values)),
    })
}

/// Returns a message if no node has the label.
fn unknown_key(state: &State, field: &str, key: &str) -> Option<String> {
    let present = state.nodes.present().iter();
    let mut labels = present.map(|node| &state.nodes.object(node).labels);
    if labels.any(|labels| labels.get(key).is_some()) {
        return None;
    }
    let keys = counts(state, |labels, add| labels.iter().map(|(key, _)| key).for_each(add));
    let label = clipped(key);
    Some(match nearest(key, &keys) {
        Some((_, near)) => {
            let nodes = counted(keys[near], "node");
            format!(
                "{field}: no node has the label {label}; did you mean {} ({nodes})?",
                clipped(near)
            )
        }
        None => format!("{field}: no node has the label {label}"),
    })
}

fn unknown_resource(state: &State, name: &str) -> Option<String> {
    let mut offered = BTreeMap::new();
    for node in state.nodes.present().iter() {
        for (resource, amount) in &state.nodes.object(node).allocatable.scalars {
            if *amount > 0 {
                *offered.entry(&**resource).or_default() += 1;
            }
        }
    }
    if offered.contains_key(name) || state.device_class_offers(name) {
        return None;
    }
    let field = format!("resource {}: no node offers it", clipped(name));
    Some(match nearest(name, &offered) {
        Some((_, near)) => {
            format!("{field}; did you mean {} ({})?", clipped(near), counted(offered[near], "node"))
        }
        None => field,
    })
}

fn unknown_node(state: &State, name: &str) -> Option<String> {
    if state.nodes.find(name).is_some() {
        return None;
    }
    let present = state.nodes.present().iter();
    let names = present.map(|node| (state.nodes.name(node), 1)).collect();
    let field = format!("nodeName {}: there is no such node", clipped(name));
    Some(match nearest(name, &names) {
        Some((_, near)) => format!("{field}; did you mean {}?", clipped(near)),
        None => field,
    })
}

/// Counts the nodes by the texts that `each` finds in their labels.
fn counts<'a>(
    state: &'a State,
    each: impl Fn(&'a Labels, &mut dyn FnMut(&'a str)),
) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for node in state.nodes.present().iter() {
        let mut add = |text| *counts.entry(text).or_default() += 1;
        each(&state.nodes.object(node).labels, &mut add);
    }
    counts
}

/// Returns the most frequent values.
fn most_frequent(values: &BTreeMap<&str, usize>) -> String {
    let mut sorted: Vec<_> = values.iter().collect();
    sorted.sort_by_key(|(value, count)| (usize::MAX - **count, **value));
    let texts: Vec<_> =
        sorted.iter().map(|(value, count)| format!("{} ({count})", clipped(value))).collect();
    listed(&texts)
}

/// Returns the closest known text and its distance, if that is at most a third of the length.
pub(super) fn nearest<'a>(
    wanted: &str,
    known: &BTreeMap<&'a str, usize>,
) -> Option<(usize, &'a str)> {
    let distances = known.keys().filter_map(|text| Some((distance(wanted, text)?, *text)));
    let (distance, text) = distances.min()?;
    (distance <= (wanted.chars().count() / 3).max(1)).then_some((distance, text))
}

/// Returns the edit distance of two texts: replaced, added, removed and swapped characters.
///
/// A key without domain is also compared with the name part of the other one.
fn distance(a: &str, b: &str) -> Option<usize> {
    if a.len() > COMPARED_BYTES_MAX || b.len() > COMPARED_BYTES_MAX {
        return None;
    }
    let whole = edits(a, b);
    let name = |text: &str| text.rsplit_once('/').map(|(_, name)| name.to_owned());
    match (name(a), name(b)) {
        (None, Some(name)) => Some(whole.min(edits(a, &name))),
        (Some(name), None) => Some(whole.min(edits(&name, b))),
        _ => Some(whole),
    }
}

fn edits(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().collect();
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "ab", 2),
            ("eu-wset-1", "eu-west-1", 1),
            ("eu-west-1", "eu-west-2", 1),
            ("SSD", "ssd", 0),
            ("gold", "silver", 5),
            ("größe", "grösse", 2),
        ] {
            assert_eq!(edits(a, b), expected, "{a} {b}");
            assert_eq!(edits(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn only_close_texts_are_suggested() {
        let known = BTreeMap::from([("eu-west-1", 3), ("us-east-1", 1), ("example.com/zone", 1)]);
        assert_eq!(nearest("eu-wset-1", &known), Some((1, "eu-west-1")));
        assert_eq!(nearest("zone", &known), Some((0, "example.com/zone")));
        assert_eq!(nearest("antarctica", &known), None);
        assert_eq!(nearest(&"x".repeat(1 << 20), &known), None);
        assert_eq!(nearest("", &known), None);
    }
}
