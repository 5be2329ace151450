//! What goes wrong on demand.

use std::time::{Duration, Instant};

use http::Method;
use sandbox::faults::{Fault, Rule};
use serde_json::json;

use crate::stage::{Stage, pod};

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn requests_fail_wait_or_lose_their_answers() {
    let stage = Stage::new(0).await;
    let rule = |fault| Rule {
        method: Some(Method::POST),
        path: "/pods".to_owned(),
        every: 1,
        times: 1,
        fault,
    };
    stage.sandbox.faults.add(rule(Fault::Fail(429)));
    let (status, refused) = stage.post(PODS, &pod("a")).await;
    assert_eq!((status.as_u16(), &refused["details"]["retryAfterSeconds"]), (429, &json!(1)));
    assert_eq!(stage.get(&format!("{PODS}/a")).await.0, 404);

    stage.sandbox.faults.add(rule(Fault::DropAnswer(Duration::from_millis(10))));
    assert_eq!(stage.post(PODS, &pod("a")).await.0, 504);
    assert_eq!(stage.get(&format!("{PODS}/a")).await.0, 200);

    stage.sandbox.faults.add(rule(Fault::Swallow(Duration::from_millis(10))));
    assert_eq!(stage.post(PODS, &pod("b")).await.0, 504);
    assert_eq!(stage.get(&format!("{PODS}/b")).await.0, 404);

    stage.sandbox.faults.add(rule(Fault::Delay(Duration::from_millis(50))));
    let start = Instant::now();
    assert_eq!(stage.post(PODS, &pod("b")).await.0, 201);
    assert!(start.elapsed() >= Duration::from_millis(50));
    stage.end().await;
}
