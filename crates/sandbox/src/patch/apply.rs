//! Server-side apply: tracks field managers and detects conflicts between them.
//!
//! Managed fields are recorded at creation for kinds that users usually apply. For kinds with thousands of
//! objects (pods, events, leases, nodes) they are recorded from the first apply on, to save memory; until
//! then all fields belong to `before-first-apply`, as upstream does for objects without managed fields.

mod fields;
mod list_index;
pub(crate) mod validation;

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::lists::{self, ListType};
use crate::cluster::{Part, WriteOptions, seconds};
use crate::json::{list, members, slot, text};
use crate::kinds::{Kind, Resource};
use crate::status_error::{ApiResult, StatusError};
use fields::FieldSet;

/// Kinds without managed fields until the first apply.
const TRACKED_FROM_FIRST_APPLY: &[&str] =
    &["pods", "events", "leases", "nodes", "endpointslices", "csinodes"];

const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Records the field manager that created an object.
pub(crate) fn record_created(
    resource: &Resource,
    object: &mut Value,
    options: &WriteOptions,
    now: Timestamp,
) {
    if options.manager.is_empty() || TRACKED_FROM_FIRST_APPLY.contains(&&*resource.kind.plural) {
        return;
    }
    let fields = FieldSet::of(&resource.kind, object);
    let entry = ManagedFieldsEntry::new(&options.manager, "Update", &resource.kind, fields, now);
    write_entries(object, &[entry]);
}

/// Records the field manager that changed fields, if the object has managed fields.
pub(crate) fn record_updated(
    resource: &Resource,
    object: &mut Value,
    before: &Value,
    part: Part,
    options: &WriteOptions,
    now: Timestamp,
) {
    // Apply writes its own entries.
    if object["metadata"].get("managedFields") != before["metadata"].get("managedFields")
        && object["metadata"]
            .get("managedFields")
            .is_some_and(|fields| !list(fields, &[]).is_empty())
        && list(object, &["metadata", "managedFields"]).iter().any(|entry| {
            text(entry, &["operation"]) == "Apply" && text(entry, &["manager"]) == options.manager
        })
    {
        return;
    }
    let mut entries = read_entries(before);
    if entries.is_empty() || options.manager.is_empty() {
        match before["metadata"].get("managedFields") {
            Some(fields) => slot(object, &["metadata"])["managedFields"] = fields.clone(),
            None => drop(members(slot(object, &["metadata"])).remove("managedFields")),
        }
        return;
    }
    let kind = &resource.kind;
    let (had, has) = (FieldSet::of(kind, before), FieldSet::of(kind, object));
    let changed = has.differing(before, object);
    let mut removed = had;
    removed.subtract(&has);
    let subresource = if part == Part::Status { "status" } else { "" };
    for entry in &mut entries {
        let own = entry.manager == options.manager
            && entry.operation == "Update"
            && entry.subresource == subresource;
        if !own {
            entry.fields.subtract(&changed);
        }
        entry.fields.subtract(&removed);
    }
    if !changed.is_empty() {
        let own = entries.iter_mut().find(|entry| {
            entry.manager == options.manager
                && entry.operation == "Update"
                && entry.subresource == subresource
        });
        if let Some(own) = own {
            own.fields.add(&changed);
            own.time = seconds(now);
        } else {
            let mut entry = ManagedFieldsEntry::new(&options.manager, "Update", kind, changed, now);
            subresource.clone_into(&mut entry.subresource);
            entries.push(entry);
        }
    }
    entries.retain(|entry| !entry.fields.is_empty());
    write_entries(object, &entries);
}

/// Returns the result of applying a configuration to an object, or the conflicts.
pub(crate) fn apply(
    resource: &Resource,
    live: &Value,
    config: &Value,
    options: &WriteOptions,
    now: Timestamp,
) -> ApiResult<Value> {
    let kind = &resource.kind;
    let mut entries = read_entries(live);
    if entries.is_empty() && live.get("metadata").is_some() {
        let mut fields = FieldSet::of(kind, live);
        fields.remove("f:status");
        entries.push(ManagedFieldsEntry::new(BEFORE_FIRST_APPLY, "Update", kind, fields, now));
    }
    let wanted = FieldSet::of(kind, config);
    let changed = wanted.differing(live, config);
    let mut conflicts: Vec<(String, String)> = Vec::new();
    for entry in &entries {
        if entry.manager == options.manager && entry.operation == "Apply" {
            continue;
        }
        for path in entry.fields.intersection(&changed).paths() {
            let shown = if entry.operation == "Apply" {
                format!("{:?}", entry.manager)
            } else {
                format!("{:?} using {}", entry.manager, entry.version)
            };
            conflicts.push((shown, fields::display(&path)));
        }
    }
    if !conflicts.is_empty() && !options.force {
        return Err(StatusError::apply_conflicts(&conflicts));
    }
    let mut object = live.clone();
    merge(kind, &mut object, config, &mut Vec::new());
    // Fields that this manager applied before and dropped now are removed, unless they have another manager.
    let before =
        entries.iter().find(|entry| entry.manager == options.manager && entry.operation == "Apply");
    if let Some(before) = before {
        let mut dropped = before.fields.clone();
        dropped.subtract(&wanted);
        for entry in &entries {
            if entry.manager != options.manager || entry.operation != "Apply" {
                dropped.subtract(&entry.fields);
            }
        }
        dropped.remove_from(&mut object);
    }
    for entry in &mut entries {
        if entry.manager != options.manager || entry.operation != "Apply" {
            entry.fields.subtract(&changed);
        }
    }
    entries.retain(|entry| {
        let own = entry.manager == options.manager && entry.operation == "Apply";
        !own && !entry.fields.is_empty()
    });
    entries.push(ManagedFieldsEntry::new(&options.manager, "Apply", kind, wanted, now));
    write_entries(&mut object, &entries);
    Ok(object)
}

/// Merges a configuration into an object.
fn merge(kind: &Kind, value: &mut Value, config: &Value, path: &mut Vec<String>) {
    match config {
        Value::Object(changes) if !lists::atomic_map(kind, path) => {
            let target = members(value);
            for (name, change) in changes {
                path.push(name.clone());
                if change.is_null() {
                    target.remove(name);
                } else {
                    merge(kind, target.entry(name.clone()).or_insert(Value::Null), change, path);
                }
                path.pop();
            }
        }
        Value::Array(changes) => {
            let merging = lists::apply(kind, path);
            if merging == ListType::Atomic || !value.is_array() {
                // Items are merged into an empty list one by one, so that duplicates are removed.
                *value = Value::Array(Vec::new());
            }
            let Value::Array(items) = value else { return };
            let identity = |item: &Value| match &merging {
                ListType::Atomic => None,
                ListType::Set => Some(item.to_string()),
                ListType::Map(keys) => Some(fields::key_text(item, keys)),
            };
            let mut positions: HashMap<String, usize> = HashMap::new();
            for (position, item) in items.iter().enumerate() {
                if let Some(own) = identity(item) {
                    positions.entry(own).or_insert(position);
                }
            }
            for change in changes {
                let own = identity(change);
                let found = own.as_ref().and_then(|own| positions.get(own).copied());
                if let (None, Some(own)) = (found, own) {
                    positions.insert(own, items.len());
                }
                match (found, &merging) {
                    (Some(position), ListType::Map(_)) => {
                        merge(kind, &mut items[position], change, path);
                    }
                    (Some(_), _) => {}
                    (None, _) => items.push(change.clone()),
                }
            }
        }
        other => *value = other.clone(),
    }
}

/// An entry of `managedFields`.
#[derive(Clone, Debug)]
struct ManagedFieldsEntry {
    manager: String,
    operation: String,
    version: String,
    time: String,
    subresource: String,
    fields: FieldSet,
}

impl ManagedFieldsEntry {
    fn new(manager: &str, operation: &str, kind: &Kind, fields: FieldSet, now: Timestamp) -> Self {
        Self {
            manager: manager.to_owned(),
            operation: operation.to_owned(),
            version: kind.api_version(),
            time: seconds(now),
            subresource: String::new(),
            fields,
        }
    }
}

fn read_entries(object: &Value) -> Vec<ManagedFieldsEntry> {
    let entries = list(object, &["metadata", "managedFields"]).iter();
    let owned = |entry: &Value, name: &str| text(entry, &[name]).to_owned();
    entries
        .map(|entry| ManagedFieldsEntry {
            manager: owned(entry, "manager"),
            operation: owned(entry, "operation"),
            version: owned(entry, "apiVersion"),
            time: owned(entry, "time"),
            subresource: owned(entry, "subresource"),
            fields: FieldSet::read(entry.get("fieldsV1").unwrap_or(&Value::Null)),
        })
        .collect()
}

fn write_entries(object: &mut Value, entries: &[ManagedFieldsEntry]) {
    let entries: Vec<Value> = entries
        .iter()
        .map(|entry| {
            let mut value = Map::new();
            let pairs = [
                ("manager", &entry.manager),
                ("operation", &entry.operation),
                ("apiVersion", &entry.version),
                ("time", &entry.time),
                ("subresource", &entry.subresource),
            ];
            for (name, text) in pairs.into_iter().filter(|(_, text)| !text.is_empty()) {
                value.insert(name.to_owned(), text.as_str().into());
            }
            value.insert("fieldsType".to_owned(), json!("FieldsV1"));
            value.insert("fieldsV1".to_owned(), entry.fields.write());
            Value::Object(value)
        })
        .collect();
    slot(object, &["metadata"])["managedFields"] = entries.into();
}

#[cfg(test)]
mod tests;
