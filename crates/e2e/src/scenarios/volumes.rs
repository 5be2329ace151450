//! Volumes that are bound, or provisioned, when their pod is scheduled.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::schedulers;
use crate::test_env::{TestEnv, text};

const OBJECTS: &str = "conformance/e2e/volumes.yaml";

pub(crate) fn run(env: &TestEnv) -> Result<()> {
    let scheduler = schedulers::jindou(env, schedulers::DEFAULT_CONFIG)?;
    env.apply(OBJECTS, Some("e2e=disks"))?;
    env.wait_for_nodes(2)?;
    // Only one volume is large enough for the large claim; the small claim must leave it free.
    for (name, disk, node) in
        [("large", "large-disk", "large-node"), ("small", "small-disk", "small-node")]
    {
        env.apply(OBJECTS, Some(&format!("e2e={name}")))?;
        let on = env.wait_for_pods(&[name])?;
        ensure!(on == [node], "{name} is on {on:?}, not on {node}");
        check_bound(env, name, disk)?;
    }
    env.apply(OBJECTS, Some("e2e=late"))?;
    let refusal = env.wait_for_refusal("late")?;
    let expected = "2 node(s) didn't find available persistent volumes to bind";
    ensure!(refusal.contains(expected), "late was refused with {refusal:?}");
    on_demand(env)?;
    scheduler.stop()
}

fn check_bound(env: &TestEnv, claim: &str, disk: &str) -> Result<()> {
    let found = env.get("persistentvolumeclaim", claim)?;
    let (phase, volume) = (text(&found, "/status/phase"), text(&found, "/spec/volumeName"));
    ensure!((phase, volume) == ("Bound", disk), "claim {claim} is {phase} to {volume:?}");
    let found_disk = env.get("persistentvolume", disk)?;
    let holder = text(&found_disk, "/spec/claimRef/uid");
    ensure!(holder == text(&found, "/metadata/uid"), "{disk} is held by {holder:?}");
    Ok(())
}

/// Acts as the provisioner: creates the volume once a node is selected.
fn on_demand(env: &TestEnv) -> Result<()> {
    env.apply(OBJECTS, Some("e2e=demand"))?;
    let selected = "/metadata/annotations/volume.kubernetes.io~1selected-node";
    let claim = env.wait("a node to be selected", || {
        let claim = env.get("persistentvolumeclaim", "demand")?;
        let node = text(&claim, selected);
        ensure!(node == "large-node", "{node:?} is selected");
        Ok(claim)
    })?;
    let pod = env.get("pod", "demand")?;
    let early = pod["spec"]["nodeName"].is_null();
    ensure!(early, "the pod was bound before its volume was there: {pod}");
    env.create("provisioned", &[provisioned(&claim)])?;
    let on = env.wait_for_pods(&["demand"])?;
    ensure!(on == ["large-node"], "demand is on {on:?}");
    check_bound(env, "demand", "provisioned")
}

fn provisioned(claim: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {
            "name": "provisioned",
            "labels": {"e2e": "demand"},
            "annotations": {"pv.kubernetes.io/provisioned-by": "example.com/disks"},
        },
        "spec": {
            "storageClassName": "on-demand",
            "capacity": {"storage": "3Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": "example.com", "volumeHandle": "one"},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": claim["metadata"]["namespace"],
                "name": claim["metadata"]["name"],
                "uid": claim["metadata"]["uid"],
            },
        },
    })
}
