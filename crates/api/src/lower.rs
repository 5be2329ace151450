//! Lowering of Kubernetes objects, as users and clusters write them, to engine objects.
//!
//! ```text
//! JSON or YAML ──► raw (types, fields we read) ──► checked ──► engine::object
//!                        │                            │
//!                        └────────► problems ◄────────┘
//! ```
//!
//! Every function returns the object and all problems found in it.
//!
//! - There is no object if upstream could not decode it: a wrong type, an unreadable quantity or
//!   time, or no name.
//! - No object and no problem means that the object no longer takes part in scheduling.
//! - Otherwise the object is returned even if the API server would have rejected it, and behaves as
//!   in upstream's scheduler: an invalid selector matches nothing, and a pod with more list entries
//!   than the limits allow is not scheduled.
//!
//! Defaults that the API server sets on creation (such as requests from limits) are not applied.

mod affinity;
mod field_numbers;
pub mod limits;
mod lowering_cache;
mod node;
mod pod;
mod problem;
pub mod quantity;
mod raw;
mod resources;
mod selector;
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

pub use lowering_cache::LoweringCache;
pub use problem::{Problem, Severity};
use problem::{ProblemReport, clip};
use raw::Meta;
pub use source::{ObjectIdentity, Source};

/// The object, if it is usable, and all its problems.
pub type Lowered<T> = (Option<T>, Vec<Problem>);

/// The deserialized form of one kind.
trait Lower: DeserializeOwned {
    /// The engine object it is lowered to.
    type Object;

    fn meta(&self) -> &Meta;

    /// Returns `true` if the object no longer takes part in scheduling.
    fn is_finished(&self) -> bool {
        false
    }

    fn lower(self, report: &mut ProblemReport) -> Self::Object;
}

/// Lowers a pod. A finished pod (`Succeeded`, `Failed`) yields neither an object nor a problem.
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

/// Lowers a pod disruption budget. As in upstream's preemption, an empty selector matches nothing.
pub fn disruption_budget<'a>(source: impl Into<Source<'a>>) -> Lowered<DisruptionBudget> {
    lower::<workload::RawBudget>("PodDisruptionBudget", source.into())
}

/// Lowers a persistent volume.
pub fn persistent_volume<'a>(source: impl Into<Source<'a>>) -> Lowered<PersistentVolume> {
    lower::<volume::RawPersistentVolume>("PersistentVolume", source.into())
}

/// Lowers a persistent volume claim.
pub fn persistent_volume_claim<'a>(
    source: impl Into<Source<'a>>,
) -> Lowered<PersistentVolumeClaim> {
    lower::<volume::RawPersistentVolumeClaim>("PersistentVolumeClaim", source.into())
}

/// Lowers a storage class.
pub fn storage_class<'a>(source: impl Into<Source<'a>>) -> Lowered<StorageClass> {
    lower::<volume::RawStorageClass>("StorageClass", source.into())
}

/// Lowers a CSINode: the CSI drivers of a node.
pub fn csi_node<'a>(source: impl Into<Source<'a>>) -> Lowered<CsiNode> {
    lower::<volume::RawCsiNode>("CSINode", source.into())
}

/// Lowers a CSI driver.
pub fn csi_driver<'a>(source: impl Into<Source<'a>>) -> Lowered<CsiDriver> {
    lower::<volume::RawCsiDriver>("CSIDriver", source.into())
}

/// Lowers a CSIStorageCapacity: the capacity a driver can still provision in a topology segment.
pub fn csi_storage_capacity<'a>(source: impl Into<Source<'a>>) -> Lowered<CsiStorageCapacity> {
    lower::<volume::RawCsiStorageCapacity>("CSIStorageCapacity", source.into())
}

/// Lowers a volume attachment.
pub fn volume_attachment<'a>(source: impl Into<Source<'a>>) -> Lowered<VolumeAttachment> {
    lower::<volume::RawVolumeAttachment>("VolumeAttachment", source.into())
}

/// Lowers a device class.
pub fn device_class<'a>(source: impl Into<Source<'a>>) -> Lowered<DeviceClass> {
    lower::<workload::RawDeviceClass>("DeviceClass", source.into())
}

/// Lowers a resource claim.
pub fn resource_claim<'a>(source: impl Into<Source<'a>>) -> Lowered<ResourceClaim> {
    lower::<workload::RawResourceClaim>("ResourceClaim", source.into())
}

fn with_kind(kind: WorkloadKind, (object, problems): Lowered<Workload>) -> Lowered<Workload> {
    (object.map(|object| Workload { kind, ..object }), problems)
}

fn lower<R: Lower>(kind: &str, source: Source<'_>) -> Lowered<R::Object> {
    let mut report = ProblemReport::default();
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
    // The name is formatted only if there is a problem, which is rare.
    let problems = report.finish(|| object_name(kind, source));
    (object, problems)
}

/// Returns `true` if the object and its main parts are not lists. Derived deserializers would also
/// accept a list of the fields in declaration order.
fn check_shape(source: Source<'_>, report: &mut ProblemReport) -> bool {
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

/// Deserializes again with path tracking, which is slower, to report where the wrong type is.
fn report_type_error<R: DeserializeOwned>(source: Source<'_>, report: &mut ProblemReport) {
    if let Err((path, message)) = source.read_with_path::<R>() {
        let mut message = clip_message(&message);
        if let Some(start) = message.find("expected struct ") {
            // The names of our types are meaningless to users.
            message.replace_range(start.., "expected an object");
        }
        if message.ends_with("expected a string") {
            message.push_str(": put it in quotes");
        }
        report.fatal_at(if path == "." { String::new() } else { path }, message);
    }
}

/// Shortens a parser's message. The value found comes first and may be long; the expected type
/// comes last and is kept.
pub(crate) fn clip_message(message: &str) -> String {
    match message.rsplit_once(", expected ") {
        Some((found, expected)) => format!("{}, expected {expected}", clip(found)),
        None => clip(message).into_owned(),
    }
}

/// Formats kind, namespace and name, as in `Pod default/web-1`.
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
