//! Binding a pod to its node: the one write that must never go wrong.
//!
//! ```text
//! send ──► 201: bound
//!   ▲  ──► 403, 404, 422 and the like: not bound
//!   │  ──► 409 for a known reason: read the pod ──► on our node: bound
//!   │  ──► no answer, 5xx, other 409: wait, read     on another, gone, deleting, gated: not bound
//!   └──────────────────────────────────────────────── on none: send again, to the same node
//! ```
//!
//! The API server turns every error of its store into 409 on this endpoint, also "etcdserver: leader
//! changed" for a transaction that was committed, so only known reasons prove that nothing was done.
//!
//! The engine keeps the place reserved until there is proof. Before a node is given up although no
//! answer came, enough time passes for every request to have died.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use engine::command::PodName;
use engine::object::{Text, Uid};
use http::{Method, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};

use crate::api_error::{
    ApiError, JSON, PROTOBUF_OR_JSON, is_retryable, retry_after, status_code_of,
};
use crate::client::{ApiConnection, ApiRequest};
use crate::connect::chain;
use crate::gate::Gate;
use crate::json::JsonWriter;
use crate::lease::{REQUEST_TIMEOUT, SLACK};
use crate::metrics::{BindResult, Metrics};

mod conflict;
#[cfg(test)]
mod tests;

/// Tries, and the time for them, until a pod goes back into the queue. The time also ends waiting
/// for a server that asks to come back later again and again: meanwhile a place is kept.
const ATTEMPTS_MAX: u32 = 6;
const ATTEMPTS_TIME_MAX: Duration = Duration::from_mins(1);

/// The wait before sending again, if the server does not say, and the least if it does.
const RETRY_DELAY: Duration = Duration::from_secs(1);
const RETRY_DELAY_MIN: Duration = SLACK;

/// The longest wait between reads of a pod of which something must be known. Meanwhile its place and
/// its share of the window are kept, so work goes on this long after the API server is back.
const READ_DELAY_MAX: Duration = Duration::from_secs(5);

/// Refusals to tell of a pod until nothing more is expected, rights that are just being changed for
/// example. By then every request has died.
const READ_REFUSALS_MAX: u32 = 5;

/// How many binds may be under way at once: more as long as all goes well and fast, half as many when
/// the server asks for less. Also knows how long one takes.
#[derive(Debug)]
pub struct BindWindow {
    size: AtomicUsize,
    /// Nanoseconds until a bind is answered, an average in which the last ones count most, and short
    /// ones more than long ones: after a flood it is soon seen that there is none any more.
    latency: AtomicU64,
}

impl BindWindow {
    const SIZE_INITIAL: usize = 64;
    const SIZE_MIN: usize = 4;
    /// An API server carries out 200 writes at once unless told otherwise; more would wait there.
    const SIZE_MAX: usize = 256;

    /// How long one takes as long as there was none.
    const LATENCY_INITIAL: Duration = Duration::from_millis(40);

    /// If binds take longer, there are so many that they wait for each other: more than at first would
    /// only bring them closer to the end of their time.
    const LATENCY_CONGESTED: Duration =
        Duration::from_millis(REQUEST_TIMEOUT.as_millis() as u64 / 4);

    /// How many.
    pub fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// How long a bind takes.
    pub fn mean_latency(&self) -> Duration {
        Duration::from_nanos(self.latency.load(Ordering::Relaxed))
    }

    /// A bind succeeded after this time.
    fn record_success(&self, took: Duration) {
        let before = self.mean_latency();
        let average = if took < before { (before + took) / 2 } else { (before * 7 + took) / 8 };
        self.latency.store(average.as_nanos() as u64, Ordering::Relaxed);
        if average < Self::LATENCY_CONGESTED || self.size() < Self::SIZE_INITIAL {
            self.grow();
        }
    }

    pub(crate) fn grow(&self) {
        self.change(|size| (size + 1).min(Self::SIZE_MAX));
    }

    pub(crate) fn shrink(&self) {
        self.change(|size| (size / 2).max(Self::SIZE_MIN));
    }

    fn change(&self, to: impl Fn(usize) -> usize) {
        let _ = self.size.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |size| Some(to(size)));
    }
}

impl Default for BindWindow {
    fn default() -> Self {
        let latency = AtomicU64::new(Self::LATENCY_INITIAL.as_nanos() as u64);
        Self { size: AtomicUsize::new(Self::SIZE_INITIAL), latency }
    }
}

/// Where a pod is told how long it took, if anybody wants that.
pub const LATENCY_ANNOTATION: &str = "scheduling.novasphere.dev/schedulerLatency";

/// Binds pods.
#[derive(Clone)]
pub struct Binder {
    connection: ApiConnection,
    gate: Gate,
    window: Arc<BindWindow>,
    metrics: Metrics,
}

/// What a request came to.
enum BindOutcome {
    Bound,
    /// Refused; sending it again would only be refused again.
    Rejected(String),
    /// Refused for a state of the pod that reading the pod shows.
    Conflict(String),
    /// Not done; to be sent again after this time.
    Throttled(Duration),
    /// It may have been done or not; not to be sent again before this time.
    Unknown(String, Duration),
}

/// Where a pod stands.
enum Placement {
    OnNode(String),
    Gone,
    /// It must not be bound now.
    NotBindable(&'static str),
    Unassigned {
        version: u64,
    },
}

impl Binder {
    /// A binder with a connection of its own.
    pub fn new(
        connection: impl Into<ApiConnection>,
        gate: impl Into<Gate>,
        window: Arc<BindWindow>,
        metrics: Metrics,
    ) -> Self {
        Self { connection: connection.into(), gate: gate.into(), window, metrics }
    }

    /// Binds a pod; an error tells why it is certain that the pod is not on this node by us. With
    /// `since`, the pod gets to know in an annotation how long after that it was bound.
    pub async fn bind(
        &self,
        pod: &PodName,
        version: u64,
        node: &Text,
        since: Option<Instant>,
    ) -> Result<(), String> {
        let bound = self.bind_with_retries(pod, version, node, since).await;
        self.metrics.count_bind(if bound.is_ok() {
            BindResult::Bound
        } else {
            BindResult::Rejected
        });
        bound
    }

    async fn bind_with_retries(
        &self,
        pod: &PodName,
        mut version: u64,
        node: &Text,
        since: Option<Instant>,
    ) -> Result<(), String> {
        // Begins with the first request: to wait in line for it is no trying.
        let mut deadline = None;
        // When the last request was sent that nobody knows the end of.
        let mut unanswered_since = None;
        let mut why = String::new();
        let mut attempts = 0;
        while attempts < ATTEMPTS_MAX && deadline.is_none_or(|deadline| Instant::now() < deadline) {
            if let Err(closed) = self.gate.write().await {
                why = closed.to_string();
                break;
            }
            let sent = Instant::now();
            let deadline = *deadline.get_or_insert(sent + ATTEMPTS_TIME_MAX);
            match self.send(pod, version, node, since).await {
                BindOutcome::Bound => {
                    self.window.record_success(sent.elapsed());
                    return Ok(());
                }
                BindOutcome::Throttled(wait) => {
                    self.window.shrink();
                    "the API server asked to come back later".clone_into(&mut why);
                    sleep_until(deadline.min(Instant::now() + wait)).await;
                    continue;
                }
                // The queue's backoff is the pause before the next attempt.
                BindOutcome::Rejected(message) => {
                    why = message;
                    break;
                }
                BindOutcome::Conflict(message) => why = message,
                BindOutcome::Unknown(message, wait) => {
                    why = message;
                    unanswered_since = Some(sent);
                    self.metrics.count_bind(BindResult::Ambiguous);
                    self.window.shrink();
                    sleep_until(deadline.min(Instant::now() + wait)).await;
                }
            }
            attempts += 1;
            // What is rare is apart, so that all others need not be as large.
            let placement = match (Box::pin(self.read_pod(pod)).await, unanswered_since) {
                (Ok(placement), _) => placement,
                // Whatever is true of the pod: all that was sent was refused.
                (Err(_), None) => return Err(why),
                (Err(_), Some(_)) => match Box::pin(self.read_until_answered(pod)).await {
                    Some(placement) => placement,
                    None => break,
                },
            };
            match placement {
                Placement::OnNode(name) if *name == **node => return Ok(()),
                Placement::OnNode(name) => return Err(assigned_elsewhere(pod, &name)),
                Placement::Gone => return Err(format!("pods {:?} not found", pod.name)),
                Placement::NotBindable(reason) => {
                    reason.clone_into(&mut why);
                    break;
                }
                Placement::Unassigned { version: now } => version = now,
            }
        }
        let Some(sent) = unanswered_since else { return Err(why) };
        // From then on no request can arrive any more.
        sleep_until(sent + 2 * REQUEST_TIMEOUT + SLACK).await;
        match Box::pin(self.read_until_answered(pod)).await {
            Some(Placement::OnNode(name)) if *name == **node => Ok(()),
            Some(Placement::OnNode(name)) => Err(assigned_elsewhere(pod, &name)),
            _ => Err(why),
        }
    }

    async fn send(
        &self,
        pod: &PodName,
        version: u64,
        node: &Text,
        since: Option<Instant>,
    ) -> BindOutcome {
        let ask = bind_request(pod, version, node, since);
        // Nothing is sent then, so nothing is unknown.
        if let Err(error) = ask.validate() {
            return BindOutcome::Rejected(error.to_string());
        }
        let unknown = |why: String| BindOutcome::Unknown(why, Duration::ZERO);
        let response = match self.connection.send(ask).await {
            Err(error) => return unknown(chain(&error)),
            Ok(response) if response.status().is_success() => return BindOutcome::Bound,
            Ok(response) => response,
        };
        // Whoever asks for more is not asked again at all.
        let wait =
            retry_after(&response).unwrap_or(RETRY_DELAY).clamp(RETRY_DELAY_MIN, ATTEMPTS_TIME_MAX);
        match response.status() {
            // Turned away before anything was done.
            StatusCode::TOO_MANY_REQUESTS => BindOutcome::Throttled(wait),
            status if is_retryable(status) => {
                BindOutcome::Unknown(ApiError::from_response(&response).to_string(), wait)
            }
            StatusCode::CONFLICT => {
                let refused = ApiError::from_response(&response);
                if conflict::proves_no_write(&refused.message) {
                    BindOutcome::Conflict(refused.to_string())
                } else {
                    BindOutcome::Unknown(refused.to_string(), wait)
                }
            }
            _ => BindOutcome::Rejected(ApiError::from_response(&response).to_string()),
        }
    }

    /// Reads a pod until something is known of it. `None` when the API server refuses to tell: then
    /// only the watch can say what came of the bind.
    async fn read_until_answered(&self, pod: &PodName) -> Option<Placement> {
        let mut wait = SLACK;
        let mut refusals = 0;
        loop {
            let error = match self.read_pod(pod).await {
                Ok(placement) => return Some(placement),
                Err(error) => error,
            };
            tracing::warn!(pod = %pod.name, "cannot read what came of a bind: {error:#}");
            refusals +=
                u32::from(status_code_of(&error).is_some_and(|status| !is_retryable(status)));
            if refusals >= READ_REFUSALS_MAX {
                return None;
            }
            sleep(wait).await;
            wait = (wait * 2).min(READ_DELAY_MAX);
        }
    }

    /// Reads a pod consistently.
    async fn read_pod(&self, pod: &PodName) -> Result<Placement> {
        let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
        let ask = ApiRequest {
            method: Method::GET,
            path,
            accept: JSON.into(),
            content: None,
            status_only: false,
            timeout: Some(2 * REQUEST_TIMEOUT),
        };
        self.gate.read().await;
        let response = self.connection.send(ask).await?;
        match response.status() {
            StatusCode::OK => placement_of(&serde_json::from_slice(response.body())?, pod),
            StatusCode::NOT_FOUND => Ok(Placement::Gone),
            _ => Err(ApiError::from_response(&response).into()),
        }
    }
}

/// The request that binds a pod.
fn bind_request(pod: &PodName, version: u64, node: &Text, since: Option<Instant>) -> ApiRequest {
    static BINDING: LazyLock<String> =
        LazyLock::new(|| format!("/binding?timeout={}ms", REQUEST_TIMEOUT.as_millis()));
    let PodName { namespace, name, uid } = pod;
    let path = ["/api/v1/namespaces/", namespace, "/pods/", name, &BINDING].concat();
    let mut body =
        JsonWriter::new(r#"{"apiVersion":"v1","kind":"Binding","metadata":{"namespace":"#)
            .string(namespace)
            .raw(r#","name":"#)
            .string(name)
            .raw(r#","uid":"#)
            .uid(uid)
            .version(r#","resourceVersion":"#, version);
    // The API server copies a binding's annotations to its pod, so this costs no request.
    if let Some(since) = since {
        let seconds = since.elapsed().as_secs_f64();
        // Many are bound within a millisecond, and `0.000s` would tell nothing.
        let digits = if seconds < 1.0 { 6 } else { 3 };
        let latency = format!("{seconds:.digits$}s");
        body = body.raw(r#","annotations":{"#).string(LATENCY_ANNOTATION).raw(":").string(&latency);
        body = body.raw("}");
    }
    let body = body.raw(r#"},"target":{"kind":"Node","name":"#).string(node).end("}}");
    let content = Some((JSON.into(), body));
    ApiRequest {
        method: Method::POST,
        path,
        accept: PROTOBUF_OR_JSON.into(),
        content,
        status_only: true,
        timeout: Some(REQUEST_TIMEOUT),
    }
}

fn assigned_elsewhere(pod: &PodName, node: &str) -> String {
    format!("pod {} is already assigned to node {node:?}", pod.name)
}

fn placement_of(object: &Value, pod: &PodName) -> Result<Placement> {
    let text = |field| object.pointer(field).and_then(Value::as_str).unwrap_or("");
    if text("/metadata/uid").is_empty() {
        bail!("the answer is not a pod");
    }
    if Uid::from(text("/metadata/uid")) != pod.uid {
        return Ok(Placement::Gone);
    }
    if !text("/spec/nodeName").is_empty() {
        return Ok(Placement::OnNode(text("/spec/nodeName").to_owned()));
    }
    if !text("/metadata/deletionTimestamp").is_empty() {
        return Ok(Placement::NotBindable("the pod is being deleted"));
    }
    let gates = object.pointer("/spec/schedulingGates").and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        return Ok(Placement::NotBindable("the pod has scheduling gates"));
    }
    // Without one, the next bind would not depend on anything.
    let version: NonZero<u64> = text("/metadata/resourceVersion")
        .parse()
        .context("metadata.resourceVersion of the answer is not a number above zero")?;
    Ok(Placement::Unassigned { version: version.get() })
}
