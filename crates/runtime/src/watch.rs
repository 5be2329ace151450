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
mod complaints;
mod frames;
mod lines;
mod objects;
mod page;
mod pieces;
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

use crate::answer::{Form, JSON, PROTOBUF_OR_JSON, Said, failure, refusal};
use crate::driver::{Input, hand};
use crate::extenders::NodeObjects;
use crate::gate::Throttle;
use crate::kinds::Kind;
use crate::link::{self, Ask, Link};
use crate::metrics::Metrics;
use crate::report::{Report, Reports};
use backoff::{BACKOFF_FIRST, BACKOFF_LAST, Failures};
use complaints::{Complaints, explain};
use objects::{Identity, Objects, identity};
use page::Page;
use pieces::{Event, Pieces, TooLong};
pub use status::WatchStatus;

/// How long the server keeps a watch open.
const WATCH_SECONDS: u64 = 290;

/// A watch without any byte for this long is dead: bookmarks come about every minute.
const IDLE_MAX: Duration = Duration::from_secs(WATCH_SECONDS + 5);

/// How long the head of an answer may take.
const HEAD_MAX: Duration = Duration::from_secs(30);

/// How long a page of a list may take, and how long a streaming list may say nothing.
const PAGE_MAX: Duration = Duration::from_mins(1);

/// Objects on a page.
const PAGE_OBJECTS: usize = 1000;

/// Bytes of a page, whatever its objects.
const PAGE_BYTES_MAX: usize = 1 << 30;

/// Bytes of one event. etcd takes objects of 1.5 MB; JSON is at most a few times that.
const EVENT_BYTES_MAX: usize = 32 << 20;

/// Bytes of a watch that are cut into events at once.
const PORTION_BYTES: usize = 16 << 10;

/// The annotation of the bookmark that ends a streaming list.
const LIST_ENDS: &str = "k8s.io/initial-events-end";

/// Problems told of one kind; a cluster full of odd objects must not fill the log.
const PROBLEMS_TOLD: usize = 100;

/// Follows one kind and tells the engine.
pub struct Follower {
    kind: &'static Kind,
    link: Link,
    inputs: mpsc::Sender<Input>,
    status: Arc<WatchStatus>,
    metrics: Metrics,
    objects: Objects,
    /// The last call for a new list that was heard.
    call: u64,
    /// How long the first list waits for a call.
    head_start: Duration,
    streaming_lists: bool,
    /// Whether the last request was answered, in whatever way.
    answered: bool,
    problems_told: usize,
    complaints: Complaints,
    throttle: Throttle,
    /// Is told what pods say of themselves.
    reports: Option<Reports>,
    /// Keeps nodes as they are shown.
    nodes: Option<NodeObjects>,
}

/// Why a list or a watch is over.
#[derive(Debug)]
enum End {
    /// Everything was listed.
    Listed,
    /// It can go on from the last version.
    Closed,
    /// The last version is too old: everything must be listed again.
    Expired,
    /// Somebody wants a new list.
    Called,
    /// The server does not list by streams.
    NoStreamingLists,
}

impl Follower {
    /// Follows a kind over a link.
    pub fn new(
        kind: &'static Kind,
        link: impl Into<Link>,
        inputs: mpsc::Sender<Input>,
        status: Arc<WatchStatus>,
        metrics: Metrics,
    ) -> Self {
        Self {
            kind,
            link: link.into(),
            inputs,
            status,
            metrics,
            objects: Objects::new(kind),
            call: 0,
            head_start: Duration::ZERO,
            streaming_lists: true,
            answered: false,
            problems_told: 0,
            complaints: Complaints::default(),
            throttle: Throttle::none(),
            reports: None,
            nodes: None,
        }
    }

    /// Lists not faster than this; watches are not counted, as in upstream's clients.
    #[must_use]
    pub fn throttled(self, throttle: Throttle) -> Self {
        Self { throttle, ..self }
    }

    /// Begins when a list is called for, or after this time: whoever calls for one soon is spared
    /// that there are two.
    #[must_use]
    pub fn beginning_with_call(self, head_start: Duration) -> Self {
        Self { head_start, ..self }
    }

    /// Tells what pods say of themselves.
    #[must_use]
    pub fn telling(self, reports: Reports) -> Self {
        Self { reports: Some(reports), ..self }
    }

    /// Also keeps nodes as they are shown.
    #[must_use]
    pub fn keeping(self, nodes: NodeObjects) -> Self {
        Self { nodes: Some(nodes), ..self }
    }

    /// Goes on until nobody listens.
    pub async fn run(mut self) {
        let inputs = self.inputs.clone();
        tokio::select! {
            () = inputs.closed() => {}
            () = self.follow() => {}
        }
    }

    async fn follow(&mut self) {
        let mut failures = Failures::default();
        let _ = timeout(self.head_start, self.status.called_after(0)).await;
        loop {
            let begun = Instant::now();
            let end = self.list_or_watch().await;
            let lasted = begun.elapsed();
            if lasted > BACKOFF_LAST {
                failures = Failures::default();
            }
            match end {
                Ok(End::Listed) => continue,
                Ok(End::Called) => {
                    self.metrics.relisted(self.kind.name, "called");
                    continue;
                }
                // A server that closes at once is not asked at once.
                Ok(End::Closed) => {
                    if lasted > BACKOFF_FIRST {
                        failures = Failures::default();
                    } else {
                        failures.add(true);
                    }
                }
                Ok(End::Expired) => {
                    tracing::info!(kind = self.kind.name, "the watch is too old, listing again");
                    self.metrics.relisted(self.kind.name, "expired");
                    self.objects.distrust();
                    failures.add(true);
                }
                Ok(End::NoStreamingLists) => self.streaming_lists = false,
                Err(error)
                    if self.kind.optional && refusal(&error) == Some(StatusCode::NOT_FOUND) =>
                {
                    if self.complaints.are_news("missing") {
                        tracing::info!(kind = self.kind.name, "the API server lacks this kind");
                    }
                    self.objects.begin();
                    self.finish(0).await;
                    self.objects.distrust();
                    failures = Failures::default();
                    sleep(BACKOFF_LAST).await;
                }
                Err(error) => {
                    let listing = !self.objects.complete && !self.streaming_lists;
                    let verb = if listing { "list" } else { "watch" };
                    let text = explain(self.kind, verb, &error);
                    if self.complaints.are_due(&text) {
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

    async fn list_or_watch(&mut self) -> Result<End> {
        let call = self.status.call();
        if call > self.call {
            self.call = call;
            self.objects.distrust();
        }
        if self.objects.complete {
            return self.stream(false).await;
        }
        self.objects.holes = false;
        self.objects.begin();
        if self.streaming_lists { self.stream(true).await } else { self.list().await }
    }

    /// Watches from the last version, or lists first.
    async fn stream(&mut self, mut listing: bool) -> Result<End> {
        let from = if listing {
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=".to_owned()
        } else {
            format!("resourceVersion={}", self.objects.version)
        };
        let query = format!(
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&{from}{}",
            self.selector()
        );
        let response = self.get(&query).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::GONE => return Ok(End::Expired),
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY if listing => {
                return Ok(End::NoStreamingLists);
            }
            _ => return Err(failure(response).await),
        }
        let status = Arc::clone(&self.status);
        let called = status.called_after(self.call);
        let mut called = pin!(called);
        let mut pieces = Pieces::new(Form::of(&response), EVENT_BYTES_MAX);
        let mut body = response.into_body();
        let limit = |listing| if listing { PAGE_MAX } else { IDLE_MAX };
        let mut heard = Instant::now();
        // Looked at when it ends, not set with each piece: that would cost more than the piece.
        let mut silence = pin!(sleep_until(heard + limit(listing)));
        loop {
            let data = tokio::select! {
                data = body.next() => data,
                () = &mut called => return Ok(End::Called),
                () = &mut silence => {
                    let limit = limit(listing);
                    match (heard + limit > Instant::now(), listing) {
                        (true, _) => silence.as_mut().reset(heard + limit),
                        // A server that does not know such lists sends all objects and no end of
                        // them.
                        (false, true) => return Ok(End::NoStreamingLists),
                        (false, false) => bail!("nothing was heard for {} s", limit.as_secs()),
                    }
                    continue;
                }
            };
            let Some(data) = data else { return Ok(End::Closed) };
            let mut data = data?;
            heard = Instant::now();
            self.hear();
            // Not all at once, or as much would be kept for as long as the watch goes on.
            while !data.is_empty() {
                pieces.push(data.split_to(data.len().min(PORTION_BYTES)));
                while let Some(event) = pieces.next_event() {
                    // One that cannot be read is skipped: it would come again each time.
                    match event {
                        Ok(Ok(event)) => {
                            if let Some(end) = self.take_event(event, &mut listing).await? {
                                return Ok(end);
                            }
                        }
                        Ok(Err(error)) => self.skip(&error),
                        Err(TooLong) => {
                            self.skip(&anyhow!("it is larger than {EVENT_BYTES_MAX} bytes"));
                        }
                    }
                }
            }
        }
    }

    /// Takes over an event.
    async fn take_event(
        &mut self,
        Event { kind, object }: Event<'_>,
        listing: &mut bool,
    ) -> Result<Option<End>> {
        if kind == "ERROR" {
            let said = Said::read(object.source(&schema::STATUS)).unwrap_or_default();
            let expired = matches!(said.reason.as_deref(), Some("Expired" | "Gone"));
            if expired || said.code == Some(410) {
                return Ok(Some(End::Expired));
            }
            bail!("the API server says: {}", said.message());
        }
        let object = object.source(self.kind.message);
        let identity = match identity(object) {
            Ok(identity) => identity,
            Err(error) => {
                self.skip(&error);
                return Ok(None);
            }
        };
        let version = identity.version;
        match kind {
            "ADDED" | "MODIFIED" => self.take_object(object, identity).await,
            "DELETED" => {
                let gone = self.objects.delete(&identity);
                self.tell(gone).await;
            }
            "BOOKMARK" => {
                if *listing && ends_list(object) {
                    *listing = false;
                    self.objects.check_list(version)?;
                    self.finish(version).await;
                }
                self.objects.version = self.objects.version.max(version);
            }
            other => self.skip(&anyhow!("its type is {other:?}")),
        }
        Ok(None)
    }

    /// Lists by pages, consistently.
    async fn list(&mut self) -> Result<End> {
        let mut token = String::new();
        loop {
            let query = format!("limit={PAGE_OBJECTS}&continue={token}{}", self.selector());
            self.throttle.wait().await;
            let response = self.get(&query).await?;
            match response.status() {
                StatusCode::OK => {}
                StatusCode::GONE => return Ok(End::Expired),
                _ => return Err(failure(response).await),
            }
            let form = Form::of(&response);
            let body = timeout(PAGE_MAX, response.into_body().whole(PAGE_BYTES_MAX));
            let page = body.await.context("a page took too long")??;
            self.hear();
            let page = Page::read(form, &page).context("a list cannot be read")?;
            // Before anything of it is taken over.
            self.objects.check_list(page.version)?;
            for object in &page.objects {
                let object = object.source(self.kind.message);
                match identity(object) {
                    Ok(identity) => self.take_object(object, identity).await,
                    Err(error) => self.skip(&error),
                }
            }
            token = percent_encode(&page.next);
            if token.is_empty() {
                self.finish(page.version).await;
                return Ok(End::Listed);
            }
        }
    }

    /// Everything of a version was seen.
    async fn finish(&mut self, version: u64) {
        let gone = self.objects.finish(version);
        self.tell(gone).await;
        if self.status.listed(self.call) {
            let _ = self.inputs.send(Input::Synced).await;
        }
    }

    async fn take_object(&mut self, object: Source<'_>, identity: Identity<'_>) {
        let name = identity.name;
        let taken = self.objects.take(object, identity);
        if let Some(reports) = &self.reports
            && taken.change.as_ref().is_some_and(waits)
            && let Some(seen) = Report::seen(object)
        {
            reports.tell(seen).await;
        }
        for problem in taken.problems {
            self.tell_problem(&problem);
        }
        if let Some(nodes) = self.nodes.as_ref().filter(|_| taken.change.is_some())
            && let Source::Json(object) = object
        {
            nodes.keep(name.into(), object);
        }
        self.tell(taken.gone.into_iter().chain(taken.change)).await;
    }

    fn skip(&mut self, why: &Error) {
        self.objects.holes = true;
        self.tell_problem(&format!("an object or event is skipped, it cannot be read: {why:#}"));
    }

    fn tell_problem(&mut self, problem: &str) {
        if self.problems_told < PROBLEMS_TOLD {
            self.problems_told += 1;
            tracing::warn!(kind = self.kind.name, "{problem}");
        }
    }

    async fn tell(&self, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            if let (Some(reports), Change::PodGone { uid }) = (&self.reports, &change) {
                reports.tell(Report::Done(uid.clone())).await;
            }
            if let (Some(nodes), Change::NodeGone(name)) = (&self.nodes, &change) {
                nodes.forget(name);
            }
            // If nobody listens, following ends.
            hand(&self.inputs, Input::Change(change)).await;
        }
    }

    async fn get(&mut self, query: &str) -> Result<Response<link::Pieces>> {
        let path = format!("{}?{query}", self.kind.path);
        // Extenders are sent nodes as JSON.
        let accept = if self.nodes.is_some() { JSON } else { PROTOBUF_OR_JSON };
        let ask = Ask {
            method: Method::GET,
            path,
            accept: accept.into(),
            content: None,
            brief: false,
            within: None,
        };
        self.answered = false;
        let response = timeout(HEAD_MAX, self.link.open(ask));
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

    fn hear(&self) {
        self.metrics.watch_fresh(self.kind.name, Instant::now());
    }
}

/// Whether a pod is not on a node.
fn waits(change: &Change) -> bool {
    matches!(change, Change::Pod(pod) if pod.node.is_empty())
}

/// Whether a bookmark ends a streaming list.
fn ends_list(bookmark: Source<'_>) -> bool {
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
    read.is_ok_and(|bookmark| bookmark.metadata.annotations.contains_key(LIST_ENDS))
}

/// Encodes what stands in a query.
fn percent_encode(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
