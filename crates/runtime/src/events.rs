//! EventRecorder for people, of the least importance: when there are too many, some are dropped and counted.
//!
//! As upstream's recorder has it, warnings that are equal in all but their text are one series: the
//! first is written, the second makes it a series, later ones are counted and written at its end.
//! What is normal happens to a pod once, so nothing of it is remembered.
//! Since the version of the pod is part of what must be equal, a new text on a pod whose status was
//! written is a new event.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use engine::command::PodName;
use engine::object::{Text, Uid};
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use http::{Method, StatusCode};
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::fmt::temporal::DateTimePrinter;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::api_error::{JSON, PROTOBUF_OR_JSON, is_retryable};
use crate::client::{ApiConnection, ApiRequest};
use crate::connect::chain;
use crate::gate::Throttle;
use crate::json::JsonWriter;
use crate::metrics::Metrics;

/// EventRecorder that may wait; they take some megabytes then.
const EVENTS_QUEUED_MAX: usize = 16_384;

/// EventRecorder that are written at once: enough for as many as pods are bound.
const WRITES_IN_FLIGHT_MAX: usize = 128;

/// Series that are remembered; beyond that the oldest repetitions are events of their own.
const SERIES_MAX: usize = 8192;

/// A series without a repetition for this long is at its end.
const SERIES_IDLE_MAX: Duration = Duration::from_mins(6);

/// How often it is looked for series that are at their end.
const SERIES_CHECK_INTERVAL: Duration = Duration::from_mins(1);

/// Bytes of a note.
const NOTE_BYTES_MAX: usize = 1024;

/// Characters of a pod's name with which an event can be named after it.
const POD_NAME_BYTES_MAX: usize = 253 - ".ffffffffffffffff".len();

/// How long writing one may take, how often it is tried, and the first wait in between.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
const ATTEMPTS_MAX: u32 = 3;
const RETRY_DELAY_INITIAL: Duration = Duration::from_secs(2);

/// A pod in one of its versions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodReference {
    /// The pod.
    pub pod: PodName,
    /// `metadata.resourceVersion`.
    pub version: u64,
}

/// What happened to a pod.
#[derive(Clone, Debug)]
pub struct PodEvent {
    /// The pod.
    pub regarding: PodReference,
    /// The pod that it has to do with, if any.
    pub related: Option<PodReference>,
    /// The scheduler that says so.
    pub scheduler: Text,
    /// `Normal` or `Warning`.
    pub kind: &'static str,
    /// `Scheduled`, say.
    pub reason: &'static str,
    /// `Binding`, say.
    pub action: &'static str,
    /// The text.
    pub note: String,
}

/// Takes events in and never waits.
#[derive(Clone)]
pub struct EventRecorder {
    sender: mpsc::Sender<PodEvent>,
    metrics: Metrics,
    shutdown: CancellationToken,
    writer: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl EventRecorder {
    /// Starts to write events, not faster than the throttle allows.
    pub fn start(
        connection: impl Into<ApiConnection>,
        throttle: Throttle,
        instance: String,
        metrics: Metrics,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(EVENTS_QUEUED_MAX);
        let writer = EventWriter {
            connection: connection.into(),
            throttle,
            instance,
            metrics: metrics.clone(),
            series: HashMap::new(),
            number: 0,
            clock: TimeFormatter::default(),
            source: None,
        };
        let shutdown = CancellationToken::new();
        let writer = tokio::spawn(writer.run(receiver, shutdown.clone()));
        Self { sender, metrics, shutdown, writer: Arc::new(Mutex::new(Some(writer))) }
    }

    /// Takes no more events. Those that wait are written within this time, or dropped.
    pub async fn shut_down(&self, within: Duration) {
        self.shutdown.cancel();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut writer) = writer else { return };
        if timeout(within, &mut writer).await.is_err() {
            writer.abort();
            let _ = writer.await;
        }
    }

    /// Has an event written, if there is room for it.
    pub fn record(&self, event: PodEvent) {
        if self.sender.try_send(event).is_err() {
            self.metrics.count_dropped_event();
        }
    }
}

/// What events of one series have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SeriesKey {
    regarding: PodReference,
    related: Option<PodReference>,
    scheduler: Text,
    kind: &'static str,
    reason: &'static str,
    action: &'static str,
}

struct Series {
    /// Path of the event.
    path: String,
    count: u32,
    /// The count that the API server has.
    written: u32,
    /// A request is under way.
    writing: bool,
    last: Instant,
    last_time: SystemTime,
}

struct EventWriter {
    connection: ApiConnection,
    throttle: Throttle,
    instance: String,
    metrics: Metrics,
    series: HashMap<SeriesKey, Series>,
    number: u64,
    clock: TimeFormatter,
    /// What was source last: mostly it is the same again.
    source: Option<RenderedSource>,
}

/// Who says what of a pod, as it stands in an event.
struct RenderedSource {
    scheduler: Text,
    kind: &'static str,
    reason: &'static str,
    action: &'static str,
    written: Box<str>,
}

/// Something to be sent.
struct EventRequest {
    /// Of the series, if it may become one.
    key: Option<SeriesKey>,
    reason: &'static str,
    /// What the count is when it is done.
    count: u32,
    /// A new event goes to the list of events, a repetition to the event.
    path: String,
    body: Bytes,
}

impl EventWriter {
    async fn run(mut self, mut events: mpsc::Receiver<PodEvent>, shutdown: CancellationToken) {
        let mut shutdown = pin!(shutdown.cancelled_owned().fuse());
        let mut in_flight = FuturesUnordered::new();
        let mut waiting = VecDeque::new();
        let mut check = interval(SERIES_CHECK_INTERVAL);
        loop {
            while in_flight.len() < WRITES_IN_FLIGHT_MAX
                && let Some(request) = waiting.pop_front()
            {
                in_flight.push(self.send(request));
            }
            tokio::select! {
                event = events.recv(), if in_flight.len() < WRITES_IN_FLIGHT_MAX => match event {
                    Some(event) => waiting.extend(self.handle(event)),
                    None => break,
                },
                () = &mut shutdown => events.close(),
                Some((request, done)) = in_flight.next(), if !in_flight.is_empty() => {
                    waiting.extend(self.complete(&request, done));
                }
                _ = check.tick() => waiting.extend(self.finish_idle_series(Instant::now())),
            }
        }
        while in_flight.next().await.is_some() {}
    }

    /// A new event, or one more of a series. What is to be sent now, if anything.
    fn handle(&mut self, event: PodEvent) -> Option<EventRequest> {
        let now = Instant::now();
        let PodEvent { regarding, related, scheduler, kind, reason, action, note } = event;
        let repeats = kind == "Warning";
        let key = SeriesKey { regarding, related, scheduler, kind, reason, action };
        if repeats
            && let Some(series) = self.series.get_mut(&key)
            && now.duration_since(series.last) < SERIES_IDLE_MAX
        {
            series.count += 1;
            series.last = now;
            series.last_time = SystemTime::now();
            return self.series_update(&key);
        }
        if repeats && self.series.len() >= SERIES_MAX {
            self.series.retain(|_, series| now.duration_since(series.last) < SERIES_IDLE_MAX);
            if self.series.len() >= SERIES_MAX {
                self.series.clear();
            }
        }
        let pod = &key.regarding.pod;
        let namespace = if pod.namespace.is_empty() { "default" } else { &pod.namespace };
        let mut uid = [0; Uid::TEXT_BYTES];
        let named_after = match pod.name.len() {
            0..=POD_NAME_BYTES_MAX => &*pod.name,
            _ => pod.uid.text(&mut uid),
        };
        let time = SystemTime::now();
        self.number += 1;
        let mut digits = [0; 16];
        let number = hexadecimal(nanoseconds(time) + self.number, &mut digits);
        let name = [named_after, ".", number];
        let list = ["/apis/events.k8s.io/v1/namespaces/", namespace, "/events"].concat();
        let mut body = JsonWriter::new(
            r#"{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"namespace":"#,
        )
        .string(namespace)
        .raw(r#","name":"#)
        .string_of(&name)
        .raw(r#"},"eventTime":"#)
        .string_of(&self.clock.rfc3339_micros(time, &mut [0; 6]))
        .raw(self.rendered_source(&key))
        .raw(r#","note":"#)
        .string(&truncated(&note));
        body = key.regarding.write(body.raw(r#","regarding":"#));
        if let Some(related) = &key.related {
            body = related.write(body.raw(r#","related":"#));
        }
        let body = body.end("}");
        if repeats {
            let path = [&list, "/", &name.concat()].concat();
            let series =
                Series { path, count: 1, written: 0, writing: true, last: now, last_time: time };
            self.series.insert(key.clone(), series);
        }
        Some(EventRequest { key: repeats.then_some(key), reason, count: 1, path: list, body })
    }

    /// Who says what, as it stands in an event.
    fn rendered_source(&mut self, key: &SeriesKey) -> &str {
        let SeriesKey { scheduler, kind, reason, action, .. } = key;
        let is_same = |source: &RenderedSource| {
            (&source.scheduler, source.kind, source.reason, source.action)
                == (scheduler, kind, reason, action)
        };
        if !self.source.as_ref().is_some_and(is_same) {
            let written = JsonWriter::new(r#","reportingController":"#)
                .string(scheduler)
                .raw(r#","reportingInstance":"#)
                .string_of(&[scheduler, "-", &self.instance])
                .raw(r#","action":"#)
                .string(action)
                .raw(r#","reason":"#)
                .string(reason)
                .raw(r#","type":"#)
                .string(kind);
            let (scheduler, written) = (scheduler.clone(), written.into_string().into());
            self.source = Some(RenderedSource { scheduler, kind, reason, action, written });
        }
        self.source.as_ref().map_or("", |source| &source.written)
    }

    /// The request that makes an event a series, if that is what it has become.
    fn series_update(&mut self, key: &SeriesKey) -> Option<EventRequest> {
        let series = self.series.get_mut(key)?;
        (!series.writing && series.written == 1 && series.count > 1)
            .then(|| series.update_request(key))
    }

    /// Takes over what came of a request. What is to be sent next, if anything.
    fn complete(&mut self, request: &EventRequest, done: bool) -> Option<EventRequest> {
        if !done {
            self.metrics.count_dropped_event();
        }
        let key = request.key.as_ref()?;
        if !done {
            // It may not be there, and then nothing can be added to it.
            self.series.remove(key);
            return None;
        }
        let series = self.series.get_mut(key)?;
        series.writing = false;
        series.written = request.count;
        self.series_update(key)
    }

    /// Forgets series that are at their end; the last counts are to be written.
    fn finish_idle_series(&mut self, now: Instant) -> Vec<EventRequest> {
        let mut last = Vec::new();
        self.series.retain(|key, series| {
            let ended = !series.writing && now.duration_since(series.last) >= SERIES_IDLE_MAX;
            if ended && series.count > series.written {
                last.push(series.update_request(key));
            }
            !ended
        });
        last
    }

    /// Writes until it is done, refused for good, or tried too often. Tells whether it is done.
    fn send(&self, request: EventRequest) -> impl Future<Output = (EventRequest, bool)> + use<> {
        let (connection, throttle) = (self.connection.clone(), self.throttle.clone());
        async move {
            for attempt in 1..=ATTEMPTS_MAX {
                throttle.wait().await;
                let why = match connection.send(request.to_request()).await {
                    Ok(response) => match response.status() {
                        status if status.is_success() => return (request, true),
                        // An earlier try that was not answered had done it.
                        StatusCode::CONFLICT if attempt > 1 => return (request, true),
                        status if is_retryable(status) => status.to_string(),
                        status => {
                            tracing::debug!(reason = request.reason, "an event is lost: {status}");
                            return (request, false);
                        }
                    },
                    Err(error) => chain(&error),
                };
                tracing::debug!(reason = request.reason, attempt, "cannot write an event: {why}");
                if attempt < ATTEMPTS_MAX {
                    sleep(RETRY_DELAY_INITIAL * 4_u32.pow(attempt - 1)).await;
                }
            }
            (request, false)
        }
    }
}

impl Series {
    /// A request that writes the count.
    fn update_request(&mut self, key: &SeriesKey) -> EventRequest {
        self.writing = true;
        let time = rfc3339_micros(self.last_time);
        let body = json!({"series": {"count": self.count, "lastObservedTime": time}});
        let body = Bytes::from(body.to_string());
        let (key, reason) = (Some(key.clone()), key.reason);
        EventRequest { key, reason, count: self.count, path: self.path.clone(), body }
    }
}

impl EventRequest {
    fn to_request(&self) -> ApiRequest {
        let (method, form) = match self.count {
            1 => (Method::POST, JSON),
            _ => (Method::PATCH, "application/merge-patch+json"),
        };
        let content = Some((form.into(), self.body.clone()));
        ApiRequest {
            method,
            path: self.path.clone(),
            accept: PROTOBUF_OR_JSON.into(),
            content,
            status_only: true,
            timeout: Some(WRITE_TIMEOUT),
        }
    }
}

impl PodReference {
    /// As an `ObjectReference`.
    fn write(&self, body: JsonWriter) -> JsonWriter {
        body.raw(r#"{"apiVersion":"v1","kind":"Pod","namespace":"#)
            .string(&self.pod.namespace)
            .raw(r#","name":"#)
            .string(&self.pod.name)
            .raw(r#","uid":"#)
            .uid(&self.pod.uid)
            .version(r#","resourceVersion":"#, self.version)
            .raw("}")
    }
}

/// Upstream's limit is in bytes, and it says so in the end.
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

fn nanoseconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// A number above zero, as `{:x}` writes it.
fn hexadecimal(mut number: u64, digits: &mut [u8; 16]) -> &str {
    let mut begin = digits.len();
    while number > 0 {
        begin -= 1;
        digits[begin] = b"0123456789abcdef"[number as usize % 16];
        number /= 16;
    }
    str::from_utf8(&digits[begin..]).unwrap_or_default()
}

/// Writes times, of which many have the second in common.
#[derive(Default)]
struct TimeFormatter {
    second: Option<u64>,
    /// That second, without a zone.
    written: String,
}

impl TimeFormatter {
    /// The pieces of [`rfc3339_micros`].
    fn rfc3339_micros<'a>(&'a mut self, time: SystemTime, digits: &'a mut [u8; 6]) -> [&'a str; 4] {
        let nanoseconds = nanoseconds(time);
        let second = Some(nanoseconds / 1_000_000_000);
        if self.second != second {
            self.second = second;
            rfc3339_seconds(time).trim_end_matches('Z').clone_into(&mut self.written);
        }
        let mut rest = nanoseconds % 1_000_000_000 / 1000;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        [&self.written, ".", str::from_utf8(digits).unwrap_or_default(), "Z"]
    }
}

/// As Kubernetes writes times with microseconds.
fn rfc3339_micros(time: SystemTime) -> String {
    TimeFormatter::default().rfc3339_micros(time, &mut [0; 6]).concat()
}

/// As Kubernetes writes times.
pub(crate) fn rfc3339_seconds(time: SystemTime) -> String {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(0));
    PRINTER.timestamp_to_string(&Timestamp::try_from(time).unwrap_or_default())
}

#[cfg(test)]
mod tests;
