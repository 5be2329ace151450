//! Lowering: Kubernetes objects as users and clusters write them, to what the engine takes.
//!
//! ```text
//! JSON or YAML ──► raw (types, fields we read) ──► checked ──► engine::object
//!                        │                            │
//!                        └────────► problems ◄────────┘
//! ```
//!
//! Every function returns the object and all problems found in it.
//! There is no object if upstream could not have decoded it: a wrong type, an unreadable quantity or time, no name,
//! or more entries than an object in a cluster can have.
//! Otherwise the object is there even if a cluster would have refused it, and behaves as upstream's scheduler would:
//! a selector that cannot be read matches nothing.
//! Defaults that the API server fills in when an object is created (requests from limits, say) are not filled in here.

mod affinity;
pub mod limits;
mod node;
mod pod;
mod problem;
pub mod quantity;
mod raw;
mod resources;
mod selector;
mod time;
mod volume;
mod workload;

#[cfg(test)]
mod tests;

use engine::object::{
    CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass, DisruptionBudget, Namespace, Node,
    PersistentVolume, PersistentVolumeClaim, Pod, ResourceClaim, StorageClass, VolumeAttachment,
    Workload, WorkloadKind,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use problem::{Problem, Severity};
use problem::{Report, clip};
use raw::Meta;

/// The object, if it is usable, and all its problems.
pub type Lowered<T> = (Option<T>, Vec<Problem>);

/// The raw form of a kind.
trait Lower: DeserializeOwned {
    /// What the engine takes.
    type Object;

    fn meta(&self) -> &Meta;

    /// Whether it no longer takes part in scheduling.
    fn is_finished(&self) -> bool {
        false
    }

    fn lower(self, report: &mut Report) -> Self::Object;
}

/// Lowers a pod; a finished one (`Succeeded`, `Failed`) gives no object and no problem.
pub fn pod(value: &Value) -> Lowered<Pod> {
    lower::<pod::RawPod>("Pod", value)
}

/// Lowers a node.
pub fn node(value: &Value) -> Lowered<Node> {
    lower::<node::RawNode>("Node", value)
}

/// Lowers a namespace.
pub fn namespace(value: &Value) -> Lowered<Namespace> {
    lower::<workload::RawNamespace>("Namespace", value)
}

/// Lowers a service.
pub fn service(value: &Value) -> Lowered<Workload> {
    lower::<workload::RawMapWorkload>("Service", value)
}

/// Lowers a replication controller.
pub fn replication_controller(value: &Value) -> Lowered<Workload> {
    let lowered = lower::<workload::RawMapWorkload>("ReplicationController", value);
    with_kind(WorkloadKind::ReplicationController, lowered)
}

/// Lowers a replica set.
pub fn replica_set(value: &Value) -> Lowered<Workload> {
    lower::<workload::RawSet>("ReplicaSet", value)
}

/// Lowers a stateful set.
pub fn stateful_set(value: &Value) -> Lowered<Workload> {
    with_kind(WorkloadKind::StatefulSet, lower::<workload::RawSet>("StatefulSet", value))
}

/// Lowers a disruption budget, as preemption reads it: an empty selector matches nothing.
pub fn disruption_budget(value: &Value) -> Lowered<DisruptionBudget> {
    lower::<workload::RawBudget>("PodDisruptionBudget", value)
}

/// Lowers a persistent volume.
pub fn persistent_volume(value: &Value) -> Lowered<PersistentVolume> {
    lower::<volume::RawVolume>("PersistentVolume", value)
}

/// Lowers a claim on a persistent volume.
pub fn persistent_volume_claim(value: &Value) -> Lowered<PersistentVolumeClaim> {
    lower::<volume::RawClaim>("PersistentVolumeClaim", value)
}

/// Lowers a storage class.
pub fn storage_class(value: &Value) -> Lowered<StorageClass> {
    lower::<volume::RawClass>("StorageClass", value)
}

/// Lowers what drivers say of a node.
pub fn csi_node(value: &Value) -> Lowered<CsiNode> {
    lower::<volume::RawCsiNode>("CSINode", value)
}

/// Lowers a driver.
pub fn csi_driver(value: &Value) -> Lowered<CsiDriver> {
    lower::<volume::RawCsiDriver>("CSIDriver", value)
}

/// Lowers how much a driver can still provision.
pub fn csi_storage_capacity(value: &Value) -> Lowered<CsiStorageCapacity> {
    lower::<volume::RawCapacity>("CSIStorageCapacity", value)
}

/// Lowers an attachment of a volume to a node.
pub fn volume_attachment(value: &Value) -> Lowered<VolumeAttachment> {
    lower::<volume::RawAttachment>("VolumeAttachment", value)
}

/// Lowers a class of devices.
pub fn device_class(value: &Value) -> Lowered<DeviceClass> {
    lower::<workload::RawDeviceClass>("DeviceClass", value)
}

/// Lowers a claim on devices.
pub fn resource_claim(value: &Value) -> Lowered<ResourceClaim> {
    lower::<workload::RawResourceClaim>("ResourceClaim", value)
}

fn with_kind(kind: WorkloadKind, (object, problems): Lowered<Workload>) -> Lowered<Workload> {
    (object.map(|object| Workload { kind, ..object }), problems)
}

fn lower<R: Lower>(kind: &str, value: &Value) -> Lowered<R::Object> {
    let mut report = Report::default();
    let object = match R::deserialize(value) {
        _ if !check_shape(value, &mut report) => None,
        Ok(raw) if raw.is_finished() => return (None, Vec::new()),
        Ok(raw) => {
            raw.meta().check(&mut report);
            let object = raw.lower(&mut report);
            (!report.is_unusable()).then_some(object)
        }
        Err(_) => {
            report_type_error::<R>(value, &mut report);
            None
        }
    };
    // Most objects have no problem, and need no name.
    let problems = report.finish(|| object_name(kind, value));
    (object, problems)
}

/// Whether the main parts are objects; derived readers would take a list of the fields in their order as well.
fn check_shape(value: &Value, report: &mut Report) -> bool {
    let parts = ["metadata", "spec", "status"].map(|part| (part, value.get(part)));
    for (part, value) in [("", Some(value))].into_iter().chain(parts) {
        if let Some(Value::Array(_)) = value {
            report.fatal_at(part.to_owned(), "found a list, expected an object".to_owned());
            return false;
        }
    }
    true
}

/// Reads once more, slower, to learn where the wrong type is.
fn report_type_error<R: DeserializeOwned>(value: &Value, report: &mut Report) {
    if let Err(error) = serde_path_to_error::deserialize::<_, R>(value) {
        let path = error.path().to_string();
        let mut message = clip_message(&error.inner().to_string());
        if let Some(start) = message.find("expected struct ") {
            // The names of our types mean nothing to users.
            message.replace_range(start.., "expected an object");
        }
        if message.ends_with("expected a string") {
            message.push_str(": put it in quotes");
        }
        report.fatal_at(if path == "." { String::new() } else { path }, message);
    }
}

/// Shortens the message of a parser: what was found comes first and may be long, what was expected comes last.
pub(crate) fn clip_message(message: &str) -> String {
    match message.rsplit_once(", expected ") {
        Some((found, expected)) => format!("{}, expected {expected}", clip(found)),
        None => clip(message).into_owned(),
    }
}

/// `Pod default/web-1`.
fn object_name(kind: &str, value: &Value) -> String {
    let text = |field| value.pointer(field).and_then(Value::as_str).unwrap_or("");
    let name = match text("/metadata/name") {
        "" => "(no name)",
        name => name,
    };
    let cluster_wide = matches!(
        kind,
        "Node"
            | "Namespace"
            | "PersistentVolume"
            | "StorageClass"
            | "CSINode"
            | "CSIDriver"
            | "VolumeAttachment"
            | "DeviceClass"
    );
    match text("/metadata/namespace") {
        _ if cluster_wide => format!("{kind} {}", clip(name)),
        "" => format!("{kind} default/{}", clip(name)),
        namespace => format!("{kind} {}/{}", clip(namespace), clip(name)),
    }
}
