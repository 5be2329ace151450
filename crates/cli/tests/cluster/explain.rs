//! `jindou explain` on a live cluster.

use serde_json::{Value, json};

use crate::test_cluster::{PODS, TestCluster, node, pod_with};

#[tokio::test]
async fn explain_shows_why_a_pod_is_pending() {
    let cluster = TestCluster::new(vec![node("n0", 4), node("n1", 4)]).await;
    cluster.make(PODS, &pod_with("waits", &json!({"nodeSelector": {"disk": "fast"}}))).await;
    let run = |arguments: &'static [&'static str]| {
        let mut command = cluster.jindou(arguments);
        tokio::task::spawn_blocking(move || command.output().expect("it runs"))
    };
    let output = run(&["explain", "pod/waits"]).await.expect("it ran");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("2 node(s) didn't match Pod's node affinity/selector"), "{text}");
    let output =
        run(&["explain", "pod/waits", "-n", "default", "-o", "json"]).await.expect("it ran");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(json.to_string().contains("node affinity/selector"), "{json:#}");
    let output = run(&["explain", "pod/none"]).await.expect("it ran");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.starts_with("error: ") && text.contains("none"), "{text}");
    cluster.end().await;
}
