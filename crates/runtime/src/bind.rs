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

use crate::answer::{JSON, PROTOBUF_OR_JSON, may_pass, refusal, refused, retry_after};
use crate::body::Json;
use crate::gate::Gate;
use crate::lease::{REQUEST_TIMEOUT, SLACK};
use crate::link::{Ask, Link};
use crate::metrics::{BindResult, Metrics};

mod conflict;
#[cfg(test)]
mod tests;

/// Tries, and the time for them, until a pod goes back into the queue. The time also ends waiting
/// for a server that asks to come back later again and again: meanwhile a place is kept.
const TRIES_MAX: u32 = 6;
const TRYING_MAX: Duration = Duration::from_mins(1);

/// The wait before sending again, if the server does not say, and the least if it does.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = SLACK;

/// The longest wait between reads of a pod of which something must be known. Meanwhile its place and
/// its share of the window are kept, so work goes on this long after the API server is back.
const READ_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Refusals to tell of a pod until nothing more is expected, rights that are just being changed for
/// example. By then every request has died.
const REFUSALS_MAX: u32 = 5;

/// How many binds may be under way at once: more as long as all goes well and fast, half as many when
/// the server asks for less. Also knows how long one takes.
#[derive(Debug)]
pub struct Window {
    size: AtomicUsize,
    /// Nanoseconds until a bind is answered, an average in which the last ones count most, and short
    /// ones more than long ones: after a flood it is soon seen that there is none any more.
    took: AtomicU64,
}

impl Window {
    const FIRST: usize = 64;
    const LEAST: usize = 4;
    /// An API server carries out 200 writes at once unless told otherwise; more would wait there.
    const MOST: usize = 256;

    /// How long one takes as long as there was none.
    const TAKES_FIRST: Duration = Duration::from_millis(40);

    /// If binds take longer, there are so many that they wait for each other: more than at first would
    /// only bring them closer to the end of their time.
    const LONG: Duration = Duration::from_millis(REQUEST_TIMEOUT.as_millis() as u64 / 4);

    /// How many.
    pub fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// How long a bind takes.
    pub fn took(&self) -> Duration {
        Duration::from_nanos(self.took.load(Ordering::Relaxed))
    }

    /// A bind succeeded after this time.
    fn succeeded(&self, took: Duration) {
        let before = self.took();
        let average = if took < before { (before + took) / 2 } else { (before * 7 + took) / 8 };
        self.took.store(average.as_nanos() as u64, Ordering::Relaxed);
        if average < Self::LONG || self.size() < Self::FIRST {
            self.grow();
        }
    }

    pub(crate) fn grow(&self) {
        self.change(|size| (size + 1).min(Self::MOST));
    }

    pub(crate) fn shrink(&self) {
        self.change(|size| (size / 2).max(Self::LEAST));
    }

    fn change(&self, to: impl Fn(usize) -> usize) {
        let _ = self.size.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |size| Some(to(size)));
    }
}

impl Default for Window {
    fn default() -> Self {
        let took = AtomicU64::new(Self::TAKES_FIRST.as_nanos() as u64);
        Self { size: AtomicUsize::new(Self::FIRST), took }
    }
}

/// Where a pod is told how long it took, if anybody wants that.
pub const LATENCY_ANNOTATION: &str = "scheduling.novasphere.dev/schedulerLatency";

/// Binds pods.
#[derive(Clone)]
pub struct Binder {
    link: Link,
    gate: Gate,
    window: Arc<Window>,
    metrics: Metrics,
}

/// What a request came to.
enum Answer {
    Bound,
    /// Refused; sending it again would only be refused again.
    Refused(String),
    /// Refused for a state of the pod that reading the pod shows.
    Conflict(String),
    /// Not done; to be sent again after this time.
    Later(Duration),
    /// It may have been done or not; not to be sent again before this time.
    Unknown(String, Duration),
}

/// Where a pod stands.
enum Standing {
    OnNode(String),
    Gone,
    /// It must not be bound now.
    NotNow(&'static str),
    Free {
        version: u64,
    },
}

impl Binder {
    /// A binder with a connection of its own.
    pub fn new(
        link: impl Into<Link>,
        gate: impl Into<Gate>,
        window: Arc<Window>,
        metrics: Metrics,
    ) -> Self {
        Self { link: link.into(), gate: gate.into(), window, metrics }
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
        let bound = self.bind_or_tell(pod, version, node, since).await;
        self.metrics.bind(if bound.is_ok() { BindResult::Bound } else { BindResult::Rejected });
        bound
    }

    async fn bind_or_tell(
        &self,
        pod: &PodName,
        mut version: u64,
        node: &Text,
        since: Option<Instant>,
    ) -> Result<(), String> {
        // Begins with the first request: to wait in line for it is no trying.
        let mut give_up = None;
        // When the last request was sent that nobody knows the end of.
        let mut unanswered = None;
        let mut why = String::new();
        let mut tries = 0;
        while tries < TRIES_MAX && give_up.is_none_or(|give_up| Instant::now() < give_up) {
            if let Err(closed) = self.gate.write().await {
                why = closed.to_string();
                break;
            }
            let sent = Instant::now();
            let give_up = *give_up.get_or_insert(sent + TRYING_MAX);
            match self.send(pod, version, node, since).await {
                Answer::Bound => {
                    self.window.succeeded(sent.elapsed());
                    return Ok(());
                }
                Answer::Later(wait) => {
                    self.window.shrink();
                    "the API server asked to come back later".clone_into(&mut why);
                    sleep_until(give_up.min(Instant::now() + wait)).await;
                    continue;
                }
                // The queue's backoff is the pause before the next attempt.
                Answer::Refused(message) => {
                    why = message;
                    break;
                }
                Answer::Conflict(message) => why = message,
                Answer::Unknown(message, wait) => {
                    why = message;
                    unanswered = Some(sent);
                    self.metrics.bind(BindResult::Ambiguous);
                    self.window.shrink();
                    sleep_until(give_up.min(Instant::now() + wait)).await;
                }
            }
            tries += 1;
            // What is rare is apart, so that all others need not be as large.
            let standing = match (Box::pin(self.read(pod)).await, unanswered) {
                (Ok(standing), _) => standing,
                // Whatever is true of the pod: all that was sent was refused.
                (Err(_), None) => return Err(why),
                (Err(_), Some(_)) => match Box::pin(self.read_until_known(pod)).await {
                    Some(standing) => standing,
                    None => break,
                },
            };
            match standing {
                Standing::OnNode(name) if *name == **node => return Ok(()),
                Standing::OnNode(name) => return Err(assigned(pod, &name)),
                Standing::Gone => return Err(format!("pods {:?} not found", pod.name)),
                Standing::NotNow(reason) => {
                    reason.clone_into(&mut why);
                    break;
                }
                Standing::Free { version: now } => version = now,
            }
        }
        let Some(sent) = unanswered else { return Err(why) };
        // From then on no request can arrive any more.
        sleep_until(sent + 2 * REQUEST_TIMEOUT + SLACK).await;
        match Box::pin(self.read_until_known(pod)).await {
            Some(Standing::OnNode(name)) if *name == **node => Ok(()),
            Some(Standing::OnNode(name)) => Err(assigned(pod, &name)),
            _ => Err(why),
        }
    }

    async fn send(
        &self,
        pod: &PodName,
        version: u64,
        node: &Text,
        since: Option<Instant>,
    ) -> Answer {
        let ask = binding(pod, version, node, since);
        // Nothing is sent then, so nothing is unknown.
        if let Err(error) = ask.check() {
            return Answer::Refused(error.to_string());
        }
        let unknown = |why: String| Answer::Unknown(why, Duration::ZERO);
        let response = match self.link.send(ask).await {
            Err(error) => return unknown(format!("{error:#}")),
            Ok(response) if response.status().is_success() => return Answer::Bound,
            Ok(response) => response,
        };
        // Whoever asks for more is not asked again at all.
        let wait = retry_after(&response).unwrap_or(PAUSE).clamp(PAUSE_MIN, TRYING_MAX);
        match response.status() {
            // Turned away before anything was done.
            StatusCode::TOO_MANY_REQUESTS => Answer::Later(wait),
            status if may_pass(status) => Answer::Unknown(refused(&response).to_string(), wait),
            StatusCode::CONFLICT => {
                let refused = refused(&response);
                if conflict::is_proof(&refused.message) {
                    Answer::Conflict(refused.to_string())
                } else {
                    Answer::Unknown(refused.to_string(), wait)
                }
            }
            _ => Answer::Refused(refused(&response).to_string()),
        }
    }

    /// Reads a pod until something is known of it. `None` when the API server refuses to tell: then
    /// only the watch can say what came of the bind.
    async fn read_until_known(&self, pod: &PodName) -> Option<Standing> {
        let mut wait = SLACK;
        let mut refusals = 0;
        loop {
            let error = match self.read(pod).await {
                Ok(standing) => return Some(standing),
                Err(error) => error,
            };
            tracing::warn!(pod = %pod.name, "cannot read what came of a bind: {error:#}");
            refusals += u32::from(refusal(&error).is_some_and(|status| !may_pass(status)));
            if refusals >= REFUSALS_MAX {
                return None;
            }
            sleep(wait).await;
            wait = (wait * 2).min(READ_PAUSE_MAX);
        }
    }

    /// Reads a pod consistently.
    async fn read(&self, pod: &PodName) -> Result<Standing> {
        let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
        let ask = Ask {
            method: Method::GET,
            path,
            accept: JSON.into(),
            content: None,
            brief: false,
            within: Some(2 * REQUEST_TIMEOUT),
        };
        self.gate.read().await;
        let response = self.link.send(ask).await?;
        match response.status() {
            StatusCode::OK => standing(&serde_json::from_slice(response.body())?, pod),
            StatusCode::NOT_FOUND => Ok(Standing::Gone),
            _ => Err(refused(&response).into()),
        }
    }
}

/// The request that binds a pod.
fn binding(pod: &PodName, version: u64, node: &Text, since: Option<Instant>) -> Ask {
    static BINDING: LazyLock<String> =
        LazyLock::new(|| format!("/binding?timeout={}ms", REQUEST_TIMEOUT.as_millis()));
    let PodName { namespace, name, uid } = pod;
    let path = ["/api/v1/namespaces/", namespace, "/pods/", name, &BINDING].concat();
    let mut body = Json::new(r#"{"apiVersion":"v1","kind":"Binding","metadata":{"namespace":"#)
        .text(namespace)
        .raw(r#","name":"#)
        .text(name)
        .raw(r#","uid":"#)
        .uid(uid)
        .version(r#","resourceVersion":"#, version);
    // The API server copies a binding's annotations to its pod, so this costs no request.
    if let Some(since) = since {
        let seconds = since.elapsed().as_secs_f64();
        // Many are bound within a millisecond, and `0.000s` would tell nothing.
        let digits = if seconds < 1.0 { 6 } else { 3 };
        let latency = format!("{seconds:.digits$}s");
        body = body.raw(r#","annotations":{"#).text(LATENCY_ANNOTATION).raw(":").text(&latency);
        body = body.raw("}");
    }
    let body = body.raw(r#"},"target":{"kind":"Node","name":"#).text(node).end("}}");
    let content = Some((JSON.into(), body));
    Ask {
        method: Method::POST,
        path,
        accept: PROTOBUF_OR_JSON.into(),
        content,
        brief: true,
        within: Some(REQUEST_TIMEOUT),
    }
}

fn assigned(pod: &PodName, node: &str) -> String {
    format!("pod {} is already assigned to node {node:?}", pod.name)
}

fn standing(object: &Value, pod: &PodName) -> Result<Standing> {
    let text = |field| object.pointer(field).and_then(Value::as_str).unwrap_or("");
    if text("/metadata/uid").is_empty() {
        bail!("the answer is not a pod");
    }
    if Uid::from(text("/metadata/uid")) != pod.uid {
        return Ok(Standing::Gone);
    }
    if !text("/spec/nodeName").is_empty() {
        return Ok(Standing::OnNode(text("/spec/nodeName").to_owned()));
    }
    if !text("/metadata/deletionTimestamp").is_empty() {
        return Ok(Standing::NotNow("the pod is being deleted"));
    }
    let gates = object.pointer("/spec/schedulingGates").and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        return Ok(Standing::NotNow("the pod has scheduling gates"));
    }
    // Without one, the next bind would not depend on anything.
    let version: NonZero<u64> = text("/metadata/resourceVersion")
        .parse()
        .context("metadata.resourceVersion of the answer is not a number above zero")?;
    Ok(Standing::Free { version: version.get() })
}
