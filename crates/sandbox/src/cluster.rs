//! Operations on the cluster. HTTP handlers and actors both use them, so the same checks apply to both.

mod create;
mod delete;
pub(crate) mod read;
mod update;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use serde_json::Value;

pub(crate) use create::{NAME_LETTERS, random_letters};
pub use delete::{DeleteOptions, DeleteOutcome, Propagation};
pub(crate) use delete::{FOREGROUND, ORPHAN};
pub use read::{ListOptions, Page};
pub use update::Part;

use crate::kinds::{Kinds, Resource, SchemaSource};
use crate::limits::OBJECTS_MAX;
use crate::schema::{OBJECT_META, Quantities, SCHEMAS};
use crate::snapshot_state::SnapshotState;
use crate::status_error::{ApiResult, StatusError};
use crate::store::{Object, Store};

/// A cluster: objects, kinds, and the rules for writes.
#[derive(Debug)]
pub struct Cluster {
    /// The object store.
    pub store: Store,
    /// The registered kinds.
    pub kinds: Kinds,
    /// Held from the check of a quota until the object is stored, so that concurrent writes cannot exceed it.
    pub(crate) quotas: Mutex<()>,
    /// Objects that controllers leave as a snapshot has them.
    pub(crate) snapshot_state: SnapshotState,
    /// Maximum number of stored objects.
    pub(crate) objects_max: AtomicUsize,
    /// Number of the next service address.
    pub(crate) addresses: std::sync::atomic::AtomicU32,
}

/// Options of a write.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Validate without storing, as `dryRun=All`.
    pub dry_run: bool,
    /// Treatment of unknown fields.
    pub field_validation: FieldValidation,
    /// Field manager of the write.
    pub manager: String,
    /// Take over fields of other field managers (server-side apply).
    pub force: bool,
}

/// Treatment of unknown fields, as `fieldValidation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them.
    Ignore,
    /// Drop them with a warning.
    #[default]
    Warn,
    /// Reject the request.
    Strict,
}

/// Result of a write.
#[derive(Clone, Debug)]
pub struct WriteResult {
    /// The stored object.
    pub object: Arc<Object>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// `true` if the object did not exist before.
    pub created: bool,
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new()
    }
}

impl Cluster {
    /// Creates a cluster without objects.
    pub fn new() -> Self {
        let store = Store::default();
        let kinds = Kinds::new(&store);
        Self {
            store,
            kinds,
            quotas: Mutex::new(()),
            snapshot_state: SnapshotState::default(),
            objects_max: OBJECTS_MAX.into(),
            addresses: 1.into(),
        }
    }

    /// Sets the maximum number of stored objects. Existing objects stay.
    pub fn limit_objects(&self, max: usize) {
        self.objects_max.store(max, Ordering::Relaxed);
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    /// Returns a built-in kind.
    ///
    /// # Panics
    ///
    /// If the table of kinds has no such kind; callers use names from the table only.
    pub fn resource(&self, group: &str, plural: &str) -> Arc<Resource> {
        self.kinds.find(group, plural).expect("a kind of the table")
    }

    /// Returns a parsed object.
    pub fn value(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Value> {
        let key = crate::store::key_of(namespace, name);
        resource.objects.get(&key).map(|object| object.value())
    }
}

/// Formats a time as `metav1.Time`, with seconds.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Formats a time as `metav1.MicroTime`, with microseconds.
pub(crate) fn micros(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// Checks type, fields and value types of an object. Returns warnings.
pub(crate) fn decode(
    resource: &Resource,
    object: &mut Value,
    field_validation: FieldValidation,
) -> ApiResult<Vec<String>> {
    decode_with(resource, object, field_validation, Quantities::Canonical)
}

/// Checks an object as [`decode`] does, with a choice how quantities are stored.
pub(crate) fn decode_with(
    resource: &Resource,
    object: &mut Value,
    field_validation: FieldValidation,
    quantities: Quantities,
) -> ApiResult<Vec<String>> {
    let kind = &resource.kind;
    let expected = kind.api_version();
    let (api_version, name) = crate::kinds::type_of(object);
    if !object.is_object() {
        return Err(StatusError::bad_request(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct",
            if object.is_array() { "array" } else { "value" }
        )));
    }
    if !name.is_empty() && name != kind.kind {
        return Err(StatusError::bad_request(format!(
            "{name} in version {:?} cannot be handled as a {}: no kind {name:?} is registered for version {api_version:?}",
            api_version.rsplit('/').next().unwrap_or_default(),
            kind.kind
        )));
    }
    if !api_version.is_empty() && api_version != expected {
        return Err(StatusError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if crate::json::depth(object) > crate::limits::DEPTH_MAX {
        return Err(StatusError::bad_request("the object is nested too deeply"));
    }
    object["apiVersion"] = expected.into();
    object["kind"] = kind.kind.as_ref().into();
    let (unknown, wrong) = match &kind.schema {
        SchemaSource::Types(_) => {
            let report =
                SCHEMAS.check(SCHEMAS.name_of(kind).unwrap_or_default(), object, quantities);
            (report.unknown, report.wrong)
        }
        SchemaSource::Custom(structure) => {
            let metadata = crate::json::object(object, "metadata");
            let mut metadata = Value::Object(std::mem::take(metadata));
            let report = SCHEMAS.check(OBJECT_META, &mut metadata, quantities);
            object["metadata"] = metadata;
            let unknown = report.unknown.iter().map(|path| format!("metadata.{path}"));
            (unknown.chain(structure.prune(object)).collect(), report.wrong)
        }
    };
    let prefix =
        format!("{} in version {:?} cannot be handled as a {}", kind.kind, kind.version, kind.kind);
    if let Some(wrong) = wrong {
        return Err(StatusError::bad_request(format!("{prefix}: {wrong}")));
    }
    let messages: Vec<String> =
        unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    match field_validation {
        FieldValidation::Strict if !messages.is_empty() => Err(StatusError::bad_request(format!(
            "{prefix}: strict decoding error: {}",
            messages.join(", ")
        ))),
        FieldValidation::Warn => Ok(messages),
        _ => Ok(Vec::new()),
    }
}

/// Applies defaults and validates an object.
pub(crate) fn default_and_validate(
    resource: &Resource,
    object: &mut Value,
    before: Option<&Value>,
) -> ApiResult<()> {
    let kind = &resource.kind;
    (kind.strategy.defaults)(object);
    if let SchemaSource::Custom(structure) = &kind.schema {
        structure.default(object);
    }
    let mut problems = crate::validation::metadata(object, kind.strategy.names, before);
    problems.extend((kind.strategy.validate)(object, before));
    if let SchemaSource::Custom(structure) = &kind.schema {
        problems.extend(structure.validate(object));
    }
    if problems.is_empty() {
        return Ok(());
    }
    let name = crate::json::name(object);
    Err(StatusError::invalid(&kind.group, &kind.kind, name, &problems))
}
