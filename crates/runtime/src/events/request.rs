//! Requests that create events and update their series.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use engine::command::PodRef;
use engine::object::{Text, Uid};
use http::Method;
use serde::Serialize;

use super::SeriesKey;
use crate::api_error::{JSON, PROTOBUF_OR_JSON};
use crate::client::ApiRequest;
use crate::request_body::json_body;

/// Maximum length of a note, in bytes; the API server rejects longer ones.
pub(super) const NOTE_BYTES_MAX: usize = 1024;

/// Maximum length of a pod's name that can be part of the event's name, in bytes.
const POD_NAME_BYTES_MAX: usize = 253 - ".ffffffffffffffff".len();

/// Time limit of a request.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// A request that creates an event or updates its series.
pub(super) struct EventRequest {
    /// Key of the series, if the event can become one.
    pub(super) key: Option<SeriesKey>,
    /// Reason of the event, for the log.
    pub(super) reason: Text,
    /// Count of the series once the request has succeeded.
    pub(super) count: u32,
    /// Path of the events (count 1) or of the event.
    pub(super) path: String,
    /// Body of the request.
    pub(super) body: Bytes,
}

impl EventRequest {
    pub(super) fn to_request(&self) -> ApiRequest {
        let (method, media_type) = match self.count {
            1 => (Method::POST, JSON),
            _ => (Method::PATCH, "application/merge-patch+json"),
        };
        ApiRequest {
            method,
            path: self.path.clone(),
            accept: PROTOBUF_OR_JSON.into(),
            content: Some((media_type.into(), self.body.clone())),
            status_only: true,
            timeout: Some(WRITE_TIMEOUT),
        }
    }
}

/// An `Event` of `events.k8s.io/v1`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventBody<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: EventMetadata<'a>,
    event_time: &'a str,
    reporting_controller: &'a str,
    reporting_instance: &'a str,
    action: &'a str,
    reason: &'a str,
    #[serde(rename = "type")]
    event_type: &'a str,
    note: &'a str,
    regarding: Reference<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    related: Option<Reference<'a>>,
}

#[derive(Serialize)]
struct EventMetadata<'a> {
    namespace: &'a str,
    name: &'a str,
}

/// An `ObjectReference` to a pod.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectReference<'a> {
    api_version: &'static str,
    kind: &'static str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<&'a str>,
}

/// Serializes a pod as [`ObjectReference`].
struct Reference<'a>(&'a PodRef);

impl Serialize for Reference<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let PodRef { namespace, name, uid, resource_version, .. } = self.0;
        let mut digits = itoa::Buffer::new();
        ObjectReference {
            api_version: "v1",
            kind: "Pod",
            namespace,
            name,
            uid: uid.text(&mut [0; Uid::TEXT_BYTES]),
            // Zero means unknown.
            resource_version: (*resource_version != 0).then(|| digits.format(*resource_version)),
        }
        .serialize(serializer)
    }
}

/// Returns namespace and name of the event about a pod; `number` makes the name unique.
pub(super) fn event_name(pod: &PodRef, number: u64) -> (&str, String) {
    let namespace = if pod.namespace.is_empty() { "default" } else { &pod.namespace };
    let mut uid = [0; Uid::TEXT_BYTES];
    let prefix = match pod.name.len() {
        0..=POD_NAME_BYTES_MAX => &*pod.name,
        _ => pod.uid.text(&mut uid),
    };
    (namespace, format!("{prefix}.{number:x}"))
}

/// Serializes a new event. `time` is its time, `instance` names this process.
pub(super) fn event_body(
    key: &SeriesKey,
    (namespace, name): (&str, &str),
    time: &str,
    instance: &str,
    note: &str,
) -> Bytes {
    let SeriesKey { regarding, related, scheduler, kind, reason, action } = key;
    json_body(&EventBody {
        api_version: "events.k8s.io/v1",
        kind: "Event",
        metadata: EventMetadata { namespace, name },
        event_time: time,
        reporting_controller: scheduler,
        reporting_instance: &[scheduler, "-", instance].concat(),
        action,
        reason,
        event_type: kind,
        note: &truncated(note),
        regarding: Reference(regarding),
        related: related.as_ref().map(Reference),
    })
}

/// Serializes the patch of a series.
pub(super) fn series_body(count: u32, last_observed_time: &str) -> Bytes {
    #[derive(Serialize)]
    struct SeriesPatch<'a> {
        series: SeriesFields<'a>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct SeriesFields<'a> {
        count: u32,
        last_observed_time: &'a str,
    }
    json_body(&SeriesPatch { series: SeriesFields { count, last_observed_time } })
}

/// Truncates a note to [`NOTE_BYTES_MAX`], at a character and with an ellipsis, as upstream does.
fn truncated(note: &str) -> Cow<'_, str> {
    const MORE: &str = " ...";
    if note.len() <= NOTE_BYTES_MAX {
        return note.into();
    }
    let mut end = NOTE_BYTES_MAX - MORE.len();
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{MORE}", &note[..end]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_notes_are_truncated_at_a_character() {
        let note = "é".repeat(600);
        let truncated_note = truncated(&note);
        assert!(truncated_note.len() <= NOTE_BYTES_MAX && truncated_note.ends_with("é ..."));
        assert_eq!(truncated("short"), "short");
    }
}
