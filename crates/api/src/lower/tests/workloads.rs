//! Tests of lowering workloads, disruption budgets and namespaces.

use engine::object::Rollout;
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

#[test]
fn the_progress_of_rollouts_is_lowered() {
    let metadata = json!({
        "name": "w", "generation": 2,
        "ownerReferences": [{"kind": "Deployment", "name": "d", "uid": "u", "controller": true}],
    });
    let of =
        |spec: Value, status: Value| json!({"metadata": metadata, "spec": spec, "status": status});
    let status = json!({
        "observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "readyReplicas": 3,
        "availableReplicas": 3,
    });
    let object = of(json!({"replicas": 3}), status);
    let half =
        Rollout { desired: 3, existing: 3, updated: 2, ready: 3, available: 3, is_observed: true };
    let deployment = deployment(&object).0.unwrap();
    assert_eq!((deployment.rollout, deployment.paused), (half, false));
    let stateful = stateful_set(&object).0.unwrap();
    assert_eq!((stateful.rollout, half.is_complete()), (half, false));
    let whole = Rollout { updated: 3, ..half };
    let set = replica_set(&object).0.unwrap();
    assert_eq!((set.rollout, whole.is_complete()), (whole, true));
    assert_eq!(set.owner.unwrap().name, "d");
    assert_eq!(service(&object).0.unwrap().rollout, Rollout::default());

    let none = super::deployment(&of(json!({}), json!({"observedGeneration": 1}))).0.unwrap();
    assert_eq!(none.rollout, Rollout { desired: 1, ..Rollout::default() });

    let status = json!({
        "observedGeneration": 2, "currentNumberScheduled": 4, "desiredNumberScheduled": 4,
        "updatedNumberScheduled": 4, "numberReady": 4, "numberAvailable": 3,
    });
    let set = daemon_set(&of(json!({}), status)).0.unwrap();
    assert_eq!((set.rollout.desired, set.rollout.is_complete()), (4, false));
}

#[test]
fn jobs_are_lowered() {
    let metadata = json!({
        "name": "j", "ownerReferences": [{"kind": "CronJob", "name": "c", "controller": true}],
    });
    let bare = job(&json!({"metadata": metadata, "spec": {}})).0.unwrap();
    assert_eq!((bare.parallelism, bare.completions, bare.suspended), (1, None, false));
    assert_eq!(bare.owner.unwrap().name, "c");
    let status = json!({"active": 1, "succeeded": 2, "failed": 3});
    let spec = json!({"parallelism": 4, "completions": 5, "suspend": true});
    let full = job(&json!({"metadata": {"name": "j"}, "spec": spec, "status": status})).0.unwrap();
    assert_eq!((full.parallelism, full.completions, full.suspended), (4, Some(5), true));
    assert_eq!((full.active, full.succeeded, full.failed), (1, 2, 3));
}
