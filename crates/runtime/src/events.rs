//! Events about pods. They are best effort: above a limit they are dropped and counted.
//!
//! As in upstream's recorder, warnings that differ in their note only form a series: the first is
//! created, the second makes it a series, and later ones are counted and written when the series ends.
//! Normal events happen to a pod once, so they form no series.
//! The resourceVersion of the pod is part of the series' key, so a warning about a pod whose status was
//! written in between is a new event.

mod request;
#[cfg(test)]
mod tests;
mod time;

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use engine::command::PodRef;
use engine::object::Text;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use http::StatusCode;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::api_error::{BoxError, Chain, is_retryable};
use crate::client::ApiConnection;
use crate::gate::Throttle;
use crate::metrics::Metrics;
use request::{EventRequest, event_body, event_name, series_body};
use time::{TimeFormatter, nanoseconds_since_epoch};

pub(crate) use time::rfc3339_seconds;

/// Capacity of the queue, in events; full, it takes a few megabytes.
const EVENTS_QUEUED_MAX: usize = 16_384;

/// Maximum number of writes in flight; enough for one event per bind.
const WRITES_IN_FLIGHT_MAX: usize = 128;

/// Maximum number of series; above it all are forgotten, and repetitions become new events.
const SERIES_MAX: usize = 8192;

/// Time without a repetition after which a series ends.
const SERIES_IDLE_MAX: Duration = Duration::from_mins(6);

/// Time between searches for series that have ended.
const SERIES_CHECK_INTERVAL: Duration = Duration::from_mins(1);

/// Maximum number of requests per write.
const ATTEMPTS_MAX: u32 = 3;

/// Delay before the second request of a write; it quadruples with each further one.
const RETRY_DELAY_INITIAL: Duration = Duration::from_secs(2);

/// An event about a pod.
#[derive(Clone, Debug)]
pub struct PodEvent {
    /// The pod.
    pub regarding: PodRef,
    /// Another pod that is involved, if there is one.
    pub related: Option<PodRef>,
    /// Name of the scheduler.
    pub scheduler: Text,
    /// Type of the event: `Normal` or `Warning`.
    pub kind: &'static str,
    /// Reason, such as `Scheduled`.
    pub reason: Text,
    /// Action, such as `Binding`.
    pub action: &'static str,
    /// Text of the event.
    pub note: String,
}

/// Queues events for a task that writes them. Clones share the queue.
#[derive(Clone)]
pub struct EventRecorder {
    sender: mpsc::Sender<PodEvent>,
    metrics: Metrics,
    shutdown: CancellationToken,
    writer: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl EventRecorder {
    /// Starts the task that writes events, at the rate of the throttle. `instance` names this process.
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
            time: TimeFormatter::default(),
        };
        let shutdown = CancellationToken::new();
        let writer = tokio::spawn(writer.run(receiver, shutdown.clone()));
        Self { sender, metrics, shutdown, writer: Arc::new(Mutex::new(Some(writer))) }
    }

    /// Closes the queue and writes the queued events; drops those that are not written within this time.
    pub async fn shut_down(&self, within: Duration) {
        self.shutdown.cancel();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut writer) = writer else { return };
        if timeout(within, &mut writer).await.is_err() {
            writer.abort();
            let _ = writer.await;
        }
    }

    /// Queues an event, or drops it if the queue is full.
    pub fn record(&self, event: PodEvent) {
        if self.sender.try_send(event).is_err() {
            self.metrics.count_dropped_event();
        }
    }
}

/// The fields that the events of a series have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SeriesKey {
    regarding: PodRef,
    related: Option<PodRef>,
    scheduler: Text,
    kind: &'static str,
    reason: Text,
    action: &'static str,
}

/// Repetitions of a warning.
struct Series {
    /// Path of the event.
    path: String,
    count: u32,
    /// Count that the API server knows.
    written: u32,
    /// A request is in flight.
    writing: bool,
    /// Time of the last repetition.
    last: Instant,
    /// Wall-clock time of the last repetition.
    last_time: SystemTime,
}

/// Why an event was not written.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error("{0}")]
    Refused(StatusCode),
    #[error(transparent)]
    Request(BoxError),
}

/// The task behind an [`EventRecorder`].
struct EventWriter {
    connection: ApiConnection,
    throttle: Throttle,
    instance: String,
    metrics: Metrics,
    series: HashMap<SeriesKey, Series>,
    /// Number of events created, part of their names.
    number: u64,
    time: TimeFormatter,
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

    /// Creates an event or counts a repetition. Returns the request to send now, if there is one.
    fn handle(&mut self, event: PodEvent) -> Option<EventRequest> {
        let now = Instant::now();
        let PodEvent { regarding, related, scheduler, kind, reason, action, note } = event;
        let forms_series = kind == "Warning";
        let key = SeriesKey { regarding, related, scheduler, kind, reason: reason.clone(), action };
        if forms_series
            && let Some(series) = self.series.get_mut(&key)
            && now.duration_since(series.last) < SERIES_IDLE_MAX
        {
            series.count += 1;
            series.last = now;
            series.last_time = SystemTime::now();
            return self.series_update(&key);
        }
        if forms_series && self.series.len() >= SERIES_MAX {
            self.series.retain(|_, series| now.duration_since(series.last) < SERIES_IDLE_MAX);
            if self.series.len() >= SERIES_MAX {
                self.series.clear();
            }
        }
        let time = SystemTime::now();
        self.number += 1;
        let number = nanoseconds_since_epoch(time) + self.number;
        let (namespace, name) = event_name(&key.regarding, number);
        let list = ["/apis/events.k8s.io/v1/namespaces/", namespace, "/events"].concat();
        let event_time = self.time.rfc3339_micros(time);
        let body = event_body(&key, (namespace, &name), &event_time, &self.instance, &note);
        if forms_series {
            let path = [&list, "/", &name].concat();
            let series =
                Series { path, count: 1, written: 0, writing: true, last: now, last_time: time };
            self.series.insert(key.clone(), series);
        }
        Some(EventRequest { key: forms_series.then_some(key), reason, count: 1, path: list, body })
    }

    /// Returns the request that makes an event a series, if it has just become one.
    fn series_update(&mut self, key: &SeriesKey) -> Option<EventRequest> {
        let series = self.series.get_mut(key)?;
        (!series.writing && series.written == 1 && series.count > 1)
            .then(|| series.update_request(key))
    }

    /// Handles the end of a request. Returns the request to send next, if there is one.
    fn complete(&mut self, request: &EventRequest, done: bool) -> Option<EventRequest> {
        if !done {
            self.metrics.count_dropped_event();
        }
        let key = request.key.as_ref()?;
        if !done {
            // The event may not exist, and then its series cannot be updated.
            self.series.remove(key);
            return None;
        }
        let series = self.series.get_mut(key)?;
        series.writing = false;
        series.written = request.count;
        self.series_update(key)
    }

    /// Removes series that have ended. Returns the requests that write their last counts.
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

    /// Sends a request until it succeeds, is refused for good or has been sent [`ATTEMPTS_MAX`] times.
    /// Returns `true` with the request if it has succeeded.
    fn send(&self, request: EventRequest) -> impl Future<Output = (EventRequest, bool)> + use<> {
        let (connection, throttle) = (self.connection.clone(), self.throttle.clone());
        async move {
            for attempt in 1..=ATTEMPTS_MAX {
                throttle.wait().await;
                let error = match connection.send(request.to_request()).await {
                    Ok(response) => match response.status() {
                        status if status.is_success() => return (request, true),
                        // An earlier request without a response has created the event.
                        StatusCode::CONFLICT if attempt > 1 => return (request, true),
                        status if is_retryable(status) => WriteError::Refused(status),
                        status => {
                            tracing::debug!(reason = %request.reason, "an event is lost: {status}");
                            return (request, false);
                        }
                    },
                    Err(error) => WriteError::Request(error.into()),
                };
                tracing::debug!(
                    reason = %request.reason,
                    attempt,
                    "cannot write an event: {}",
                    Chain(&error)
                );
                if attempt < ATTEMPTS_MAX {
                    sleep(RETRY_DELAY_INITIAL * 4_u32.pow(attempt - 1)).await;
                }
            }
            (request, false)
        }
    }
}

impl Series {
    /// Returns the request that writes the count.
    fn update_request(&mut self, key: &SeriesKey) -> EventRequest {
        self.writing = true;
        let time = TimeFormatter::default().rfc3339_micros(self.last_time);
        let (key, reason) = (Some(key.clone()), key.reason.clone());
        let body = series_body(self.count, &time);
        EventRequest { key, reason, count: self.count, path: self.path.clone(), body }
    }
}
