//! Admission of pods by priority classes, limit ranges and quotas.

use serde_json::json;

use super::*;
use crate::cluster::WriteOptions;
use crate::status_error::StatusError;
use crate::testing::{cluster, pod};

fn put(cluster: &Cluster, group: &str, plural: &str, object: Value) -> ApiResult<Value> {
    let resource = cluster.resource(group, plural);
    let namespace = if resource.kind.namespaced { "default" } else { "" };
    cluster
        .create(&resource, namespace, object, &WriteOptions::default())
        .map(|written| written.object.value())
}

fn forbidden(answer: ApiResult<Value>) -> String {
    let StatusError { code, message, .. } = answer.unwrap_err();
    assert_eq!(code, 403);
    message
}

#[test]
fn priorities_come_from_classes() {
    let cluster = cluster();
    let class = json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"});
    put(&cluster, "scheduling.k8s.io", "priorityclasses", class).unwrap();
    let mut high = pod("a");
    high["spec"]["priorityClassName"] = json!("high");
    let high = put(&cluster, "", "pods", high).unwrap();
    assert_eq!(
        (&high["spec"]["priority"], &high["spec"]["preemptionPolicy"]),
        (&json!(1000), &json!("Never"))
    );
    let mut unknown = pod("b");
    unknown["spec"]["priorityClassName"] = json!("none");
    let why = forbidden(put(&cluster, "", "pods", unknown));
    assert_eq!(why, "pods \"b\" is forbidden: no PriorityClass with name none was found");
    let plain = put(&cluster, "", "pods", pod("c")).unwrap();
    assert_eq!(plain["spec"]["priority"], 0);
    assert_eq!(plain["spec"]["tolerations"].as_array().unwrap().len(), 2);
}

#[test]
fn quotas_are_charged_and_recounted() {
    let cluster = cluster();
    let quota = json!({"metadata": {"name": "compute-resources"}, "spec": {"hard": {
        "requests.cpu": "1", "requests.memory": "1Gi", "limits.cpu": "2", "limits.memory": "2Gi", "pods": "2"}}});
    put(&cluster, "", "resourcequotas", quota).unwrap();
    let why = forbidden(put(&cluster, "", "pods", pod("bare")));
    assert_eq!(
        why,
        "pods \"bare\" is forbidden: failed quota: compute-resources: must specify limits.cpu for: app; limits.memory for: app; requests.cpu for: app; requests.memory for: app"
    );
    let sized = |name: &str, cpu: &str| {
        let mut pod = pod(name);
        pod["spec"]["containers"][0]["resources"] = json!({
            "requests": {"cpu": cpu, "memory": "100Mi"}, "limits": {"cpu": cpu, "memory": "100Mi"}});
        pod
    };
    put(&cluster, "", "pods", sized("a", "600m")).unwrap();
    let why = forbidden(put(&cluster, "", "pods", sized("b", "600m")));
    assert_eq!(
        why,
        "pods \"b\" is forbidden: exceeded quota: compute-resources, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1"
    );
    let used = || {
        cluster
            .value(&cluster.resource("", "resourcequotas"), "default", "compute-resources")
            .unwrap()
    };
    assert_eq!(used()["status"]["used"]["requests.cpu"], "600m");
    let pods = cluster.resource("", "pods");
    cluster.delete(&pods, "default", "a", &crate::cluster::DeleteOptions::default()).unwrap();
    recount(&cluster, "default");
    assert_eq!(used()["status"]["used"]["requests.cpu"], "0");
    put(&cluster, "", "pods", sized("b", "600m")).unwrap();
}

#[test]
fn a_failed_creation_unlocks_quotas_and_is_not_charged() {
    let cluster = cluster();
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}});
    put(&cluster, "", "resourcequotas", quota).unwrap();
    let used = || {
        let quota = cluster.value(&cluster.resource("", "resourcequotas"), "default", "q").unwrap();
        quota["status"]["used"]["pods"].clone()
    };
    put(&cluster, "", "pods", pod("a")).unwrap();
    let taken = put(&cluster, "", "pods", pod("a")).unwrap_err();
    assert_eq!((taken.code, &*taken.message), (409, "pods \"a\" already exists"));
    let mut wrong = pod("b");
    wrong["spec"]["containers"][0]["name"] = json!("Not a name");
    assert!(put(&cluster, "", "pods", wrong).is_err());
    // Neither is charged.
    assert_eq!(used(), "1");
    put(&cluster, "", "pods", pod("b")).unwrap();
    assert_eq!(used(), "2");
}

#[test]
fn limit_ranges_set_defaults_and_bounds() {
    let cluster = cluster();
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": [{"type": "Container",
        "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}}]}});
    put(&cluster, "", "limitranges", range).unwrap();
    let made = put(&cluster, "", "pods", pod("a")).unwrap();
    let resources = &made["spec"]["containers"][0]["resources"];
    assert_eq!(*resources, json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}));
    let mut large = pod("b");
    large["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "2"}});
    let why = forbidden(put(&cluster, "", "pods", large));
    assert_eq!(
        why,
        "pods \"b\" is forbidden: maximum cpu usage per Container is 1, but limit is 2"
    );
}
