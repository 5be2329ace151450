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
pub(crate) mod daemon_set;
pub(crate) mod deployment;
mod field_numbers;
pub(crate) mod job;
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

use engine::object::{AnnotationKeys, Node, Pod};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use daemon_set::RawDaemonSet;
pub(crate) use deployment::RawDeployment;
pub(crate) use job::RawJob;
pub use lowering_cache::LoweringCache;
pub(crate) use node::RawNode;
pub(crate) use pod::RawPod;
pub use problem::{Problem, Severity};
pub use source::{ObjectIdentity, Source};
pub(crate) use volume::{
    RawCsiDriver, RawCsiNode, RawCsiStorageCapacity, RawPersistentVolume, RawPersistentVolumeClaim,
    RawStorageClass, RawVolumeAttachment,
};
pub(crate) use workload::{
    RawBudget, RawDeviceClass, RawMapWorkload, RawNamespace, RawSet, of_kind,
};

use problem::{ProblemReport, clip};
use raw::Meta;

/// The object, if it is usable, and all its problems.
pub type Lowered<T> = (Option<T>, Vec<Problem>);

/// The deserialized form of one kind.
pub(crate) trait Lower: DeserializeOwned {
    /// The engine object it is lowered to.
    type Object;

    /// Set if objects of the kind belong to namespaces.
    const NAMESPACED: bool;

    fn meta(&self) -> &Meta;

    /// Returns `true` if the object no longer takes part in scheduling.
    fn is_finished(&self) -> bool {
        false
    }

    fn lower(self, report: &mut ProblemReport) -> Self::Object;
}

/// Lowers a pod. A finished pod (`Succeeded`, `Failed`) yields neither an object nor a problem.
pub fn pod<'a>(source: impl Into<Source<'a>>) -> Lowered<Pod> {
    pod_with(source.into(), &AnnotationKeys::default())
}

/// Lowers a pod as [`pod()`], with the annotations of these keys.
fn pod_with(source: Source<'_>, keys: &AnnotationKeys) -> Lowered<Pod> {
    object_by("Pod", source, |raw: RawPod, report| raw.lower_with(keys, report))
}

/// Lowers a node.
pub fn node<'a>(source: impl Into<Source<'a>>) -> Lowered<Node> {
    node_with(source.into(), &AnnotationKeys::default())
}

/// Lowers a node as [`node()`], with the annotations of these keys.
fn node_with(source: Source<'_>, keys: &AnnotationKeys) -> Lowered<Node> {
    object_by("Node", source, |raw: RawNode, report| raw.lower_with(keys, report))
}

/// Lowers an object of a kind.
pub(crate) fn object<R: Lower>(kind: &str, source: Source<'_>) -> Lowered<R::Object> {
    object_by(kind, source, R::lower)
}

/// Lowers an object of a kind by a function that stands in for [`Lower::lower`].
fn object_by<R: Lower>(
    kind: &str,
    source: Source<'_>,
    lower: impl FnOnce(R, &mut ProblemReport) -> R::Object,
) -> Lowered<R::Object> {
    let mut report = ProblemReport::default();
    let object = match source.read::<R>() {
        _ if !check_shape(source, &mut report) => None,
        Ok(raw) if raw.is_finished() => return (None, Vec::new()),
        Ok(raw) => {
            raw.meta().check(&mut report);
            let object = lower(raw, &mut report);
            (!report.is_unusable()).then_some(object)
        }
        Err(_) => {
            report_type_error::<R>(source, &mut report);
            None
        }
    };
    // The name is formatted only if there is a problem, which is rare.
    let problems = report.finish(|| object_name::<R>(kind, source));
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
fn object_name<R: Lower>(kind: &str, source: Source<'_>) -> String {
    let identity = source.identity();
    let name = match identity.name {
        "" => "(no name)",
        name => name,
    };
    match identity.namespace {
        _ if !R::NAMESPACED => format!("{kind} {}", clip(name)),
        "" => format!("{kind} default/{}", clip(name)),
        namespace => format!("{kind} {}/{}", clip(namespace), clip(name)),
    }
}
