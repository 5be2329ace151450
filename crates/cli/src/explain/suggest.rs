//! Suggestions for a pod without feasible nodes.
//!
//! One constraint at a time is relaxed, and the engine evaluates how many nodes would then be feasible.

mod amount;
mod claims;
mod constraints;
mod nearest;
mod question;
mod requests;

use std::collections::BTreeMap;

use engine::engine::Engine;
use engine::object::{Pod, PodSpec, SpreadConstraint, WhenUnsatisfiable};

use question::{Question, counted, listed};

/// Maximum number of suggestions.
const SUGGESTIONS_MAX: usize = 8;

/// Maximum number of node groups in [`no_single_change`].
const NODE_GROUPS_MAX: usize = 4;

/// A change in words, with the number of nodes that it makes feasible.
struct Suggestion {
    opened: usize,
    text: String,
}

/// Returns suggestions for a pod without feasible nodes: likely mistakes first, then changes by the number
/// of nodes that they make feasible.
pub(super) fn suggest(engine: &mut Engine, pod: &Pod) -> Vec<String> {
    let Some(mut question) = Question::new(engine, pod) else { return Vec::new() };
    let mut sentences = nearest::mistakes(&question);
    let (missing, in_the_way) = claims::suggestions(&mut question);
    let mut enough = missing.iter().any(|suggestion| suggestion.opened > 0);
    sentences.extend(by_opened(missing));
    sentences.truncate(SUGGESTIONS_MAX);

    let mut changes = constraints::suggestions(&mut question);
    changes.extend(requests::suggestions(&mut question));
    changes.extend(in_the_way);
    changes.extend(rivals(&mut question));
    enough |= !changes.is_empty();
    let room = SUGGESTIONS_MAX.saturating_sub(sentences.len()).max(1);
    sentences.extend(by_opened(changes).into_iter().take(room));
    if !enough {
        sentences.push(no_single_change(&question));
    }
    sentences
}

/// Returns the hard spread constraints.
fn hard_spread(spec: &PodSpec) -> impl Iterator<Item = &SpreadConstraint> {
    let hard = |c: &&SpreadConstraint| c.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
    spec.spread.iter().filter(hard)
}

fn by_opened(mut suggestions: Vec<Suggestion>) -> Vec<String> {
    suggestions.sort_by_key(|suggestion| usize::MAX - suggestion.opened);
    suggestions.into_iter().map(|suggestion| suggestion.text).collect()
}

/// Returns a suggestion if nominated pods keep the pod from nodes that would fit.
fn rivals(question: &mut Question) -> Option<Suggestion> {
    let nodes = question.kept_by_rivals();
    let (opened, state) = (nodes.count(), &question.state);
    let promised =
        question.rivals.iter().filter(|rival| nodes.contains(state.pods.get(**rival).nominated));
    let mut names: Vec<String> = promised.map(|rival| state.full_name(*rival)).collect();
    names.sort_unstable();
    (opened > 0).then(|| Suggestion {
        opened,
        text: format!(
            "wait for pods nominated for nodes ({}), or give this one a higher priority: opens up to {}",
            listed(&names),
            question.count(&nodes)
        ),
    })
}

/// Lists the plugins that reject nodes together, with the number of nodes.
fn no_single_change(question: &Question) -> String {
    let mut groups: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
    for node in question.state.nodes.present().iter() {
        *groups.entry(question.blockers(node)).or_default() += 1;
    }
    let mut sorted: Vec<_> =
        groups.into_iter().filter(|(plugins, _)| !plugins.is_empty()).collect();
    sorted.sort_by_key(|(_, count)| usize::MAX - count);
    let rest: usize = sorted.iter().skip(NODE_GROUPS_MAX).map(|(_, count)| count).sum();
    let mut texts: Vec<String> = (sorted.iter().take(NODE_GROUPS_MAX))
        .map(|(plugins, count)| format!("{} ({})", plugins.join(" and "), counted(*count, "node")))
        .collect();
    if rest > 0 {
        texts.push(format!("others ({})", counted(rest, "node")));
    }
    format!("no single change is enough; nodes are rejected by {}", texts.join(", "))
}
