//! Following all objects of one kind.
//!
//! ```text
//!            ┌── too old, or not to be had ──┐
//!            ▼                               │
//! fill (a streaming list, or pages) ──► watch from a version ──┐
//!                                            ▲                 │ ended, cut, idle
//!                                            └─────────────────┘
//! ```
//!
//! What is known never goes back: an older version of an object is ignored, and whatever a new list
//! lacks is gone.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use bytes::Bytes;
use engine::object::Text;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::driver::Input;
use crate::kinds::{Key, Kind};
use crate::metrics::Metrics;

/// How long the server keeps a watch open.
const WATCH_SECONDS: u64 = 290;

/// A watch without any byte for this long is dead: bookmarks come about every minute.
const IDLE_MAX: Duration = Duration::from_secs(WATCH_SECONDS + 5);

/// How long the head of an answer may take.
const HEAD_MAX: Duration = Duration::from_secs(30);

/// How long a page of a list may take.
const PAGE_MAX: Duration = Duration::from_mins(1);

/// Objects on a page.
const PAGE_OBJECTS: usize = 1000;

/// Bytes of one event. etcd takes objects of 1.5 MB; JSON is at most a few times that.
const EVENT_BYTES_MAX: usize = 32 << 20;

/// Waits after failures in a row.
const BACKOFF_FIRST: Duration = Duration::from_millis(200);
const BACKOFF_LAST: Duration = Duration::from_secs(30);

/// Problems told of one kind; a cluster full of odd objects must not fill the log.
const PROBLEMS_TOLD: usize = 100;

/// What others may know of a watch.
#[derive(Debug, Default)]
pub struct WatchStatus {
    /// All objects were seen once.
    pub synced: AtomicBool,
}

/// Follows one kind and tells the engine.
pub struct Follower {
    kind: &'static Kind,
    client: kube::Client,
    inputs: mpsc::Sender<Input>,
    status: Arc<WatchStatus>,
    metrics: Metrics,
    known: HashMap<Key, Known>,
    /// The newest version seen.
    version: u64,
    /// All objects of that version were seen.
    complete: bool,
    streaming_lists: bool,
    problems_told: usize,
}

#[derive(Debug)]
struct Known {
    uid: Text,
    version: u64,
}

/// Why a watch is over.
#[derive(Debug)]
enum End {
    /// It can go on from the last version.
    Closed,
    /// The last version is too old: everything must be listed again.
    Expired,
    /// The server does not list by streams.
    NoStreamingLists,
    /// The receiver is gone.
    Stopped,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    event: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl Follower {
    /// Follows a kind over a client.
    pub fn new(
        kind: &'static Kind,
        client: kube::Client,
        inputs: mpsc::Sender<Input>,
        status: Arc<WatchStatus>,
        metrics: Metrics,
    ) -> Self {
        Self {
            kind,
            client,
            inputs,
            status,
            metrics,
            known: HashMap::new(),
            version: 0,
            complete: false,
            streaming_lists: true,
            problems_told: 0,
        }
    }

    /// Goes on until nobody listens.
    pub async fn run(mut self) {
        let mut failures = 0;
        loop {
            let begun = Instant::now();
            let end = if self.complete {
                self.stream(None).await
            } else if self.streaming_lists {
                self.stream(Some(HashSet::new())).await
            } else {
                self.list().await
            };
            match end {
                Ok(End::Stopped) => return,
                Ok(End::Closed) => {
                    // A server that closes at once is not asked at once.
                    failures = if begun.elapsed() > BACKOFF_FIRST { 0 } else { failures + 1 };
                }
                Ok(End::Expired) => {
                    tracing::info!(kind = self.kind.name, "the watch is too old, listing again");
                    self.metrics.relisted(self.kind.name, "expired");
                    self.complete = false;
                    failures += 1;
                }
                Ok(End::NoStreamingLists) => self.streaming_lists = false,
                Err(error) if self.kind.optional && is_not_found(&error) => {
                    tracing::info!(kind = self.kind.name, "the API server does not have this kind");
                    self.finish(HashSet::new()).await;
                    tokio::time::sleep(BACKOFF_LAST).await;
                }
                Err(error) => {
                    tracing::warn!(kind = self.kind.name, "cannot follow: {error:#}");
                    failures += 1;
                }
            }
            if failures > 0 {
                tokio::time::sleep(backoff(failures)).await;
            }
        }
    }

    /// Watches from the last version, or, with a set for what is seen, from nothing.
    async fn stream(&mut self, mut seen: Option<HashSet<Key>>) -> Result<End> {
        let from = if seen.is_some() {
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=".to_owned()
        } else {
            format!("resourceVersion={}", self.version)
        };
        let query = format!(
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&{from}{}",
            self.selector()
        );
        let response = self.get(&query, HEAD_MAX).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::GONE => return Ok(End::Expired),
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY if seen.is_some() => {
                return Ok(End::NoStreamingLists);
            }
            _ => return Err(failure(response).await),
        }
        let mut body = response.into_body();
        let mut buffer = Buffer::default();
        loop {
            let Ok(frame) = timeout(IDLE_MAX, body.frame()).await else {
                bail!("nothing was heard for {} s", IDLE_MAX.as_secs());
            };
            let Some(frame) = frame else { return Ok(End::Closed) };
            let Ok(data) = frame.context("the stream broke off")?.into_data() else { continue };
            self.hear();
            buffer.push(&data)?;
            while let Some(line) = buffer.next_line() {
                if let Some(end) = self.take_line(&line, &mut seen).await? {
                    return Ok(end);
                }
            }
        }
    }

    async fn take_line(
        &mut self,
        line: &[u8],
        seen: &mut Option<HashSet<Key>>,
    ) -> Result<Option<End>> {
        let line: Line = serde_json::from_slice(line).context("an event cannot be read")?;
        let object: Value =
            serde_json::from_str(line.object.get()).context("an event cannot be read")?;
        match line.event {
            "ADDED" | "MODIFIED" => {
                let key = self.take_object(&object).await?;
                if let Some(seen) = seen {
                    seen.insert(key);
                }
            }
            "DELETED" => {
                let (key, known) = identity(&object)?;
                self.version = self.version.max(known.version);
                // A delete of an older incarnation says nothing of the present one.
                if self.known.get(&key).is_some_and(|kept| kept.version <= known.version) {
                    let kept = self.known.remove(&key).unwrap_or(known);
                    self.tell(Input::Change((self.kind.gone)(&key, &kept.uid))).await;
                }
            }
            "BOOKMARK" => {
                let (_, known) = identity(&object)?;
                self.version = self.version.max(known.version);
                let end = "/metadata/annotations/k8s.io~1initial-events-end";
                if object.pointer(end).is_some()
                    && let Some(seen) = seen.take()
                {
                    self.finish(seen).await;
                }
            }
            "ERROR" => {
                if object.get("code") == Some(&Value::from(410)) {
                    return Ok(Some(End::Expired));
                }
                bail!("the API server says: {}", message_of(&object));
            }
            other => tracing::warn!(kind = self.kind.name, "unknown event {other:?} is ignored"),
        }
        Ok(self.inputs.is_closed().then_some(End::Stopped))
    }

    /// Lists by pages, consistently.
    async fn list(&mut self) -> Result<End> {
        let mut seen = HashSet::new();
        let mut token = String::new();
        loop {
            let query = format!("limit={PAGE_OBJECTS}&continue={token}{}", self.selector());
            let response = self.get(&query, HEAD_MAX).await?;
            match response.status() {
                StatusCode::OK => {}
                StatusCode::GONE => return Ok(End::Expired),
                _ => return Err(failure(response).await),
            }
            let body = timeout(PAGE_MAX, response.into_body().collect());
            let page = body.await.context("a page took too long")??.to_bytes();
            self.hear();
            let page: Value = serde_json::from_slice(&page).context("a list cannot be read")?;
            for object in page.get("items").and_then(Value::as_array).into_iter().flatten() {
                seen.insert(self.take_object(object).await?);
            }
            let text = |field| page.pointer(field).and_then(Value::as_str).unwrap_or("");
            token = percent_encode(text("/metadata/continue"));
            if token.is_empty() {
                let version = text("/metadata/resourceVersion").parse().unwrap_or(0);
                if version < self.version {
                    bail!("the list is of version {version}, older than {}", self.version);
                }
                self.version = version;
                self.finish(seen).await;
                return Ok(End::Closed);
            }
        }
    }

    /// Everything was seen: what was not is gone.
    async fn finish(&mut self, seen: HashSet<Key>) {
        let mut gone: Vec<(Key, Text)> = self
            .known
            .iter()
            .filter(|(key, _)| !seen.contains(*key))
            .map(|(key, known)| (key.clone(), known.uid.clone()))
            .collect();
        gone.sort_unstable();
        for (key, uid) in gone {
            self.known.remove(&key);
            self.tell(Input::Change((self.kind.gone)(&key, &uid))).await;
        }
        self.complete = true;
        if !self.status.synced.swap(true, Ordering::Relaxed) {
            self.tell(Input::Synced).await;
        }
    }

    /// Takes an object over if it is news.
    async fn take_object(&mut self, object: &Value) -> Result<Key> {
        let (key, news) = identity(object)?;
        self.version = self.version.max(news.version);
        if self.known.get(&key).is_some_and(|known| known.version >= news.version) {
            return Ok(key);
        }
        let (change, problems) = (self.kind.lower)(object);
        for problem in problems {
            if self.problems_told < PROBLEMS_TOLD {
                self.problems_told += 1;
                tracing::warn!(kind = self.kind.name, "{problem}");
            }
        }
        let counts = change.is_some();
        let uid = news.uid.clone();
        let before =
            if counts { self.known.insert(key.clone(), news) } else { self.known.remove(&key) };
        if let Some(before) = before
            && (before.uid != uid || !counts)
        {
            self.tell(Input::Change((self.kind.gone)(&key, &before.uid))).await;
        }
        if let Some(change) = change {
            self.tell(Input::Change(change)).await;
        }
        Ok(key)
    }

    async fn tell(&self, input: Input) {
        // If nobody listens, the loop ends at the next look.
        let _ = self.inputs.send(input).await;
    }

    async fn get(&self, query: &str, limit: Duration) -> Result<Response<Body>> {
        let uri = format!("{}?{query}", self.kind.path);
        let request = Request::get(uri).header("accept", "application/json").body(Body::empty())?;
        let response = timeout(limit, self.client.send(request));
        Ok(response.await.context("the API server did not answer")??)
    }

    fn selector(&self) -> String {
        match self.kind.field_selector {
            "" => String::new(),
            selector => format!("&fieldSelector={}", percent_encode(selector)),
        }
    }

    fn hear(&self) {
        self.metrics.watch_fresh(self.kind.name, tokio::time::Instant::now());
    }
}

/// Bytes of a stream, cut into lines.
#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// Bytes that were taken already.
    taken: usize,
    /// Bytes that are known to hold no line end.
    searched: usize,
}

impl Buffer {
    fn push(&mut self, data: &Bytes) -> Result<()> {
        self.bytes.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        if self.bytes.len() + data.len() > EVENT_BYTES_MAX {
            bail!("an event is larger than {EVENT_BYTES_MAX} bytes");
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    fn next_line(&mut self) -> Option<Vec<u8>> {
        let rest = &self.bytes[self.searched..];
        let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.bytes.len();
            return None;
        };
        let end = self.searched + length;
        let line = self.bytes[self.taken..end].to_vec();
        self.taken = end + 1;
        self.searched = self.taken;
        Some(line)
    }
}

fn identity(object: &Value) -> Result<(Key, Known)> {
    let text = |field: &str| object.pointer(field).and_then(Value::as_str).unwrap_or("");
    let version = text("/metadata/resourceVersion");
    let version = version
        .parse()
        .map_err(|_| anyhow!("metadata.resourceVersion {version:?} is not a number"))?;
    let key =
        Key { namespace: text("/metadata/namespace").into(), name: text("/metadata/name").into() };
    Ok((key, Known { uid: text("/metadata/uid").into(), version }))
}

/// The API server refused.
#[derive(Debug)]
pub struct Refused {
    /// The HTTP status.
    pub status: StatusCode,
    /// What it said.
    pub message: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.status, self.message)
    }
}

impl std::error::Error for Refused {}

/// Why the API server refused, as an error.
pub(crate) async fn failure(response: Response<Body>) -> anyhow::Error {
    const MESSAGE_BYTES_MAX: usize = 64 << 10;
    let status = response.status();
    let body = http_body_util::Limited::new(response.into_body(), MESSAGE_BYTES_MAX);
    let bytes = timeout(HEAD_MAX, body.collect()).await;
    let bytes = bytes.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes);
    let object = bytes.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    Refused { status, message: object.as_ref().map_or(String::new(), message_of) }.into()
}

fn is_not_found(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refused>().is_some_and(|refused| refused.status == StatusCode::NOT_FOUND)
}

fn message_of(status: &Value) -> String {
    status.get("message").and_then(Value::as_str).unwrap_or("(no message)").to_owned()
}

fn backoff(failures: u32) -> Duration {
    let wait = BACKOFF_FIRST.saturating_mul(1 << failures.min(16).saturating_sub(1));
    wait.min(BACKOFF_LAST).mul_f64(0.5 + jitter())
}

/// From 0 to 0.5. Clients that lost one server must not come back all at once.
fn jitter() -> f64 {
    use std::hash::{BuildHasher as _, RandomState};
    (RandomState::new().hash_one(0) >> 32) as f64 / f64::from(u32::MAX) / 2.0
}

/// Encodes what stands in a query.
pub(crate) fn percent_encode(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let encode =
        |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(encode).collect()
}
