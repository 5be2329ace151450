//! The example configurations of `deploy/examples` and of a ConfigMap.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Result, ensure};

use super::profiles::{equal_nodes, pods_of};
use crate::checkout::root;
use crate::test_env::{TestEnv, text};
use crate::{placements, schedulers};

const V1: &str = "deploy/examples/my-scheduler-config.yaml";
const V1_PODS: &str = "deploy/examples/my-scheduler-pods.yaml";
const V1BETA2: &str = "deploy/examples/config-v1beta2.yaml";

const NODES: usize = 4;

pub(crate) fn run(env: &TestEnv) -> Result<()> {
    let mut nodes = equal_nodes("custom", NODES);
    nodes[0]["spec"]["taints"] = serde_json::json!([
        {"key": "key1", "value": "value1", "effect": "NoSchedule"},
    ]);
    env.create("nodes", &nodes)?;
    env.wait_for_nodes(NODES)?;
    v1(env)?;
    v1beta2(env)
}

/// Reads the configuration from a ConfigMap; one of two pods names its profile.
fn v1(env: &TestEnv) -> Result<()> {
    let apply = |file: &str, namespace: &str| {
        let path = root().join(file);
        env.plane.kubectl(&["apply", "-f", &path.to_string_lossy(), "-n", namespace])
    };
    apply(V1, "kube-system")?;
    apply(V1_PODS, env.namespace)?;
    let data = "jsonpath={.data.my-scheduler-config\\.yaml}";
    let get = ["get", "configmap", "my-scheduler-config", "-n", "kube-system", "-o", data];
    let map = env.plane.kubectl(&get)?;
    let config = env.write("my-scheduler-config.yaml", &map)?;
    let scheduler =
        schedulers::jindou_as(env, "my-custom-scheduler", &config, &["--leader-elect=false"])?;
    env.wait_for_pods(&["nginx-custom"])?;
    let packed = pods_of(env, "packed", "my-custom-scheduler")?;
    let on: BTreeSet<_> = packed.iter().collect();
    ensure!(on.len() == 1, "MostAllocated puts pods on {on:?}, not on one node");
    // The file has no profile of that name, so the pod stays pending, as with kube-scheduler.
    let other = env.get("pod", "nginx-default")?;
    ensure!(text(&other, "/spec/nodeName").is_empty(), "nginx-default was bound");
    placements::check(env)?;
    scheduler.stop()
}

/// A v1beta2 file is converted, with a note in the log.
fn v1beta2(env: &TestEnv) -> Result<()> {
    let config = root().join(V1BETA2);
    let scheduler =
        schedulers::jindou_as(env, "custom-scheduler", &config, &["--leader-elect=false"])?;
    let spread = pods_of(env, "spread", "custom-scheduler")?;
    let on: BTreeSet<_> = spread.iter().collect();
    ensure!(!on.contains(&"custom-0".to_owned()), "a pod is on the tainted node");
    ensure!(on.len() >= 2, "pods of custom-scheduler are all on {on:?}");
    placements::check(env)?;
    scheduler.stop()?;
    let log = fs::read_to_string(env.folder.join("custom-scheduler.log"))?;
    ensure!(log.contains("note: "), "the log has no note on the conversion:\n{log}");
    Ok(())
}
