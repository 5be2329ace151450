//! Events for people, of the least importance: when there are too many, some are dropped and counted.
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

use crate::answer::{JSON, PROTOBUF_OR_JSON, may_pass};
use crate::body::Json;
use crate::gate::Throttle;
use crate::link::{Ask, Link};
use crate::metrics::Metrics;

/// Events that may wait; they take some megabytes then.
const WAITING_MAX: usize = 16_384;

/// Events that are written at once: enough for as many as pods are bound.
const WRITING_MAX: usize = 128;

/// Series that are remembered; beyond that the oldest repetitions are events of their own.
const SERIES_MAX: usize = 8192;

/// A series without a repetition for this long is at its end.
const SERIES_TIME: Duration = Duration::from_mins(6);

/// How often it is looked for series that are at their end.
const LOOK_EVERY: Duration = Duration::from_mins(1);

/// Bytes of a note.
const NOTE_MAX: usize = 1024;

/// Characters of a pod's name with which an event can be named after it.
const NAMED_AFTER_MAX: usize = 253 - ".ffffffffffffffff".len();

/// How long writing one may take, how often it is tried, and the first wait in between.
const WRITE_MAX: Duration = Duration::from_secs(10);
const TRIES_MAX: u32 = 3;
const PAUSE_FIRST: Duration = Duration::from_secs(2);

/// A pod in one of its versions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// The pod.
    pub pod: PodName,
    /// `metadata.resourceVersion`.
    pub version: u64,
}

/// What happened to a pod.
#[derive(Clone, Debug)]
pub struct PodEvent {
    /// The pod.
    pub regarding: Reference,
    /// The pod that it has to do with, if any.
    pub related: Option<Reference>,
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
pub struct Events {
    sender: mpsc::Sender<PodEvent>,
    metrics: Metrics,
    ending: CancellationToken,
    writer: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Events {
    /// Starts to write events, not faster than the throttle allows.
    pub fn start(
        link: impl Into<Link>,
        throttle: Throttle,
        instance: String,
        metrics: Metrics,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let writer = Writer {
            link: link.into(),
            throttle,
            instance,
            metrics: metrics.clone(),
            series: HashMap::new(),
            number: 0,
            clock: Clock::default(),
            said: None,
        };
        let ending = CancellationToken::new();
        let writer = tokio::spawn(writer.run(receiver, ending.clone()));
        Self { sender, metrics, ending, writer: Arc::new(Mutex::new(Some(writer))) }
    }

    /// Takes no more events. Those that wait are written within this time, or dropped.
    pub async fn end(&self, within: Duration) {
        self.ending.cancel();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut writer) = writer else { return };
        if timeout(within, &mut writer).await.is_err() {
            writer.abort();
            let _ = writer.await;
        }
    }

    /// Has an event written, if there is room for it.
    pub fn tell(&self, event: PodEvent) {
        if self.sender.try_send(event).is_err() {
            self.metrics.event_dropped();
        }
    }
}

/// What events of one series have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    regarding: Reference,
    related: Option<Reference>,
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

struct Writer {
    link: Link,
    throttle: Throttle,
    instance: String,
    metrics: Metrics,
    series: HashMap<Key, Series>,
    number: u64,
    clock: Clock,
    /// What was said last: mostly it is the same again.
    said: Option<Said>,
}

/// Who says what of a pod, as it stands in an event.
struct Said {
    scheduler: Text,
    kind: &'static str,
    reason: &'static str,
    action: &'static str,
    written: Box<str>,
}

/// Something to be sent.
struct Job {
    /// Of the series, if it may become one.
    key: Option<Key>,
    reason: &'static str,
    /// What the count is when it is done.
    count: u32,
    /// A new event goes to the list of events, a repetition to the event.
    path: String,
    body: Bytes,
}

impl Writer {
    async fn run(mut self, mut events: mpsc::Receiver<PodEvent>, ending: CancellationToken) {
        let mut ending = pin!(ending.cancelled_owned().fuse());
        let mut under_way = FuturesUnordered::new();
        let mut waiting = VecDeque::new();
        let mut look = interval(LOOK_EVERY);
        loop {
            while under_way.len() < WRITING_MAX
                && let Some(job) = waiting.pop_front()
            {
                under_way.push(self.write(job));
            }
            tokio::select! {
                event = events.recv(), if under_way.len() < WRITING_MAX => match event {
                    Some(event) => waiting.extend(self.take(event)),
                    None => break,
                },
                () = &mut ending => events.close(),
                Some((job, done)) = under_way.next(), if !under_way.is_empty() => {
                    waiting.extend(self.end(&job, done));
                }
                _ = look.tick() => waiting.extend(self.finish(Instant::now())),
            }
        }
        while under_way.next().await.is_some() {}
    }

    /// A new event, or one more of a series. What is to be sent now, if anything.
    fn take(&mut self, event: PodEvent) -> Option<Job> {
        let now = Instant::now();
        let PodEvent { regarding, related, scheduler, kind, reason, action, note } = event;
        let repeats = kind == "Warning";
        let key = Key { regarding, related, scheduler, kind, reason, action };
        if repeats
            && let Some(series) = self.series.get_mut(&key)
            && now.duration_since(series.last) < SERIES_TIME
        {
            series.count += 1;
            series.last = now;
            series.last_time = SystemTime::now();
            return self.repetition(&key);
        }
        if repeats && self.series.len() >= SERIES_MAX {
            self.series.retain(|_, series| now.duration_since(series.last) < SERIES_TIME);
            if self.series.len() >= SERIES_MAX {
                self.series.clear();
            }
        }
        let pod = &key.regarding.pod;
        let namespace = if pod.namespace.is_empty() { "default" } else { &pod.namespace };
        let mut uid = [0; Uid::TEXT_BYTES];
        let named_after = match pod.name.len() {
            0..=NAMED_AFTER_MAX => &*pod.name,
            _ => pod.uid.text(&mut uid),
        };
        let time = SystemTime::now();
        self.number += 1;
        let mut digits = [0; 16];
        let number = hexadecimal(nanoseconds(time) + self.number, &mut digits);
        let name = [named_after, ".", number];
        let list = ["/apis/events.k8s.io/v1/namespaces/", namespace, "/events"].concat();
        let mut body = Json::new(
            r#"{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"namespace":"#,
        )
        .text(namespace)
        .raw(r#","name":"#)
        .texts(&name)
        .raw(r#"},"eventTime":"#)
        .texts(&self.clock.micro_time(time, &mut [0; 6]))
        .raw(self.said(&key))
        .raw(r#","note":"#)
        .text(&clipped(&note));
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
        Some(Job { key: repeats.then_some(key), reason, count: 1, path: list, body })
    }

    /// Who says what, as it stands in an event.
    fn said(&mut self, key: &Key) -> &str {
        let Key { scheduler, kind, reason, action, .. } = key;
        let is_same = |said: &Said| {
            (&said.scheduler, said.kind, said.reason, said.action)
                == (scheduler, kind, reason, action)
        };
        if !self.said.as_ref().is_some_and(is_same) {
            let written = Json::new(r#","reportingController":"#)
                .text(scheduler)
                .raw(r#","reportingInstance":"#)
                .texts(&[scheduler, "-", &self.instance])
                .raw(r#","action":"#)
                .text(action)
                .raw(r#","reason":"#)
                .text(reason)
                .raw(r#","type":"#)
                .text(kind);
            let (scheduler, written) = (scheduler.clone(), written.into_text().into());
            self.said = Some(Said { scheduler, kind, reason, action, written });
        }
        self.said.as_ref().map_or("", |said| &said.written)
    }

    /// The request that makes an event a series, if that is what it has become.
    fn repetition(&mut self, key: &Key) -> Option<Job> {
        let series = self.series.get_mut(key)?;
        (!series.writing && series.written == 1 && series.count > 1).then(|| series.write(key))
    }

    /// Takes over what came of a request. What is to be sent next, if anything.
    fn end(&mut self, job: &Job, done: bool) -> Option<Job> {
        if !done {
            self.metrics.event_dropped();
        }
        let key = job.key.as_ref()?;
        if !done {
            // It may not be there, and then nothing can be added to it.
            self.series.remove(key);
            return None;
        }
        let series = self.series.get_mut(key)?;
        series.writing = false;
        series.written = job.count;
        self.repetition(key)
    }

    /// Forgets series that are at their end; the last counts are to be written.
    fn finish(&mut self, now: Instant) -> Vec<Job> {
        let mut last = Vec::new();
        self.series.retain(|key, series| {
            let ended = !series.writing && now.duration_since(series.last) >= SERIES_TIME;
            if ended && series.count > series.written {
                last.push(series.write(key));
            }
            !ended
        });
        last
    }

    /// Writes until it is done, refused for good, or tried too often. Tells whether it is done.
    fn write(&self, job: Job) -> impl Future<Output = (Job, bool)> + use<> {
        let (link, throttle) = (self.link.clone(), self.throttle.clone());
        async move {
            for attempt in 1..=TRIES_MAX {
                throttle.wait().await;
                let why = match link.send(job.ask()).await {
                    Ok(response) => match response.status() {
                        status if status.is_success() => return (job, true),
                        // An earlier try that was not answered had done it.
                        StatusCode::CONFLICT if attempt > 1 => return (job, true),
                        status if may_pass(status) => status.to_string(),
                        status => {
                            tracing::debug!(reason = job.reason, "an event is lost: {status}");
                            return (job, false);
                        }
                    },
                    Err(error) => format!("{error:#}"),
                };
                tracing::debug!(reason = job.reason, attempt, "cannot write an event: {why}");
                if attempt < TRIES_MAX {
                    sleep(PAUSE_FIRST * 4_u32.pow(attempt - 1)).await;
                }
            }
            (job, false)
        }
    }
}

impl Series {
    /// A request that writes the count.
    fn write(&mut self, key: &Key) -> Job {
        self.writing = true;
        let time = micro_time(self.last_time);
        let body = json!({"series": {"count": self.count, "lastObservedTime": time}});
        let body = Bytes::from(body.to_string());
        let (key, reason) = (Some(key.clone()), key.reason);
        Job { key, reason, count: self.count, path: self.path.clone(), body }
    }
}

impl Job {
    fn ask(&self) -> Ask {
        let (method, form) = match self.count {
            1 => (Method::POST, JSON),
            _ => (Method::PATCH, "application/merge-patch+json"),
        };
        let content = Some((form.into(), self.body.clone()));
        Ask {
            method,
            path: self.path.clone(),
            accept: PROTOBUF_OR_JSON.into(),
            content,
            brief: true,
            within: Some(WRITE_MAX),
        }
    }
}

impl Reference {
    /// As an `ObjectReference`.
    fn write(&self, body: Json) -> Json {
        body.raw(r#"{"apiVersion":"v1","kind":"Pod","namespace":"#)
            .text(&self.pod.namespace)
            .raw(r#","name":"#)
            .text(&self.pod.name)
            .raw(r#","uid":"#)
            .uid(&self.pod.uid)
            .version(r#","resourceVersion":"#, self.version)
            .raw("}")
    }
}

/// Upstream's limit is in bytes, and it says so in the end.
fn clipped(note: &str) -> Cow<'_, str> {
    const MORE: &str = " ...";
    if note.len() <= NOTE_MAX {
        return note.into();
    }
    let mut end = NOTE_MAX - MORE.len();
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
struct Clock {
    second: Option<u64>,
    /// That second, without a zone.
    written: String,
}

impl Clock {
    /// The pieces of [`micro_time`].
    fn micro_time<'a>(&'a mut self, time: SystemTime, digits: &'a mut [u8; 6]) -> [&'a str; 4] {
        let nanoseconds = nanoseconds(time);
        let second = Some(nanoseconds / 1_000_000_000);
        if self.second != second {
            self.second = second;
            second_time(time).trim_end_matches('Z').clone_into(&mut self.written);
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
fn micro_time(time: SystemTime) -> String {
    Clock::default().micro_time(time, &mut [0; 6]).concat()
}

/// As Kubernetes writes times.
pub(crate) fn second_time(time: SystemTime) -> String {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(0));
    PRINTER.timestamp_to_string(&Timestamp::try_from(time).unwrap_or_default())
}

#[cfg(test)]
mod tests;
