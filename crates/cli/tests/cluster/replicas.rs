//! Leader election between two replicas.

use serde_json::Value;

use crate::test_cluster::{PODS, TestCluster, node, pod};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";

fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or("")
}

#[tokio::test]
async fn a_stopping_leader_releases_the_lease() {
    let cluster = TestCluster::new(vec![node("n", 4)]).await;
    let replica = ["scheduler", "--secure-port=0"];
    let first = cluster.start(&replica, "first.log");
    let lease = cluster.until(LEASE, |lease| !holder(lease).is_empty()).await;
    let second = cluster.start(&replica, "second.log");
    cluster.make(PODS, &pod("a")).await;
    cluster.node_of("a").await;
    first.stop().await;
    cluster.make(PODS, &pod("b")).await;
    cluster.node_of("b").await;
    let after = cluster.get(LEASE).await;
    assert!(!holder(&after).is_empty());
    assert_ne!(holder(&after), holder(&lease));
    second.stop().await;
    let released = cluster.get(LEASE).await;
    assert_eq!(holder(&released), "");
    cluster.end().await;
}
