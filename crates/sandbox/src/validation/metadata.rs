//! Validation of metadata.

use std::collections::HashSet;

use serde_json::Value;

use crate::field_error::{FieldError, FieldErrorKind};
use crate::json::{at, list, map, text};
use crate::limits::ANNOTATION_BYTES_MAX;
use crate::names::{self, NameRule};

/// Returns the problems of the metadata of an object.
pub(crate) fn metadata(object: &Value, rule: NameRule, before: Option<&Value>) -> Vec<FieldError> {
    let mut problems = Vec::new();
    let name = text(object, &["metadata", "name"]);
    if before.is_none() {
        if name.is_empty() {
            problems
                .push(FieldError::required("metadata.name", "name or generateName is required"));
        } else if let Err(why) = rule.check(name) {
            problems.push(FieldError::invalid("metadata.name", name, &why));
        }
    }
    labels(object, "metadata", &mut problems);
    let mut bytes = 0;
    for (key, value) in map(object, &["metadata", "annotations"]) {
        // Upstream validates annotation keys in lower case.
        if let Err(why) = names::qualified(&key.to_lowercase()) {
            problems.push(FieldError::invalid("metadata.annotations", key.as_str(), &why));
        }
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > ANNOTATION_BYTES_MAX {
        let what = FieldErrorKind::TooLong(ANNOTATION_BYTES_MAX);
        problems.push(FieldError { field: "metadata.annotations".to_owned(), what });
    }
    let mut controllers = 0;
    for (index, owner) in list(object, &["metadata", "ownerReferences"]).iter().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, &[field]).is_empty() {
                let path = format!("metadata.ownerReferences[{index}].{field}");
                problems.push(FieldError::invalid(path, "", "must not be empty"));
            }
        }
        controllers += usize::from(crate::json::truth(owner, &["controller"]));
    }
    if controllers > 1 {
        problems.push(FieldError::invalid(
            "metadata.ownerReferences",
            at(object, &["metadata", "ownerReferences"]).cloned().unwrap_or(Value::Null),
            "Only one reference can have Controller set to true.",
        ));
    }
    for (index, finalizer) in list(object, &["metadata", "finalizers"]).iter().enumerate() {
        let finalizer = finalizer.as_str().unwrap_or_default();
        if let Err(why) = names::qualified(finalizer) {
            problems.push(FieldError::invalid(
                format!("metadata.finalizers[{index}]"),
                finalizer,
                &why,
            ));
        }
    }
    if let Some(before) = before {
        new_finalizers(object, before, &mut problems);
    }
    problems
}

/// Rejects new finalizers of an object that is being deleted.
fn new_finalizers(object: &Value, before: &Value, problems: &mut Vec<FieldError>) {
    if at(before, &["metadata", "deletionTimestamp"]).is_none() {
        return;
    }
    let had: HashSet<&Value> = list(before, &["metadata", "finalizers"]).iter().collect();
    let added: Vec<&Value> = list(object, &["metadata", "finalizers"])
        .iter()
        .filter(|finalizer| !had.contains(finalizer))
        .collect();
    if !added.is_empty() {
        let shown: Vec<String> = added.iter().map(ToString::to_string).collect();
        problems.push(FieldError::forbidden(
            "metadata.finalizers",
            &format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                shown.join(", ")
            ),
        ));
    }
}

/// Validates labels.
pub(super) fn labels(object: &Value, path: &str, problems: &mut Vec<FieldError>) {
    for (key, value) in map(object, &["metadata", "labels"]) {
        if let Err(why) = names::qualified(key) {
            problems.push(FieldError::invalid(format!("{path}.labels"), key.as_str(), &why));
        }
        let value = value.as_str().unwrap_or_default();
        if let Err(why) = names::label_value(value) {
            problems.push(FieldError::invalid(format!("{path}.labels"), value, &why));
        }
    }
}
