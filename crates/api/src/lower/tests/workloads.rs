//! Tests of lowering workloads, disruption budgets and namespaces.

use serde_json::json;

use super::*;

#[test]
fn workloads_and_budgets_are_lowered() {
    let named =
        |selector: Value| json!({"metadata": {"name": "w"}, "spec": {"selector": selector}});
    let web = selector(&[requirement("app", Operator::In, &["web"])]);
    let services = [
        service(&named(json!({"app": "web"}))),
        replication_controller(&named(json!({"app": "web"}))),
    ];
    let sets = named(json!({"matchLabels": {"app": "web"}}));
    let all = services.into_iter().chain([replica_set(&sets), stateful_set(&sets)]);
    let all: Vec<_> = all.map(|(object, _)| object.unwrap()).collect();
    let kinds: Vec<_> = all.iter().map(|workload| workload.kind).collect();
    assert_eq!(
        kinds,
        [
            WorkloadKind::Service,
            WorkloadKind::ReplicationController,
            WorkloadKind::ReplicaSet,
            WorkloadKind::StatefulSet
        ]
    );
    assert!(all.iter().all(|workload| workload.selector.as_ref() == Some(&web)));
    for empty in [json!({}), json!(null)] {
        assert_eq!(service(&named(empty)).0.unwrap().selector, None);
    }
    assert_eq!(replica_set(&named(json!({}))).0.unwrap().selector, Some(Selector::default()));

    let mut budget = named(json!({"matchLabels": {"app": "web"}}));
    budget["status"] =
        json!({"disruptionsAllowed": 2, "disruptedPods": {"b": "2026-01-01T00:00:00Z", "a": null}});
    let budget = disruption_budget(&budget).0.unwrap();
    assert_eq!((budget.selector, budget.disruptions_allowed), (Some(web), 2));
    assert_eq!(*budget.disrupted_pods, ["a", "b"]);
    for nothing in [json!({}), json!(null)] {
        assert_eq!(disruption_budget(&named(nothing)).0.unwrap().selector, None);
    }
    let namespace = namespace(&json!({"metadata": {"name": "n", "labels": {"a": "b"}}})).0.unwrap();
    assert_eq!(namespace.labels.get("a"), Some("b"));
}
