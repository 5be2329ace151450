//! The events of a watch, whatever form they come in.

use anyhow::Result;
use api::lower::Source;
use api::protobuf::{Message, wire};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::frames::FrameDecoder;
use super::lines::LineDecoder;
use crate::api_error::Encoding;

/// An event larger than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EventTooLarge;

/// What was received of a watch, to be cut into events.
pub(super) enum EventDecoder {
    Json(LineDecoder),
    Protobuf(FrameDecoder),
}

/// Something that a watch tells.
pub(super) struct WatchEvent<'a> {
    /// `ADDED`, say.
    pub(super) kind: &'a str,
    pub(super) object: RawObject<'a>,
}

/// An object in the form in which it came.
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

    /// To be called when there is no next event any more.
    pub(super) fn push(&mut self, data: Bytes) {
        match self {
            Self::Json(lines) => lines.push(&data),
            Self::Protobuf(frames) => frames.push(data),
        }
    }

    /// The next event, once it is there completely.
    pub(super) fn next_event(&mut self) -> Option<Result<Result<WatchEvent<'_>>, EventTooLarge>> {
        Some(match self {
            Self::Json(lines) => lines.next_line()?.map(read_line),
            Self::Protobuf(frames) => frames.next_frame()?.map(read_frame),
        })
    }
}

impl RawObject<'_> {
    /// To read it as a message, if that is what it is.
    pub(super) fn source(&self, message: &'static Message) -> Source<'_> {
        match self {
            Self::Json(value) => Source::Json(value),
            Self::Protobuf(bytes) => Source::Protobuf(message, bytes),
        }
    }
}

fn read_line(line: &[u8]) -> Result<WatchEvent<'_>> {
    let EventLine { kind, object } = serde_json::from_slice(line)?;
    Ok(WatchEvent { kind, object: RawObject::Json(serde_json::from_str(object.get())?) })
}

fn read_frame(frame: &[u8]) -> Result<WatchEvent<'_>> {
    let (kind, object) = wire::watch_event(frame)?;
    Ok(WatchEvent { kind, object: RawObject::Protobuf(object) })
}
