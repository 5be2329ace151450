//! Preemption of victims that terminate slowly.

use sandbox::cluster::DeleteOptions;
use serde_json::json;

use crate::stage::{PODS, Stage, node, pod_with};

#[tokio::test]
async fn a_preemptor_waits_until_its_victim_has_stopped() {
    let stage = Stage::new(vec![node("n0", 1)]).await;
    let scheduler = stage.scheduler(&[]);
    let class = json!({"metadata": {"name": "urgent"}, "value": 1000});
    stage.make("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await;
    // Longer than the test; a second deletion shortens it.
    let mut victim = pod_with("victim", &json!({"terminationGracePeriodSeconds": 600}));
    victim["metadata"]["annotations"] = json!({"sandbox.novasphere.dev/stops-after": "10m"});
    stage.make(PODS, &victim).await;
    let victim = format!("{PODS}/victim");
    stage.until(&victim, |pod| pod["status"]["phase"] == "Running").await;
    stage.make(PODS, &pod_with("urgent", &json!({"priorityClassName": "urgent"}))).await;
    let urgent = format!("{PODS}/urgent");
    stage.until(&urgent, |pod| pod["status"]["nominatedNodeName"] == "n0").await;
    let ending = stage.until(&victim, |pod| pod["metadata"]["deletionTimestamp"].is_string()).await;
    assert_eq!(ending["status"]["phase"], "Running");
    let waiting = stage.get(&urgent).await;
    assert!(waiting["spec"].get("nodeName").is_none(), "{waiting:#}");
    let options = DeleteOptions { grace: Some(1), ..DeleteOptions::default() };
    let pods = stage.sandbox.cluster.resource("", "pods");
    stage.sandbox.cluster.delete(&pods, "default", "victim", &options).expect("it is there");
    // A pod that was bound too early would have failed.
    let ran = stage.until(&urgent, |pod| {
        ["Running", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase)
    });
    assert_eq!(ran.await["status"]["phase"], "Running");
    scheduler.stop().await;
    stage.end().await;
}
