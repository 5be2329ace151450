//! Volumes that are bound, or made, when their pod is scheduled.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::scene::{Scene, text};
use super::schedulers;

const OBJECTS: &str = "conformance/e2e/volumes.yaml";

pub(crate) fn run(scene: &Scene) -> Result<()> {
    let scheduler = schedulers::jindou(scene, schedulers::PLAIN)?;
    scene.apply(OBJECTS, Some("e2e=disks"))?;
    scene.wait_for_nodes(2)?;
    // Only one disk is large enough; the small claim fits on both, but then one is taken.
    for (name, disk, node) in
        [("large", "large-disk", "large-node"), ("small", "small-disk", "small-node")]
    {
        scene.apply(OBJECTS, Some(&format!("e2e={name}")))?;
        let on = scene.wait_for_pods(&[name])?;
        ensure!(on == [node], "{name} is on {on:?}, not on {node}");
        check_bound(scene, name, disk)?;
    }
    scene.apply(OBJECTS, Some("e2e=late"))?;
    let told = scene.wait_for_refusal("late")?;
    let expected = "2 node(s) didn't find available persistent volumes to bind";
    ensure!(told.contains(expected), "late was told {told:?}");
    on_demand(scene)?;
    scheduler.stop()
}

fn check_bound(scene: &Scene, claim: &str, disk: &str) -> Result<()> {
    let found = scene.get("persistentvolumeclaim", claim)?;
    let (phase, volume) = (text(&found, "/status/phase"), text(&found, "/spec/volumeName"));
    ensure!((phase, volume) == ("Bound", disk), "claim {claim} is {phase} to {volume:?}");
    let found_disk = scene.get("persistentvolume", disk)?;
    let holder = text(&found_disk, "/spec/claimRef/uid");
    ensure!(holder == text(&found, "/metadata/uid"), "{disk} is held by {holder:?}");
    Ok(())
}

/// We are the provisioner: once a node is selected we make the volume.
fn on_demand(scene: &Scene) -> Result<()> {
    scene.apply(OBJECTS, Some("e2e=demand"))?;
    let selected = "/metadata/annotations/volume.kubernetes.io~1selected-node";
    let claim = scene.wait("a node to be selected", || {
        let claim = scene.get("persistentvolumeclaim", "demand")?;
        let node = text(&claim, selected);
        ensure!(node == "large-node", "{node:?} is selected");
        Ok(claim)
    })?;
    let pod = scene.get("pod", "demand")?;
    let early = pod["spec"]["nodeName"].is_null();
    ensure!(early, "the pod was bound before its volume was there: {pod}");
    scene.create("provisioned", &[provisioned(&claim)])?;
    let on = scene.wait_for_pods(&["demand"])?;
    ensure!(on == ["large-node"], "demand is on {on:?}");
    check_bound(scene, "demand", "provisioned")
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
