//! The pod's own status: why it is not scheduled, and the node it is nominated for.
//!
//! Of one pod only the latest update is written, and none that would change nothing: what the pod
//! says already is known from the watch. Whoever status_writer never waits for the API server.
//!
//! A write carries the version of the pod that it was made for. A pod that was bound meanwhile has
//! another one, so a write that arrives late changes nothing.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use api::lower::Source;
use engine::command::PodName;
use engine::object::{Text, Uid};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use hashbrown::HashMap;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::api_error::{is_retryable, read_error, retry_after};
use crate::client::RESPONSE_BYTES_MAX;
use crate::events::rfc3339_seconds;
use crate::gate::Gate;
use crate::lease::REQUEST_TIMEOUT;

#[cfg(test)]
mod tests;

/// StatusWriter on their way to the queue, which takes them at once.
const UPDATES_QUEUED_MAX: usize = 4096;

/// Pods whose update waits; beyond that status_writer are dropped, and come again with the next attempt.
const PENDING_PODS_MAX: usize = 200_000;

/// StatusWriter that are written at once.
const WRITES_IN_FLIGHT_MAX: usize = 16;

/// Pods whose last update is remembered; beyond that one is written too often, never too rarely.
const KNOWN_PODS_MAX: usize = 200_000;

/// How often a update is tried, and the waits in between.
const ATTEMPTS_MAX: u32 = 4;
const RETRY_DELAY_INITIAL: Duration = Duration::from_millis(200);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

/// What is to be written of a pod.
#[derive(Clone, Debug)]
pub enum StatusUpdate {
    /// Its status.
    Write {
        /// The pod.
        pod: PodName,
        /// `metadata.generation` that was looked at.
        generation: i64,
        /// `metadata.resourceVersion` that was looked at; zero if it is not known.
        version: u64,
        /// Reason and message of the condition `PodScheduled: False`, if it is to be written.
        failure: Option<(&'static str, String)>,
        /// The nominated node, if it is to be written; empty takes it away.
        nominate: Option<Text>,
    },
    /// What the watch shows of a pod.
    Observed {
        /// Uid of the pod.
        uid: Uid,
        /// What it says.
        status: KnownStatus,
    },
    /// The pod needs no more status_writer.
    Forget(Uid),
}

impl StatusUpdate {
    /// What a pod says that waits to be scheduled; `None` when it says nothing.
    pub fn observed<'a>(pod: impl Into<Source<'a>>) -> Option<Self> {
        let pod = pod.into();
        // Most say nothing yet.
        if !pod.has_conditions() {
            return None;
        }
        let PendingPod { status } = pod.read().ok()?;
        let mut conditions = status.conditions.into_iter();
        let refused = conditions
            .find(|condition| condition.kind == "PodScheduled" && condition.status == "False")?;
        let identity = pod.identity();
        let status = KnownStatus {
            version: identity.version.parse().ok()?,
            failure: Some((refused.reason.into_owned(), refused.message.into_owned())),
            nominated: Some(status.nominated_node_name.into()),
        };
        Some(Self::Observed { uid: identity.uid.into(), status })
    }
}

/// What is read of a pod that waits.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PendingPod<'a> {
    #[serde(borrow)]
    status: PendingPodStatus<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PendingPodStatus<'a> {
    #[serde(borrow)]
    conditions: Vec<PodCondition<'a>>,
    #[serde(borrow)]
    nominated_node_name: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodCondition<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(borrow)]
    reason: Cow<'a, str>,
    #[serde(borrow)]
    message: Cow<'a, str>,
}

/// Takes status_writer in.
#[derive(Clone)]
pub struct StatusWriter(mpsc::Sender<StatusUpdate>);

impl StatusWriter {
    /// Starts to write status_writer, as the gate lets them pass.
    pub fn start(client: kube::Client, gate: impl Into<Gate>) -> Self {
        let (sender, receiver) = mpsc::channel(UPDATES_QUEUED_MAX);
        tokio::spawn(PatchQueue::new(client, gate.into()).run(receiver));
        Self(sender)
    }

    /// Has a update written.
    pub async fn enqueue(&self, update: StatusUpdate) {
        let _ = self.0.send(update).await;
    }
}

/// What the status of a pod says, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownStatus {
    /// `metadata.resourceVersion` of the pod that says so.
    version: u64,
    /// Reason and message of `PodScheduled: False`.
    failure: Option<(String, String)>,
    /// The nominated node; empty is none.
    nominated: Option<Text>,
}

struct PatchQueue {
    client: kube::Client,
    gate: Gate,
    known: HashMap<Uid, KnownStatus>,
    /// Latest update of each pod that waits, and their order.
    pending: HashMap<Uid, PendingPatch>,
    order: VecDeque<Uid>,
    /// StatusWriter that are being written, each cancelled when its pod needs no more status_writer.
    writing: HashMap<Uid, CancellationToken>,
}

#[derive(Clone, Debug)]
struct PendingPatch {
    pod: PodName,
    generation: i64,
    version: u64,
    failure: Option<(&'static str, String)>,
    nominate: Option<Text>,
}

impl PatchQueue {
    fn new(client: kube::Client, gate: Gate) -> Self {
        Self {
            client,
            gate,
            known: HashMap::new(),
            pending: HashMap::new(),
            order: VecDeque::new(),
            writing: HashMap::new(),
        }
    }

    async fn run(mut self, mut status_writer: mpsc::Receiver<StatusUpdate>) {
        let mut in_flight = FuturesUnordered::new();
        loop {
            while in_flight.len() < WRITES_IN_FLIGHT_MAX
                && let Some((job, cancelled)) = self.next()
            {
                let (client, gate) = (self.client.clone(), self.gate.clone());
                in_flight.push(send_patch(client, gate, self.patch(&job), job, cancelled));
            }
            tokio::select! {
                update = status_writer.recv() => match update {
                    Some(update) => self.handle(update),
                    None => return,
                },
                Some((job, version)) = in_flight.next(), if !in_flight.is_empty() => {
                    let cancelled = self.writing.remove(&job.pod.uid);
                    if !cancelled.is_some_and(|cancelled| cancelled.is_cancelled())
                        && let Some(version) = version
                    {
                        self.remember(job, version);
                    }
                }
            }
        }
    }

    fn handle(&mut self, update: StatusUpdate) {
        match update {
            StatusUpdate::Forget(uid) => {
                self.known.remove(&uid);
                self.pending.remove(&uid);
                if let Some(cancelled) = self.writing.get(&uid) {
                    cancelled.cancel();
                }
                if self.order.len() > 2 * self.pending.len() + WRITES_IN_FLIGHT_MAX {
                    self.order.retain(|uid| self.pending.contains_key(uid));
                }
            }
            StatusUpdate::Observed { uid, status } => self.observe(uid, status),
            StatusUpdate::Write { pod, generation, version, failure, nominate } => {
                let uid = pod.uid.clone();
                let job = PendingPatch { pod, generation, version, failure, nominate };
                if let Some(waiting) = self.pending.get_mut(&uid) {
                    let earlier = std::mem::replace(waiting, job);
                    waiting.failure = waiting.failure.take().or(earlier.failure);
                    waiting.nominate = waiting.nominate.take().or(earlier.nominate);
                } else if self.pending.len() < PENDING_PODS_MAX {
                    self.pending.insert(uid.clone(), job);
                    self.order.push_back(uid);
                }
            }
        }
    }

    /// The next update that changes something, of a pod of which none is being written.
    fn next(&mut self) -> Option<(PendingPatch, CancellationToken)> {
        for _ in 0..self.order.len() {
            let uid = self.order.pop_front()?;
            if self.writing.contains_key(&uid) {
                self.order.push_back(uid);
                continue;
            }
            let Some(mut job) = self.pending.remove(&uid) else { continue };
            if let Some(written) = self.known.get(&uid) {
                job.version = job.version.max(written.version);
                job.failure = job.failure.filter(|new| !written.has_failure(new));
                job.nominate = job.nominate.filter(|new| written.nominated.as_ref() != Some(new));
            }
            if job.failure.is_some() || job.nominate.is_some() {
                let cancelled = CancellationToken::new();
                self.writing.insert(uid, cancelled.clone());
                return Some((job, cancelled));
            }
        }
        None
    }

    fn patch(&self, job: &PendingPatch) -> Value {
        let mut status = serde_json::Map::new();
        if let Some((reason, message)) = &job.failure {
            let mut condition = json!({
                "type": "PodScheduled",
                "status": "False",
                "reason": reason,
                "message": message,
                "observedGeneration": job.generation,
            });
            let written = self.known.get(&job.pod.uid);
            if written.is_none_or(|written| written.failure.is_none()) {
                // Only a change of the condition's status is a transition.
                condition["lastTransitionTime"] = rfc3339_seconds(SystemTime::now()).into();
            }
            status.insert("conditions".to_owned(), json!([condition]));
        }
        if let Some(node) = &job.nominate {
            let node = if node.is_empty() { Value::Null } else { Value::from(&**node) };
            status.insert("nominatedNodeName".to_owned(), node);
        }
        json!({"metadata": {"uid": job.pod.uid.to_string()}, "status": status})
    }

    fn remember(&mut self, job: PendingPatch, version: u64) {
        self.forget_all_if_full();
        let written = self.known.entry(job.pod.uid).or_default();
        let failure = job.failure.map(|(reason, message)| (reason.to_owned(), message));
        written.version = version;
        written.failure = failure.or(written.failure.take());
        written.nominated = job.nominate.or(written.nominated.take());
    }

    /// The watch may be behind what was written, and knows of what others wrote.
    fn observe(&mut self, uid: Uid, status: KnownStatus) {
        let known = self.known.get(&uid).map_or(0, |written| written.version);
        if status.version > known && !self.writing.contains_key(&uid) {
            self.forget_all_if_full();
            self.known.insert(uid, status);
        }
    }

    fn forget_all_if_full(&mut self) {
        if self.known.len() >= KNOWN_PODS_MAX {
            self.known.clear();
        }
    }
}

impl KnownStatus {
    fn has_failure(&self, (reason, message): &(&'static str, String)) -> bool {
        self.failure.as_ref().is_some_and(|said| said.0 == *reason && said.1 == *message)
    }
}

/// Writes until it is done, cancelled, refused for good, or tried too often. Returns the version of the
/// pod that says so, if it is done.
async fn send_patch(
    client: kube::Client,
    gate: Gate,
    mut patch: Value,
    job: PendingPatch,
    cancelled: CancellationToken,
) -> (PendingPatch, Option<u64>) {
    let PodName { namespace, name, .. } = &job.pod;
    let limit = REQUEST_TIMEOUT.as_millis();
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/status?timeout={limit}ms");
    let mut version = job.version;
    for attempt in 1..=ATTEMPTS_MAX {
        if version > 0 {
            patch["metadata"]["resourceVersion"] = version.to_string().into();
        }
        let body = patch.to_string();
        let request = Request::patch(&path)
            .header("content-type", "application/strategic-merge-patch+json")
            .body(Body::from(body.into_bytes()));
        let Ok(request) = request else { return (job, None) };
        let Ok(in_flight) = gate.begin_write().await else { return (job, None) };
        if cancelled.is_cancelled() {
            let _ = in_flight.not_sent();
            return (job, None);
        }
        let mut delay = RETRY_DELAY_INITIAL * 4_u32.pow(attempt - 1);
        let answer = timeout(REQUEST_TIMEOUT, client.send(request)).await;
        if let Ok(Ok(response)) = &answer {
            in_flight.answered(response.status());
        }
        let why = match answer {
            Ok(Ok(response)) if response.status().is_success() => {
                let version = version_of(response).await;
                return (job, Some(version));
            }
            Ok(Ok(response)) if response.status() == StatusCode::CONFLICT && version > 0 => {
                // It changed, or another pod has its name.
                match version_if_pending(&client, &gate, &job.pod).await {
                    Ok(Some(found)) if found != version => {
                        version = found;
                        continue;
                    }
                    Ok(_) => return (job, None),
                    Err(why) => why,
                }
            }
            Ok(Ok(response)) => {
                delay = retry_after(&response).map_or(delay, |wait| wait.max(delay));
                let final_answer = !is_retryable(response.status());
                let why = read_error(response).await.to_string();
                if final_answer {
                    // Gone, another pod of this name, or not allowed: it stays so.
                    tracing::debug!(pod = %job.pod.name, "the status is not written: {why}");
                    return (job, None);
                }
                why
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        tracing::debug!(pod = %job.pod.name, attempt, "cannot write the status: {why}");
        if attempt == ATTEMPTS_MAX || delay > RETRY_DELAY_MAX {
            break;
        }
        if cancelled.run_until_cancelled(sleep(delay)).await.is_none() {
            break;
        }
    }
    (job, None)
}

/// What is read of a pod that changed while its status was being written.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PodRead {
    metadata: PodReadMetadata,
    spec: PodReadSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodReadMetadata {
    uid: String,
    resource_version: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodReadSpec {
    node_name: String,
}

/// Reads the version of a pod; `None` when it is on a node or gone: then nothing is to be written.
async fn version_if_pending(
    client: &kube::Client,
    gate: &Gate,
    pod: &PodName,
) -> Result<Option<u64>, String> {
    let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
    let request = Request::get(path).body(Body::empty()).map_err(|error| error.to_string())?;
    gate.read().await;
    let response = match timeout(REQUEST_TIMEOUT, client.send(request)).await {
        Ok(Ok(response)) if response.status().is_success() => response,
        Ok(Ok(response)) if response.status() == StatusCode::NOT_FOUND => return Ok(None),
        Ok(Ok(response)) => return Err(read_error(response).await.to_string()),
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err("no answer".to_owned()),
    };
    let body = Limited::new(response.into_body(), RESPONSE_BYTES_MAX).collect();
    let body = timeout(REQUEST_TIMEOUT, body).await.map_err(|_| "no answer".to_owned())?;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    let found: PodRead = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    let same = Uid::from(&*found.metadata.uid) == pod.uid;
    let waits = same && found.spec.node_name.is_empty();
    Ok(found.metadata.resource_version.parse().ok().filter(|_| waits))
}

/// The version of a pod that was written; zero if it cannot be read, which any other is newer than.
async fn version_of(response: Response<Body>) -> u64 {
    let body = Limited::new(response.into_body(), RESPONSE_BYTES_MAX).collect();
    let Ok(Ok(body)) = timeout(REQUEST_TIMEOUT, body).await else { return 0 };
    let pod: Option<Value> = serde_json::from_slice(&body.to_bytes()).ok();
    let version = pod.as_ref().and_then(|pod| pod.pointer("/metadata/resourceVersion")?.as_str());
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}
