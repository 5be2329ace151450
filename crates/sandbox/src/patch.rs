//! Patches of all types.

pub(crate) mod apply;
mod json;
pub(crate) mod lists;
mod merge;
mod strategic;

use serde_json::Value;

use crate::kinds::{Resource, SchemaSource};
use crate::status_error::{ApiResult, StatusError};

/// Type of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    /// JSON patch, RFC 6902.
    Json,
    /// JSON merge patch, RFC 7386.
    Merge,
    /// Strategic merge patch.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchType {
    /// Returns the patch type of a content type.
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

/// Returns the patched object. Server-side apply has its own function, [`apply::apply`].
pub(crate) fn patched(
    resource: &Resource,
    object: &Value,
    patch: &Value,
    form: PatchType,
) -> ApiResult<Value> {
    let mut object = object.clone();
    match form {
        // As upstream, the response does not contain the reason.
        PatchType::Json => json::patch(&mut object, patch).map_err(|why| {
            tracing::debug!(%why, "rejected a JSON patch");
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
