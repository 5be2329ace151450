//! `jindou explain` on a live cluster.

use serde_json::{Value, json};

use crate::stage::{PODS, Stage, node, pod_with};

#[tokio::test]
async fn why_a_pod_waits() {
    let stage = Stage::new(vec![node("n0", 4), node("n1", 4)]).await;
    stage.make(PODS, &pod_with("waits", &json!({"nodeSelector": {"disk": "fast"}}))).await;
    let run = |arguments: &'static [&'static str]| {
        let mut command = stage.jindou(arguments);
        tokio::task::spawn_blocking(move || command.output().expect("it runs"))
    };
    let told = run(&["explain", "pod/waits"]).await.expect("it ran");
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(text.contains("2 node(s) didn't match Pod's node affinity/selector"), "{text}");
    let told = run(&["explain", "pod/waits", "-n", "default", "-o", "json"]).await.expect("it ran");
    let json: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    assert!(json.to_string().contains("node affinity/selector"), "{json:#}");
    let told = run(&["explain", "pod/none"]).await.expect("it ran");
    assert_eq!(told.status.code(), Some(1));
    let text = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(text.starts_with("error: ") && text.contains("none"), "{text}");
    stage.end().await;
}
