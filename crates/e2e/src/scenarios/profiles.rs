//! Two profiles in one process, and pods of a third scheduler.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::schedulers;
use crate::test_env::{TestEnv, text};

const CONFIG: &str = "conformance/e2e/two-profiles.yaml";
const NODES: usize = 4;

pub(crate) fn run(env: &TestEnv) -> Result<()> {
    env.create("nodes", &equal_nodes("equal", NODES))?;
    env.wait_for_nodes(NODES)?;
    let scheduler = schedulers::jindou(env, CONFIG)?;
    // Created first, so that a scheduler that ignores the name would bind it.
    env.create("foreign", &[pod("foreign", "other-scheduler")])?;

    let spread = pods_of(env, "spread", "default-scheduler")?;
    let on: BTreeSet<_> = spread.iter().collect();
    ensure!(on.len() == NODES, "pods of the default profile are on {on:?}, not one on each node");
    let packed = pods_of(env, "packed", "packing-scheduler")?;
    let on: BTreeSet<_> = packed.iter().collect();
    ensure!(on.len() == 1, "pods of the packing profile are on {on:?}, not on one node");
    check_reporter(env, "spread-0", "default-scheduler")?;
    check_reporter(env, "packed-0", "packing-scheduler")?;

    let foreign = env.get("pod", "foreign")?;
    let untouched = foreign["spec"]["nodeName"].is_null()
        && foreign["status"]["conditions"].is_null()
        && foreign["status"]["nominatedNodeName"].is_null();
    ensure!(untouched, "a pod of another scheduler was touched: {foreign}");
    let events = env.list("events")?;
    let of_foreign = events.iter().find(|event| event["involvedObject"]["name"] == "foreign");
    ensure!(of_foreign.is_none(), "a pod of another scheduler has an event: {of_foreign:?}");
    scheduler.stop()
}

/// Returns nodes that differ in name only.
pub(crate) fn equal_nodes(prefix: &str, count: usize) -> Vec<Value> {
    let node = |index: usize| {
        let name = format!("{prefix}-{index}");
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
        })
    };
    (0..count).map(node).collect()
}

/// Returns a pod that requests an eighth of such a node.
pub(crate) fn pod(name: &str, scheduler: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{
                "name": "main", "image": "example.com/none",
                "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
            }],
        },
    })
}

/// Creates four pods of a profile and returns their nodes.
pub(crate) fn pods_of(env: &TestEnv, prefix: &str, scheduler: &str) -> Result<Vec<String>> {
    let names: Vec<_> = (0..4).map(|index| format!("{prefix}-{index}")).collect();
    let pods: Vec<_> = names.iter().map(|name| pod(name, scheduler)).collect();
    env.create(prefix, &pods)?;
    env.wait_for_pods(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Checks that the events of a pod name its profile.
fn check_reporter(env: &TestEnv, pod: &str, scheduler: &str) -> Result<()> {
    env.wait(&format!("an event of {pod}"), || {
        let events = env.list("events")?;
        let found = events.iter().any(|event| {
            event["involvedObject"]["name"] == pod
                && text(event, "/reportingComponent") == scheduler
                && event["reason"] == "Scheduled"
        });
        ensure!(found, "{pod} has no event of {scheduler}");
        Ok(())
    })
}
