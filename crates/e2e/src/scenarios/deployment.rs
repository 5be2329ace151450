//! A large Deployment on nodes of different sizes that it nearly fills, some of them tainted.

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::history::History;
use crate::test_env::{TestEnv, text};
use crate::{placements, schedulers};

const PODS: usize = 1000;
const NODES: usize = 100;

/// Every tenth node is tainted; 1,080 pods fit on the other 90.
const TAINTED_EVERY: usize = 10;

pub(crate) fn run(env: &TestEnv) -> Result<()> {
    let before = placements::bindings(env)?;
    env.create("nodes", &nodes("large", NODES))?;
    env.wait_for_nodes(NODES)?;
    let scheduler = schedulers::jindou(env, schedulers::DEFAULT_CONFIG)?;
    let history = History::start(env)?;
    env.create("deployment", &[deployment("web", PODS)])?;
    wait_until_all_run(env, PODS)?;
    placements::check(env)?;
    history.check_bound_once()?;
    placements::check_bindings(env, &before, PODS as u64)?;
    env.wait("an event for each pod", || check_events(env))?;
    scheduler.stop()
}

/// Returns nodes of 2, 3 and 4 cores in turn.
pub(crate) fn nodes(prefix: &str, count: usize) -> Vec<Value> {
    let node = |index: usize| {
        let name = format!("{prefix}-{index}");
        let taints = match index % TAINTED_EVERY {
            0 => json!([{"key": "dedicated", "value": "others", "effect": "NoSchedule"}]),
            _ => json!([]),
        };
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {"taints": taints},
            "status": {"capacity": {
                "cpu": (2 + index % 3).to_string(), "memory": "16Gi", "pods": "110",
            }},
        })
    };
    (0..count).map(node).collect()
}

/// Returns a Deployment whose pods request a quarter of a core.
pub(crate) fn deployment(name: &str, replicas: usize) -> Value {
    let labels = json!({"app": name});
    let container = json!({
        "name": "main", "image": "example.com/none",
        "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}},
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    })
}

pub(crate) fn wait_until_all_run(env: &TestEnv, pods: usize) -> Result<()> {
    env.wait(&format!("{pods} pods to run"), || {
        let running = ["get", "pods", "--field-selector=status.phase=Running", "-o", "name"];
        let count = env.kubectl(&running)?.lines().count();
        if count == pods { Ok(()) } else { bail!("{count} run") }
    })
}

/// Checks that each pod was scheduled once and has one event for it.
fn check_events(env: &TestEnv) -> Result<()> {
    let mut events = env.list("events")?;
    events.retain(|event| event["reason"] == "Scheduled");
    let mut uids: Vec<_> = events.iter().map(|event| text(event, "/involvedObject/uid")).collect();
    uids.sort_unstable();
    uids.dedup();
    if (events.len(), uids.len()) != (PODS, PODS) {
        bail!("{} events Scheduled of {} pods", events.len(), uids.len());
    }
    Ok(())
}
