//! Storage classes, CSI drivers, capacities, claims, and volumes that may match the claims.

use serde_json::{Value, json};

use crate::draft::{CaseDraft, HOSTNAME, ZONE, ZONES};
use crate::theme::Topic;

/// CSI drivers: the first provisions on any node, the second publishes its capacity.
pub(super) const DRIVERS: [&str; 2] = ["csi.example.com", "capped.example.com"];
pub(super) const GCE_DRIVER: &str = "pd.csi.storage.gke.io";
pub(super) const AWS_DRIVER: &str = "ebs.csi.aws.com";

/// Fields of a claim.
pub(super) struct ClaimSpec<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) class: Option<&'a str>,
    pub(super) mode: &'a str,
    pub(super) size: &'a str,
    pub(super) bound_to: Option<&'a str>,
}

/// Adds all storage classes, the drivers, and capacities.
pub(super) fn add_classes(draft: &mut CaseDraft) {
    let hostile = draft.theme.hostile;
    let rng = &mut draft.rng;
    let late = "WaitForFirstConsumer";
    let classes = [
        ("fast", DRIVERS[0], late),
        ("zonal", DRIVERS[0], late),
        ("capped", DRIVERS[1], late),
        ("local", "kubernetes.io/no-provisioner", late),
        ("legacy", "kubernetes.io/gce-pd", late),
        ("now", DRIVERS[0], "Immediate"),
    ];
    for (name, provisioner, mode) in classes {
        let mut class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, "reclaimPolicy": "Delete",
        });
        if hostile && name == "now" {
            class["volumeBindingMode"] = Value::Null;
        }
        if name == "zonal" {
            let count = rng.between(1, 2);
            let zones = rng.some(&ZONES, count);
            class["allowedTopologies"] = match rng.below(4) {
                0 => json!([
                    {"matchLabelExpressions": [{"key": ZONE, "values": zones}]},
                    {"matchLabelExpressions": [{"key": "disk", "values": ["ssd"]}]},
                ]),
                1 => {
                    json!([{"matchLabelExpressions": [{"key": ZONE, "values": zones}, {"key": "disk", "values": ["ssd", "hdd"]}]}])
                }
                _ => json!([{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]),
            };
        }
        draft.others.push(class);
    }
    for (driver, capacity) in [(DRIVERS[0], false), (DRIVERS[1], rng.chance(90))] {
        if capacity || rng.chance(80) {
            draft.others.push(json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
                "metadata": {"name": driver}, "spec": {"storageCapacity": capacity, "attachRequired": true, "podInfoOnMount": false},
            }));
        }
    }
    for index in 0..rng.between(0, 4) {
        let mut capacity = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
            "metadata": {"name": format!("capacity-{index}"), "namespace": "kube-system"},
            "storageClassName": rng.weighted(&[(80, "capped"), (20, "fast")]),
        });
        match rng.below(10) {
            0 => {}
            1 => capacity["nodeTopology"] = json!({}),
            2 | 3 => {
                capacity["nodeTopology"] = json!({"matchExpressions": [{"key": ZONE, "operator": "In", "values": rng.some(&ZONES, 2)}]});
            }
            _ => capacity["nodeTopology"] = json!({"matchLabels": {ZONE: rng.pick(&ZONES)}}),
        }
        if rng.chance(90) {
            capacity["capacity"] = json!(rng.pick(&["0", "1Gi", "5Gi", "100Gi"]));
        }
        if rng.chance(30) {
            capacity["maximumVolumeSize"] = json!(rng.pick(&["1Gi", "5Gi", "100Gi"]));
        }
        draft.others.push(capacity);
    }
}

/// Returns the claim object.
pub(super) fn claim(claim: &ClaimSpec<'_>) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim.name, "namespace": claim.namespace, "uid": format!("claim-{}-{}", claim.namespace, claim.name)},
        "spec": {"accessModes": [claim.mode], "resources": {"requests": {"storage": claim.size}}, "volumeMode": "Filesystem"},
        "status": {"phase": if claim.bound_to.is_some() { "Bound" } else { "Pending" }},
    });
    if let Some(class) = claim.class {
        object["spec"]["storageClassName"] = json!(class);
    }
    if let Some(volume) = claim.bound_to {
        object["spec"]["volumeName"] = json!(volume);
        object["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"});
    }
    object
}

/// Returns the volume that the claim is bound to.
pub(super) fn bound_volume(draft: &mut CaseDraft, claim: &ClaimSpec<'_>, name: &str) -> Value {
    let mut volume = volume(draft, name, claim.class.unwrap_or_default(), claim.size, claim.mode);
    volume["spec"]["claimRef"] = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace, "name": claim.name,
        "uid": format!("claim-{}-{}", claim.namespace, claim.name),
    });
    volume["status"]["phase"] = json!("Bound");
    if draft.often(Topic::VolumeBinding, 35, 60) || draft.often(Topic::VolumeZone, 8, 0) {
        add_node_affinity(draft, &mut volume);
    }
    volume
}

fn volume(draft: &mut CaseDraft, name: &str, class: &str, size: &str, mode: &str) -> Value {
    let rng = &mut draft.rng;
    let handle = format!("handle-{}", rng.below(6));
    let source = match rng.below(10) {
        0 => ("gcePersistentDisk", json!({"pdName": rng.pick(&["disk-1", "disk-2"])})),
        1 => {
            ("awsElasticBlockStore", json!({"volumeID": rng.pick(&["aws://z1/vol-0a", "vol-0b"])}))
        }
        2 => ("nfs", json!({"server": "10.3.0.1", "path": "/data"})),
        3 => ("csi", json!({"driver": DRIVERS[1], "volumeHandle": handle})),
        4 => ("csi", json!({"driver": GCE_DRIVER, "volumeHandle": handle})),
        _ => ("csi", json!({"driver": DRIVERS[0], "volumeHandle": handle})),
    };
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {}},
        "spec": {
            "capacity": {"storage": size}, "accessModes": [mode], "storageClassName": class, "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Delete",
        },
        "status": {"phase": "Available"},
    });
    volume["spec"][source.0] = source.1;
    volume
}

/// Adds node affinity to a volume.
fn add_node_affinity(draft: &mut CaseDraft, volume: &mut Value) {
    let host = draft.some_node_name();
    let rng = &mut draft.rng;
    let count = rng.between(1, 2);
    let expression = match rng.below(5) {
        0 => json!({"key": HOSTNAME, "operator": "In", "values": [host]}),
        1 => json!({"key": "disk", "operator": rng.pick(&["Exists", "DoesNotExist"])}),
        _ => json!({"key": ZONE, "operator": "In", "values": rng.some(&ZONES, count)}),
    };
    let mut terms = vec![json!({"matchExpressions": [expression]})];
    if rng.chance(15) {
        terms.push(
            json!({"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}),
        );
    }
    volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
}

/// Adds a claim of a class with delayed binding, and volumes of which some match it.
pub(super) fn delayed_claim(draft: &mut CaseDraft, namespace: &str, name: &str) {
    let rng = &mut draft.rng;
    let class =
        rng.weighted(&[(20, "fast"), (20, "zonal"), (25, "capped"), (28, "local"), (7, "legacy")]);
    let size = rng.pick(&["1Gi", "5Gi", "10Gi"]);
    let spec = ClaimSpec {
        namespace,
        name,
        class: Some(class),
        mode: "ReadWriteOnce",
        size,
        bound_to: None,
    };
    let mut object = claim(&spec);
    if rng.chance(8) {
        object["spec"]["volumeMode"] = json!("Block");
    }
    if rng.chance(15) {
        object["spec"]["selector"] = json!({"matchLabels": {"grade": rng.pick(&["a", "b"])}});
    }
    if rng.chance(6) {
        object["spec"]["volumeAttributesClassName"] = json!("gold");
    }
    if rng.chance(10) {
        object["spec"]["accessModes"] = json!(["ReadWriteOnce", "ReadOnlyMany"]);
    }
    if draft.rng.chance(10) {
        let node = draft.some_node_name();
        object["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": node});
    }
    draft.others.push(object);
    let count = if class == "local" {
        draft.rng.between(1, 4)
    } else {
        draft.rng.weighted(&[(60, 0), (30, 1), (10, 2)])
    };
    for index in 0..count {
        let volume = offered_volume(draft, &spec, &format!("pv-{name}-{index}"));
        draft.others.push(volume);
    }
}

/// Returns a volume of the claim's class that matches the claim, or fails to in one respect.
fn offered_volume(draft: &mut CaseDraft, claim: &ClaimSpec<'_>, name: &str) -> Value {
    let size = draft.rng.pick(&["1Gi", "5Gi", "10Gi", "20Gi"]);
    let mut volume = volume(draft, name, claim.class.unwrap_or_default(), size, claim.mode);
    if draft.rng.chance(75) {
        add_node_affinity(draft, &mut volume);
    }
    let rng = &mut draft.rng;
    match rng.below(20) {
        0 => volume["status"]["phase"] = json!(rng.pick(&["Released", "Bound", "Pending"])),
        1 => volume["metadata"]["deletionTimestamp"] = json!(crate::draft::time(3000)),
        2 => volume["spec"]["volumeMode"] = json!("Block"),
        3 => volume["spec"]["accessModes"] = json!(["ReadOnlyMany"]),
        4 | 5 => {
            // Reserved for this claim or for another one.
            let other = if rng.chance(60) { claim.name } else { "other" };
            volume["spec"]["claimRef"] = json!({"kind": "PersistentVolumeClaim", "namespace": claim.namespace, "name": other});
        }
        6 => volume["spec"]["volumeAttributesClassName"] = json!("gold"),
        _ => {}
    }
    if rng.chance(30) {
        volume["metadata"]["labels"]["grade"] = json!(rng.pick(&["a", "b"]));
    }
    volume
}
