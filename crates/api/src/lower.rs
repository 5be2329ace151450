//! Lowering: Kubernetes objects as users and clusters write them, to what the engine takes.
//!
//! ```text
//! JSON or YAML ──► raw (types, fields we read) ──► checked ──► engine::object
//!                        │                            │
//!                        └────────► problems ◄────────┘
//! ```
//!
//! Every function returns the object and all problems found in it.
//! There is no object if upstream could not have decoded it: a wrong type, an unreadable quantity or time, or no name.
//! No object and no problem means that the object plays no part in scheduling any more.
//! Otherwise the object is there even if a cluster would have refused it, and behaves as upstream's scheduler would:
//! a selector that cannot be read matches nothing, and a pod with more entries than are worked with is not scheduled.
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
mod siblings;
mod source;
pub(crate) mod time;
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
pub use siblings::Siblings;
pub use source::{Identity, Source};

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
pub fn pod<'a>(source: impl Into<Source<'a>>) -> Lowered<Pod> {
    lower::<pod::RawPod>("Pod", source.into())
}

/// Lowers a node.
pub fn node<'a>(source: impl Into<Source<'a>>) -> Lowered<Node> {
    lower::<node::RawNode>("Node", source.into())
}

/// Lowers a namespace.
pub fn namespace<'a>(source: impl Into<Source<'a>>) -> Lowered<Namespace> {
    lower::<workload::RawNamespace>("Namespace", source.into())
}

/// Lowers a service.
pub fn service<'a>(source: impl Into<Source<'a>>) -> Lowered<Workload> {
    lower::<workload::RawMapWorkload>("Service", source.into())
}

/// Lowers a replication controller.
pub fn replication_controller<'a>(source: impl Into<Source<'a>>) -> Lowered<Workload> {
    let lowered = lower::<workload::RawMapWorkload>("ReplicationController", source.into());
    with_kind(WorkloadKind::ReplicationController, lowered)
}

/// Lowers a replica set.
pub fn replica_set<'a>(source: impl Into<Source<'a>>) -> Lowered<Workload> {
    lower::<workload::RawSet>("ReplicaSet", source.into())
}

/// Lowers a stateful set.
pub fn stateful_set<'a>(source: impl Into<Source<'a>>) -> Lowered<Workload> {
    with_kind(WorkloadKind::StatefulSet, lower::<workload::RawSet>("StatefulSet", source.into()))
}

/// Lowers a disruption budget, as preemption reads it: an empty selector matches nothing.
pub fn disruption_budget<'a>(source: impl Into<Source<'a>>) -> Lowered<DisruptionBudget> {
    lower::<workload::RawBudget>("PodDisruptionBudget", source.into())
}

/// Lowers a persistent volume.
pub fn persistent_volume<'a>(source: impl Into<Source<'a>>) -> Lowered<PersistentVolume> {
    lower::<volume::RawVolume>("PersistentVolume", source.into())
}

/// Lowers a claim on a persistent volume.
pub fn persistent_volume_claim<'a>(
    source: impl Into<Source<'a>>,
) -> Lowered<PersistentVolumeClaim> {
    lower::<volume::RawClaim>("PersistentVolumeClaim", source.into())
}

/// Lowers a storage class.
pub fn storage_class<'a>(source: impl Into<Source<'a>>) -> Lowered<StorageClass> {
    lower::<volume::RawClass>("StorageClass", source.into())
}

/// Lowers what drivers say of a node.
pub fn csi_node<'a>(source: impl Into<Source<'a>>) -> Lowered<CsiNode> {
    lower::<volume::RawCsiNode>("CSINode", source.into())
}

/// Lowers a driver.
pub fn csi_driver<'a>(source: impl Into<Source<'a>>) -> Lowered<CsiDriver> {
    lower::<volume::RawCsiDriver>("CSIDriver", source.into())
}

/// Lowers how much a driver can still provision.
pub fn csi_storage_capacity<'a>(source: impl Into<Source<'a>>) -> Lowered<CsiStorageCapacity> {
    lower::<volume::RawCapacity>("CSIStorageCapacity", source.into())
}

/// Lowers an attachment of a volume to a node.
pub fn volume_attachment<'a>(source: impl Into<Source<'a>>) -> Lowered<VolumeAttachment> {
    lower::<volume::RawAttachment>("VolumeAttachment", source.into())
}

/// Lowers a class of devices.
pub fn device_class<'a>(source: impl Into<Source<'a>>) -> Lowered<DeviceClass> {
    lower::<workload::RawDeviceClass>("DeviceClass", source.into())
}

/// Lowers a claim on devices.
pub fn resource_claim<'a>(source: impl Into<Source<'a>>) -> Lowered<ResourceClaim> {
    lower::<workload::RawResourceClaim>("ResourceClaim", source.into())
}

fn with_kind(kind: WorkloadKind, (object, problems): Lowered<Workload>) -> Lowered<Workload> {
    (object.map(|object| Workload { kind, ..object }), problems)
}

fn lower<R: Lower>(kind: &str, source: Source<'_>) -> Lowered<R::Object> {
    let mut report = Report::default();
    let object = match source.read::<R>() {
        _ if !check_shape(source, &mut report) => None,
        Ok(raw) if raw.is_finished() => return (None, Vec::new()),
        Ok(raw) => {
            raw.meta().check(&mut report);
            let object = raw.lower(&mut report);
            (!report.is_unusable()).then_some(object)
        }
        Err(_) => {
            report_type_error::<R>(source, &mut report);
            None
        }
    };
    // Most objects have no problem, and need no name.
    let problems = report.finish(|| object_name(kind, source));
    (object, problems)
}

/// Whether the main parts are objects; derived readers would take a list of the fields in their order as well.
fn check_shape(source: Source<'_>, report: &mut Report) -> bool {
    let Source::Json(value) = source else { return true };
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
fn report_type_error<R: DeserializeOwned>(source: Source<'_>, report: &mut Report) {
    if let Err((path, message)) = source.read_with_path::<R>() {
        let mut message = clip_message(&message);
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
fn object_name(kind: &str, source: Source<'_>) -> String {
    let identity = source.identity();
    let name = match identity.name {
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
    match identity.namespace {
        _ if cluster_wide => format!("{kind} {}", clip(name)),
        "" => format!("{kind} default/{}", clip(name)),
        namespace => format!("{kind} {}/{}", clip(namespace), clip(name)),
    }
}
