//! Updates of objects.

use std::sync::Arc;

use serde_json::Value;

use super::{Cluster, WriteOptions, WriteResult, decode, default_and_validate};
use crate::admission;
use crate::json::{at, list, members, slot, text, uid};
use crate::kinds::{Kind, Resource, SchemaSource};
use crate::limits::WRITE_ATTEMPTS_MAX;
use crate::patch::apply::validation;
use crate::status_error::{ApiResult, StatusError};
use crate::store::{ChangeKind, Draft, Object, StoreError, key_of};

/// Part of an object that a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status.
    Main,
    /// The status.
    Status,
    /// Everything, as binding does.
    Whole,
}

/// Metadata that updates cannot change.
const IMMUTABLE_METADATA: &[&str] = &[
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
    "name",
    "namespace",
];

impl Cluster {
    /// Replaces an object or its status.
    pub fn update(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        mut object: Value,
        part: Part,
        options: &WriteOptions,
    ) -> ApiResult<WriteResult> {
        let warnings = decode(resource, &mut object, options.field_validation)?;
        crate::events::to_stored(resource, &mut object);
        let given = crate::json::name(&object);
        if given != name {
            return Err(StatusError::other_name(given, name));
        }
        let given = crate::json::namespace(&object);
        if !given.is_empty() && given != namespace {
            return Err(StatusError::bad_request(format!(
                "the namespace of the object ({given}) does not match the namespace on the URL ({namespace})"
            )));
        }
        let version = text(&object, &["metadata", "resourceVersion"]).to_owned();
        let mut written = self.change(resource, namespace, name, part, options, |current, _| {
            check_version(resource, &version, current)?;
            check_uid(resource, uid(&object), current)?;
            Ok(Some(object.clone()))
        })?;
        written.warnings = warnings;
        Ok(written)
    }

    /// Reads an object, passes it to `edit`, and writes the result; retries if a concurrent write came first.
    /// `edit` gets the stored object and its value, and returns `None` to leave it unchanged.
    pub fn change(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        part: Part,
        options: &WriteOptions,
        mut edit: impl FnMut(&Object, &Value) -> ApiResult<Option<Value>>,
    ) -> ApiResult<WriteResult> {
        let key = key_of(namespace, name);
        for _ in 0..WRITE_ATTEMPTS_MAX {
            let Some(current) = resource.objects.get(&key) else {
                return Err(StatusError::not_found(resource.group_resource(), name));
            };
            let before = current.value();
            let unchanged = |object| WriteResult { object, warnings: Vec::new(), created: false };
            let Some(wanted) = edit(&current, &before)? else { return Ok(unchanged(current)) };
            let object = self.merge(resource, &before, wanted, part, options)?;
            if same(&object, &before) {
                return Ok(unchanged(current));
            }
            let draft = Draft::new(&object, resource.objects.fields());
            if options.dry_run {
                return Ok(unchanged(Arc::new(draft.seal(current.version, ChangeKind::Added))));
            }
            let done = if is_removable(&object) {
                resource.objects.remove(draft, current.version)
            } else {
                resource.objects.replace(draft, current.version)
            };
            match done {
                Ok(object) => return Ok(unchanged(object)),
                Err(StoreError::KeyNotFound) => {
                    return Err(StatusError::not_found(resource.group_resource(), name));
                }
                Err(StoreError::Conflict | StoreError::KeyExists) => {}
            }
        }
        Err(StatusError::modified(resource.group_resource(), name))
    }

    /// Returns the object to store when `wanted` is written over `before`.
    fn merge(
        &self,
        resource: &Resource,
        before: &Value,
        wanted: Value,
        part: Part,
        options: &WriteOptions,
    ) -> ApiResult<Value> {
        let kind = &resource.kind;
        let custom = matches!(kind.schema, SchemaSource::Custom(_));
        let mut object = match part {
            Part::Whole => wanted,
            Part::Main => {
                let mut object = wanted;
                if kind.status {
                    restore(&mut object, before, "status");
                }
                object
            }
            Part::Status => {
                let mut object = before.clone();
                restore(&mut object, &wanted, "status");
                // Kubelets write annotations together with the status.
                if ["pods", "nodes"].contains(&&*kind.plural) {
                    for name in ["annotations", "labels"] {
                        restore(slot(&mut object, &["metadata"]), &wanted["metadata"], name);
                    }
                }
                restore(slot(&mut object, &["metadata"]), &wanted["metadata"], "managedFields");
                object
            }
        };
        let metadata = slot(&mut object, &["metadata"]);
        for fixed in IMMUTABLE_METADATA {
            if part != Part::Whole || *fixed == "uid" {
                restore(metadata, &before["metadata"], fixed);
            }
        }
        members(metadata).remove("resourceVersion");
        check_managers(resource, &mut object, before)?;
        if part == Part::Main {
            admission::update(resource, &mut object, before);
        }
        match part {
            Part::Main => default_and_validate(resource, &mut object, Some(before))?,
            // The rest was validated when it was written.
            Part::Status if custom || kind.plural == "nodes" => {
                default_and_validate(resource, &mut object, Some(before))?;
            }
            Part::Status | Part::Whole => {}
        }
        if (kind.strategy.generations || custom)
            && part == Part::Main
            && spec_changed(&object, before)
        {
            let generation = at(before, &["metadata", "generation"]).and_then(Value::as_i64);
            object["metadata"]["generation"] = (generation.unwrap_or(0) + 1).into();
        }
        crate::patch::apply::record_updated(
            resource,
            &mut object,
            before,
            part,
            options,
            self.now(),
        );
        Ok(object)
    }
}

/// Validates the managed fields that a client sent.
fn check_managers(resource: &Resource, object: &mut Value, before: &Value) -> ApiResult<()> {
    if object["metadata"].get("managedFields") == before["metadata"].get("managedFields") {
        return Ok(());
    }
    if !validation::is_readable(object) {
        restore(slot(object, &["metadata"]), &before["metadata"], "managedFields");
        return Ok(());
    }
    let problems = validation::problems(object);
    if problems.is_empty() {
        return Ok(());
    }
    let Kind { group, kind, .. } = &resource.kind;
    Err(StatusError::invalid(group, kind, crate::json::name(object), &problems))
}

/// Copies a member from another object, or removes it if that has none.
fn restore(into: &mut Value, from: &Value, name: &str) {
    match from.get(name) {
        Some(value) => members(into).insert(name.to_owned(), value.clone()),
        None => members(into).remove(name),
    };
}

fn spec_changed(now: &Value, before: &Value) -> bool {
    !same_but(now, before, &["metadata", "status"])
}

/// Returns `true` if two objects are equal except for resourceVersion and managed fields.
fn same(now: &Value, before: &Value) -> bool {
    let managed = |value: &Value| value["metadata"].get("managedFields").is_some();
    same_but(now, before, &["metadata"])
        && managed(now) == managed(before)
        && same_but(&now["metadata"], &before["metadata"], &["resourceVersion", "managedFields"])
}

/// Returns `true` if two objects are equal except for the ignored members.
fn same_but(now: &Value, before: &Value, ignored: &[&str]) -> bool {
    let (Some(now), Some(before)) = (now.as_object(), before.as_object()) else { return false };
    let counted = |name: &str| !ignored.contains(&name);
    now.iter()
        .filter(|(name, _)| counted(name))
        .all(|(name, value)| before.get(name) == Some(value))
        && before.keys().filter(|name| counted(name)).all(|name| now.contains_key(name))
}

/// Returns `true` if an object is being deleted and nothing holds it any more.
fn is_removable(object: &Value) -> bool {
    at(object, &["metadata", "deletionTimestamp"]).is_some()
        && list(object, &["metadata", "finalizers"]).is_empty()
        && list(object, &["spec", "finalizers"]).is_empty()
        && at(object, &["metadata", "deletionGracePeriodSeconds"])
            .and_then(Value::as_i64)
            .unwrap_or(0)
            == 0
}

/// Checks the resourceVersion precondition of a write.
pub(super) fn check_version(resource: &Resource, version: &str, current: &Object) -> ApiResult<()> {
    if version.is_empty() || version == "0" {
        return Ok(());
    }
    match version.parse::<u64>() {
        Ok(version) if version == current.version => Ok(()),
        Ok(_) => Err(StatusError::modified(resource.group_resource(), &current.name)),
        Err(_) => Err(StatusError::invalid(
            &resource.kind.group,
            &resource.kind.kind,
            &current.name,
            &[crate::field_error::FieldError::invalid(
                "metadata.resourceVersion",
                version,
                "must be an unsigned integer",
            )],
        )),
    }
}

/// Checks the uid precondition of a write.
pub(super) fn check_uid(resource: &Resource, uid: &str, current: &Object) -> ApiResult<()> {
    if uid.is_empty() || uid == &*current.uid {
        return Ok(());
    }
    let why = format!(
        "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
        current.uid
    );
    Err(StatusError::conflict(resource.group_resource(), &current.name, &why))
}
