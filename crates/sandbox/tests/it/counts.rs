//! Counts of responses on the metrics page.

use http::Request;
use kube::client::Body;
use serde_json::json;

use crate::server::{TestServer, pod};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Verb, group, resource, subresource, code and number of responses, in the order of the page.
const COUNTS: [(&str, &str, &str, &str, u16, u64); 11] = [
    ("DELETE", "", "pods", "", 200, 1),
    ("DELETECOLLECTION", "", "pods", "", 200, 1),
    ("GET", "", "pods", "", 200, 1),
    ("GET", "", "pods", "", 404, 1),
    ("LIST", "", "pods", "", 200, 1),
    ("LIST", "apps", "deployments", "", 200, 1),
    ("PATCH", "", "pods", "", 200, 1),
    ("POST", "", "pods", "", 201, 2),
    ("POST", "", "pods", "", 409, 1),
    ("POST", "", "pods", "binding", 201, 1),
    ("WATCH", "", "pods", "", 200, 1),
];

#[tokio::test]
async fn responses_are_counted_by_verb_resource_and_code() {
    let server = TestServer::new(1).await;
    for name in ["a", "b"] {
        server.create(PODS, &pod(name)).await;
    }
    let a = format!("{PODS}/a");
    assert_eq!(server.post(PODS, &pod("a")).await.0, 409);
    assert_eq!(server.get(PODS).await.0, 200);
    // A watch is counted when it starts; this one is never read.
    let watch = Request::get(format!("{PODS}?watch=true")).body(Body::empty());
    let watch = server.client.send(watch.expect("a request")).await.expect("an answer");
    assert_eq!(watch.status(), 200);
    assert_eq!(server.get(&a).await.0, 200);
    assert_eq!(server.get(&format!("{PODS}/none")).await.0, 404);
    let labels = json!({"metadata": {"labels": {"x": "y"}}});
    assert_eq!(server.patch(&a, "merge-patch+json", &labels).await.0, 200);
    let binding = json!({"target": {"kind": "Node", "name": "node-0"}});
    server.create(&format!("{a}/binding"), &binding).await;
    assert_eq!(server.delete(&a).await.0, 200);
    assert_eq!(server.delete(PODS).await.0, 200);
    assert_eq!(server.get("/apis/apps/v1/deployments").await.0, 200);
    // Requests that name no kind are not counted.
    assert_eq!(server.get("/version").await.0, 200);
    assert_eq!(server.get("/apis/none/v1/things").await.0, 404);

    let (status, page) = server.get("/metrics").await;
    assert_eq!(status, 200);
    let lines = page.as_str().expect("text").lines();
    let counts: Vec<_> =
        lines.filter_map(|line| line.strip_prefix("apiserver_request_total")).collect();
    let expected = COUNTS.map(|(verb, group, resource, subresource, code, count)| {
        format!(
            "{{verb={verb:?},group={group:?},version=\"v1\",resource={resource:?},\
             subresource={subresource:?},code=\"{code}\"}} {count}"
        )
    });
    assert_eq!(counts, expected);
    server.stop().await;
}
