//! Tests of the audit of nodes and pods.

use super::*;
use crate::index::ResourceIdx;
use crate::object::Pod;
use crate::testing::{self, node, state};

fn cluster() -> State {
    let nodes = (0..12).map(|number| node(&format!("n{number}")));
    let pods = (0..24).map(|number| {
        let node = format!("n{}", number % 12).into();
        let mut pod = Pod { node, priority: number, ..testing::pod(&format!("p{number}")) };
        pod.spec_mut().requests_on_node.cpu = 100;
        pod.spec_mut().non_zero_cpu = 100;
        pod
    });
    state(nodes, pods)
}

#[test]
fn a_sound_state_has_no_differences() {
    let mut state = cluster();
    assert_eq!(state.audit_nodes(0..usize::MAX), Ok(()));
    assert_eq!(state.audit_pods(0..usize::MAX), Ok(()));
}

#[test]
fn a_wrong_sum_is_reported_corrected_and_noted_as_a_change() {
    let mut state = cluster();
    let node = state.nodes.find("n3").unwrap();
    state.nodes.corrupt(ResourceIdx::CPU, node, 7);
    let end = state.nodes.pod_changes().end();
    assert_eq!(state.audit_nodes(0..3), Ok(()), "another part of the nodes");
    let report = "requested cpu on node \"n3\": kept 207, sum of its pods 200: corrected";
    assert_eq!(state.audit_nodes(0..usize::MAX), Err(report.to_owned()));
    assert_eq!(state.nodes.requested_of(ResourceIdx::CPU, node), 200);
    assert_eq!(state.nodes.pod_changes().since(end), Some(&[node][..]));
    assert_eq!(state.audit_nodes(0..usize::MAX), Ok(()));
}

#[test]
fn a_wrong_lowest_priority_is_reported_and_corrected() {
    let mut state = cluster();
    let node = state.nodes.find("n3").unwrap();
    state.lowest_priorities.add(node, -5);
    let report = "lowest priority on n3: kept (-5, 1), counted (3, 1): corrected";
    assert_eq!(state.audit_nodes(0..usize::MAX), Err(report.to_owned()));
    assert_eq!(state.lowest_priorities.of(node), 3);
    assert_eq!(state.audit_nodes(0..usize::MAX), Ok(()));
}

#[test]
fn the_first_eight_differences_are_reported_and_the_rest_counted() {
    let mut state = cluster();
    for node in 0..12 {
        state.nodes.corrupt(ResourceIdx::MEMORY, NodeIdx(node), 1);
    }
    let report = state.audit_nodes(0..usize::MAX).unwrap_err();
    assert_eq!(report.matches("requested memory").count(), 8);
    assert!(report.ends_with("; and 4 more: corrected"), "{report}");
    assert_eq!(state.audit_nodes(0..usize::MAX), Ok(()), "all were corrected");
}

#[test]
fn a_pod_that_is_not_listed_is_reported() {
    let break_list: [fn(&mut State, crate::index::PodIdx); 3] = [
        |state, pod| {
            let label_set = state.pods.get(pod).label_set;
            state.label_sets.get_mut(label_set).pods.clear();
        },
        |state, pod| {
            let spec = state.pods.get(pod).spec;
            state.specs.get_mut(spec).pods.clear();
        },
        |state, pod| state.pods.get_mut(pod).node = NodeIdx(5),
    ];
    for break_it in break_list {
        let mut state = cluster();
        let pod = state.find_pod("default", "p0").unwrap();
        break_it(&mut state, pod);
        let report = state.audit_pods(pod.at()..pod.at() + 1);
        assert_eq!(
            report,
            Err("default/p0 is not listed under its node, label set and spec".to_owned())
        );
        assert_eq!(state.audit_pods(24..30), Ok(()));
    }
}
