//! Tests of pods as they come, change, move and go.

use super::super::*;
use crate::index::{NodeIdx, PodIdx};
use crate::object::{Pod, PodSpec};
use crate::testing::{self, labels, node};

fn pod(name: &str) -> Pod {
    Pod { labels: labels(&[("app", "web")]), ..testing::pod(name) }
}

fn cluster(pods: impl IntoIterator<Item = Pod>) -> State {
    testing::state([node("a"), node("b")], pods)
}

fn find(state: &State, name: &str) -> PodIdx {
    state.find_pod("default", name).unwrap()
}

fn node_of<'a>(state: &'a State, name: &str) -> Option<&'a str> {
    let node = state.pods.get(find(state, name)).node;
    node.is_some().then(|| state.nodes.name(node))
}

#[test]
fn a_pod_is_found_by_namespace_and_name() {
    let other = Pod { namespace: "other".into(), uid: "o".into(), ..pod("p") };
    let state = cluster([pod("p"), other, pod("q")]);
    let found = state.find_pod("other", "p").unwrap();
    assert_eq!((state.full_name(found), state.namespace(found)), ("other/p".to_owned(), "other"));
    assert_eq!(state.labels(found).get("app"), Some("web"));
    assert_eq!((state.find_pod("other", "q"), state.find_pod("none", "p")), (None, None));
}

#[test]
fn a_changed_pod_keeps_its_index_and_its_node() {
    let mut state =
        cluster([Pod { node: "a".into(), ..pod("p") }, Pod { node: "a".into(), ..pod("q") }]);
    let index = find(&state, "p");
    let mut new = Pod { labels: labels(&[("app", "db")]), priority: 7, ..pod("p") };
    new.resource_version = 12;
    new.generation = 3;
    new.start_time = Some(99);
    new.gates = ["gate".into()].into();
    new.spec_mut().requests_on_node.cpu = 300;
    state.update_pod(index, new);
    assert_eq!((find(&state, "p"), node_of(&state, "p")), (index, Some("a")));
    let record = state.pods.get(index);
    assert_eq!((record.resource_version, record.generation, record.priority), (12, 3, 7));
    assert_eq!((record.start_time, &*record.gates), (99, &["gate".into()][..]));
    assert_eq!(
        (state.labels(index).get("app"), state.spec(index).requests_on_node.cpu),
        (Some("db"), 300)
    );
    assert_eq!(state.nodes.requested_of(crate::index::ResourceIdx::CPU, NodeIdx(0)), 300);
    assert_eq!((state.audit_nodes(0..9), state.audit_pods(0..9)), (Ok(()), Ok(())));
}

#[test]
fn a_change_of_what_is_not_shared_notes_no_change_on_the_node() {
    let mut state = cluster([Pod { node: "a".into(), ..pod("p") }]);
    let index = find(&state, "p");
    let end = state.nodes.pod_changes().end();
    state.update_pod(index, Pod { resource_version: 2, ..pod("p") });
    assert_eq!(state.nodes.pod_changes().end(), end);
    state.update_pod(index, Pod { labels: labels(&[]), ..pod("p") });
    assert_eq!(state.nodes.pod_changes().end(), end + 2, "it leaves and comes back");
}

#[test]
fn a_pod_alone_on_a_deleted_node_stays_there_when_it_changes() {
    let mut state = cluster([Pod { node: "a".into(), ..pod("p") }]);
    state.remove_node("a");
    let index = find(&state, "p");
    state.update_pod(index, Pod { labels: labels(&[]), ..pod("p") });
    assert_eq!(node_of(&state, "p"), Some("a"));
    state.set_node(&node("a").into());
    let a = state.nodes.find("a").unwrap();
    assert_eq!(state.nodes.pods(a), [index]);
}

#[test]
fn an_assumed_pod_stays_assumed_until_it_is_confirmed_or_displaced() {
    let mut state = cluster([pod("p")]);
    let (index, b) = (find(&state, "p"), state.nodes.find("b").unwrap());
    state.assume(index, b);
    assert!(state.pods.get(index).assumed);
    state.update_pod(index, Pod { labels: labels(&[]), ..pod("p") });
    assert!(state.pods.get(index).assumed, "a change does not confirm it");
    state.confirm(index);
    assert_eq!((state.pods.get(index).assumed, node_of(&state, "p")), (false, Some("b")));
    state.displace(index);
    state.assume(index, b);
    state.displace(index);
    assert_eq!((state.pods.get(index).assumed, node_of(&state, "p")), (false, None));
    state.displace(index);
    assert_eq!(state.nodes.pod_counts(), [0, 0], "a pending pod is on no node");
}

#[test]
fn a_nomination_counts_only_for_a_pending_pod_and_a_node_that_exists() {
    let nominated = |name: &str, on: &str, node: &str| Pod {
        nominated_node: node.into(),
        node: on.into(),
        ..pod(name)
    };
    let mut state = cluster([
        nominated("pending", "", "b"),
        nominated("placed", "a", "b"),
        nominated("unknown", "", "c"),
        nominated("none", "", ""),
    ]);
    let b = state.nodes.find("b").unwrap();
    for (name, node) in [
        ("pending", b),
        ("placed", NodeIdx::NONE),
        ("unknown", NodeIdx::NONE),
        ("none", NodeIdx::NONE),
    ] {
        assert_eq!(state.pods.get(find(&state, name)).nominated, node, "{name}");
    }
    let pending = find(&state, "pending");
    state.set_nominated(pending, NodeIdx::NONE);
    assert!(!state.pods.get(pending).nominated.is_some());
}

#[test]
fn a_preempted_pod_terminates_and_an_older_version_does_not_revive_it() {
    let mut state = cluster([Pod { node: "a".into(), ..pod("p") }]);
    let index = find(&state, "p");
    state.set_preempted(index);
    state.update_pod(index, pod("p"));
    let record = state.pods.get(index);
    assert!(record.terminating && record.preempted);
}

#[test]
fn a_changed_priority_counts_on_the_node_at_once() {
    let on_a = |name: &str, priority| Pod { node: "a".into(), priority, ..pod(name) };
    let mut state = cluster([on_a("p", 5), on_a("q", 3)]);
    let (index, a) = (find(&state, "q"), state.nodes.find("a").unwrap());
    for (priority, lowest) in [(3, 3), (9, 5), (5, 5), (-1, -1), (6, 5)] {
        state.update_pod(index, on_a("q", priority));
        assert_eq!(state.lowest_priorities.of(a), lowest, "{priority}");
        assert_eq!(state.audit_nodes(0..9), Ok(()));
    }
    state.remove_pod(index);
    assert_eq!(state.lowest_priorities.of(a), 5);
    assert_eq!(state.lowest_priorities.of_all(), 5);
}

#[test]
fn a_class_holds_label_set_and_spec_after_its_pods_are_gone() {
    let mut state = cluster([pod("p")]);
    let index = find(&state, "p");
    let record = state.pods.get(index);
    let (label_set, spec) = (record.label_set, record.spec);
    state.label_sets.hold(label_set);
    state.specs.hold(spec);
    state.remove_pod(index);
    assert_eq!(state.label_sets.get(label_set).labels.get("app"), Some("web"));
    assert_eq!(state.specs.get(spec).pods, []);
    state.release_class(label_set, spec);
    assert_eq!(state.label_sets.candidates(&crate::object::Selector::default()), []);
    assert_eq!(state.specs.acquire(&Arc::new(PodSpec::default())), None);
}
