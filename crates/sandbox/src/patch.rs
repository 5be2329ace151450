//! Patches of all forms.

pub(crate) mod apply;
mod json;
pub(crate) mod lists;
mod merge;
mod strategic;

use serde_json::Value;

use crate::failure::{Answer, Failure};
use crate::kinds::{Resource, SchemaSource};

/// A form of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Merge that knows lists.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl Form {
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
    form: Form,
) -> Answer<Value> {
    let mut object = object.clone();
    match form {
        // What exactly is wrong is not told, as upstream has it.
        Form::Json => json::patch(&mut object, patch).map_err(|why| {
            tracing::debug!(%why, "a JSON patch was refused");
            let message = "the server rejected our request due to an error in our request";
            Failure::new(422, "Invalid", message)
        })?,
        Form::Merge => merge::patch(&mut object, patch),
        Form::Strategic => {
            if matches!(resource.kind.schema, SchemaSource::Custom(_)) {
                return Err(Failure::unsupported_media_type(
                    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
                ));
            }
            strategic::patch(&resource.kind, &mut object, patch).map_err(Failure::bad_request)?;
        }
        Form::Apply => {}
    }
    Ok(object)
}
