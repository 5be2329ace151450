//! The events of a watch, whatever form they come in.

use anyhow::Result;
use api::lower::Source;
use api::protobuf::{Message, wire};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::frames::Frames;
use super::lines::Lines;
use crate::answer::Form;

/// An event larger than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// What was received of a watch, to be cut into events.
pub(super) enum Pieces {
    Json(Lines),
    Protobuf(Frames),
}

/// Something that a watch tells.
pub(super) struct Event<'a> {
    /// `ADDED`, say.
    pub(super) kind: &'a str,
    pub(super) object: Object<'a>,
}

/// An object in the form in which it came.
pub(super) enum Object<'a> {
    Json(Value),
    Protobuf(&'a [u8]),
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl Pieces {
    pub(super) fn new(form: Form, limit: usize) -> Self {
        match form {
            Form::Json => Self::Json(Lines::new(limit)),
            Form::Protobuf => Self::Protobuf(Frames::new(limit)),
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
    pub(super) fn next_event(&mut self) -> Option<Result<Result<Event<'_>>, TooLong>> {
        Some(match self {
            Self::Json(lines) => lines.next_line()?.map(read_line),
            Self::Protobuf(frames) => frames.next_frame()?.map(read_frame),
        })
    }
}

impl Object<'_> {
    /// To read it as a message, if that is what it is.
    pub(super) fn source(&self, message: &'static Message) -> Source<'_> {
        match self {
            Self::Json(value) => Source::Json(value),
            Self::Protobuf(bytes) => Source::Protobuf(message, bytes),
        }
    }
}

fn read_line(line: &[u8]) -> Result<Event<'_>> {
    let Line { kind, object } = serde_json::from_slice(line)?;
    Ok(Event { kind, object: Object::Json(serde_json::from_str(object.get())?) })
}

fn read_frame(frame: &[u8]) -> Result<Event<'_>> {
    let (kind, object) = wire::watch_event(frame)?;
    Ok(Event { kind, object: Object::Protobuf(object) })
}
