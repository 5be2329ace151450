//! Malicious and oversized requests must not damage the server.

use http::Method;
use serde_json::{Map, Value, json};

use crate::server::{TestServer, deployment, pod};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn forged_managed_fields_are_not_stored() {
    let server = TestServer::new(0).await;
    server.create(MAPS, &json!({"metadata": {"name": "a"}, "data": {"x": "1"}})).await;
    let path = format!("{MAPS}/a");
    let forged = |fields: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "2"}, "metadata": {"name": "a", "managedFields": [
            {"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}]}})
    };
    let apply = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"y": "3"}});
    for fields in [
        json!({"aé": {}}),
        json!({"f:data": {"é": {}}}),
        json!({"v:{": {}}),
        json!({"k:[1]": {}}),
        json!({"i:x": {}}),
        json!({"f:data": 1}),
        json!([]),
    ] {
        let body = forged(fields.clone()).to_string();
        let put = format!("{path}?fieldManager=x");
        let (status, after) = server.send(Method::PUT, &put, "application/json", body).await;
        assert_eq!(status, 200, "{fields}: {after}");
        let managers = after["metadata"]["managedFields"].to_string();
        assert!(!managers.contains(&fields.to_string()), "{managers}");
        let patch = format!("{path}?fieldManager=x&force=true");
        let form = "application/apply-patch+yaml";
        let (status, after) = server.send(Method::PATCH, &patch, form, apply.to_string()).await;
        assert_eq!(status, 200, "{fields}: {after}");
        assert_eq!(after["data"]["y"], "3");
    }
    // Valid path elements are accepted, invalid entries are rejected.
    let (status, error) = server
        .patch(&path, "merge-patch+json", &json!({"metadata": {"managedFields": [{"manager": "x", "operation": "Invent", "fieldsType": "V2"}]}}))
        .await;
    assert_eq!(status, 422, "{error}");
    let error = error["message"].as_str().unwrap();
    assert!(error.contains("metadata.managedFields[0].operation: Invalid value: \"Invent\": must be `Apply` or `Update`"), "{error}");
    assert!(error.contains("metadata.managedFields[0].fieldsType"), "{error}");
    server.stop().await;
}

#[tokio::test]
async fn copies_of_copies_are_rejected() {
    let server = TestServer::new(0).await;
    server.create(MAPS, &json!({"metadata": {"name": "a", "annotations": {"x": "y"}}})).await;
    let double: Vec<Value> = (0..60)
        .map(|n| json!({"op": "copy", "from": "/metadata", "path": format!("/metadata/{n}")}))
        .collect();
    let nest =
        vec![json!({"op": "copy", "from": "/metadata", "path": "/metadata/annotations"}); 10_000];
    for operations in [double, nest] {
        let (status, error) =
            server.patch(&format!("{MAPS}/a"), "json-patch+json", &operations.into()).await;
        assert_eq!(status, 422, "{error}");
    }
    assert_eq!(server.get(&format!("{MAPS}/a")).await.1["metadata"]["annotations"]["x"], "y");
    server.stop().await;
}

/// More unknown fields than a response can have headers.
#[tokio::test]
async fn an_object_with_many_unknown_fields_is_answered() {
    let server = TestServer::new(0).await;
    let mut object: Map<String, Value> = (0..40_000).map(|n| (format!("é{n}"), 1.into())).collect();
    object.insert("metadata".to_owned(), json!({"name": "a"}));
    server.create(MAPS, &object.into()).await;
    server.stop().await;
}

#[tokio::test]
async fn the_object_limit_is_reported_by_controllers() {
    let server = TestServer::new(0).await;
    let pods = "/api/v1/namespaces/default/pods";
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    server.create(deployments, &deployment("many", 0)).await;
    server
        .wait_until(&format!("{deployments}/many"), |one| one["status"]["observedGeneration"] == 1)
        .await;
    server.sandbox.cluster.limit_objects(server.sandbox.cluster.store.count() + 40);
    let scale = json!({"spec": {"replicas": 100_000_000}});
    server.patch(&format!("{deployments}/many/scale"), "merge-patch+json", &scale).await;
    let many = server
        .wait_until(&format!("{deployments}/many"), |one| {
            one["status"]["conditions"]
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one["type"] == "ReplicaFailure"))
        })
        .await;
    let conditions = many["status"]["conditions"].as_array().unwrap();
    let failure = conditions.iter().find(|one| one["type"] == "ReplicaFailure").unwrap();
    assert_eq!(failure["reason"], "FailedCreate");
    assert!(failure["message"].as_str().unwrap().contains("--objects-max"), "{failure}");
    assert!(many["status"]["replicas"].as_u64().is_some_and(|count| count > 0 && count <= 40));
    let (status, error) = server.post(pods, &pod("one-more")).await;
    assert_eq!(status, 403, "{error}");
    server.stop().await;
}
