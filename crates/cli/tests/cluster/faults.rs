//! Faults of requests and watches: every pod is bound once, and no node is overcommitted.

use std::time::Duration;

use http::Method;
use sandbox::faults::{Fault, FaultRule};

use crate::test_cluster::{PODS, TestCluster, node, pod};

const NODES: usize = 10;
const PODS_PER_NODE: usize = 10;

/// Creates as many pods as fit on the nodes, so that a double bind would leave a pod pending.
async fn all_pods_are_bound_despite(rules: Vec<FaultRule>) {
    let nodes = (0..NODES).map(|number| node(&format!("n{number}"), PODS_PER_NODE)).collect();
    let cluster = TestCluster::new(nodes).await;
    for rule in rules {
        cluster.sandbox.faults.add(rule);
    }
    let scheduler = cluster.scheduler(&[]);
    for number in 0..NODES * PODS_PER_NODE {
        cluster.make(PODS, &pod(&format!("p{number}"))).await;
    }
    let placements = cluster.placements(NODES * PODS_PER_NODE).await;
    assert_eq!(placements.len(), NODES);
    assert!(placements.iter().all(|(_, pods)| *pods == PODS_PER_NODE), "{placements:?}");
    scheduler.stop().await;
    cluster.end().await;
}

fn on_binds(every: u64, times: u64, fault: Fault) -> FaultRule {
    FaultRule { method: Some(Method::POST), path: "/binding".to_owned(), every, times, fault }
}

fn on_watches(path: &str, times: u64, fault: Fault) -> FaultRule {
    FaultRule { method: Some(Method::GET), path: format!("{path}?watch"), every: 1, times, fault }
}

#[tokio::test]
async fn bind_responses_may_be_lost() {
    let lost = Fault::DropResponse(Duration::from_secs(1));
    all_pods_are_bound_despite(vec![on_binds(10, 5, lost)]).await;
}

#[tokio::test]
async fn bind_requests_may_be_lost() {
    let dropped = Fault::DropRequest(Duration::from_secs(1));
    all_pods_are_bound_despite(vec![on_binds(10, 5, dropped)]).await;
}

#[tokio::test]
async fn binds_may_be_refused() {
    let rules = [409, 429, 500, 503, 504].map(|code| on_binds(11, 3, Fault::Fail(code)));
    all_pods_are_bound_despite(rules.to_vec()).await;
}

#[tokio::test]
async fn watches_may_break_repeatedly() {
    let rules = ["/pods", "/nodes"].map(|path| on_watches(path, 4, Fault::CutWatch(7)));
    all_pods_are_bound_despite(rules.to_vec()).await;
}

#[tokio::test]
async fn watches_may_be_expired_or_refused() {
    let rules = [410, 429, 500].map(|code| on_watches("/pods", 1, Fault::Fail(code)));
    all_pods_are_bound_despite(rules.to_vec()).await;
}
