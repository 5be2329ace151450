//! Injected faults.

use std::time::{Duration, Instant};

use http::Method;
use sandbox::faults::{Fault, FaultRule};
use serde_json::json;

use crate::server::{TestServer, pod};

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn requests_fail_are_delayed_or_lose_their_responses() {
    let server = TestServer::new(0).await;
    let rule = |fault| FaultRule {
        method: Some(Method::POST),
        path: "/pods".to_owned(),
        every: 1,
        times: 1,
        fault,
    };
    server.sandbox.faults.add(rule(Fault::Fail(429)));
    let (status, error) = server.post(PODS, &pod("a")).await;
    assert_eq!((status.as_u16(), &error["details"]["retryAfterSeconds"]), (429, &json!(1)));
    assert_eq!(server.get(&format!("{PODS}/a")).await.0, 404);

    server.sandbox.faults.add(rule(Fault::DropResponse(Duration::from_millis(10))));
    assert_eq!(server.post(PODS, &pod("a")).await.0, 504);
    assert_eq!(server.get(&format!("{PODS}/a")).await.0, 200);

    server.sandbox.faults.add(rule(Fault::DropRequest(Duration::from_millis(10))));
    assert_eq!(server.post(PODS, &pod("b")).await.0, 504);
    assert_eq!(server.get(&format!("{PODS}/b")).await.0, 404);

    server.sandbox.faults.add(rule(Fault::Delay(Duration::from_millis(50))));
    let start = Instant::now();
    assert_eq!(server.post(PODS, &pod("b")).await.0, 201);
    assert!(start.elapsed() >= Duration::from_millis(50));
    server.stop().await;
}

#[tokio::test]
async fn a_panic_in_a_handler_fails_one_request() {
    let server = TestServer::new(0).await;
    server.sandbox.faults.add(FaultRule {
        method: Some(Method::POST),
        path: "/pods".to_owned(),
        every: 1,
        times: 1,
        fault: Fault::Panic,
    });
    let (status, failure) = server.post(PODS, &pod("a")).await;
    assert_eq!((status.as_u16(), &failure["kind"]), (500, &json!("Status")));
    assert_eq!((&failure["reason"], &failure["code"]), (&json!("InternalError"), &json!(500)));
    assert_eq!(server.get(&format!("{PODS}/a")).await.0, 404);
    assert_eq!(server.post(PODS, &pod("a")).await.0, 201);
    server.stop().await;
}

#[tokio::test]
async fn a_connection_is_reset_and_the_request_is_not_executed() {
    let server = TestServer::new(0).await;
    server.sandbox.faults.add(FaultRule {
        method: Some(Method::POST),
        path: "/pods".to_owned(),
        every: 1,
        times: 1,
        fault: Fault::Reset,
    });
    let request = http::Request::post(PODS).header("content-type", "application/json");
    let body = kube::client::Body::from(pod("a").to_string().into_bytes());
    server.client.send(request.body(body).unwrap()).await.expect_err("no response");
    assert_eq!(server.get(&format!("{PODS}/a")).await.0, 404);
    assert_eq!(server.post(PODS, &pod("a")).await.0, 201);
    server.stop().await;
}

#[tokio::test]
async fn a_lagging_replica_returns_an_old_version() {
    let server = TestServer::new(0).await;
    server.create(PODS, &pod("a")).await;
    let then = server.sandbox.cluster.store.version();
    server.create(PODS, &pod("b")).await;
    server.delete(&format!("{PODS}/a")).await;
    let behind = server.sandbox.cluster.store.version() - then;
    let path = "/pods".to_owned();
    let fault = Fault::Stale(behind);
    server.sandbox.faults.add(FaultRule {
        method: Some(Method::GET),
        path,
        every: 1,
        times: 5,
        fault,
    });
    let (_, list) = server.get(PODS).await;
    assert_eq!(list["metadata"]["resourceVersion"], then.to_string());
    let names: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|pod| &pod["metadata"]["name"]).collect();
    assert_eq!(names, [&json!("a")]);
    assert_eq!(server.get(&format!("{PODS}/a")).await.0, 200);
    assert_eq!(server.get(&format!("{PODS}/b")).await.0, 404);
    // A client that requires a newer version than the replica has gets a time-out.
    let (status, late) = server.get(&format!("{PODS}?resourceVersion={}", then + behind)).await;
    assert_eq!((status.as_u16(), &late["reason"]), (504, &json!("Timeout")));
    // A watch catches up: it starts with the old version and ends at the current one.
    let (_, watch) = server.get(&format!("{PODS}?watch=true&timeoutSeconds=1")).await;
    let kinds: Vec<String> = watch
        .as_str()
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| format!("{} {}", line["type"], line["object"]["metadata"]["name"]))
        .collect();
    assert_eq!(kinds, ["\"ADDED\" \"a\"", "\"ADDED\" \"b\"", "\"DELETED\" \"a\""]);
    server.stop().await;
}
