//! What would help a pod that fits nowhere.
//!
//! One thing at a time is relaxed, and the engine says how many nodes would fit then.

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

/// More than this many nobody reads.
const SHOWN: usize = 8;

/// Groups of nodes that the last sentence tells apart.
const GROUPS: usize = 4;

/// A change, as a sentence, and how many nodes it opens.
struct Suggestion {
    opened: usize,
    text: String,
}

/// What would help a pod that fits nowhere: mistakes first, then changes by how many nodes they open.
pub(super) fn suggest(engine: &mut Engine, pod: &Pod) -> Vec<String> {
    let Some(mut question) = Question::new(engine, pod) else { return Vec::new() };
    let mut sentences = nearest::mistakes(&question);
    let (missing, in_the_way) = claims::suggestions(&mut question);
    let mut enough = missing.iter().any(|suggestion| suggestion.opened > 0);
    sentences.extend(by_opened(missing));
    sentences.truncate(SHOWN);

    let mut changes = constraints::suggestions(&mut question);
    changes.extend(requests::suggestions(&mut question));
    changes.extend(in_the_way);
    changes.extend(rivals(&mut question));
    enough |= !changes.is_empty();
    let room = SHOWN.saturating_sub(sentences.len()).max(1);
    sentences.extend(by_opened(changes).into_iter().take(room));
    if !enough {
        sentences.push(no_single_change(&question));
    }
    sentences
}

/// Spread constraints that turn nodes down.
fn hard_spread(spec: &PodSpec) -> impl Iterator<Item = &SpreadConstraint> {
    let hard = |c: &&SpreadConstraint| c.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
    spec.spread.iter().filter(hard)
}

fn by_opened(mut suggestions: Vec<Suggestion>) -> Vec<String> {
    suggestions.sort_by_key(|suggestion| usize::MAX - suggestion.opened);
    suggestions.into_iter().map(|suggestion| suggestion.text).collect()
}

/// Nodes that would fit but are promised to others.
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

/// How many nodes each set of plugins keeps the pod away from.
fn no_single_change(question: &Question) -> String {
    let mut groups: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
    for node in question.state.nodes.present().iter() {
        *groups.entry(question.blockers(node)).or_default() += 1;
    }
    let mut sorted: Vec<_> =
        groups.into_iter().filter(|(plugins, _)| !plugins.is_empty()).collect();
    sorted.sort_by_key(|(_, count)| usize::MAX - count);
    let rest: usize = sorted.iter().skip(GROUPS).map(|(_, count)| count).sum();
    let mut texts: Vec<String> = (sorted.iter().take(GROUPS))
        .map(|(plugins, count)| format!("{} by {}", counted(*count, "node"), plugins.join(" and ")))
        .collect();
    if rest > 0 {
        texts.push(format!("{} by others", counted(rest, "node")));
    }
    format!("no single change is enough: blocked are {}", texts.join(", "))
}
