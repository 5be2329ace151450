//! Table cells of storage kinds.

use serde_json::Value;

use super::{Clock, age};
use crate::json::{at, list, name, text, truth};

const UNSET: &str = "<unset>";

fn or_unset(text: &str) -> Value {
    if text.is_empty() { UNSET.into() } else { text.into() }
}

fn modes(object: &Value, path: &[&str]) -> String {
    let short = |mode: &Value| match mode.as_str() {
        Some("ReadWriteOnce") => "RWO",
        Some("ReadOnlyMany") => "ROX",
        Some("ReadWriteMany") => "RWX",
        Some("ReadWriteOncePod") => "RWOP",
        _ => "",
    };
    let mut modes: Vec<&str> = Vec::new();
    for mode in list(object, path).iter().map(short) {
        if !modes.contains(&mode) {
            modes.push(mode);
        }
    }
    modes.join(",")
}

/// Returns the cells of a PersistentVolume.
pub(crate) fn volume(object: &Value, clock: Clock) -> Vec<Value> {
    let claim = at(object, &["spec", "claimRef"]).map_or_else(String::new, |claim| {
        format!("{}/{}", text(claim, &["namespace"]), text(claim, &["name"]))
    });
    let phase = if at(object, &["metadata", "deletionTimestamp"]).is_some() {
        "Terminating"
    } else {
        text(object, &["status", "phase"])
    };
    vec![
        name(object).into(),
        text(object, &["spec", "capacity", "storage"]).into(),
        modes(object, &["spec", "accessModes"]).into(),
        text(object, &["spec", "persistentVolumeReclaimPolicy"]).into(),
        phase.into(),
        claim.into(),
        text(object, &["spec", "storageClassName"]).into(),
        or_unset(text(object, &["spec", "volumeAttributesClassName"])),
        text(object, &["status", "reason"]).into(),
        age(object, clock),
        or_unset(text(object, &["spec", "volumeMode"])),
    ]
}

/// Returns the cells of a PersistentVolumeClaim.
pub(crate) fn claim(object: &Value, clock: Clock) -> Vec<Value> {
    let phase = if at(object, &["metadata", "deletionTimestamp"]).is_some() {
        "Terminating"
    } else {
        text(object, &["status", "phase"])
    };
    let volume = text(object, &["spec", "volumeName"]);
    let (capacity, shown) = if volume.is_empty() {
        ("", String::new())
    } else {
        (
            text(object, &["status", "capacity", "storage"]),
            modes(object, &["status", "accessModes"]),
        )
    };
    vec![
        name(object).into(),
        phase.into(),
        volume.into(),
        capacity.into(),
        shown.into(),
        text(object, &["spec", "storageClassName"]).into(),
        or_unset(text(object, &["spec", "volumeAttributesClassName"])),
        age(object, clock),
        or_unset(text(object, &["spec", "volumeMode"])),
    ]
}

/// Returns the cells of a StorageClass.
pub(crate) fn class(object: &Value, clock: Clock) -> Vec<Value> {
    let annotation = "storageclass.kubernetes.io/is-default-class";
    let mark = text(object, &["metadata", "annotations", annotation]) == "true";
    let shown = if mark { format!("{} (default)", name(object)) } else { name(object).to_owned() };
    vec![
        shown.into(),
        text(object, &["provisioner"]).into(),
        text(object, &["reclaimPolicy"]).into(),
        text(object, &["volumeBindingMode"]).into(),
        truth(object, &["allowVolumeExpansion"]).into(),
        age(object, clock),
    ]
}

/// Returns the cells of a CSINode.
pub(crate) fn csi_node(object: &Value, clock: Clock) -> Vec<Value> {
    vec![name(object).into(), list(object, &["spec", "drivers"]).len().into(), age(object, clock)]
}

/// Returns the cells of a CSIDriver.
pub(crate) fn csi_driver(object: &Value, clock: Clock) -> Vec<Value> {
    let attach = at(object, &["spec", "attachRequired"]).and_then(Value::as_bool).unwrap_or(true);
    let join = |items: Vec<&str>| {
        if items.is_empty() { Value::from(UNSET) } else { items.join(",").into() }
    };
    let tokens =
        list(object, &["spec", "tokenRequests"]).iter().map(|one| text(one, &["audience"]));
    let modes = list(object, &["spec", "volumeLifecycleModes"]).iter().filter_map(Value::as_str);
    vec![
        name(object).into(),
        attach.into(),
        truth(object, &["spec", "podInfoOnMount"]).into(),
        truth(object, &["spec", "storageCapacity"]).into(),
        join(tokens.collect()),
        truth(object, &["spec", "requiresRepublish"]).into(),
        join(modes.collect()),
        age(object, clock),
    ]
}

/// Returns the cells of a CSIStorageCapacity.
pub(crate) fn capacity(object: &Value, _: Clock) -> Vec<Value> {
    vec![text(object, &["storageClassName"]).into(), text(object, &["capacity"]).into()]
}

/// Returns the cells of a VolumeAttachment.
pub(crate) fn attachment(object: &Value, clock: Clock) -> Vec<Value> {
    vec![
        name(object).into(),
        text(object, &["spec", "attacher"]).into(),
        text(object, &["spec", "source", "persistentVolumeName"]).into(),
        text(object, &["spec", "nodeName"]).into(),
        truth(object, &["status", "attached"]).into(),
        age(object, clock),
    ]
}

/// Returns the cells of a VolumeAttributesClass.
pub(crate) fn attributes_class(object: &Value, clock: Clock) -> Vec<Value> {
    let annotation = "volumeattributesclass.kubernetes.io/is-default-class";
    let mark = text(object, &["metadata", "annotations", annotation]) == "true";
    let shown = if mark { format!("{} (default)", name(object)) } else { name(object).to_owned() };
    vec![shown.into(), text(object, &["driverName"]).into(), age(object, clock)]
}
