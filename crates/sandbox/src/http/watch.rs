//! Watches: streams of changes, read from the watch cache of a collection.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream;
use http::{Method, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::ServerState;
use super::guard::catch_panic;
use super::read::{as_of, metadata_of, stale_version, table, value_of};
use super::response::{Body, OutputFormat, output_format, with_body};
use super::routes::{RequestHead, RequestInfo};
use crate::cluster::{ListOptions, read};
use crate::events;
use crate::faults::Fault;
use crate::field_error::FieldError;
use crate::kinds::Resource;
use crate::limits::{BOOKMARK_INTERVAL, LIST_CHUNK_BYTES, WATCH_BATCH_MAX, WATCH_DURATION};
use crate::protobuf;
use crate::selector::Selector;
use crate::status_error::{ApiResult, StatusError};
use crate::store::{Change, ChangeKind, Object, frame};

/// Annotation of the bookmark after the initial events.
const INITIAL_END: &str = "k8s.io/initial-events-end";

/// Content type of watch events in protobuf, each preceded by its length.
const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// The state of one watch.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent option or state of the stream"
)]
struct Watch {
    resource: Arc<Resource>,
    prefix: String,
    labels: Selector,
    fields: Selector,
    form: OutputFormat,
    include: String,
    bookmarks: bool,
    /// Initial objects that were not sent yet.
    initial: std::vec::IntoIter<Arc<Object>>,
    /// Set if a bookmark follows the initial objects (`sendInitialEvents`).
    end_bookmark_due: bool,
    updates: watch::Receiver<u64>,
    /// Version up to which all changes were sent.
    version: u64,
    end: Instant,
    /// Expires at the end of the watch, or when a bookmark is due. Timer and `ending` are reused across
    /// changes.
    timer: Pin<Box<Sleep>>,
    /// Resolves when the server shuts down.
    ending: Pin<Box<WaitForCancellationFutureOwned>>,
    heads_sent: bool,
    ended: bool,
    /// Number of chunks until an injected fault cuts the watch.
    chunks_left: Option<usize>,
}

/// Answers a watch request.
pub(super) fn answer(
    shared: &Arc<ServerState>,
    head: &RequestHead,
    info: &RequestInfo,
) -> ApiResult<Response<Body>> {
    let form = output_format(head.accept(), &info.resource.kind)?;
    let query = head.query.list()?;
    let resource = &info.resource;
    read::check_fields(resource, &query.fields)?;
    let initial = head.query.get("sendInitialEvents");
    check_initial(initial, &query)?;
    let requested = read::parse_version(&query.version)?.unwrap_or(0);
    let current = shared.cluster.store.version();
    let streaming = head.query.truth("sendInitialEvents");
    if streaming && requested > current {
        return Err(StatusError::too_large_version(requested, current));
    }
    let updates = resource.objects.subscribe();
    let prefix = resource.prefix(info.namespace.as_deref());
    // Without a version, a watch starts with the current objects, unless the client opts out.
    let (version, objects) = if streaming || (requested == 0 && initial.is_empty()) {
        let mut plain = ListOptions {
            labels: query.labels.clone(),
            fields: query.fields.clone(),
            ..ListOptions::default()
        };
        if let Some(version) = stale_version(shared, head, resource) {
            plain.version = if requested == 0 { String::new() } else { requested.to_string() };
            as_of(&mut plain, version)?;
        }
        let page = shared.cluster.list(resource, info.namespace.as_deref(), &plain)?;
        (page.version, page.objects)
    } else {
        (if requested == 0 { current } else { requested }, Vec::new())
    };
    let now = Instant::now();
    let end = now + head.query.watch_time()?.unwrap_or(WATCH_DURATION);
    let bookmarks = head.query.truth("allowWatchBookmarks");
    let watch = Watch {
        resource: Arc::clone(resource),
        prefix,
        labels: query.labels,
        fields: query.fields,
        form,
        include: head.query.get("includeObject").to_owned(),
        bookmarks,
        initial: objects.into_iter(),
        end_bookmark_due: streaming,
        updates,
        version,
        end,
        timer: Box::pin(sleep_until(next_wake(end, bookmarks))),
        ending: Box::pin(shared.shutdown.clone().cancelled_owned()),
        heads_sent: false,
        ended: false,
        chunks_left: match head.fault {
            Some(Fault::CutWatch(chunks)) => Some(chunks),
            _ => None,
        },
    };
    let chunks = stream::unfold((watch, head.path.clone()), |(mut watch, path)| async move {
        if let Some(left) = &mut watch.chunks_left {
            *left = left.checked_sub(1)?;
        }
        // A watch that panics ends; the client resumes or relists.
        let chunk = catch_panic(&Method::GET, &path, watch.next()).await??;
        Some((Ok::<_, Infallible>(Frame::data(chunk)), (watch, path)))
    });
    let kind = if form == OutputFormat::Protobuf { PROTOBUF_STREAM } else { "application/json" };
    Ok(with_body(200, kind, StreamBody::new(chunks).boxed_unsync()))
}

fn check_initial(initial: &str, query: &ListOptions) -> ApiResult<()> {
    let problem = match (initial, &*query.version_match) {
        ("", "") => return Ok(()),
        ("", _) => FieldError::forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        (_, "NotOlderThan") => return Ok(()),
        (_, "") => FieldError::forbidden(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (_, other) => FieldError::not_supported("resourceVersionMatch", other, &["NotOlderThan"]),
    };
    Err(StatusError::invalid("meta.k8s.io", "ListOptions", "", &[problem]))
}

/// Returns when a watch has to act even if nothing changes.
fn next_wake(end: Instant, bookmarks: bool) -> Instant {
    if bookmarks { end.min(Instant::now() + BOOKMARK_INTERVAL) } else { end }
}

impl Watch {
    /// Returns the next chunk of the stream, or `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.ended {
                return None;
            }
            if let Some(chunk) = self.next_initial() {
                return Some(chunk);
            }
            self.updates.borrow_and_update();
            match self.resource.objects.after(self.version, WATCH_BATCH_MAX) {
                Err(expired) => {
                    self.ended = true;
                    let message =
                        format!("too old resource version: {} ({})", self.version, expired.oldest);
                    let status = StatusError::expired(message).to_json();
                    return Some(self.written("ERROR", &status));
                }
                Ok(batch) => {
                    self.version = batch.version;
                    if let Some(chunk) = self.lines(&batch.changes) {
                        return Some(chunk);
                    }
                    if batch.more {
                        continue;
                    }
                }
            }
            tokio::select! {
                changed = self.updates.changed() => changed.ok()?,
                () = self.timer.as_mut() => {
                    if Instant::now() >= self.end {
                        return self.last();
                    }
                    self.timer.as_mut().reset(next_wake(self.end, self.bookmarks));
                    return Some(self.bookmark(false));
                }
                () = self.ending.as_mut() => return None,
            }
        }
    }

    /// Ends the watch with a bookmark, from which the client can resume.
    fn last(&mut self) -> Option<Bytes> {
        self.ended = true;
        self.bookmarks.then(|| self.bookmark(false))
    }

    fn next_initial(&mut self) -> Option<Bytes> {
        if self.initial.as_slice().is_empty() {
            return std::mem::take(&mut self.end_bookmark_due).then(|| self.bookmark(true));
        }
        let mut chunk = BytesMut::with_capacity(LIST_CHUNK_BYTES.min(64 << 10));
        while chunk.len() < LIST_CHUNK_BYTES {
            let Some(object) = self.initial.next() else { break };
            let line = self.line(ChangeKind::Added, &object);
            chunk.extend_from_slice(&line);
        }
        Some(chunk.freeze())
    }

    fn lines(&mut self, changes: &[Arc<Change>]) -> Option<Bytes> {
        let mut first: Option<Bytes> = None;
        let mut more = BytesMut::new();
        for change in changes {
            let Some(line) = self.selected(change) else { continue };
            match &first {
                None => first = Some(line),
                Some(head) => {
                    if more.is_empty() {
                        more.extend_from_slice(head);
                    }
                    more.extend_from_slice(&line);
                }
            }
        }
        if more.is_empty() { first } else { Some(more.freeze()) }
    }

    /// Translates a change for this watch: objects that start to match its selectors are added, those that
    /// cease to match are deleted.
    fn selected(&mut self, change: &Change) -> Option<Bytes> {
        let object = &change.object;
        if !object.key.starts_with(&*self.prefix) {
            return None;
        }
        let plain = self.form == OutputFormat::Json && !events::converted(&self.resource);
        if self.labels.is_empty() && self.fields.is_empty() && plain {
            return Some(object.line(change.kind));
        }
        let seen = |object: &Object| {
            self.labels.matches(object.labels()) && self.fields.matches(object.fields())
        };
        let now = change.kind != ChangeKind::Deleted && seen(object);
        let before = change.previous.as_ref().is_some_and(|previous| seen(previous));
        let kind = match (before, now) {
            (false, false) => return None,
            (false, true) => ChangeKind::Added,
            (true, true) => ChangeKind::Modified,
            (true, false) => ChangeKind::Deleted,
        };
        if plain && kind == change.kind {
            return Some(object.line(change.kind));
        }
        if kind == ChangeKind::Deleted && change.kind != ChangeKind::Deleted {
            // Sent as it last matched, with the resourceVersion of the change.
            let previous = change.previous.as_ref()?;
            let mut value = previous.value();
            value["metadata"]["resourceVersion"] = object.version.to_string().into();
            return Some(self.render(kind, value));
        }
        Some(self.line(kind, object))
    }

    fn line(&mut self, kind: ChangeKind, object: &Object) -> Bytes {
        if self.form == OutputFormat::Json && !events::converted(&self.resource) {
            return object.line(kind);
        }
        let value = match self.form {
            OutputFormat::Json | OutputFormat::Protobuf => value_of(&self.resource, object),
            OutputFormat::Table | OutputFormat::Metadata => object.value(),
        };
        self.render(kind, value)
    }

    fn render(&mut self, kind: ChangeKind, value: Value) -> Bytes {
        let value = match self.form {
            OutputFormat::Json | OutputFormat::Protobuf => value,
            OutputFormat::Metadata => metadata_of(&value, "PartialObjectMetadata"),
            OutputFormat::Table => {
                let heads = !std::mem::replace(&mut self.heads_sent, true);
                let version = value["metadata"]["resourceVersion"].clone();
                let mut table = table(&self.resource, &[value], &self.include, heads);
                table["metadata"] = json!({"resourceVersion": version});
                table
            }
        };
        self.written(kind.name(), &value)
    }

    /// Encodes a watch event.
    fn written(&self, kind: &str, value: &Value) -> Bytes {
        if self.form == OutputFormat::Protobuf
            && let Some(bytes) = protobuf::encode_change(kind, value)
        {
            return bytes.into();
        }
        frame(kind, value.to_string().as_bytes())
    }

    fn bookmark(&self, initial_end: bool) -> Bytes {
        let kind = &self.resource.kind;
        let mut metadata = json!({"resourceVersion": self.version.to_string()});
        if initial_end {
            metadata["annotations"] = json!({INITIAL_END: "true"});
        }
        let object = match self.form {
            OutputFormat::Json | OutputFormat::Protobuf => {
                json!({"kind": kind.kind, "apiVersion": kind.api_version(), "metadata": metadata})
            }
            OutputFormat::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            OutputFormat::Table => {
                json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": null, "rows": []})
            }
        };
        self.written("BOOKMARK", &object)
    }
}

const _: () = assert!(BOOKMARK_INTERVAL.as_secs() < Duration::as_secs(&WATCH_DURATION));
