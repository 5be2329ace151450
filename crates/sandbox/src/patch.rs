//! Patches of all forms.

pub(crate) mod apply;
mod json;
pub(crate) mod lists;
mod merge;
mod strategic;

use serde_json::Value;

use crate::kinds::{Resource, SchemaSource};
use crate::status_error::{ApiResult, StatusError};

/// A form of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Merge that knows lists.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchType {
    /// The form that a content type names.
    pub(crate) fn of(content_type: &str) -> Option<Self> {
        match content_type {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            "application/apply-patch+yaml" => Some(Self::Apply),
            _ => None,
        }
    }
}

/// What a patch makes of an object; not for server-side apply.
pub(crate) fn patched(
    resource: &Resource,
    object: &Value,
    patch: &Value,
    form: PatchType,
) -> ApiResult<Value> {
    let mut object = object.clone();
    match form {
        // What exactly is wrong is not told, as upstream has it.
        PatchType::Json => json::patch(&mut object, patch).map_err(|why| {
            tracing::debug!(%why, "a JSON patch was refused");
            let message = "the server rejected our request due to an error in our request";
            StatusError::new(422, "Invalid", message)
        })?,
        PatchType::Merge => merge::patch(&mut object, patch),
        PatchType::Strategic => {
            if matches!(resource.kind.schema, SchemaSource::Custom(_)) {
                return Err(StatusError::unsupported_media_type(
                    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
                ));
            }
            strategic::patch(&resource.kind, &mut object, patch)
                .map_err(StatusError::bad_request)?;
        }
        PatchType::Apply => {}
    }
    Ok(object)
}
