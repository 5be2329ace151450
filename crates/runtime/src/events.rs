//! Events for people, of the least importance: when there are too many, some are dropped and counted.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, SystemTime};

use engine::command::PodName;
use engine::object::Text;
use http::Request;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::metrics::Metrics;

/// Events that may wait.
const WAITING_MAX: usize = 4096;

/// Events whose repetitions are counted.
const SERIES_MAX: usize = 8192;

/// A repetition after this long is a new event.
const SERIES_TIME: Duration = Duration::from_mins(6);

/// Bytes of a note.
const NOTE_MAX: usize = 1024;

/// Characters of a pod's name with which an event can be named after it.
const NAMED_AFTER_MAX: usize = 253 - ".ffffffffffffffff".len();

/// How long writing one may take.
const WRITE_MAX: Duration = Duration::from_secs(10);

/// What happened to a pod.
#[derive(Clone, Debug)]
pub struct PodEvent {
    /// The pod.
    pub pod: PodName,
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
}

impl Events {
    /// Starts to write events.
    pub fn start(client: kube::Client, instance: String, metrics: Metrics) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let metrics_too = metrics.clone();
        let writer =
            Writer { client, instance, metrics: metrics_too, series: HashMap::new(), number: 0 };
        tokio::spawn(writer.run(receiver));
        Self { sender, metrics }
    }

    /// Has an event written, if there is room for it.
    pub fn tell(&self, event: PodEvent) {
        if self.sender.try_send(event).is_err() {
            self.metrics.event_dropped();
        }
    }
}

struct Writer {
    client: kube::Client,
    instance: String,
    metrics: Metrics,
    series: HashMap<(Text, &'static str), Series>,
    number: u64,
}

struct Series {
    name: String,
    count: u32,
    last: Instant,
}

impl Writer {
    async fn run(mut self, mut events: mpsc::Receiver<PodEvent>) {
        while let Some(event) = events.recv().await {
            let request = self.request(&event);
            let written = async { self.client.send(request?).await.map_err(anyhow::Error::from) };
            let why = match timeout(WRITE_MAX, written).await {
                Ok(Ok(response)) if response.status().is_success() => continue,
                Ok(Ok(response)) => response.status().to_string(),
                Ok(Err(error)) => format!("{error:#}"),
                Err(_) => "no answer".to_owned(),
            };
            tracing::debug!(reason = event.reason, "an event was lost: {why}");
            self.metrics.event_dropped();
            // It may not be there, and then nothing can be added to it.
            self.series.remove(&(event.pod.uid, event.reason));
        }
    }

    /// A new event, or one more of a series.
    fn request(&mut self, event: &PodEvent) -> anyhow::Result<Request<Body>> {
        let now = Instant::now();
        if self.series.len() >= SERIES_MAX {
            self.series.retain(|_, series| now.duration_since(series.last) < SERIES_TIME);
            if self.series.len() >= SERIES_MAX {
                self.series.clear();
            }
        }
        let namespace =
            if event.pod.namespace.is_empty() { "default" } else { &event.pod.namespace };
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        let written = micro_time(SystemTime::now());
        self.number += 1;
        let named_after = match event.pod.name.len() {
            0..=NAMED_AFTER_MAX => &event.pod.name,
            _ => &event.pod.uid,
        };
        let fresh = || Series {
            name: format!("{named_after}.{:x}", nanoseconds(SystemTime::now()) + self.number),
            count: 1,
            last: now,
        };
        let series = match self.series.entry((event.pod.uid.clone(), event.reason)) {
            Entry::Occupied(mut known) => {
                if now.duration_since(known.get().last) < SERIES_TIME {
                    let series = known.get_mut();
                    series.count += 1;
                    series.last = now;
                    let body =
                        json!({"series": {"count": series.count, "lastObservedTime": written}});
                    let request = Request::patch(format!("{path}/{}", series.name))
                        .header("content-type", "application/merge-patch+json")
                        .body(body_of(&body))?;
                    return Ok(request);
                }
                known.insert(fresh());
                known.into_mut()
            }
            Entry::Vacant(vacant) => vacant.insert(fresh()),
        };
        let body = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": namespace, "name": series.name},
            "eventTime": written,
            "reportingController": *event.scheduler,
            "reportingInstance": format!("{}-{}", event.scheduler, self.instance),
            "action": event.action,
            "reason": event.reason,
            "type": event.kind,
            "note": clipped(&event.note),
            "regarding": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": *event.pod.namespace,
                "name": *event.pod.name,
                "uid": *event.pod.uid,
            },
        });
        let request = Request::post(path).header("content-type", "application/json");
        Ok(request.body(body_of(&body))?)
    }
}

fn body_of(value: &Value) -> Body {
    Body::from(value.to_string().into_bytes())
}

/// Upstream's limit is in bytes, and it says so in the end.
fn clipped(note: &str) -> String {
    const MORE: &str = " ...";
    if note.len() <= NOTE_MAX {
        return note.to_owned();
    }
    let mut end = NOTE_MAX - MORE.len();
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{MORE}", &note[..end])
}

fn nanoseconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// As Kubernetes writes times with microseconds.
pub(crate) fn micro_time(time: SystemTime) -> String {
    let time = k8s_openapi::jiff::Timestamp::try_from(time).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// As Kubernetes writes times.
pub(crate) fn second_time(time: SystemTime) -> String {
    let time = k8s_openapi::jiff::Timestamp::try_from(time).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests;
