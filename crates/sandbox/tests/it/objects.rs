//! Reads and writes of objects.

use http::Method;
use serde_json::{Value, json};

use crate::server::{TestServer, deployment, pod};

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn a_bound_pod_runs_and_a_deleted_pod_is_removed() {
    let server = TestServer::new(1).await;
    server.create(PODS, &pod("a")).await;
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "node-0"}});
    server.create(&format!("{PODS}/a/binding"), &binding).await;
    let running =
        server.wait_until(&format!("{PODS}/a"), |pod| pod["status"]["phase"] == "Running").await;
    assert_eq!(running["status"]["containerStatuses"][0]["ready"], true);
    let (status, ending) = server.delete(&format!("{PODS}/a")).await;
    assert_eq!((status.as_u16(), &ending["kind"]), (200, &json!("Pod")));
    server.wait_until(&format!("{PODS}/a"), |pod| pod["code"] == 404).await;
    server.stop().await;
}

#[tokio::test]
async fn names_are_generated_and_defaults_applied() {
    let server = TestServer::new(0).await;
    let mut generated = pod("x");
    generated["metadata"] = json!({"generateName": "web-"});
    let made = server.create(PODS, &generated).await;
    assert!(made["metadata"]["name"].as_str().unwrap().starts_with("web-"));
    assert_eq!(made["spec"]["schedulerName"], "default-scheduler");
    assert_eq!(made["spec"]["containers"][0]["imagePullPolicy"], "IfNotPresent");
    assert_eq!(made["status"]["qosClass"], "BestEffort");
    server.stop().await;
}

#[tokio::test]
async fn writes_of_old_versions_conflict() {
    let server = TestServer::new(0).await;
    let path = "/api/v1/namespaces/default/configmaps";
    let made = server.create(path, &json!({"metadata": {"name": "c"}, "data": {"a": "1"}})).await;
    let mut newer = made.clone();
    newer["data"]["a"] = json!("2");
    let (status, _) =
        server.send(Method::PUT, &format!("{path}/c"), "application/json", newer.to_string()).await;
    assert_eq!(status, 200);
    let (status, error) =
        server.send(Method::PUT, &format!("{path}/c"), "application/json", newer.to_string()).await;
    assert_eq!((status.as_u16(), &error["reason"]), (409, &json!("Conflict")));
    newer["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let (status, _) =
        server.send(Method::PUT, &format!("{path}/c"), "application/json", newer.to_string()).await;
    assert_eq!(status, 200);
    server.stop().await;
}

#[tokio::test]
async fn all_types_of_patches_work() {
    let server = TestServer::new(0).await;
    let path = "/apis/apps/v1/namespaces/default/deployments/d";
    server.create("/apis/apps/v1/namespaces/default/deployments", &deployment("d", 0)).await;
    let merged =
        server.patch(path, "merge-patch+json", &json!({"metadata": {"labels": {"a": "1"}}})).await;
    assert_eq!((merged.0.as_u16(), &merged.1["metadata"]["labels"]["a"]), (200, &json!("1")));
    let container =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s"}]}}}});
    let strategic = server.patch(path, "strategic-merge-patch+json", &container).await.1;
    assert_eq!(strategic["spec"]["template"]["spec"]["containers"].as_array().unwrap().len(), 2);
    assert_eq!(strategic["metadata"]["generation"], 2);
    let operations = json!([{"op": "replace", "path": "/spec/minReadySeconds", "value": 3}]);
    assert_eq!(server.patch(path, "json-patch+json", &operations).await.0, 422);
    let operations = json!([{"op": "add", "path": "/spec/minReadySeconds", "value": 3}]);
    assert_eq!(
        server.patch(path, "json-patch+json", &operations).await.1["spec"]["minReadySeconds"],
        3
    );
    let mut config = deployment("d", 2);
    config["spec"].as_object_mut().unwrap().remove("template");
    let apply = format!("{path}?fieldManager=me");
    let (status, error) = server.patch(&apply, "apply-patch+yaml", &config).await;
    assert_eq!(
        (status.as_u16(), &error["details"]["causes"][0]["field"]),
        (409, &json!(".spec.replicas"))
    );
    let (status, applied) =
        server.patch(&format!("{apply}&force=true"), "apply-patch+yaml", &config).await;
    assert_eq!((status.as_u16(), &applied["spec"]["replicas"]), (200, &json!(2)));
    server.stop().await;
}

#[tokio::test]
async fn apply_creates_and_dry_run_does_not() {
    let server = TestServer::new(0).await;
    let path = "/api/v1/namespaces/default/configmaps/c?fieldManager=me";
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}});
    let (status, _) =
        server.patch(&format!("{path}&dryRun=All"), "apply-patch+yaml", &config).await;
    assert_eq!(status, 201);
    assert_eq!(server.get("/api/v1/namespaces/default/configmaps/c").await.0, 404);
    assert_eq!(server.patch(path, "apply-patch+yaml", &config).await.0, 201);
    assert_eq!(server.patch(path, "apply-patch+yaml", &config).await.0, 200);
    server.stop().await;
}

#[tokio::test]
async fn pages_of_a_list_show_one_version() {
    let server = TestServer::new(0).await;
    let path = "/api/v1/namespaces/default/configmaps";
    for number in 0..5 {
        server.create(path, &json!({"metadata": {"name": format!("c{number}")}})).await;
    }
    let first = server.get(&format!("{path}?limit=2")).await.1;
    let names = |list: &Value| -> Vec<String> {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&first), ["c0", "c1"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    server.delete(&format!("{path}/c3")).await;
    server.create(path, &json!({"metadata": {"name": "c2a"}})).await;
    let next = first["metadata"]["continue"].as_str().unwrap();
    let rest = server.get(&format!("{path}?limit=9&continue={next}")).await.1;
    assert_eq!(names(&rest), ["c2", "c3", "c4"]);
    assert_eq!(rest["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let (status, _) = server.get(&format!("{path}?continue=nonsense")).await;
    assert_eq!(status, 400);
    server.stop().await;
}

#[tokio::test]
async fn events_are_the_same_in_both_groups() {
    let server = TestServer::new(0).await;
    let event = json!({"metadata": {"name": "e"}, "note": "hello", "reason": "R", "regarding": {"kind": "Pod", "name": "a", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "me", "action": "Do", "type": "Normal"});
    server.create("/apis/events.k8s.io/v1/namespaces/default/events", &event).await;
    let old =
        server.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=a").await.1;
    assert_eq!(
        (&old["items"][0]["message"], &old["items"][0]["apiVersion"]),
        (&json!("hello"), &json!("v1"))
    );
    let new = server.get("/apis/events.k8s.io/v1/namespaces/default/events/e").await.1;
    assert_eq!((&new["note"], &new["apiVersion"]), (&json!("hello"), &json!("events.k8s.io/v1")));
    server.stop().await;
}

#[tokio::test]
async fn custom_kinds_are_served_until_their_definition_is_deleted() {
    let server = TestServer::new(0).await;
    let definition = json!({"metadata": {"name": "things.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "required": ["size"], "properties": {
                    "size": {"type": "integer", "minimum": 1}, "mode": {"type": "string", "default": "plain"}}},
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    server.create(definitions, &definition).await;
    server
        .wait_until("/apis/example.com/v1/namespaces/default/things", |list| {
            list["kind"] == "ThingList"
        })
        .await;
    let things = "/apis/example.com/v1/namespaces/default/things";
    let made = server.create(things, &json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"size": 2, "extra": 1}})).await;
    assert_eq!(made["spec"], json!({"size": 2, "mode": "plain"}));
    let (status, error) =
        server.post(things, &json!({"metadata": {"name": "u"}, "spec": {"size": 0}})).await;
    assert_eq!(
        (status.as_u16(), &error["details"]["causes"][0]["field"]),
        (422, &json!("spec.size"))
    );
    assert_eq!(server.delete(&format!("{definitions}/things.example.com")).await.0, 200);
    server.wait_until(things, |answer| answer["code"] == 404).await;
    server.stop().await;
}

#[tokio::test]
async fn protobuf_is_accepted_and_returned() {
    let server = TestServer::new(0).await;
    server.create(PODS, &pod("a")).await;
    let request = http::Request::get(format!("{PODS}/a"))
        .header("accept", "application/vnd.kubernetes.protobuf");
    let request = request.body(kube::client::Body::empty()).unwrap();
    let response = server.client.send(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/vnd.kubernetes.protobuf");
    let bytes =
        http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes().to_vec();
    assert!(bytes.starts_with(b"k8s\0"));
    server.delete(&format!("{PODS}/a")).await;
    // The response can be sent back as a new object, except for its resourceVersion.
    let (status, error) =
        server.send(Method::POST, PODS, "application/vnd.kubernetes.protobuf", bytes).await;
    assert_eq!(
        (status.as_u16(), error["message"].as_str()),
        (400, Some("resourceVersion should not be set on objects to be created"))
    );
    server.stop().await;
}
