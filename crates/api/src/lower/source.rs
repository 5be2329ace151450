//! Encodings that objects are lowered from, and access to single fields without lowering.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::field_numbers::{metadata, pod, pod_status};
use crate::protobuf::wire::{Payload, find_field, next_field};
use crate::protobuf::{self, Message, MessageDeserializer};

/// An encoded object, as received from the API server or read from a file.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A JSON tree.
    Json(&'a Value),
    /// A protobuf message of the schema.
    Protobuf(&'static Message, &'a [u8]),
}

/// The identifying metadata of an object, read without deserializing the whole object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectIdentity<'a> {
    /// `metadata.namespace`.
    pub namespace: &'a str,
    /// `metadata.name`.
    pub name: &'a str,
    /// `metadata.uid`.
    pub uid: &'a str,
    /// `metadata.resourceVersion`.
    pub version: &'a str,
}

impl<'a> Source<'a> {
    /// Deserializes the object.
    pub fn read<R: Deserialize<'a>>(self) -> Result<R, String> {
        match self {
            Self::Json(value) => R::deserialize(value).map_err(|error| error.to_string()),
            Self::Protobuf(message, bytes) => {
                R::deserialize(MessageDeserializer::new(message, bytes))
                    .map_err(|error| error.to_string())
            }
        }
    }

    /// Deserializes the object; an error carries the path of the field it is in.
    pub(super) fn read_with_path<R: DeserializeOwned>(self) -> Result<R, (String, String)> {
        match self {
            Self::Json(value) => with_path::<_, R>(value),
            // Protobuf is first turned into a JSON tree: instantiating path tracking for each type
            // with both deserializers would double the compile time of this crate.
            Self::Protobuf(message, bytes) => {
                let value: Value = with_path(MessageDeserializer::new(message, bytes))?;
                with_path::<_, R>(&value)?;
                self.read().map_err(|error| (".".to_owned(), error))
            }
        }
    }

    /// Returns the identifying metadata. Fields that are missing or of a wrong type are empty.
    pub fn identity(self) -> ObjectIdentity<'a> {
        match self {
            Self::Json(value) => {
                let text = |field| value["metadata"][field].as_str().unwrap_or("");
                ObjectIdentity {
                    namespace: text("namespace"),
                    name: text("name"),
                    uid: text("uid"),
                    version: text("resourceVersion"),
                }
            }
            Self::Protobuf(_, bytes) => identity(bytes).unwrap_or_default(),
        }
    }

    /// Returns `true` if a pod has `status.conditions`, and also if the object is malformed.
    pub fn has_conditions(self) -> bool {
        match self {
            Self::Json(pod) => pod["status"]["conditions"].is_array(),
            Self::Protobuf(_, pod) => pod_has_conditions(pod).unwrap_or(true),
        }
    }
}

impl<'a> From<&'a Value> for Source<'a> {
    fn from(value: &'a Value) -> Self {
        Self::Json(value)
    }
}

fn with_path<'a, D: Deserializer<'a>, R: Deserialize<'a>>(
    deserializer: D,
) -> Result<R, (String, String)> {
    serde_path_to_error::deserialize(deserializer)
        .map_err(|error| (error.path().to_string(), error.inner().to_string()))
}

/// Reads the identifying metadata of a message. Every kind has it in the same field as a pod.
fn identity(object: &[u8]) -> Result<ObjectIdentity<'_>, protobuf::Error> {
    let mut identity = ObjectIdentity::default();
    let mut rest = find_field(object, pod::METADATA)?.map_or(Ok(&[][..]), Payload::bytes)?;
    while let Some((number, payload)) = next_field(&mut rest)? {
        match number {
            metadata::NAME => identity.name = payload.text()?,
            metadata::NAMESPACE => identity.namespace = payload.text()?,
            metadata::UID => identity.uid = payload.text()?,
            metadata::RESOURCE_VERSION => identity.version = payload.text()?,
            _ => {}
        }
    }
    Ok(identity)
}

/// Returns `true` if the `PodStatus` of a `Pod` message has conditions.
fn pod_has_conditions(bytes: &[u8]) -> Result<bool, protobuf::Error> {
    let Some(status) = find_field(bytes, pod::STATUS)? else { return Ok(false) };
    Ok(find_field(status.bytes()?, pod_status::CONDITIONS)?.is_some())
}
