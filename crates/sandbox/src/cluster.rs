//! What can be asked of the cluster. HTTP and actors come through here, so the same checks hold for both.

mod create;
mod delete;
pub(crate) mod read;
mod update;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use serde_json::Value;

pub(crate) use create::random_letters;
pub use delete::{DeleteOptions, DeleteOutcome, Propagation};
pub use read::{ListOptions, Page};
pub use update::Part;

use crate::kinds::{Kinds, Resource, SchemaSource};
use crate::limits::OBJECTS_MAX;
use crate::schema::{Quantities, SCHEMAS};
use crate::snapshot_state::SnapshotState;
use crate::status_error::{ApiResult, GroupResource, StatusError};
use crate::store::{Object, Store};

/// A cluster: objects, kinds, and the rules that writes follow.
#[derive(Debug)]
pub struct Cluster {
    /// Where objects are.
    pub store: Store,
    /// Which kinds there are.
    pub kinds: Kinds,
    /// Whoever takes from a quota holds this, so that two pods do not take the same.
    pub(crate) quotas: Mutex<()>,
    /// What is left as a snapshot has it.
    pub(crate) snapshot_state: SnapshotState,
    /// How many objects may be stored.
    pub(crate) objects_max: AtomicUsize,
    /// How many addresses were given to services.
    pub(crate) addresses: std::sync::atomic::AtomicU32,
}

/// How a write is to be made.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Do everything but store it.
    pub dry_run: bool,
    /// What happens to fields that there are none of.
    pub field_validation: FieldValidation,
    /// Who writes, for server-side apply.
    pub manager: String,
    /// Take fields from other managers.
    pub force: bool,
}

/// What happens to fields that there are none of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are dropped silently.
    Ignore,
    /// They are dropped with a warning.
    #[default]
    Warn,
    /// They are an error.
    Strict,
}

/// What a write came to.
#[derive(Clone, Debug)]
pub struct WriteResult {
    /// The object.
    pub object: Arc<Object>,
    /// Things to tell the client.
    pub warnings: Vec<String>,
    /// Whether it did not exist before.
    pub created: bool,
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new()
    }
}

impl Cluster {
    /// A cluster without objects.
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

    /// Changes how many objects may be stored. What is there stays.
    pub fn limit_objects(&self, max: usize) {
        self.objects_max.store(max, Ordering::Relaxed);
    }

    /// The present.
    pub fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    /// A kind of the table.
    ///
    /// # Panics
    ///
    /// If there is none; the names that this is called with are ours.
    pub fn resource(&self, group: &str, plural: &str) -> Arc<Resource> {
        self.kinds.find(group, plural).expect("a kind of the table")
    }

    /// An object, parsed.
    pub fn value(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Value> {
        let key = crate::store::key_of(namespace, name);
        resource.objects.get(&key).map(|object| object.value())
    }
}

/// A time as objects hold it.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time with its microseconds.
pub(crate) fn micros(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// Checks the form of an object: type, fields, values. Returns warnings.
pub(crate) fn decode(
    resource: &Resource,
    object: &mut Value,
    field_validation: FieldValidation,
) -> ApiResult<Vec<String>> {
    decode_with(resource, object, field_validation, Quantities::Canonical)
}

/// The same, with a choice what happens to amounts.
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
    if depth_of(object) > crate::limits::DEPTH_MAX {
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
            let report = SCHEMAS.check(METADATA, &mut metadata, quantities);
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
    let told: Vec<String> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    match field_validation {
        FieldValidation::Strict if !told.is_empty() => Err(StatusError::bad_request(format!(
            "{prefix}: strict decoding error: {}",
            told.join(", ")
        ))),
        FieldValidation::Warn => Ok(told),
        _ => Ok(Vec::new()),
    }
}

const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// How deep a value is nested.
pub(crate) fn depth_of(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth_of).max().unwrap_or(0),
        _ => 1,
    }
}

/// Fills in what was left out and tells what is wrong.
pub(crate) fn complete(
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

/// The failure of an absent object.
pub(crate) fn absent(of: GroupResource<'_>, name: &str) -> StatusError {
    StatusError::not_found(of, name)
}
