//! Binding a pod to its node: the one write that must never go wrong.
//!
//! ```text
//! send ──► 201: bound
//!   ▲  ──► 409, 404 and the like: read the pod ──► on our node: bound
//!   │  ──► no answer: wait, read the pod            on another, gone, deleting, gated: not bound
//!   └──────────────────────────────────────────────── on none: send again, to the same node
//! ```
//!
//! The engine keeps the place reserved until there is proof. Before a node is given up although no
//! answer came, enough time passes for every request to have died.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use engine::command::PodName;
use engine::object::Text;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::lease::{Fence, REQUEST_TIMEOUT, SLACK};
use crate::metrics::{BindResult, Metrics};
use crate::watch::failure;

/// Tries until a pod goes back into the queue.
const TRIES_MAX: u32 = 6;

/// The longest wait that a server can ask for; it is asked again afterwards.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// How many binds may be under way at once: more as long as all goes well, half as many when the
/// server asks for less.
#[derive(Debug)]
pub struct Window(AtomicUsize);

impl Window {
    const FIRST: usize = 64;
    const LEAST: usize = 4;
    const MOST: usize = 512;

    /// How many.
    pub fn size(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn grow(&self) {
        let size = self.size();
        if size < Self::MOST {
            self.0.store(size + 1, Ordering::Relaxed);
        }
    }

    fn shrink(&self) {
        self.0.store((self.size() / 2).max(Self::LEAST), Ordering::Relaxed);
    }
}

impl Default for Window {
    fn default() -> Self {
        Self(AtomicUsize::new(Self::FIRST))
    }
}

/// Binds pods.
#[derive(Clone)]
pub struct Binder {
    client: kube::Client,
    fence: Fence,
    window: Arc<Window>,
    metrics: Metrics,
}

/// What a request came to.
enum Answer {
    Bound,
    /// Refused for a reason that reading the pod explains.
    Refused(String),
    /// To be sent again after this time.
    Later(Duration),
    /// It may have been done or not.
    Unknown(String),
}

/// Where a pod stands.
enum Standing {
    OnNode(String),
    Gone,
    /// It must not be bound now.
    NotNow(&'static str),
    Free {
        version: String,
    },
}

impl Binder {
    /// A binder with a connection of its own.
    pub fn new(client: kube::Client, fence: Fence, window: Arc<Window>, metrics: Metrics) -> Self {
        Self { client, fence, window, metrics }
    }

    /// Binds a pod; an error tells why it is certain that the pod is not on this node by us.
    pub async fn bind(&self, pod: &PodName, version: &str, node: &Text) -> Result<(), String> {
        let bound = self.bind_or_tell(pod, version, node).await;
        self.metrics.bind(if bound.is_ok() { BindResult::Bound } else { BindResult::Rejected });
        bound
    }

    async fn bind_or_tell(&self, pod: &PodName, version: &str, node: &Text) -> Result<(), String> {
        let mut version = version.to_owned();
        let mut last_sent = None;
        let mut tries = 0;
        let mut why = String::new();
        while tries < TRIES_MAX {
            if !self.fence.may_send(tokio::time::Instant::now()) {
                "the lease is not held any more".clone_into(&mut why);
                break;
            }
            let sent = Instant::now();
            match self.send(pod, &version, node).await {
                Answer::Bound => {
                    self.window.grow();
                    return Ok(());
                }
                Answer::Later(wait) => {
                    self.window.shrink();
                    sleep(wait).await;
                    continue;
                }
                Answer::Refused(message) => why = message,
                Answer::Unknown(message) => {
                    why = message;
                    last_sent = Some(sent);
                    self.metrics.bind(BindResult::Ambiguous);
                    self.window.shrink();
                }
            }
            tries += 1;
            match self.read(pod).await {
                Ok(Standing::OnNode(name)) if *name == **node => return Ok(()),
                Ok(Standing::OnNode(name)) => {
                    return Err(format!("pod {} is already assigned to node {name:?}", pod.name));
                }
                Ok(Standing::Gone) => return Err(format!("pods {:?} not found", pod.name)),
                Ok(Standing::NotNow(reason)) => {
                    why = reason.to_owned();
                    break;
                }
                Ok(Standing::Free { version: now }) => version = now,
                // Nothing is known: the pod is read again before anything else.
                Err(message) => {
                    why = message;
                    sleep(SLACK * tries).await;
                }
            }
        }
        self.outlive(last_sent).await;
        match self.read_until_known(pod).await {
            Standing::OnNode(name) if *name == **node => Ok(()),
            _ => Err(why),
        }
    }

    /// Waits until a request that was never answered can no longer arrive.
    async fn outlive(&self, last_sent: Option<Instant>) {
        if let Some(sent) = last_sent {
            let dead = sent + 2 * REQUEST_TIMEOUT + SLACK;
            sleep(dead.saturating_duration_since(Instant::now())).await;
        }
    }

    async fn send(&self, pod: &PodName, version: &str, node: &Text) -> Answer {
        let uri = format!(
            "/api/v1/namespaces/{}/pods/{}/binding?timeout={}ms",
            pod.namespace,
            pod.name,
            REQUEST_TIMEOUT.as_millis()
        );
        let body = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "namespace": *pod.namespace,
                "name": *pod.name,
                "uid": *pod.uid,
                "resourceVersion": version,
            },
            "target": {"kind": "Node", "name": **node},
        });
        let request = Request::post(uri)
            .header("content-type", "application/json")
            .header("accept", "application/json")
            .body(Body::from(body.to_string().into_bytes()));
        let Ok(request) = request else { return Answer::Refused("the pod has an odd name".into()) };
        let response = match timeout(REQUEST_TIMEOUT, self.client.send(request)).await {
            Err(_) => return Answer::Unknown("the API server did not answer".to_owned()),
            Ok(Err(error)) => return Answer::Unknown(error.to_string()),
            Ok(Ok(response)) => response,
        };
        match response.status() {
            status if status.is_success() => Answer::Bound,
            StatusCode::TOO_MANY_REQUESTS => Answer::Later(retry_after(&response)),
            // Not begun: an API server that starts or stops says when to come back.
            StatusCode::SERVICE_UNAVAILABLE if response.headers().contains_key("retry-after") => {
                Answer::Later(retry_after(&response))
            }
            status if status.is_server_error() => {
                Answer::Unknown(failure(response).await.to_string())
            }
            _ => Answer::Refused(failure(response).await.to_string()),
        }
    }

    async fn read_until_known(&self, pod: &PodName) -> Standing {
        let mut wait = SLACK;
        loop {
            match self.read(pod).await {
                Ok(standing) => return standing,
                Err(message) => {
                    tracing::warn!(pod = %pod.name, "cannot read what came of a bind: {message}");
                    sleep(wait).await;
                    wait = (wait * 2).min(RETRY_AFTER_MAX);
                }
            }
        }
    }

    /// Reads a pod consistently.
    async fn read(&self, pod: &PodName) -> Result<Standing, String> {
        let uri = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
        let request = Request::get(uri).header("accept", "application/json").body(Body::empty());
        let request = request.map_err(|error| error.to_string())?;
        let read = async {
            let response = self.client.send(request).await.map_err(|error| error.to_string())?;
            match response.status() {
                StatusCode::OK => {}
                StatusCode::NOT_FOUND => return Ok(Standing::Gone),
                _ => return Err(failure(response).await.to_string()),
            }
            let body = response.into_body().collect().await.map_err(|error| error.to_string())?;
            let read = serde_json::from_slice(&body.to_bytes());
            read.map(|object| standing(&object, pod)).map_err(|error| error.to_string())
        };
        let limited = timeout(2 * REQUEST_TIMEOUT, read).await;
        limited.unwrap_or_else(|_| Err("the API server did not answer".to_owned()))
    }
}

fn standing(object: &Value, pod: &PodName) -> Standing {
    let text = |field| object.pointer(field).and_then(Value::as_str).unwrap_or("");
    if text("/metadata/uid") != &*pod.uid {
        return Standing::Gone;
    }
    if !text("/spec/nodeName").is_empty() {
        return Standing::OnNode(text("/spec/nodeName").to_owned());
    }
    if !text("/metadata/deletionTimestamp").is_empty() {
        return Standing::NotNow("the pod is being deleted");
    }
    let gates = object.pointer("/spec/schedulingGates").and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        return Standing::NotNow("the pod has scheduling gates");
    }
    Standing::Free { version: text("/metadata/resourceVersion").to_owned() }
}

fn retry_after(response: &Response<Body>) -> Duration {
    let header = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
    let seconds = header.and_then(|text| text.parse().ok()).unwrap_or(1);
    Duration::from_secs(seconds).clamp(Duration::from_millis(100), RETRY_AFTER_MAX)
}
