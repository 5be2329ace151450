//! The events and the end of watches.

use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use crate::server::{TIMEOUT, TestServer, pod};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Lines of a streamed response.
struct Lines {
    body: Body,
    rest: Vec<u8>,
}

impl Lines {
    async fn open(server: &TestServer, path: &str) -> Self {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let response = server.client.send(request).await.expect("an answer");
        assert_eq!(response.status(), 200);
        Self { body: response.into_body(), rest: Vec::new() }
    }

    /// Returns the next line, or `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("JSON"));
            }
            let frame = tokio::time::timeout(TIMEOUT, self.body.frame())
                .await
                .expect("something in time")?;
            if let Ok(data) = frame.expect("a frame").into_data() {
                self.rest.extend_from_slice(&data);
            }
        }
    }

    /// Returns types and names of the next events.
    async fn some(&mut self, count: usize) -> Vec<String> {
        let mut seen = Vec::new();
        for _ in 0..count {
            let line = self.next().await.expect("a line");
            let name = line["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            seen.push(format!("{} {name}", line["type"].as_str().expect("a type")));
        }
        seen
    }
}

#[tokio::test]
async fn a_watch_resumes_from_the_version_of_a_list() {
    let server = TestServer::new(0).await;
    server.create(PODS, &pod("a")).await;
    let version =
        server.get(PODS).await.1["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    server.create(PODS, &pod("b")).await;
    server.delete(&format!("{PODS}/a")).await;
    let mut lines =
        Lines::open(&server, &format!("{PODS}?watch=true&resourceVersion={version}")).await;
    assert_eq!(lines.some(2).await, ["ADDED b", "DELETED a"]);
    server.create(PODS, &pod("c")).await;
    assert_eq!(lines.some(1).await, ["ADDED c"]);
    let mut fresh = Lines::open(&server, &format!("{PODS}?watch=true")).await;
    assert_eq!(fresh.some(2).await, ["ADDED b", "ADDED c"]);
    server.stop().await;
}

#[tokio::test]
async fn streaming_lists_end_with_a_bookmark() {
    let server = TestServer::new(0).await;
    server.create(PODS, &pod("a")).await;
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1";
    let mut lines = Lines::open(&server, &format!("{PODS}?{query}")).await;
    assert_eq!(lines.some(1).await, ["ADDED a"]);
    let mark = lines.next().await.unwrap();
    assert_eq!(mark["type"], "BOOKMARK");
    assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    // A last bookmark, then the end.
    assert_eq!(lines.next().await.unwrap()["type"], "BOOKMARK");
    assert_eq!(lines.next().await, None);
    server.stop().await;
}

#[tokio::test]
async fn objects_that_leave_or_enter_a_selection_are_deleted_and_added() {
    let server = TestServer::new(0).await;
    let mut lines =
        Lines::open(&server, &format!("{PODS}?watch=true&labelSelector=tier%3Dfront")).await;
    server.create(PODS, &pod("a")).await;
    let label = |value: Value| json!({"metadata": {"labels": {"tier": value}}});
    let path = format!("{PODS}/a");
    server.patch(&path, "merge-patch+json", &label(json!("front"))).await;
    server
        .patch(&path, "merge-patch+json", &json!({"metadata": {"annotations": {"x": "y"}}}))
        .await;
    server.patch(&path, "merge-patch+json", &label(json!("back"))).await;
    assert_eq!(lines.some(3).await, ["ADDED a", "MODIFIED a", "DELETED a"]);
    server.stop().await;
}

#[tokio::test]
async fn compacted_versions_expire() {
    let server = TestServer::new(0).await;
    server.sandbox.cluster.resource("", "pods").objects.limit_watch_cache(3);
    for number in 0..9 {
        server.create(PODS, &pod(&format!("p{number}"))).await;
    }
    let mut lines = Lines::open(&server, &format!("{PODS}?watch=true&resourceVersion=1")).await;
    let gone = lines.next().await.unwrap();
    assert_eq!((&gone["type"], &gone["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(lines.next().await, None);
    let (status, gone) =
        server.get(&format!("{PODS}?resourceVersion=1&resourceVersionMatch=Exact")).await;
    assert_eq!((status.as_u16(), &gone["reason"]), (410, &json!("Expired")));
    server.stop().await;
}

#[tokio::test]
async fn a_slow_watch_expires_and_does_not_block_writes() {
    let server = TestServer::new(0).await;
    server.sandbox.cluster.resource("", "configmaps").objects.limit_watch_cache(50);
    let maps = "/api/v1/namespaces/default/configmaps";
    let mut slow = Lines::open(
        &server,
        &format!("{maps}?watch=true&resourceVersion={}", server.sandbox.cluster.store.version()),
    )
    .await;
    // More than all buffers between server and client hold, so that the server has to wait for the client.
    let filler = "x".repeat(200_000);
    for number in 0..200 {
        server
            .create(
                maps,
                &json!({"metadata": {"name": format!("c{number}")}, "data": {"x": filler}}),
            )
            .await;
    }
    let mut last = Value::Null;
    while let Some(line) = slow.next().await {
        last = line;
        if last["type"] == "ERROR" {
            break;
        }
        if last["object"]["metadata"]["name"] == "c199" {
            break;
        }
    }
    assert_eq!(last["object"]["code"], 410, "{}", last["type"]);
    server.stop().await;
}
