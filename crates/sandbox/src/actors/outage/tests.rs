//! Failing nodes and their pods in virtual time.

use serde_json::{Value, json};

use super::{FAILS, UNREACHABLE};
use crate::actors::yard::{SECOND, Yard, annotated};
use crate::cluster::{Part, WriteOptions};
use crate::json::{at, condition, holds, list, slot, text};

/// Sets or removes the annotation of the node.
fn annotate(yard: &Yard, value: Option<&str>) {
    let nodes = yard.cluster.resource("", "nodes");
    let options = WriteOptions::default();
    let written = yard.cluster.change(&nodes, "", "node-0", Part::Main, &options, |_, before| {
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

async fn node(yard: &Yard, holds: impl Fn(&Value) -> bool) -> Value {
    let nodes = yard.cluster.resource("", "nodes");
    for _ in 0..10_000 {
        let node = yard.cluster.value(&nodes, "", "node-0").unwrap();
        if holds(&node) {
            return node;
        }
        tokio::time::sleep(SECOND / 100).await;
    }
    panic!("{:#?}", yard.cluster.value(&nodes, "", "node-0"));
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
    let yard = Yard::new(1.0);
    node(&yard, |node| ready(node) == "True").await;
    for name in ["a", "deleted"] {
        yard.make(name, "node-0", |_| {});
        yard.phase(name, "Running").await;
    }
    annotate(&yard, Some("true"));
    let failed = node(&yard, |node| taints(node).len() == 2).await;
    assert_eq!(ready(&failed), "Unknown");
    assert_eq!(
        text(condition(&failed, "MemoryPressure").unwrap(), &["reason"]),
        "NodeStatusUnknown"
    );
    assert_eq!(taints(&failed), [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]);
    yard.until("a", |pod| !holds(pod.unwrap(), "Ready")).await;
    assert_eq!(yard.get("a").unwrap()["status"]["phase"], "Running");
    // The kubelet is inactive: no pod starts, and no deleted pod is removed.
    yard.make("late", "node-0", |_| {});
    yard.delete("deleted", None);
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(yard.get("late").unwrap()["status"]["phase"], "Pending");
    assert_eq!(yard.get("deleted").unwrap()["status"]["phase"], "Running");
    annotate(&yard, None);
    let back = node(&yard, |node| ready(node) == "True").await;
    assert_eq!((taints(&back), at(&back, &["metadata", "annotations"])), (vec![], None));
    yard.until("a", |pod| holds(pod.unwrap(), "Ready")).await;
    yard.phase("late", "Running").await;
    yard.gone("deleted").await;
}

#[tokio::test(start_paused = true)]
async fn pods_leave_a_failed_node_when_their_toleration_seconds_pass() {
    let yard = Yard::new(10.0);
    node(&yard, |node| ready(node) == "True").await;
    let tolerate = |seconds: Option<i64>| {
        move |pod: &mut Value| {
            pod["spec"]["tolerations"] = json!([{"key": UNREACHABLE, "operator": "Exists",
                "effect": "NoExecute", "tolerationSeconds": seconds}]);
        }
    };
    yard.make("usual", "node-0", |_| {});
    yard.make("short", "node-0", tolerate(Some(20)));
    yard.make("patient", "node-0", tolerate(None));
    for name in ["usual", "short", "patient"] {
        yard.phase(name, "Running").await;
    }
    let deleted =
        |name: &str| at(&yard.get(name).unwrap(), &["metadata", "deletionTimestamp"]).is_some();
    annotate(&yard, Some("true"));
    tokio::time::sleep(SECOND).await;
    assert!(!deleted("short") && !deleted("usual"));
    tokio::time::sleep(2 * SECOND).await;
    assert!(deleted("short") && !deleted("usual"));
    assert!(holds(&yard.get("short").unwrap(), "DisruptionTarget"));
    tokio::time::sleep(26 * SECOND).await;
    assert!(!deleted("usual"));
    tokio::time::sleep(2 * SECOND).await;
    assert!(deleted("usual") && !deleted("patient"));
    // Their containers do not stop on an unreachable node, but a forced deletion removes the object.
    yard.delete("usual", Some(0));
    assert!(yard.get("usual").is_none() && yard.get("short").is_some());
    annotate(&yard, None);
    yard.gone("short").await;
    yard.until("patient", |pod| holds(pod.unwrap(), "Ready")).await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_annotation_causes_an_event() {
    let yard = Yard::new(1.0);
    node(&yard, |node| ready(node) == "True").await;
    annotate(&yard, Some("soon"));
    yard.make("a", "node-0", annotated(FAILS, "true"));
    yard.phase("a", "Running").await;
    tokio::time::sleep(SECOND).await;
    node(&yard, |node| ready(node) == "True" && taints(node).is_empty()).await;
    assert_eq!(yard.events("node-0"), ["InvalidAnnotation"]);
}
