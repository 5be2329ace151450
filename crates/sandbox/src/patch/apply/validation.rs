//! Validation of managed fields in requests.

use serde_json::Value;

use super::fields;
use crate::field_error::{FieldError, FieldErrorKind};
use crate::json::{list, text};

/// Maximum lengths in bytes, as upstream.
const MANAGER_BYTES_MAX: usize = 128;
const SUBRESOURCE_BYTES_MAX: usize = 256;

/// Returns `true` if the fields of all entries can be parsed. If not, the entries of the stored object are
/// kept, as upstream does.
pub(crate) fn is_readable(object: &Value) -> bool {
    let Some(entries) = object["metadata"].get("managedFields") else { return true };
    entries.as_array().is_some_and(|entries| {
        entries.iter().all(|entry| entry.get("fieldsV1").is_none_or(fields::is_readable))
    })
}

/// Returns the problems of the managed fields of an object.
pub(crate) fn problems(object: &Value) -> Vec<FieldError> {
    let mut problems = Vec::new();
    for (index, entry) in list(object, &["metadata", "managedFields"]).iter().enumerate() {
        let path = |field: &str| format!("metadata.managedFields[{index}].{field}");
        let operation = text(entry, &["operation"]);
        if !["Apply", "Update"].contains(&operation) {
            let why = "must be `Apply` or `Update`";
            problems.push(FieldError::invalid(path("operation"), operation, why));
        }
        let form = text(entry, &["fieldsType"]);
        if !["", "FieldsV1"].contains(&form) {
            problems.push(FieldError::invalid(path("fieldsType"), form, "must be `FieldsV1`"));
        }
        let manager = text(entry, &["manager"]);
        if manager.len() > MANAGER_BYTES_MAX {
            let what = FieldErrorKind::TooLong(MANAGER_BYTES_MAX);
            problems.push(FieldError { field: path("manager"), what });
        }
        if manager.chars().any(char::is_control) {
            let why = "should only contain printable characters";
            problems.push(FieldError::invalid(path("manager"), manager, why));
        }
        if text(entry, &["subresource"]).len() > SUBRESOURCE_BYTES_MAX {
            let what = FieldErrorKind::TooLong(SUBRESOURCE_BYTES_MAX);
            problems.push(FieldError { field: path("subresource"), what });
        }
    }
    problems
}
