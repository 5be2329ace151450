//! Binding a pod to its node: the one write whose result must be certain.
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
//! changed" for a transaction that was committed, so only known reasons prove that nothing was written.
//!
//! The pod stays assumed on its node until there is proof. Before a bind without a response is given up,
//! enough time passes for every request to have died.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use engine::command::PodRef;
use engine::object::{Text, Uid};
use http::{Method, StatusCode};
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};

use crate::api_error::{
    ApiError, BoxError, Chain, JSON, PROTOBUF_OR_JSON, is_retryable, retry_after,
};
use crate::client::{ApiConnection, ApiRequest};
use crate::gate::{Gate, GateClosed};
use crate::lease::{REQUEST_TIMEOUT, SLACK};
use crate::metrics::{BindResult, Metrics};
use crate::request_body::json_body;

mod conflict;
#[cfg(test)]
mod tests;
mod window;

pub use window::BindWindow;

/// Maximum number of requests per bind that are not throttled.
const ATTEMPTS_MAX: u32 = 6;

/// Time limit for all requests of a bind, throttled ones included: the node's resources stay reserved
/// meanwhile.
const ATTEMPTS_TIME_MAX: Duration = Duration::from_mins(1);

/// Delay before sending again, if the server names none.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Shortest delay before sending again, if the server names one.
const RETRY_DELAY_MIN: Duration = SLACK;

/// Longest delay between reads that resolve an ambiguous bind. The bind keeps its place in the window, so
/// binding resumes at most this long after the API server is back.
const READ_DELAY_MAX: Duration = Duration::from_secs(5);

/// Refused reads after which an ambiguous bind is given up. More than one, since rights may be changing;
/// after as many every request has died.
const READ_REFUSALS_MAX: u32 = 5;

/// Annotation of a bound pod with its scheduling latency, if that is enabled.
pub const LATENCY_ANNOTATION: &str = "scheduling.novasphere.dev/schedulerLatency";

/// Why a pod was not bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The lease was lost before a request was sent.
    #[error(transparent)]
    GateClosed(#[from] GateClosed),
    /// The request cannot be sent, since a name cannot be part of a path.
    #[error(transparent)]
    InvalidRequest(BoxError),
    /// No response arrived.
    #[error(transparent)]
    NoResponse(BoxError),
    /// The API server refused the binding.
    #[error(transparent)]
    Refused(ApiError),
    /// The API server throttled the binding until the time limit.
    #[error("the API server asked to come back later")]
    Throttled,
    /// The pod is on another node.
    #[error("pod {pod} is already assigned to node {node:?}")]
    AssignedElsewhere {
        /// Name of the pod.
        pod: Text,
        /// Name of its node.
        node: String,
    },
    /// The pod was deleted.
    #[error("pods {0:?} not found")]
    Gone(Text),
    /// The state of the pod forbids binding it.
    #[error("{0}")]
    NotBindable(&'static str),
}

/// Why a pod could not be read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Request(BoxError),
    #[error(transparent)]
    Refused(ApiError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("the answer is not a pod")]
    NotAPod,
    #[error("metadata.resourceVersion of the answer is not a number above zero")]
    Version(#[source] std::num::ParseIntError),
}

/// Binds pods.
#[derive(Clone)]
pub struct Binder {
    connection: ApiConnection,
    gate: Gate,
    window: Arc<BindWindow>,
    metrics: Metrics,
}

/// Outcome of one request.
enum BindOutcome {
    Bound,
    /// Refused for good: the same request would be refused again.
    Rejected(BindError),
    /// Refused because of the pod's state, which a read shows.
    Conflict(BindError),
    /// Not handled; may be sent again after this time.
    Throttled(Duration),
    /// Ambiguous; must not be sent again before this time.
    Unknown(BindError, Duration),
}

/// State of a pod with regard to a bind.
enum Placement {
    OnNode(String),
    Gone,
    /// The pod must not be bound now, for this reason.
    NotBindable(&'static str),
    Unassigned {
        version: u64,
    },
}

impl Binder {
    /// Creates a binder that writes over `connection`.
    pub fn new(
        connection: impl Into<ApiConnection>,
        gate: impl Into<Gate>,
        window: Arc<BindWindow>,
        metrics: Metrics,
    ) -> Self {
        Self { connection: connection.into(), gate: gate.into(), window, metrics }
    }

    /// Binds a pod. An error means that the pod certainly is not on this node by this process. With
    /// `since`, the time from then to the bind is written to [`LATENCY_ANNOTATION`].
    pub async fn bind(
        &self,
        pod: &PodRef,
        node: &Text,
        since: Option<Instant>,
    ) -> Result<(), BindError> {
        let bound = self.bind_with_retries(pod, node, since).await;
        self.metrics.count_bind(if bound.is_ok() {
            BindResult::Bound
        } else {
            BindResult::Rejected
        });
        bound
    }

    async fn bind_with_retries(
        &self,
        pod: &PodRef,
        node: &Text,
        since: Option<Instant>,
    ) -> Result<(), BindError> {
        let mut version = pod.resource_version;
        // Set with the first request, so that waiting for the throttle does not count.
        let mut deadline = None;
        // When the last ambiguous request was sent.
        let mut ambiguous_since = None;
        let mut failure;
        let mut attempts = 0;
        loop {
            if let Err(closed) = self.gate.write().await {
                failure = closed.into();
                break;
            }
            let sent = Instant::now();
            let deadline = *deadline.get_or_insert(sent + ATTEMPTS_TIME_MAX);
            let may_continue = |attempts| attempts < ATTEMPTS_MAX && Instant::now() < deadline;
            match self.send(pod, version, node, since).await {
                BindOutcome::Bound => {
                    self.window.record_success(sent.elapsed());
                    return Ok(());
                }
                BindOutcome::Throttled(wait) => {
                    self.window.shrink();
                    failure = BindError::Throttled;
                    sleep_until(deadline.min(Instant::now() + wait)).await;
                    if may_continue(attempts) {
                        continue;
                    }
                    break;
                }
                // The queue's backoff delays the next attempt.
                BindOutcome::Rejected(error) => {
                    failure = error;
                    break;
                }
                BindOutcome::Conflict(error) => failure = error,
                BindOutcome::Unknown(error, wait) => {
                    failure = error;
                    ambiguous_since = Some(sent);
                    self.metrics.count_bind(BindResult::Ambiguous);
                    self.window.shrink();
                    sleep_until(deadline.min(Instant::now() + wait)).await;
                }
            }
            attempts += 1;
            // Rare futures are boxed, so that the future of every bind stays small.
            let placement = match (Box::pin(self.read_pod(pod)).await, ambiguous_since) {
                (Ok(placement), _) => placement,
                // All requests were refused, whatever the state of the pod.
                (Err(_), None) => return Err(failure),
                (Err(_), Some(_)) => match Box::pin(self.read_until_answered(pod)).await {
                    Some(placement) => placement,
                    None => break,
                },
            };
            match placement {
                Placement::OnNode(name) if *name == **node => return Ok(()),
                Placement::OnNode(name) => return Err(assigned_elsewhere(pod, name)),
                Placement::Gone => return Err(BindError::Gone(pod.name.clone())),
                Placement::NotBindable(reason) => {
                    failure = BindError::NotBindable(reason);
                    break;
                }
                Placement::Unassigned { version: present } => version = present,
            }
            if !may_continue(attempts) {
                break;
            }
        }
        let Some(sent) = ambiguous_since else { return Err(failure) };
        // After this time no request can arrive any more.
        sleep_until(sent + 2 * REQUEST_TIMEOUT + SLACK).await;
        match Box::pin(self.read_until_answered(pod)).await {
            Some(Placement::OnNode(name)) if *name == **node => Ok(()),
            Some(Placement::OnNode(name)) => Err(assigned_elsewhere(pod, name)),
            _ => Err(failure),
        }
    }

    async fn send(
        &self,
        pod: &PodRef,
        version: u64,
        node: &Text,
        since: Option<Instant>,
    ) -> BindOutcome {
        let request = bind_request(pod, version, node, since);
        // Checked before sending, since a failure to send would be ambiguous.
        if let Err(error) = request.validate() {
            return BindOutcome::Rejected(BindError::InvalidRequest(error.into()));
        }
        let response = match self.connection.send(request).await {
            Err(error) => {
                return BindOutcome::Unknown(BindError::NoResponse(error.into()), Duration::ZERO);
            }
            Ok(response) if response.status().is_success() => return BindOutcome::Bound,
            Ok(response) => response,
        };
        // A longer delay than the time limit would exceed it anyway.
        let wait =
            retry_after(&response).unwrap_or(RETRY_DELAY).clamp(RETRY_DELAY_MIN, ATTEMPTS_TIME_MAX);
        let refused = || BindError::Refused(ApiError::from_response(&response));
        match response.status() {
            // Sent by priority and fairness, before the request is handled.
            StatusCode::TOO_MANY_REQUESTS => BindOutcome::Throttled(wait),
            status if is_retryable(status) => BindOutcome::Unknown(refused(), wait),
            StatusCode::CONFLICT => {
                let error = ApiError::from_response(&response);
                if conflict::proves_no_write(&error.message) {
                    BindOutcome::Conflict(BindError::Refused(error))
                } else {
                    BindOutcome::Unknown(BindError::Refused(error), wait)
                }
            }
            _ => BindOutcome::Rejected(refused()),
        }
    }

    /// Reads a pod until a read succeeds. Returns `None` if the API server refuses reads: then only the
    /// watch can show the outcome of the bind.
    async fn read_until_answered(&self, pod: &PodRef) -> Option<Placement> {
        let mut wait = SLACK;
        let mut refusals = 0;
        loop {
            let error = match self.read_pod(pod).await {
                Ok(placement) => return Some(placement),
                Err(error) => error,
            };
            tracing::warn!(pod = %pod.name, "cannot read what came of a bind: {}", Chain(&error));
            if let ReadError::Refused(ApiError { status, .. }) = error
                && !is_retryable(status)
            {
                refusals += 1;
            }
            if refusals >= READ_REFUSALS_MAX {
                return None;
            }
            sleep(wait).await;
            wait = (wait * 2).min(READ_DELAY_MAX);
        }
    }

    /// Reads a pod consistently.
    async fn read_pod(&self, pod: &PodRef) -> Result<Placement, ReadError> {
        let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
        let request = ApiRequest {
            method: Method::GET,
            path,
            accept: JSON.into(),
            content: None,
            status_only: false,
            timeout: Some(2 * REQUEST_TIMEOUT),
        };
        self.gate.read().await;
        let response = self.connection.send(request).await;
        let response = response.map_err(|error| ReadError::Request(error.into()))?;
        match response.status() {
            StatusCode::OK => placement_of(&serde_json::from_slice(response.body())?, pod),
            StatusCode::NOT_FOUND => Ok(Placement::Gone),
            _ => Err(ReadError::Refused(ApiError::from_response(&response))),
        }
    }
}

/// A `Binding`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Binding<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: BindingMetadata<'a>,
    target: BindingTarget<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BindingMetadata<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<BTreeMap<&'static str, String>>,
}

#[derive(Serialize)]
struct BindingTarget<'a> {
    kind: &'static str,
    name: &'a str,
}

/// Returns the request that binds a pod.
fn bind_request(pod: &PodRef, version: u64, node: &Text, since: Option<Instant>) -> ApiRequest {
    static BINDING: LazyLock<String> =
        LazyLock::new(|| format!("/binding?timeout={}ms", REQUEST_TIMEOUT.as_millis()));
    let PodRef { namespace, name, uid, .. } = pod;
    let path = ["/api/v1/namespaces/", namespace, "/pods/", name, &BINDING].concat();
    // The API server copies annotations of a binding to its pod, so this costs no request.
    let latency = |since: Instant| {
        let seconds = since.elapsed().as_secs_f64();
        // Many pods are bound within a millisecond, for which three digits would be too few.
        let digits = if seconds < 1.0 { 6 } else { 3 };
        BTreeMap::from([(LATENCY_ANNOTATION, format!("{seconds:.digits$}s"))])
    };
    let mut digits = itoa::Buffer::new();
    let body = json_body(&Binding {
        api_version: "v1",
        kind: "Binding",
        metadata: BindingMetadata {
            namespace,
            name,
            uid: uid.text(&mut [0; Uid::TEXT_BYTES]),
            // Zero means unknown; it must not be sent as a precondition.
            resource_version: (version != 0).then(|| digits.format(version)),
            annotations: since.map(latency),
        },
        target: BindingTarget { kind: "Node", name: node },
    });
    ApiRequest {
        method: Method::POST,
        path,
        accept: PROTOBUF_OR_JSON.into(),
        content: Some((JSON.into(), body)),
        status_only: true,
        timeout: Some(REQUEST_TIMEOUT),
    }
}

fn assigned_elsewhere(pod: &PodRef, node: String) -> BindError {
    BindError::AssignedElsewhere { pod: pod.name.clone(), node }
}

fn placement_of(object: &Value, pod: &PodRef) -> Result<Placement, ReadError> {
    let text = |field| object.pointer(field).and_then(Value::as_str).unwrap_or("");
    if text("/metadata/uid").is_empty() {
        return Err(ReadError::NotAPod);
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
    // Without a version, the next bind would have no precondition.
    let version: NonZero<u64> =
        text("/metadata/resourceVersion").parse().map_err(ReadError::Version)?;
    Ok(Placement::Unassigned { version: version.get() })
}
