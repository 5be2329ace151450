//! Tests of objects that are kept by name.

use super::super::*;
use crate::object::{ClusterObject, ObjectKind, ObjectName, WorkloadKind};
use crate::testing::labels;

fn name_of(kind: ObjectKind, namespace: &str, name: &str) -> ObjectName {
    ObjectName { kind, namespace: namespace.into(), name: name.into() }
}

fn set_device_class(state: &mut State, name: &str, resource: Option<&str>) {
    let extended_resource = resource.map(Into::into);
    let class = DeviceClass { name: name.into(), extended_resource };
    state.set_object(ClusterObject::DeviceClass(class.into()));
}

#[test]
fn workloads_of_a_namespace_come_by_kind_and_name() {
    let mut state = State::default();
    for (kind, namespace, name) in [
        (WorkloadKind::StatefulSet, "b", "a"),
        (WorkloadKind::Service, "b", "z"),
        (WorkloadKind::Service, "b", "y"),
        (WorkloadKind::Service, "ba", "other"),
        (WorkloadKind::Service, "a", "other"),
        (WorkloadKind::StatefulSet, "a", "other"),
    ] {
        let (namespace, name) = (namespace.into(), name.into());
        let workload = Workload { kind, namespace, name, ..Workload::default() };
        state.set_object(workload.into());
    }
    let names = |namespace: &str| -> Vec<_> {
        state.workloads(namespace).map(|workload| (workload.kind, &*workload.name)).collect()
    };
    let expected = [
        (WorkloadKind::Service, "y"),
        (WorkloadKind::Service, "z"),
        (WorkloadKind::StatefulSet, "a"),
    ];
    assert_eq!(names("b"), expected);
    assert_eq!((names(""), names("c")), (vec![], vec![]));
}

#[test]
fn budgets_of_a_namespace_come_by_name_and_are_replaced() {
    let mut state = State::default();
    for (namespace, name, allowed) in [("b", "z", 1), ("b", "y", 2), ("a", "x", 3), ("b", "z", 4)] {
        let budget = DisruptionBudget {
            namespace: namespace.into(),
            name: name.into(),
            disruptions_allowed: allowed,
            ..DisruptionBudget::default()
        };
        state.set_object(ClusterObject::PodDisruptionBudget(budget.into()));
    }
    let allowed = |state: &State, namespace: &str| -> Vec<i32> {
        state.budgets(namespace).map(|budget| budget.disruptions_allowed).collect()
    };
    assert_eq!((allowed(&state, "b"), allowed(&state, "a")), (vec![2, 4], vec![3]));
    state.remove_object(&name_of(ObjectKind::PodDisruptionBudget, "b", "y"));
    assert_eq!((allowed(&state, "b"), allowed(&state, "c")), (vec![4], vec![]));
}

#[test]
fn an_unknown_namespace_has_no_labels() {
    let mut state = State::default();
    for name in ["b", "a"] {
        let labels = labels(&[("name", name)]);
        let namespace = Namespace { name: name.into(), labels };
        state.set_object(ClusterObject::Namespace(namespace.into()));
    }
    assert_eq!(state.namespace_labels("b").get("name"), Some("b"));
    assert!(state.namespace_labels("c").is_empty());
    assert!(state.namespaces().map(|namespace| &*namespace.name).eq(["a", "b"]));
    state.remove_object(&name_of(ObjectKind::Namespace, "", "b"));
    assert!(state.namespace_labels("b").is_empty());
}

#[test]
fn device_classes_offer_the_resource_they_name_and_one_named_after_them() {
    let mut state = State::default();
    set_device_class(&mut state, "gpu", Some("a.com/gpu"));
    set_device_class(&mut state, "plain", None);
    for (resource, offered) in [
        ("a.com/gpu", true),
        ("deviceclass.resource.kubernetes.io/gpu", true),
        ("deviceclass.resource.kubernetes.io/plain", true),
        ("deviceclass.resource.kubernetes.io/other", false),
        ("gpu", false),
        ("a.com/npu", false),
    ] {
        assert_eq!(state.device_class_offers(resource), offered, "{resource}");
    }
    set_device_class(&mut state, "gpu", Some("b.com/gpu"));
    assert!(state.device_class_offers("b.com/gpu") && !state.device_class_offers("a.com/gpu"));
    state.remove_object(&name_of(ObjectKind::DeviceClass, "", "gpu"));
    assert!(!state.device_class_offers("deviceclass.resource.kubernetes.io/gpu"));
}
