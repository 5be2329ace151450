//! The reflector: lists and watches all objects of one kind.
//!
//! ```text
//!            ┌── expired, or relist requested ───────┐
//!            ▼                                       │
//! list (streaming, or by pages) ──► watch from a resourceVersion ──┐
//!                                            ▲                     │ closed, failed, silent
//!                                            └─────────────────────┘
//! ```
//!
//! State never goes back: an older version of an object is ignored, a deleted object does not come back,
//! and an object that a new list lacks is deleted.

mod backoff;
mod decoder;
mod error;
mod error_log;
mod frames;
mod lines;
mod objects;
mod page;
mod requests;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::kinds::Kind;
use api::lower::Source;
use engine::change::Change;
use engine::object::AnnotationKeys;
use http::StatusCode;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tracing::{Instrument as _, debug_span};

use crate::api_error::Chain;
use crate::client::ApiConnection;
use crate::driver::{Input, send};
use crate::extenders::NodeStore;
use crate::gate::Throttle;
use crate::metrics::Metrics;
use crate::pod_status::{StatusUpdate, StatusWriter};
use backoff::{BACKOFF_INITIAL, BACKOFF_MAX, FailureBackoff};
use decoder::DecodeError;
use error::WatchError;
use error_log::{ErrorLog, explain};
use objects::{ObjectIdentity, ObjectTable};
pub use status::WatchStatus;

/// Time after which the server closes a watch, in seconds.
const WATCH_TIMEOUT_SECONDS: u64 = 290;

/// Time without any byte after which a watch is dead; the server sends a bookmark about every minute.
const SILENCE_MAX: Duration = Duration::from_secs(WATCH_TIMEOUT_SECONDS + 5);

/// Time limit for the head of a response.
const RESPONSE_HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit for a page of a list, and longest silence within a streaming list.
const PAGE_TIMEOUT: Duration = Duration::from_mins(1);

/// Maximum number of objects per page.
const PAGE_OBJECTS_MAX: usize = 1000;

/// Maximum length of a page, in bytes.
const PAGE_BYTES_MAX: usize = 1 << 30;

/// Maximum length of an event, in bytes. etcd accepts objects of 1.5 MB; JSON is a few times that.
const EVENT_BYTES_MAX: usize = 32 << 20;

/// Number of bytes of a watch that are decoded at once.
const DECODE_CHUNK_BYTES: usize = 16 << 10;

/// Annotation of the bookmark that ends a streaming list.
const INITIAL_EVENTS_END_ANNOTATION: &str = "k8s.io/initial-events-end";

/// Maximum number of logged problems per kind, so that many unreadable objects do not fill the log.
const PROBLEMS_LOGGED_MAX: usize = 100;

/// Lists and watches one kind and sends the changes to the engine.
pub struct Reflector {
    kind: &'static Kind,
    connection: ApiConnection,
    inputs: mpsc::Sender<Input>,
    status: Arc<WatchStatus>,
    metrics: Metrics,
    objects: ObjectTable,
    /// Generation of the last relist that was started.
    relist_generation: u64,
    /// Time for which the first list waits for a relist request.
    startup_delay: Duration,
    streaming_lists: bool,
    /// The last request was answered, successfully or not.
    answered: bool,
    problems_logged: usize,
    error_log: ErrorLog,
    throttle: Throttle,
    /// Receives the observed status of pending pods.
    status_writer: Option<StatusWriter>,
    /// Receives nodes as JSON, for extenders.
    node_store: Option<NodeStore>,
}

/// Why a list or a watch ended without an error.
#[derive(Debug)]
enum WatchEnd {
    /// The list is complete.
    Listed,
    /// The server closed the watch; it can resume at the last resourceVersion.
    Closed,
    /// The last resourceVersion is too old, so a relist is needed.
    Expired,
    /// A relist was requested.
    RelistRequested,
    /// The server does not support streaming lists.
    StreamingListUnsupported,
}

impl Reflector {
    /// Creates a reflector of a kind.
    pub fn new(
        kind: &'static Kind,
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

    /// Throttles lists; watches are not throttled, as in client-go.
    #[must_use]
    pub fn with_throttle(self, throttle: Throttle) -> Self {
        Self { throttle, ..self }
    }

    /// Keeps the annotations of these keys, which are part of pods and nodes.
    #[must_use]
    pub fn with_annotations(self, keys: Arc<AnnotationKeys>) -> Self {
        Self { objects: self.objects.with_annotations(keys), ..self }
    }

    /// Delays the first list until a relist is requested, at most for `delay`. A request that comes soon
    /// then needs no second list.
    #[must_use]
    pub fn with_startup_delay(self, delay: Duration) -> Self {
        Self { startup_delay: delay, ..self }
    }

    /// Sends the observed status of pending pods to the status writer.
    #[must_use]
    pub fn with_status_writer(self, status_writer: StatusWriter) -> Self {
        Self { status_writer: Some(status_writer), ..self }
    }

    /// Keeps nodes as JSON in a store.
    #[must_use]
    pub fn with_node_store(self, nodes: NodeStore) -> Self {
        Self { node_store: Some(nodes), ..self }
    }

    /// Runs until the receiver of the inputs is dropped.
    pub async fn run(mut self) {
        let inputs = self.inputs.clone();
        let span = debug_span!("watch", kind = self.kind.name);
        tokio::select! {
            () = inputs.closed() => {}
            () = self.run_until_closed().instrument(span) => {}
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
                // A watch that the server closes at once counts as a failure.
                Ok(WatchEnd::Closed) => {
                    if lasted > BACKOFF_INITIAL {
                        failures = FailureBackoff::default();
                    } else {
                        failures.add(true);
                    }
                }
                Ok(WatchEnd::Expired) => {
                    tracing::info!(
                        kind = self.kind.name,
                        "the resourceVersion of the watch is too old, listing again"
                    );
                    self.metrics.count_relist(self.kind.name, "expired");
                    self.objects.invalidate();
                    failures.add(true);
                }
                Ok(WatchEnd::StreamingListUnsupported) => self.streaming_lists = false,
                Err(error)
                    if self.kind.is_optional && error.status() == Some(StatusCode::NOT_FOUND) =>
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

    async fn list_or_watch(&mut self) -> Result<WatchEnd, WatchError> {
        let requested = self.status.relist_generation();
        if requested > self.relist_generation {
            self.relist_generation = requested;
            self.objects.invalidate();
        }
        if self.objects.complete {
            return self.stream(false).await;
        }
        self.objects.had_unreadable = false;
        self.objects.begin();
        if self.streaming_lists { self.stream(true).await } else { self.list().await }
    }

    /// Completes a list of this resourceVersion.
    async fn finish(&mut self, version: u64) {
        let gone = self.objects.finish(version);
        self.send_changes(gone).await;
        if self.status.complete_list(self.relist_generation) {
            let _ = self.inputs.send(Input::Synced).await;
        }
    }

    /// Applies an object of a list or an event.
    async fn apply_object(&mut self, object: Source<'_>, identity: ObjectIdentity<'_>) {
        let name = identity.name;
        let update = self.objects.update(object, identity);
        if let Some(status_writer) = &self.status_writer
            && update.change.as_ref().is_some_and(is_pending)
            && let Some(observed) = StatusUpdate::observed(object)
        {
            status_writer.enqueue(observed).await;
        }
        for problem in update.problems {
            self.log_problem(&problem);
        }
        if let Some(nodes) = self.node_store.as_ref().filter(|_| update.change.is_some())
            && let Source::Json(object) = object
        {
            nodes.insert(name.into(), object);
        }
        self.send_changes(update.gone.into_iter().chain(update.change)).await;
    }

    fn skip_unreadable(&mut self, error: &DecodeError) {
        self.objects.had_unreadable = true;
        self.log_problem(&format!(
            "an object or event is skipped, it cannot be read: {}",
            Chain(error)
        ));
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
            // If the receiver is gone, `run` ends.
            send(&self.inputs, Input::Change(change)).await;
        }
    }
}

/// Returns `true` for a pod without a node.
fn is_pending(change: &Change) -> bool {
    matches!(change, Change::Pod(pod) if pod.node.is_empty())
}
