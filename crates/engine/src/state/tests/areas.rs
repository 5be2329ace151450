//! Which changes make which prepared filters and scorers invalid.

use super::super::*;
use crate::object::{
    ClusterObject, Node, ObjectKind, ObjectName, PersistentVolume, Pod, Rollout, WorkloadKind,
};
use crate::testing::{self, labels, node, pod_term};

const NAMES: [&str; 8] =
    ["nodes", "namespaces", "workloads", "volumes", "terms", "devices", "pods", "claims in use"];

/// Names of the areas whose versions differ.
fn changed(state: &mut State, change: impl FnOnce(&mut State)) -> Vec<&'static str> {
    let before = state.versions();
    change(state);
    let after = state.versions();
    let areas = Areas::ALL.iter().zip(NAMES);
    areas.filter(|(area, _)| !after.agree(&before, **area)).map(|(_, name)| name).collect()
}

fn set(state: &mut State, object: ClusterObject) {
    state.set_object(object);
}

fn workload(name: &str, app: &str) -> ClusterObject {
    let workload = Workload {
        kind: WorkloadKind::Service,
        namespace: "default".into(),
        name: name.into(),
        selector: Some(testing::selector(&[("app", app)])),
        ..Workload::default()
    };
    workload.into()
}

fn rolled_out(name: &str, app: &str) -> ClusterObject {
    let ClusterObject::Service(workload) = workload(name, app) else { unreachable!() };
    let rollout = Rollout { ready: 1, ..Rollout::default() };
    Workload { rollout, ..Workload::clone(&workload) }.into()
}

fn budget() -> ClusterObject {
    let budget = DisruptionBudget { name: "b".into(), ..DisruptionBudget::default() };
    ClusterObject::PodDisruptionBudget(budget.into())
}

fn device_class() -> ClusterObject {
    let class = DeviceClass { name: "c".into(), extended_resource: Some("r".into()) };
    ClusterObject::DeviceClass(class.into())
}

fn volume() -> ClusterObject {
    let volume = PersistentVolume { name: "v".into(), ..PersistentVolume::default() };
    ClusterObject::PersistentVolume(volume.into())
}

/// A pod with an affinity term or a claim.
fn pod(name: &str, has_term: bool, has_claim: bool) -> Pod {
    let mut pod = testing::pod(name);
    if has_term {
        pod.spec_mut().pod_affinity.required = [pod_term("zone", &[("app", "web")])].into();
    }
    if has_claim {
        pod.spec_mut().volumes = [crate::object::Volume::Claim { name: "c".into() }].into();
    }
    pod
}

fn remove(state: &mut State, name: &str) {
    let pod = state.find_pod("default", name).unwrap();
    state.remove_pod(pod);
}

type Step = (&'static str, fn(&mut State), &'static [&'static str]);

#[test]
fn each_change_affects_its_areas_only() {
    let namespace = |team: &str| {
        let namespace = Namespace { name: "n".into(), labels: labels(&[("team", team)]) };
        ClusterObject::Namespace(namespace.into())
    };
    let mut state = State::default();
    let steps: Vec<Step> = vec![
        ("a node comes", |s| drop(s.set_node(&node("a").into())), &["nodes"]),
        ("the same node comes again", |s| drop(s.set_node(&node("a").into())), &[]),
        (
            "a node changes",
            |s| drop(s.set_node(&Node { unschedulable: true, ..node("a") }.into())),
            &["nodes"],
        ),
        ("an unknown node goes", |s| drop(s.remove_node("b")), &[]),
        ("a pod comes", |s| _ = s.add_pod(pod("p", false, false)), &[]),
        ("a pod with a term comes", |s| _ = s.add_pod(pod("t", true, false)), &["terms"]),
        ("a pod with the same term comes", |s| _ = s.add_pod(pod("u", true, true)), &[]),
        ("a pod is placed", |s| testing::place(s, "p", "a"), &["pods"]),
        ("a pod with a term is placed", |s| testing::place(s, "t", "a"), &["pods"]),
        (
            "a pod with a claim is placed",
            |s| testing::place(s, "u", "a"),
            &["pods", "claims in use"],
        ),
        ("a pod terminates", |s| s.set_terminating(s.find_pod("default", "p").unwrap()), &[]),
        ("a pod with a claim goes", |s| remove(s, "u"), &["pods", "claims in use"]),
        ("the last pod with a term goes", |s| remove(s, "t"), &["terms", "pods"]),
        ("a node with a pod goes", |s| drop(s.remove_node("a")), &["nodes"]),
        ("a pod on a deleted node goes", |s| remove(s, "p"), &[]),
        ("a budget comes", |s| set(s, budget()), &[]),
        ("a budget goes", |s| drop(s.remove_object(&budget().name())), &[]),
        ("a workload comes", |s| set(s, workload("w", "web")), &["workloads"]),
        ("the same workload comes again", |s| set(s, workload("w", "web")), &[]),
        ("a workload changes", |s| set(s, workload("w", "db")), &["workloads"]),
        ("the rollout of a workload goes on", |s| set(s, rolled_out("w", "db")), &[]),
        (
            "an unknown workload goes",
            |s| {
                let name = workload("w", "db").name();
                s.remove_object(&ObjectName { kind: ObjectKind::ReplicaSet, ..name });
            },
            &[],
        ),
        ("a workload goes", |s| drop(s.remove_object(&workload("w", "db").name())), &["workloads"]),
        ("a device class comes", |s| set(s, device_class()), &["devices"]),
        ("a device class goes", |s| drop(s.remove_object(&device_class().name())), &["devices"]),
        ("a volume comes", |s| set(s, volume()), &["volumes"]),
        ("the same volume comes again", |s| set(s, volume()), &[]),
        ("a volume goes", |s| drop(s.remove_object(&volume().name())), &["volumes"]),
    ];
    for (name, step, areas) in steps {
        assert_eq!(changed(&mut state, step), areas, "{name}");
    }
    assert_eq!(changed(&mut state, |s| set(s, namespace("a"))), ["namespaces"]);
    assert_eq!(changed(&mut state, |s| set(s, namespace("a"))), [""; 0]);
    assert_eq!(changed(&mut state, |s| set(s, namespace("b"))), ["namespaces"]);
    let name = namespace("b").name();
    assert_eq!(changed(&mut state, |s| drop(s.remove_object(&name))), ["namespaces"]);
    assert_eq!(changed(&mut state, |s| drop(s.remove_object(&name))), [""; 0]);
}

#[test]
fn versions_agree_on_the_areas_asked_about() {
    let mut state = State::default();
    let before = state.versions();
    set(&mut state, device_class());
    let after = state.versions();
    let others = Areas::NODES.with(Areas::EVALUATION_KEY);
    assert!(after.agree(&before, others) && after.agree(&before, Areas::NONE));
    assert!(!after.agree(&before, others.with(Areas::DEVICES)));
    assert!(after.agree(&after, Areas::DEVICES));
}

#[test]
fn areas_are_a_set() {
    for (position, one) in Areas::ALL.iter().enumerate() {
        for (other_position, other) in Areas::ALL.iter().enumerate() {
            assert_eq!(one.contains(*other), position == other_position);
            assert!(one.with(*other).contains(*other));
        }
    }
    let key = Areas::EVALUATION_KEY;
    assert!(key.contains(Areas::TERMS) && !key.contains(Areas::NODES));
}
