//! Field managers and their fields.

use serde_json::json;

use super::*;
use crate::cluster::Cluster;

fn as_manager(manager: &str, force: bool) -> WriteOptions {
    WriteOptions { manager: manager.to_owned(), force, ..WriteOptions::default() }
}

fn run(live: &Value, config: &Value, options: &WriteOptions) -> ApiResult<Value> {
    let cluster = Cluster::new();
    apply(&cluster.resource("apps", "deployments"), live, config, options, Timestamp::UNIX_EPOCH)
}

fn without_managers(mut value: Value) -> Value {
    members(slot(&mut value, &["metadata"])).remove("managedFields");
    value
}

#[test]
fn fields_that_are_no_longer_applied_are_removed() {
    let alice = as_manager("alice", false);
    let first =
        json!({"metadata": {"name": "d", "labels": {"a": "1", "b": "2"}}, "spec": {"replicas": 1}});
    let live = run(&json!({}), &first, &alice).unwrap();
    let second = json!({"metadata": {"name": "d", "labels": {"a": "1"}}, "spec": {"paused": true}});
    let live = run(&live, &second, &alice).unwrap();
    assert_eq!(without_managers(live), second);
}

#[test]
fn fields_of_other_managers_are_taken_over_only_by_force() {
    let live =
        run(&json!({}), &json!({"spec": {"replicas": 1}}), &as_manager("alice", false)).unwrap();
    let config = json!({"spec": {"replicas": 2}});
    let error = run(&live, &config, &as_manager("bob", false)).unwrap_err();
    assert_eq!(
        error.message,
        "Apply failed with 1 conflict: conflict with \"alice\": .spec.replicas"
    );
    let live = run(&live, &config, &as_manager("bob", true)).unwrap();
    assert_eq!(live["spec"]["replicas"], 2);
    let managers: Vec<&str> =
        list(&live, &["metadata", "managedFields"]).iter().map(|e| text(e, &["manager"])).collect();
    assert_eq!(managers, ["bob"]);
}

#[test]
fn managers_share_fields_of_equal_value() {
    let config = json!({"spec": {"replicas": 1}});
    let live = run(&json!({}), &config, &as_manager("alice", false)).unwrap();
    let live = run(&live, &config, &as_manager("bob", false)).unwrap();
    // Bob drops the field; Alice still applies it.
    let live = run(&live, &json!({"spec": {"paused": true}}), &as_manager("bob", false)).unwrap();
    assert_eq!(without_managers(live)["spec"], json!({"replicas": 1, "paused": true}));
}

#[test]
fn items_of_keyed_lists_have_their_own_managers() {
    let config =
        |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let live =
        run(&json!({}), &config(json!([{"name": "a", "image": "1"}])), &as_manager("alice", false))
            .unwrap();
    let live = run(&live, &config(json!([{"name": "b", "image": "1"}])), &as_manager("bob", false))
        .unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["containers"].as_array().unwrap().len(), 2);
    let live = run(&live, &config(json!([])), &as_manager("bob", false)).unwrap();
    assert_eq!(
        without_managers(live)["spec"]["template"]["spec"]["containers"],
        json!([{"name": "a", "image": "1"}])
    );
}

#[test]
fn updates_take_fields_over() {
    let cluster = Cluster::new();
    let deployments = cluster.resource("apps", "deployments");
    let live =
        run(&json!({}), &json!({"spec": {"replicas": 1}}), &as_manager("alice", false)).unwrap();
    let mut scaled = live.clone();
    scaled["spec"]["replicas"] = json!(5);
    record_updated(
        &deployments,
        &mut scaled,
        &live,
        Part::Main,
        &as_manager("kubectl", false),
        Timestamp::UNIX_EPOCH,
    );
    let error =
        run(&scaled, &json!({"spec": {"replicas": 1}}), &as_manager("alice", false)).unwrap_err();
    assert_eq!(
        error.message,
        "Apply failed with 1 conflict: conflict with \"kubectl\" using apps/v1: .spec.replicas"
    );
}

#[test]
fn each_list_is_indexed_once_however_many_of_its_items_are_applied() {
    const ITEMS: usize = 20_000;
    let config = |items: std::ops::Range<usize>, image: &str| {
        let finalizers: Vec<Value> =
            items.clone().map(|n| json!(format!("example.com/{n}"))).collect();
        let containers: Vec<Value> =
            items.map(|n| json!({"name": format!("c{n}"), "image": image})).collect();
        json!({"metadata": {"finalizers": finalizers}, "spec": {"template": {"spec": {"containers": containers}}}})
    };
    let (alice, bob) = (as_manager("alice", false), as_manager("bob", true));
    list_index::take_visited();
    let live = run(&json!({}), &config(0..ITEMS, "a"), &alice).unwrap();
    let live = run(&live, &config(0..ITEMS, "b"), &bob).unwrap();
    let live = run(&live, &config(0..ITEMS / 2, "b"), &alice).unwrap();
    let live = run(&live, &config(0..1, "b"), &bob).unwrap();
    assert_eq!(without_managers(live.clone()), config(0..ITEMS / 2, "b"));
    let deployments = Cluster::new().resource("apps", "deployments");
    let mut updated = live.clone();
    updated["spec"] = config(0..ITEMS, "c")["spec"].clone();
    let options = as_manager("carol", false);
    record_updated(&deployments, &mut updated, &live, Part::Main, &options, Timestamp::UNIX_EPOCH);
    // Five writes of two lists; each write indexes up to four versions of a list.
    let visited = list_index::take_visited();
    assert!(visited <= 5 * 2 * 4 * ITEMS, "{visited} list items were visited");
}
