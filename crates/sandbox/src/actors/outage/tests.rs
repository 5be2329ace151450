//! Failing nodes and their pods in virtual time.

use serde_json::{Value, json};

use super::{FAILS, UNREACHABLE};
use crate::actors::test_cluster::{SECOND, TestCluster, annotated};
use crate::cluster::{Part, WriteOptions};
use crate::json::{at, condition, holds, list, slot, text};

/// Sets or removes the annotation of the node.
fn annotate(cluster: &TestCluster, value: Option<&str>) {
    let nodes = cluster.inner.resource("", "nodes");
    let options = WriteOptions::default();
    let written = cluster.inner.change(&nodes, "", "node-0", Part::Main, &options, |_, before| {
        let mut node = before.clone();
        let annotations = slot(&mut node, &["metadata", "annotations"]);
        match value {
            Some(value) => annotations[FAILS] = value.into(),
            None => drop(crate::json::members(annotations).remove(FAILS)),
        }
        Ok(Some(node))
    });
    written.unwrap();
}

async fn node(cluster: &TestCluster, holds: impl Fn(&Value) -> bool) -> Value {
    let nodes = cluster.inner.resource("", "nodes");
    for _ in 0..10_000 {
        let node = cluster.inner.value(&nodes, "", "node-0").unwrap();
        if holds(&node) {
            return node;
        }
        tokio::time::sleep(SECOND / 100).await;
    }
    panic!("{:#?}", cluster.inner.value(&nodes, "", "node-0"));
}

fn ready(node: &Value) -> &str {
    condition(node, "Ready").map_or("", |ready| text(ready, &["status"]))
}

fn taints(node: &Value) -> Vec<(&str, &str)> {
    let taints = list(node, &["spec", "taints"]).iter();
    taints.map(|taint| (text(taint, &["key"]), text(taint, &["effect"]))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_failed_node_is_unreachable_and_recovers() {
    let cluster = TestCluster::new(1.0);
    node(&cluster, |node| ready(node) == "True").await;
    for name in ["a", "deleted"] {
        cluster.create(name, "node-0", |_| {});
        cluster.wait_for_phase(name, "Running").await;
    }
    annotate(&cluster, Some("true"));
    let failed = node(&cluster, |node| taints(node).len() == 2).await;
    assert_eq!(ready(&failed), "Unknown");
    assert_eq!(
        text(condition(&failed, "MemoryPressure").unwrap(), &["reason"]),
        "NodeStatusUnknown"
    );
    assert_eq!(taints(&failed), [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]);
    cluster.wait_until("a", |pod| !holds(pod.unwrap(), "Ready")).await;
    assert_eq!(cluster.get("a").unwrap()["status"]["phase"], "Running");
    // The kubelet is inactive: no pod starts, and no deleted pod is removed.
    cluster.create("late", "node-0", |_| {});
    cluster.delete("deleted", None);
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(cluster.get("late").unwrap()["status"]["phase"], "Pending");
    assert_eq!(cluster.get("deleted").unwrap()["status"]["phase"], "Running");
    annotate(&cluster, None);
    let back = node(&cluster, |node| ready(node) == "True").await;
    assert_eq!((taints(&back), at(&back, &["metadata", "annotations"])), (vec![], None));
    cluster.wait_until("a", |pod| holds(pod.unwrap(), "Ready")).await;
    cluster.wait_for_phase("late", "Running").await;
    cluster.wait_until_removed("deleted").await;
}

#[tokio::test(start_paused = true)]
async fn pods_leave_a_failed_node_when_their_toleration_seconds_pass() {
    let cluster = TestCluster::new(10.0);
    node(&cluster, |node| ready(node) == "True").await;
    let tolerate = |seconds: Option<i64>| {
        move |pod: &mut Value| {
            pod["spec"]["tolerations"] = json!([{"key": UNREACHABLE, "operator": "Exists",
                "effect": "NoExecute", "tolerationSeconds": seconds}]);
        }
    };
    cluster.create("usual", "node-0", |_| {});
    cluster.create("short", "node-0", tolerate(Some(20)));
    cluster.create("patient", "node-0", tolerate(None));
    for name in ["usual", "short", "patient"] {
        cluster.wait_for_phase(name, "Running").await;
    }
    let deleted =
        |name: &str| at(&cluster.get(name).unwrap(), &["metadata", "deletionTimestamp"]).is_some();
    annotate(&cluster, Some("true"));
    tokio::time::sleep(SECOND).await;
    assert!(!deleted("short") && !deleted("usual"));
    tokio::time::sleep(2 * SECOND).await;
    assert!(deleted("short") && !deleted("usual"));
    assert!(holds(&cluster.get("short").unwrap(), "DisruptionTarget"));
    tokio::time::sleep(26 * SECOND).await;
    assert!(!deleted("usual"));
    tokio::time::sleep(2 * SECOND).await;
    assert!(deleted("usual") && !deleted("patient"));
    // Their containers do not stop on an unreachable node, but a forced deletion removes the object.
    cluster.delete("usual", Some(0));
    assert!(cluster.get("usual").is_none() && cluster.get("short").is_some());
    annotate(&cluster, None);
    cluster.wait_until_removed("short").await;
    cluster.wait_until("patient", |pod| holds(pod.unwrap(), "Ready")).await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_annotation_causes_an_event() {
    let cluster = TestCluster::new(1.0);
    node(&cluster, |node| ready(node) == "True").await;
    annotate(&cluster, Some("soon"));
    cluster.create("a", "node-0", annotated(FAILS, "true"));
    cluster.wait_for_phase("a", "Running").await;
    tokio::time::sleep(SECOND).await;
    node(&cluster, |node| ready(node) == "True" && taints(node).is_empty()).await;
    assert_eq!(cluster.events("node-0"), ["InvalidAnnotation"]);
}
