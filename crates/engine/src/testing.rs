//! Builders and checks for tests.

mod shared;

use std::sync::Arc;

use crate::bitset::NodeSet;
use crate::cycle::diagnosis::Diagnosis;
use crate::cycle::evaluation::Evaluation;
use crate::cycle::rivals::Rivals;
use crate::cycle::what_if::WhatIf;
use crate::framework::event::Object;
use crate::framework::scorer::EXCLUDED;
use crate::framework::{
    Action, Class, Event, Extremes, Plugin, PodView, Point, Preparation, Profile, Resource,
    ScoreChanges, Scorer,
};
use crate::index::PodIdx;
use crate::object::{
    ClusterObject, DeviceClass, DisruptionBudget, Labels, Namespace, Node, Operator, Pod, PodSpec,
    PodTerm, Requirement, Selector, Text, Workload,
};
use crate::queue::Nominator;
use crate::state::volumes::Volumes;
use crate::state::{Areas, State};

pub use shared::Shared;

/// A state with these nodes and pods, added in order.
pub fn state(nodes: impl IntoIterator<Item = Node>, pods: impl IntoIterator<Item = Pod>) -> State {
    let mut state = State::default();
    for node in nodes {
        state.set_node(&node.into());
    }
    for pod in pods {
        state.add_pod(pod);
    }
    state.nodes.refresh_order();
    state
}

/// Changes storage objects of a state.
pub fn with_volumes(mut state: State, change: impl FnOnce(&mut Volumes)) -> State {
    change(&mut state.volumes);
    state.invalidate(Areas::VOLUMES);
    state
}

/// Adds a disruption budget to a state.
pub fn with_budget(mut state: State, budget: DisruptionBudget) -> State {
    state.set_object(ClusterObject::PodDisruptionBudget(budget.into()));
    state
}

/// Adds a device class that offers an extended resource to a state.
pub fn with_device_class(mut state: State, class: &str, resource: &str) -> State {
    let class = DeviceClass { name: class.into(), extended_resource: Some(resource.into()) };
    state.set_object(ClusterObject::DeviceClass(class.into()));
    state
}

/// Adds a namespace with labels to a state.
pub fn with_namespace(mut state: State, name: &str, pairs: &[(&str, &str)]) -> State {
    let namespace = Namespace { name: name.into(), labels: labels(pairs) };
    state.set_object(ClusterObject::Namespace(namespace.into()));
    state
}

/// Adds a service or controller to a state.
pub fn with_workload(mut state: State, workload: Workload) -> State {
    state.set_object(workload.into());
    state
}

/// Adds a pod to a state in use.
pub fn add_pod(state: &mut State, pod: Pod) -> PodIdx {
    state.add_pod(pod)
}

/// Removes a pod from a state in use.
pub fn remove_pod(state: &mut State, pod: PodIdx) {
    state.remove_pod(pod);
}

/// Marks a pod as terminating.
pub fn terminate(state: &mut State, pod: PodIdx) {
    state.set_terminating(pod);
}

/// Labels from pairs.
pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| (*key, *value)).collect()
}

/// A requirement on a label; values in any order.
pub fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
    let mut values: Vec<_> = values.iter().map(|value| Text::from(*value)).collect();
    values.sort_unstable();
    Requirement { key: key.into(), operator, values: values.into() }
}

/// A selector of labels that have these values.
pub fn selector(pairs: &[(&str, &str)]) -> Selector {
    let mut requirements: Vec<_> =
        pairs.iter().map(|(key, value)| requirement(key, Operator::In, &[value])).collect();
    requirements.sort_unstable();
    Selector { requirements: requirements.into() }
}

/// A pod affinity term over pods of namespace `default` with these labels.
pub fn pod_term(topology_key: &str, pairs: &[(&str, &str)]) -> PodTerm {
    PodTerm {
        selector: Some(selector(pairs)),
        namespaces: ["default".into()].into(),
        namespace_selector: None,
        topology_key: topology_key.into(),
    }
}

/// A node with a name, 4 cores, 8 GiB and room for 110 pods.
pub fn node(name: &str) -> Node {
    let mut node = Node { name: name.into(), allowed_pods: 110, ..Node::default() };
    node.allocatable.cpu = 4000;
    node.allocatable.memory = 8 << 30;
    node
}

/// A pod in namespace `default`, pending.
pub fn pod(name: &str) -> Pod {
    Pod {
        namespace: "default".into(),
        name: name.into(),
        uid: format!("uid-default-{name}").into(),
        ..Pod::default()
    }
}

/// The class of a spec without labels in namespace `default`.
pub fn class(spec: PodSpec) -> Class {
    Class {
        namespace: "default".into(),
        labels: Labels::default(),
        node_name: "".into(),
        uid: "".into(),
        spec: Arc::new(spec),
    }
}

/// A profile with one plugin at all points it implements.
pub fn profile(plugin: Box<dyn Plugin>) -> Profile {
    let points = plugin.points().iter().map(|point| (*point, vec![0])).collect();
    let weights = vec![1; usize::from(plugin.points().contains(&Point::Score))];
    Profile {
        name: "default-scheduler".into(),
        plugins: vec![plugin],
        points,
        weights,
        percentage_of_nodes_to_score: None,
        extenders: Vec::new(),
    }
}

/// Returns the verdicts of one plugin on all nodes, as `name: reason, reason` or `name: ok`, or the result
/// of its PreFilter.
pub fn verdicts(plugin: Box<dyn Plugin>, class: Class, state: &mut State) -> Vec<String> {
    let profile = profile(plugin);
    let mut evaluation = Evaluation::new(&profile, class, state);
    let diagnosis = Diagnosis::new(&profile, &mut evaluation, state);
    if let Some(rejected) = &evaluation.rejected {
        let rejection = &rejected.rejection;
        return vec![format!("{}: {}", rejection.code.name(), rejection.message())];
    }
    let nodes = state.nodes.order().iter().map(|node| {
        let name = state.nodes.name(*node);
        match diagnosis.nodes().find(|(other, _, _)| other == node) {
            Some((_, _, rejection)) => {
                format!("{name}: {} {}", rejection.code.name(), rejection.message())
            }
            None if evaluation.feasible().contains(*node) => format!("{name}: ok"),
            None => format!("{name}: narrowed"),
        }
    });
    nodes.collect()
}

/// Returns the final scores of one plugin for all nodes, as `name: score` in visiting order; `None` if it is
/// skipped.
///
/// All nodes count as feasible. Scores by node, by column and as a constant must agree.
pub fn scores(plugin: &dyn Plugin, class: &Class, state: &mut State) -> Option<Vec<String>> {
    let feasible = state.nodes.present().clone();
    let mut scorer = plugin.prepare_score(class, &mut Preparation::new(state))?;
    scorer.refresh(state, &feasible, true);
    if scorer.skipped() {
        return None;
    }
    let mut raw = vec![7; state.nodes.slots()];
    scorer.score_all(state, &mut raw);
    let mut extremes = Extremes { min: i64::MAX, max: i64::MIN };
    for node in feasible.iter() {
        let score = raw[node.at()];
        assert_eq!(score, scorer.score(state, node), "by column and by node");
        if score != EXCLUDED {
            extremes.min = extremes.min.min(score);
            extremes.max = extremes.max.max(score);
        }
    }
    let scores = state.nodes.order().iter().map(|node| {
        let score = match raw[node.at()] {
            raw if scorer.normalises() => scorer.final_score(raw, extremes),
            raw => raw,
        };
        assert_eq!(score, scorer.constant().unwrap_or(score), "by node and as a constant");
        format!("{}: {score}", state.nodes.name(*node))
    });
    Some(scores.collect())
}

/// Brings raw scores up to date as the engine does. Returns `false` if the scorer must be prepared anew.
pub fn catch_up(
    scorer: &mut dyn Scorer,
    state: &State,
    feasible: &NodeSet,
    feasible_changed: bool,
    raw: &mut Vec<i64>,
) -> bool {
    raw.resize(state.nodes.slots(), 0);
    match scorer.refresh(state, feasible, feasible_changed) {
        ScoreChanges::Nothing => {}
        ScoreChanges::Nodes(nodes) => {
            for node in nodes {
                raw[node.at()] = scorer.score(state, node);
            }
        }
        ScoreChanges::All => scorer.score_all(state, raw),
        ScoreChanges::Stale => return false,
    }
    true
}

/// Final scores of feasible nodes by slot, zero for others. By node and by column they must agree.
pub fn final_scores(scorer: &dyn Scorer, feasible: &NodeSet, raw: &[i64]) -> Vec<i64> {
    let counted = feasible.iter().map(|node| raw[node.at()]).filter(|raw| *raw != EXCLUDED);
    let extremes = counted.fold(Extremes { min: i64::MAX, max: i64::MIN }, |extremes, raw| {
        Extremes { min: extremes.min.min(raw), max: extremes.max.max(raw) }
    });
    let mut totals = vec![0; raw.len()];
    scorer.add_normalised(raw, extremes, 1, &mut totals);
    for (slot, total) in totals.iter_mut().enumerate() {
        if !feasible.contains(slot.into()) {
            *total = 0;
        } else if raw[slot] != EXCLUDED {
            assert_eq!(*total, scorer.normalise(raw[slot], extremes), "by column and by node");
        }
    }
    totals
}

/// Returns the verdict of one plugin on a node if some pending pods were on it and some of its pods were
/// not: `ok`, or code and reasons. Pods are named in namespace `default`.
pub fn verdict_if(
    plugin: Box<dyn Plugin>,
    class: Class,
    state: &mut State,
    node: &str,
    added: &[&str],
    removed: &[&str],
) -> String {
    let profile = profile(plugin);
    let mut evaluation = Evaluation::new(&profile, class, state);
    let node = state.nodes.find(node).expect("tests name nodes that exist");
    let pods = |names: &[&str]| names.iter().map(|name| find(state, name)).collect::<Vec<_>>();
    let (added, removed) = (pods(added), pods(removed));
    let nominator = Nominator::default();
    let mut what_if = WhatIf::new(state, &mut evaluation, Rivals::of_any(&nominator, 0), node);
    for pod in removed {
        what_if.remove(pod);
    }
    for pod in added {
        what_if.add(pod);
    }
    let verdict = what_if.check_and_read(|evaluation, state, verdict| {
        let (_, rejection) = evaluation.rejection(state, node, verdict);
        format!("{} {}", rejection.code.name(), rejection.message())
    });
    verdict.unwrap_or_else(|| "ok".to_owned())
}

/// Puts a pending pod of namespace `default` on a node.
pub fn place(state: &mut State, pod: &str, node: &str) {
    let node = state.nodes.find(node).expect("tests name nodes that exist");
    state.place(find(state, pod), node);
}

/// Takes a pod of namespace `default` off its node.
pub fn displace(state: &mut State, pod: &str) {
    state.displace(find(state, pod));
}

fn find(state: &State, pod: &str) -> PodIdx {
    state.find_pod("default", pod).expect("tests name pods that exist")
}

/// A change of a node that still exists.
pub fn node_event<'a>(action: Action, old: Option<&'a Node>, new: &'a Node) -> Event<'a> {
    let object = Object::Node { old, new: Some(new) };
    Event { resource: Resource::Node, action, object, own: false }
}

/// A change of a pod.
pub fn pod_event<'a>(
    action: Action,
    old: Option<&'a Pod>,
    new: Option<&'a Pod>,
    own: bool,
) -> Event<'a> {
    let assigned = old.or(new).is_some_and(|pod| !pod.node.is_empty());
    let resource = if assigned { Resource::AssignedPod } else { Resource::UnschedulablePod };
    let object = Object::Pod { old: old.map(pod_view), new: new.map(pod_view) };
    Event { resource, action, object, own }
}

/// A pod as hints see it.
pub fn pod_view(pod: &Pod) -> PodView<'_> {
    PodView {
        namespace: &pod.namespace,
        name: &pod.name,
        uid: &pod.uid,
        labels: &pod.labels,
        spec: &pod.spec,
        assigned: !pod.node.is_empty(),
        nominated: !pod.nominated_node.is_empty(),
        gated: !pod.gates.is_empty(),
    }
}
