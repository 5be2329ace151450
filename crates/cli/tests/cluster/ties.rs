//! Nodes that are equally good.

use std::collections::BTreeSet;

use sandbox::cluster::DeleteOptions;

use crate::test_cluster::{PODS, TestCluster, node, pod};

/// Equal nodes, and pods that are alone one after the other.
const NODES: usize = 8;
const PODS_IN_TURN: usize = 8;

#[tokio::test]
async fn a_pod_on_an_empty_cluster_goes_to_any_of_the_nodes() {
    let nodes = (0..NODES).map(|number| node(&format!("n{number}"), 4)).collect();
    let cluster = TestCluster::new(nodes).await;
    let scheduler = cluster.scheduler(&[]);
    let mut chosen = BTreeSet::new();
    for number in 0..PODS_IN_TURN {
        let name = format!("p{number}");
        cluster.make(PODS, &pod(&name)).await;
        chosen.insert(cluster.node_of(&name).await);
        // The scheduler sees the deletion before the next pod, since both are in one watch.
        let options = DeleteOptions { grace: Some(0), ..DeleteOptions::default() };
        let pods = cluster.sandbox.cluster.resource("", "pods");
        cluster.sandbox.cluster.delete(&pods, "default", &name, &options).expect("it is there");
    }
    // All on one node would be by chance once in two million runs.
    assert!(chosen.len() > 1, "{chosen:?}");
    scheduler.stop().await;
    cluster.end().await;
}
