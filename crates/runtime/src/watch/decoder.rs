//! Decoding of watch events, from JSON lines or protobuf frames.

use api::lower::Source;
use api::protobuf::{Message, wire};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::EVENT_BYTES_MAX;
use super::frames::FrameDecoder;
use super::lines::LineDecoder;
use crate::api_error::Encoding;

/// An event above [`EVENT_BYTES_MAX`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is larger than {EVENT_BYTES_MAX} bytes")]
pub(super) struct EventTooLarge;

/// Why an event, a page or an object cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum DecodeError {
    #[error(transparent)]
    Size(#[from] EventTooLarge),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Protobuf(#[from] api::protobuf::Error),
    #[error("{0}")]
    Fields(String),
    #[error("metadata.resourceVersion {0:?} is not a number")]
    Version(String),
    #[error("it has no metadata")]
    NoListMetadata,
    #[error("its type is {0:?}")]
    EventType(String),
}

/// Cuts the body of a watch into events.
pub(super) enum EventDecoder {
    Json(LineDecoder),
    Protobuf(FrameDecoder),
}

/// One event of a watch.
pub(super) struct WatchEvent<'a> {
    /// Type of the event, such as `ADDED`.
    pub(super) kind: &'a str,
    pub(super) object: RawObject<'a>,
}

/// An object in the encoding of the response.
pub(super) enum RawObject<'a> {
    Json(Value),
    Protobuf(&'a [u8]),
}

#[derive(Deserialize)]
struct EventLine<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl EventDecoder {
    pub(super) fn new(encoding: Encoding, limit: usize) -> Self {
        match encoding {
            Encoding::Json => Self::Json(LineDecoder::new(limit)),
            Encoding::Protobuf => Self::Protobuf(FrameDecoder::new(limit)),
        }
    }

    /// Adds data; all events of the data before it must have been taken.
    pub(super) fn push(&mut self, data: Bytes) {
        match self {
            Self::Json(lines) => lines.push(&data),
            Self::Protobuf(frames) => frames.push(data),
        }
    }

    /// Returns the next event if it is complete.
    pub(super) fn next_event(&mut self) -> Option<Result<WatchEvent<'_>, DecodeError>> {
        Some(match self {
            Self::Json(lines) => lines.next_line()?.map_err(Into::into).and_then(read_line),
            Self::Protobuf(frames) => frames.next_frame()?.map_err(Into::into).and_then(read_frame),
        })
    }
}

impl RawObject<'_> {
    /// Returns a source of fields; `message` is the schema of the protobuf form.
    pub(super) fn source(&self, message: &'static Message) -> Source<'_> {
        match self {
            Self::Json(value) => Source::Json(value),
            Self::Protobuf(bytes) => Source::Protobuf(message, bytes),
        }
    }
}

fn read_line(line: &[u8]) -> Result<WatchEvent<'_>, DecodeError> {
    let EventLine { kind, object } = serde_json::from_slice(line)?;
    Ok(WatchEvent { kind, object: RawObject::Json(serde_json::from_str(object.get())?) })
}

fn read_frame(frame: &[u8]) -> Result<WatchEvent<'_>, DecodeError> {
    let (kind, object) = wire::watch_event(frame)?;
    Ok(WatchEvent { kind, object: RawObject::Protobuf(object) })
}
