//! Suggestions about resource requests.

use engine::bitset::NodeSet;
use engine::index::NodeIdx;
use engine::object::{PodSpec, Resources};
use engine::state::State;

use super::Suggestion;
use super::amount::{exact, short};
use super::question::{Question, clipped};

const FIT: &str = "NodeResourcesFit";

/// Maximum number of resources that are tried; real pods request a handful.
const RESOURCES_TRIED_MAX: usize = 32;

/// Returns the largest requests that fit, and nodes that reached their pod limit.
pub(super) fn suggestions(question: &mut Question) -> Vec<Suggestion> {
    if !question.is_blocked_by(&[FIT]) {
        return Vec::new();
    }
    let requested = requested(&question.class.spec.requests);
    let mut found: Vec<Suggestion> = requested
        .iter()
        .take(RESOURCES_TRIED_MAX)
        .filter_map(|(name, amount)| one_smaller(question, name, *amount))
        .collect();
    if found.is_empty() && requested.len() > 1 {
        found.extend(all_smaller(question, &requested));
    }
    found.extend(full_of_pods(question, &requested));
    found
}

fn requested(requests: &Resources) -> Vec<(String, i64)> {
    let basic = ["cpu", "memory", "ephemeral-storage"].map(|name| (name, requests.amount(name)));
    let scalars = requests.scalars.iter().map(|(name, amount)| (&**name, *amount));
    let all = basic.into_iter().chain(scalars).filter(|(_, amount)| *amount > 0);
    all.map(|(name, amount)| (name.to_owned(), amount)).collect()
}

fn drop_request(spec: &mut PodSpec, name: &str) {
    match name {
        "cpu" => spec.requests.cpu = 0,
        "memory" => spec.requests.memory = 0,
        "ephemeral-storage" => spec.requests.ephemeral = 0,
        _ => {
            let kept = spec.requests.scalars.iter().filter(|(other, _)| **other != *name);
            spec.requests.scalars = kept.cloned().collect();
        }
    }
}

fn free(state: &State, name: &str, node: NodeIdx) -> i64 {
    state.resources.get(name).map_or(0, |resource| {
        let nodes = &state.nodes;
        nodes.allocatable_of(resource, node).saturating_sub(nodes.requested_of(resource, node))
    })
}

/// Suggests a smaller request of one resource, if that is enough.
fn one_smaller(question: &mut Question, name: &str, amount: i64) -> Option<Suggestion> {
    let nodes = question.opened_by(|spec| drop_request(spec, name));
    let state = &question.state;
    let most =
        nodes.iter().max_by_key(|node| (free(state, name, *node), usize::MAX - node.at()))?;
    let largest = free(state, name, most);
    let (resource, from) = (clipped(name), exact(name, amount));
    let opened = question.count(&nodes);
    let text = if largest > 0 {
        let (to, most) = (short(name, largest), clipped(state.nodes.name(most)));
        format!(
            "lower the {resource} request from {from} to at most {to}, which {most} has left: opens up to {opened}"
        )
    } else {
        format!("drop the {resource} request of {from}: opens {opened}")
    };
    Some(Suggestion { opened: nodes.count(), text })
}

/// Suggests smaller requests by the closest node, if no single resource is enough.
fn all_smaller(question: &mut Question, requested: &[(String, i64)]) -> Option<Suggestion> {
    let nodes = question.opened_by(|spec| spec.requests = Resources::default());
    let state = &question.state;
    let closeness = |node: NodeIdx| {
        let shares = requested.iter().map(|(name, amount)| {
            let thousandths = i128::from(free(state, name, node)) * 1000 / i128::from(*amount);
            thousandths.clamp(0, 1000)
        });
        shares.min().unwrap_or(0)
    };
    let closest = nodes.iter().max_by_key(|node| (closeness(*node), usize::MAX - node.at()))?;
    let lacking = requested.iter().filter(|(name, amount)| free(state, name, closest) < *amount);
    let sizes: Vec<String> = lacking
        .map(|(name, amount)| {
            let left = short(name, free(state, name, closest).max(0));
            format!("{} from {} to {left}", clipped(name), exact(name, *amount))
        })
        .collect();
    let node = clipped(state.nodes.name(closest));
    let (sizes, opened) = (sizes.join(" and "), question.count(&nodes));
    let text = format!(
        "lower the requests: {node} comes closest ({sizes}); smaller ones open up to {opened}"
    );
    Some(Suggestion { opened: nodes.count(), text })
}

/// Suggests a higher pod limit for nodes that have all resources free.
fn full_of_pods(question: &Question, requested: &[(String, i64)]) -> Option<Suggestion> {
    let state = &question.state;
    let mut nodes: NodeSet = question.blocked_only_by(FIT);
    nodes.retain(|node| {
        let fits = requested.iter().all(|(name, amount)| free(state, name, node) >= *amount);
        fits && state.nodes.pods(node).len() as i64 + 1 > state.nodes.allowed_pods()[node.at()]
    });
    let opened = nodes.count();
    (opened > 0).then(|| Suggestion {
        opened,
        text: format!(
            "allow more pods per node (maxPods of the kubelet), or remove one: opens {}",
            question.count(&nodes)
        ),
    })
}
