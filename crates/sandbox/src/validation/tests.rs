//! Invalid objects and their messages.

use serde_json::json;

use super::*;

#[track_caller]
fn check(found: &[FieldError], expected: &[&str]) {
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

#[test]
fn pods_need_containers_with_names_and_images() {
    check(&pod(&json!({"spec": {}}), None), &["spec.containers: Required value"]);
    let spec = json!({"containers": [{"name": "A"}, {"name": "A", "image": "x"}]});
    let found = pod(&json!({"spec": spec}), None);
    assert!(
        found[0]
            .to_string()
            .starts_with("spec.containers[0].name: Invalid value: \"A\": a lowercase")
    );
    assert_eq!(found[1].to_string(), "spec.containers[0].image: Required value");
    assert_eq!(found[2].to_string(), "spec.containers[1].name: Duplicate value: \"A\"");
}

#[test]
fn requests_must_not_exceed_limits() {
    let container = json!({"name": "a", "image": "x", "resources": {
        "requests": {"cpu": "2", "nonsense": "1", "x/gpu": "1"}, "limits": {"cpu": "1"}}});
    check(
        &pod(&json!({"spec": {"containers": [container]}}), None),
        &[
            "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
            "spec.containers[0].resources.requests: Invalid value: \"nonsense\": must be a standard resource type or fully qualified",
            "spec.containers[0].resources.limits.nonsense: Required value: Limit must be set for non overcommitable resources",
            "spec.containers[0].resources.limits.x/gpu: Required value: Limit must be set for non overcommitable resources",
        ],
    );
}

#[test]
fn the_spec_of_an_existing_pod_is_immutable_except_for_images() {
    let before = json!({"spec": {"containers": [{"name": "a", "image": "x"}], "nodeName": "n"}});
    let mut now = before.clone();
    now["spec"]["containers"][0]["image"] = json!("y");
    check(&pod(&now, Some(&before)), &[]);
    now["spec"]["nodeName"] = json!("m");
    assert!(
        pod(&now, Some(&before))[0]
            .to_string()
            .starts_with("spec: Forbidden: pod updates may not change")
    );
}

#[test]
fn selectors_must_match_the_labels_of_their_templates() {
    let template = json!({"metadata": {"labels": {"app": "b"}}, "spec": {"containers": [{"name": "a", "image": "x"}], "restartPolicy": "Always"}});
    let set = json!({"spec": {"replicas": -1, "selector": {"matchLabels": {"app": "a"}}, "template": template}});
    check(
        &replica_set(&set, None),
        &[
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            "spec.template.metadata.labels: Invalid value: {\"app\":\"b\"}: `selector` does not match template `labels`",
        ],
    );
}

#[test]
fn names_labels_and_finalizers_are_validated() {
    let object = json!({"metadata": {"name": "-x", "labels": {"-": "b c"}, "finalizers": ["x y"]}});
    let found = metadata(&object, crate::names::NameRule::Subdomain, None);
    let fields: Vec<&str> = found.iter().map(|problem| &*problem.field).collect();
    assert_eq!(
        fields,
        ["metadata.name", "metadata.labels", "metadata.labels", "metadata.finalizers[0]"]
    );
}

#[test]
fn schedules_of_cron_jobs_must_have_five_fields() {
    let job = |schedule: &str| json!({"spec": {"schedule": schedule}});
    check(&cron_job(&job("0 0 1 1 *"), None), &[]);
    check(&cron_job(&job("@daily"), None), &[]);
    check(&cron_job(&job(""), None), &["spec.schedule: Required value"]);
    check(
        &cron_job(&job("every day"), None),
        &[
            "spec.schedule: Invalid value: \"every day\": expected exactly 5 fields, found 2: [every day]",
        ],
    );
}
