//! Leader election between two replicas.

use serde_json::Value;

use crate::stage::{PODS, Stage, node, pod};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";

fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or("")
}

#[tokio::test]
async fn a_stopping_leader_releases_the_lease() {
    let stage = Stage::new(vec![node("n", 4)]).await;
    let replica = ["scheduler", "--secure-port=0"];
    let first = stage.start(&replica, "first.log");
    let lease = stage.until(LEASE, |lease| !holder(lease).is_empty()).await;
    let second = stage.start(&replica, "second.log");
    stage.make(PODS, &pod("a")).await;
    stage.node_of("a").await;
    first.stop().await;
    stage.make(PODS, &pod("b")).await;
    stage.node_of("b").await;
    let after = stage.get(LEASE).await;
    assert!(!holder(&after).is_empty());
    assert_ne!(holder(&after), holder(&lease));
    second.stop().await;
    let released = stage.get(LEASE).await;
    assert_eq!(holder(&released), "");
    stage.end().await;
}
