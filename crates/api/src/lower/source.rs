//! What objects are read from.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::protobuf::wire::{Payload, find, next_field};
use crate::protobuf::{self, Message, Reader};

/// An object as it was received, or as somebody wrote it.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A tree of values.
    Json(&'a Value),
    /// A message of the schema.
    Protobuf(&'static Message, &'a [u8]),
}

/// Which object it is, as far as can be told without looking at all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity<'a> {
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
    /// Reads it as a type.
    pub fn read<R: Deserialize<'a>>(self) -> Result<R, String> {
        match self {
            Self::Json(value) => R::deserialize(value).map_err(|error| error.to_string()),
            Self::Protobuf(message, bytes) => {
                R::deserialize(Reader::new(message, bytes)).map_err(|error| error.to_string())
            }
        }
    }

    /// Reads it as a type; an error comes with the path of the field that it is in.
    pub(super) fn read_with_path<R: DeserializeOwned>(self) -> Result<R, (String, String)> {
        match self {
            Self::Json(value) => with_path::<_, R>(value),
            // Through a tree of values: to read each type with its path from two forms would double
            // the time to compile this.
            Self::Protobuf(message, bytes) => {
                let value: Value = with_path(Reader::new(message, bytes))?;
                with_path::<_, R>(&value)?;
                self.read().map_err(|error| (".".to_owned(), error))
            }
        }
    }

    /// Which object it is; what is missing or of a wrong type is empty.
    pub fn identity(self) -> Identity<'a> {
        match self {
            Self::Json(value) => {
                let text = |field| value["metadata"][field].as_str().unwrap_or("");
                Identity {
                    namespace: text("namespace"),
                    name: text("name"),
                    uid: text("uid"),
                    version: text("resourceVersion"),
                }
            }
            Self::Protobuf(_, bytes) => identity(bytes).unwrap_or_default(),
        }
    }

    /// Whether it has any `status.conditions`, if it is a pod; true also when that cannot be told.
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

/// By the field numbers of `ObjectMeta`; every kind has its metadata first.
fn identity(object: &[u8]) -> Result<Identity<'_>, protobuf::Error> {
    let mut identity = Identity::default();
    let mut metadata = find(object, 1)?.map_or(Ok(&[][..]), Payload::bytes)?;
    while let Some((number, payload)) = next_field(&mut metadata)? {
        match number {
            1 => identity.name = payload.text()?,
            3 => identity.namespace = payload.text()?,
            5 => identity.uid = payload.text()?,
            6 => identity.version = payload.text()?,
            _ => {}
        }
    }
    Ok(identity)
}

/// By the field numbers of `Pod` and `PodStatus`.
fn pod_has_conditions(pod: &[u8]) -> Result<bool, protobuf::Error> {
    let Some(status) = find(pod, 3)? else { return Ok(false) };
    Ok(find(status.bytes()?, 2)?.is_some())
}
