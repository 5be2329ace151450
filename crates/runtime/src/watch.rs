//! Following all objects of one kind.
//!
//! ```text
//!            ┌── too old, or asked for ──────┐
//!            ▼                               │
//! fill (a streaming list, or pages) ──► watch from a version ──┐
//!                                            ▲                 │ ended, cut, idle
//!                                            └─────────────────┘
//! ```
//!
//! What is known never goes back: an older version of an object is ignored, a deleted one does not
//! come back, and whatever a new list lacks is gone.

mod backoff;
mod decoder;
mod error_log;
mod frames;
mod lines;
mod objects;
mod page;
mod status;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Error, Result, anyhow, bail};
use api::lower::Source;
use api::protobuf::schema;
use engine::change::Change;
use http::{Method, Response, StatusCode};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::api_error::{ApiStatus, Encoding, JSON, PROTOBUF_OR_JSON, read_error, status_code_of};
use crate::client::{self, ApiConnection, ApiRequest};
use crate::driver::{Input, send};
use crate::extenders::NodeStore;
use crate::gate::Throttle;
use crate::kinds::WatchedKind;
use crate::metrics::Metrics;
use crate::pod_status::{StatusUpdate, StatusWriter};
use backoff::{BACKOFF_INITIAL, BACKOFF_MAX, FailureBackoff};
use decoder::{EventDecoder, EventTooLarge, WatchEvent};
use error_log::{ErrorLog, explain};
use objects::{ObjectIdentity, ObjectTable, identity_of};
use page::ListPage;
pub use status::WatchStatus;

/// How long the server keeps a watch open.
const WATCH_TIMEOUT_SECONDS: u64 = 290;

/// A watch without any byte for this long is dead: bookmarks come about every minute.
const SILENCE_MAX: Duration = Duration::from_secs(WATCH_TIMEOUT_SECONDS + 5);

/// How long the head of an answer may take.
const RESPONSE_HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a page of a list may take, and how long a streaming list may say nothing.
const PAGE_TIMEOUT: Duration = Duration::from_mins(1);

/// ObjectTable on a page.
const PAGE_OBJECTS_MAX: usize = 1000;

/// Bytes of a page, whatever its objects.
const PAGE_BYTES_MAX: usize = 1 << 30;

/// Bytes of one event. etcd takes objects of 1.5 MB; JSON is at most a few times that.
const EVENT_BYTES_MAX: usize = 32 << 20;

/// Bytes of a watch that are cut into events at once.
const DECODE_CHUNK_BYTES: usize = 16 << 10;

/// The annotation of the bookmark that ends a streaming list.
const INITIAL_EVENTS_END_ANNOTATION: &str = "k8s.io/initial-events-end";

/// Problems told of one kind; a cluster full of odd objects must not fill the log.
const PROBLEMS_LOGGED_MAX: usize = 100;

/// Follows one kind and tells the engine.
pub struct Reflector {
    kind: &'static WatchedKind,
    connection: ApiConnection,
    inputs: mpsc::Sender<Input>,
    status: Arc<WatchStatus>,
    metrics: Metrics,
    objects: ObjectTable,
    /// The last call for a new list that was heard.
    relist_generation: u64,
    /// How long the first list waits for a call.
    startup_delay: Duration,
    streaming_lists: bool,
    /// Whether the last request was answered, in whatever way.
    answered: bool,
    problems_logged: usize,
    error_log: ErrorLog,
    throttle: Throttle,
    /// Is told what pods say of themselves.
    status_writer: Option<StatusWriter>,
    /// Keeps nodes as they are shown.
    node_store: Option<NodeStore>,
}

/// Why a list or a watch is over.
#[derive(Debug)]
enum WatchEnd {
    /// Everything was listed.
    Listed,
    /// It can go on from the last version.
    Closed,
    /// The last version is too old: everything must be listed again.
    Expired,
    /// Somebody wants a new list.
    RelistRequested,
    /// The server does not list by streams.
    StreamingListUnsupported,
}

impl Reflector {
    /// Follows a kind over a connection.
    pub fn new(
        kind: &'static WatchedKind,
        connection: impl Into<ApiConnection>,
        inputs: mpsc::Sender<Input>,
        status: Arc<WatchStatus>,
        metrics: Metrics,
    ) -> Self {
        Self {
            kind,
            connection: connection.into(),
            inputs,
            status,
            metrics,
            objects: ObjectTable::new(kind),
            relist_generation: 0,
            startup_delay: Duration::ZERO,
            streaming_lists: true,
            answered: false,
            problems_logged: 0,
            error_log: ErrorLog::default(),
            throttle: Throttle::none(),
            status_writer: None,
            node_store: None,
        }
    }

    /// Lists not faster than this; watches are not counted, as in upstream's clients.
    #[must_use]
    pub fn with_throttle(self, throttle: Throttle) -> Self {
        Self { throttle, ..self }
    }

    /// Begins when a list is called for, or after this time: whoever calls for one soon is spared
    /// that there are two.
    #[must_use]
    pub fn with_startup_delay(self, delay: Duration) -> Self {
        Self { startup_delay: delay, ..self }
    }

    /// Tells what pods say of themselves.
    #[must_use]
    pub fn with_status_writer(self, status_writer: StatusWriter) -> Self {
        Self { status_writer: Some(status_writer), ..self }
    }

    /// Also keeps nodes as they are shown.
    #[must_use]
    pub fn with_node_store(self, nodes: NodeStore) -> Self {
        Self { node_store: Some(nodes), ..self }
    }

    /// Goes on until nobody listens.
    pub async fn run(mut self) {
        let inputs = self.inputs.clone();
        tokio::select! {
            () = inputs.closed() => {}
            () = self.run_until_closed() => {}
        }
    }

    async fn run_until_closed(&mut self) {
        let mut failures = FailureBackoff::default();
        let _ = timeout(self.startup_delay, self.status.relist_requested_after(0)).await;
        loop {
            let begun = Instant::now();
            let end = self.list_or_watch().await;
            let lasted = begun.elapsed();
            if lasted > BACKOFF_MAX {
                failures = FailureBackoff::default();
            }
            match end {
                Ok(WatchEnd::Listed) => continue,
                Ok(WatchEnd::RelistRequested) => {
                    self.metrics.count_relist(self.kind.name, "called");
                    continue;
                }
                // A server that closes at once is not asked at once.
                Ok(WatchEnd::Closed) => {
                    if lasted > BACKOFF_INITIAL {
                        failures = FailureBackoff::default();
                    } else {
                        failures.add(true);
                    }
                }
                Ok(WatchEnd::Expired) => {
                    tracing::info!(kind = self.kind.name, "the watch is too old, listing again");
                    self.metrics.count_relist(self.kind.name, "expired");
                    self.objects.invalidate();
                    failures.add(true);
                }
                Ok(WatchEnd::StreamingListUnsupported) => self.streaming_lists = false,
                Err(error)
                    if self.kind.is_optional
                        && status_code_of(&error) == Some(StatusCode::NOT_FOUND) =>
                {
                    if self.error_log.should_log_if_new("missing") {
                        tracing::info!(kind = self.kind.name, "the API server lacks this kind");
                    }
                    self.objects.begin();
                    self.finish(0).await;
                    self.objects.invalidate();
                    failures = FailureBackoff::default();
                    sleep(BACKOFF_MAX).await;
                }
                Err(error) => {
                    let listing = !self.objects.complete && !self.streaming_lists;
                    let verb = if listing { "list" } else { "watch" };
                    let text = explain(self.kind, verb, &error);
                    if self.error_log.should_log(&text) {
                        tracing::warn!(kind = self.kind.name, "{text}");
                    }
                    failures.add(self.answered);
                }
            }
            if let Some(wait) = failures.wait() {
                sleep(wait).await;
            }
        }
    }

    async fn list_or_watch(&mut self) -> Result<WatchEnd> {
        let call = self.status.relist_generation();
        if call > self.relist_generation {
            self.relist_generation = call;
            self.objects.invalidate();
        }
        if self.objects.complete {
            return self.stream(false).await;
        }
        self.objects.had_unreadable = false;
        self.objects.begin();
        if self.streaming_lists { self.stream(true).await } else { self.list().await }
    }

    /// Watches from the last version, or lists first.
    async fn stream(&mut self, mut listing: bool) -> Result<WatchEnd> {
        let from = if listing {
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=".to_owned()
        } else {
            format!("resourceVersion={}", self.objects.version)
        };
        let query = format!(
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_TIMEOUT_SECONDS}&{from}{}",
            self.selector()
        );
        let response = self.get(&query).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::GONE => return Ok(WatchEnd::Expired),
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY if listing => {
                return Ok(WatchEnd::StreamingListUnsupported);
            }
            _ => return Err(read_error(response).await),
        }
        let status = Arc::clone(&self.status);
        let called = status.relist_requested_after(self.relist_generation);
        let mut called = pin!(called);
        let mut pieces = EventDecoder::new(Encoding::of(&response), EVENT_BYTES_MAX);
        let mut body = response.into_body();
        let limit = |listing| if listing { PAGE_TIMEOUT } else { SILENCE_MAX };
        let mut heard = Instant::now();
        // Looked at when it ends, not set with each piece: that would cost more than the piece.
        let mut silence = pin!(sleep_until(heard + limit(listing)));
        loop {
            let data = tokio::select! {
                data = body.next() => data,
                () = &mut called => return Ok(WatchEnd::RelistRequested),
                () = &mut silence => {
                    let limit = limit(listing);
                    match (heard + limit > Instant::now(), listing) {
                        (true, _) => silence.as_mut().reset(heard + limit),
                        // A server that does not know such lists sends all objects and no end of
                        // them.
                        (false, true) => return Ok(WatchEnd::StreamingListUnsupported),
                        (false, false) => bail!("nothing was heard for {} s", limit.as_secs()),
                    }
                    continue;
                }
            };
            let Some(data) = data else { return Ok(WatchEnd::Closed) };
            let mut data = data?;
            heard = Instant::now();
            self.note_activity();
            // Not all at once, or as much would be kept for as long as the watch goes on.
            while !data.is_empty() {
                pieces.push(data.split_to(data.len().min(DECODE_CHUNK_BYTES)));
                while let Some(event) = pieces.next_event() {
                    // One that cannot be read is skipped: it would come again each time.
                    match event {
                        Ok(Ok(event)) => {
                            if let Some(end) = self.take_event(event, &mut listing).await? {
                                return Ok(end);
                            }
                        }
                        Ok(Err(error)) => self.skip_unreadable(&error),
                        Err(EventTooLarge) => {
                            self.skip_unreadable(&anyhow!(
                                "it is larger than {EVENT_BYTES_MAX} bytes"
                            ));
                        }
                    }
                }
            }
        }
    }

    /// Takes over an event.
    async fn take_event(
        &mut self,
        WatchEvent { kind, object }: WatchEvent<'_>,
        listing: &mut bool,
    ) -> Result<Option<WatchEnd>> {
        if kind == "ERROR" {
            let said = ApiStatus::read(object.source(&schema::STATUS)).unwrap_or_default();
            let expired = matches!(said.reason.as_deref(), Some("Expired" | "Gone"));
            if expired || said.code == Some(410) {
                return Ok(Some(WatchEnd::Expired));
            }
            bail!("the API server says: {}", said.message());
        }
        let object = object.source(self.kind.message);
        let identity = match identity_of(object) {
            Ok(identity) => identity,
            Err(error) => {
                self.skip_unreadable(&error);
                return Ok(None);
            }
        };
        let version = identity.version;
        match kind {
            "ADDED" | "MODIFIED" => self.take_object(object, identity).await,
            "DELETED" => {
                let gone = self.objects.delete(&identity);
                self.send_changes(gone).await;
            }
            "BOOKMARK" => {
                if *listing && ends_initial_events(object) {
                    *listing = false;
                    self.objects.check_list(version)?;
                    self.finish(version).await;
                }
                self.objects.version = self.objects.version.max(version);
            }
            other => self.skip_unreadable(&anyhow!("its type is {other:?}")),
        }
        Ok(None)
    }

    /// Lists by pages, consistently.
    async fn list(&mut self) -> Result<WatchEnd> {
        let mut token = String::new();
        loop {
            let query = format!("limit={PAGE_OBJECTS_MAX}&continue={token}{}", self.selector());
            self.throttle.wait().await;
            let response = self.get(&query).await?;
            match response.status() {
                StatusCode::OK => {}
                StatusCode::GONE => return Ok(WatchEnd::Expired),
                _ => return Err(read_error(response).await),
            }
            let form = Encoding::of(&response);
            let body = timeout(PAGE_TIMEOUT, response.into_body().whole(PAGE_BYTES_MAX));
            let page = body.await.context("a page took too long")??;
            self.note_activity();
            let page = ListPage::read(form, &page).context("a list cannot be read")?;
            // Before anything of it is taken over.
            self.objects.check_list(page.version)?;
            for object in &page.objects {
                let object = object.source(self.kind.message);
                match identity_of(object) {
                    Ok(identity) => self.take_object(object, identity).await,
                    Err(error) => self.skip_unreadable(&error),
                }
            }
            token = percent_encode(&page.next);
            if token.is_empty() {
                self.finish(page.version).await;
                return Ok(WatchEnd::Listed);
            }
        }
    }

    /// Everything of a version was seen.
    async fn finish(&mut self, version: u64) {
        let gone = self.objects.finish(version);
        self.send_changes(gone).await;
        if self.status.complete_list(self.relist_generation) {
            let _ = self.inputs.send(Input::Synced).await;
        }
    }

    async fn take_object(&mut self, object: Source<'_>, identity: ObjectIdentity<'_>) {
        let name = identity.name;
        let taken = self.objects.update(object, identity);
        if let Some(status_writer) = &self.status_writer
            && taken.change.as_ref().is_some_and(is_pending)
            && let Some(seen) = StatusUpdate::observed(object)
        {
            status_writer.enqueue(seen).await;
        }
        for problem in taken.problems {
            self.log_problem(&problem);
        }
        if let Some(nodes) = self.node_store.as_ref().filter(|_| taken.change.is_some())
            && let Source::Json(object) = object
        {
            nodes.insert(name.into(), object);
        }
        self.send_changes(taken.gone.into_iter().chain(taken.change)).await;
    }

    fn skip_unreadable(&mut self, why: &Error) {
        self.objects.had_unreadable = true;
        self.log_problem(&format!("an object or event is skipped, it cannot be read: {why:#}"));
    }

    fn log_problem(&mut self, problem: &str) {
        if self.problems_logged < PROBLEMS_LOGGED_MAX {
            self.problems_logged += 1;
            tracing::warn!(kind = self.kind.name, "{problem}");
        }
    }

    async fn send_changes(&self, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            if let (Some(status_writer), Change::PodGone { uid }) = (&self.status_writer, &change) {
                status_writer.enqueue(StatusUpdate::Forget(uid.clone())).await;
            }
            if let (Some(nodes), Change::NodeGone(name)) = (&self.node_store, &change) {
                nodes.remove(name);
            }
            // If nobody listens, following ends.
            send(&self.inputs, Input::Change(change)).await;
        }
    }

    async fn get(&mut self, query: &str) -> Result<Response<client::ResponseBody>> {
        let path = format!("{}?{query}", self.kind.path);
        // Extenders are sent nodes as JSON.
        let accept = if self.node_store.is_some() { JSON } else { PROTOBUF_OR_JSON };
        let ask = ApiRequest {
            method: Method::GET,
            path,
            accept: accept.into(),
            content: None,
            status_only: false,
            timeout: None,
        };
        self.answered = false;
        let response = timeout(RESPONSE_HEAD_TIMEOUT, self.connection.open(ask));
        let response = response.await.context("the API server did not answer")??;
        self.answered = true;
        Ok(response)
    }

    fn selector(&self) -> String {
        match self.kind.field_selector {
            "" => String::new(),
            selector => format!("&fieldSelector={}", percent_encode(selector)),
        }
    }

    fn note_activity(&self) {
        self.metrics.note_watch_activity(self.kind.name, Instant::now());
    }
}

/// Whether a pod is not on a node.
fn is_pending(change: &Change) -> bool {
    matches!(change, Change::Pod(pod) if pod.node.is_empty())
}

/// Whether a bookmark ends a streaming list.
fn ends_initial_events(bookmark: Source<'_>) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Bookmark {
        metadata: Metadata,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Metadata {
        annotations: HashMap<String, String>,
    }
    let read = bookmark.read::<Bookmark>();
    read.is_ok_and(|bookmark| {
        bookmark.metadata.annotations.contains_key(INITIAL_EVENTS_END_ANNOTATION)
    })
}

/// Encodes what stands in a query.
fn percent_encode(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
