//! Preemption of victims that terminate slowly.

use sandbox::cluster::DeleteOptions;
use serde_json::json;

use crate::test_cluster::{PODS, TestCluster, node, pod_with};

#[tokio::test]
async fn a_preemptor_waits_until_its_victim_has_stopped() {
    let cluster = TestCluster::new(vec![node("n0", 1)]).await;
    let scheduler = cluster.scheduler(&[]);
    let class = json!({"metadata": {"name": "urgent"}, "value": 1000});
    cluster.make("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await;
    // Longer than the test; a second deletion shortens it.
    let mut victim = pod_with("victim", &json!({"terminationGracePeriodSeconds": 600}));
    victim["metadata"]["annotations"] = json!({"sandbox.novasphere.dev/stops-after": "10m"});
    cluster.make(PODS, &victim).await;
    let victim = format!("{PODS}/victim");
    cluster.until(&victim, |pod| pod["status"]["phase"] == "Running").await;
    cluster.make(PODS, &pod_with("urgent", &json!({"priorityClassName": "urgent"}))).await;
    let urgent = format!("{PODS}/urgent");
    cluster.until(&urgent, |pod| pod["status"]["nominatedNodeName"] == "n0").await;
    let ending =
        cluster.until(&victim, |pod| pod["metadata"]["deletionTimestamp"].is_string()).await;
    assert_eq!(ending["status"]["phase"], "Running");
    let waiting = cluster.get(&urgent).await;
    assert!(waiting["spec"].get("nodeName").is_none(), "{waiting:#}");
    let options = DeleteOptions { grace: Some(1), ..DeleteOptions::default() };
    let pods = cluster.sandbox.cluster.resource("", "pods");
    cluster.sandbox.cluster.delete(&pods, "default", "victim", &options).expect("it is there");
    // A pod that was bound too early would have failed.
    let ran = cluster.until(&urgent, |pod| {
        ["Running", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase)
    });
    assert_eq!(ran.await["status"]["phase"], "Running");
    scheduler.stop().await;
    cluster.end().await;
}
