//! The pod's own status: why it is not scheduled, and the node it is nominated for.
//!
//! Of one pod only the latest report is written, and none that would change nothing: what the pod
//! says already is known from the watch. Whoever reports never waits for the API server.
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

use crate::answer::{failure, may_pass, retry_after};
use crate::events::second_time;
use crate::gate::Gate;
use crate::lease::REQUEST_TIMEOUT;
use crate::link::ANSWER_BYTES_MAX;

#[cfg(test)]
mod tests;

/// Reports on their way to the writer, which takes them at once.
const ARRIVING_MAX: usize = 4096;

/// Pods whose report waits; beyond that reports are dropped, and come again with the next attempt.
const WAITING_MAX: usize = 200_000;

/// Reports that are written at once.
const WRITING_MAX: usize = 16;

/// Pods whose last report is remembered; beyond that one is written too often, never too rarely.
const REMEMBERED_MAX: usize = 200_000;

/// How often a report is tried, and the waits in between.
const TRIES_MAX: u32 = 4;
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// What is to be written of a pod.
#[derive(Clone, Debug)]
pub enum Report {
    /// Its status.
    Status {
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
    Seen {
        /// Uid of the pod.
        uid: Uid,
        /// What it says.
        status: Written,
    },
    /// The pod needs no more reports.
    Done(Uid),
}

impl Report {
    /// What a pod says that waits to be scheduled; `None` when it says nothing.
    pub fn seen<'a>(pod: impl Into<Source<'a>>) -> Option<Self> {
        let pod = pod.into();
        // Most say nothing yet.
        if !pod.has_conditions() {
            return None;
        }
        let Waiting { status } = pod.read().ok()?;
        let mut conditions = status.conditions.into_iter();
        let refused = conditions
            .find(|condition| condition.kind == "PodScheduled" && condition.status == "False")?;
        let identity = pod.identity();
        let status = Written {
            version: identity.version.parse().ok()?,
            failure: Some((refused.reason.into_owned(), refused.message.into_owned())),
            nominated: Some(status.nominated_node_name.into()),
        };
        Some(Self::Seen { uid: identity.uid.into(), status })
    }
}

/// What is read of a pod that waits.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Waiting<'a> {
    #[serde(borrow)]
    status: WaitingStatus<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WaitingStatus<'a> {
    #[serde(borrow)]
    conditions: Vec<Condition<'a>>,
    #[serde(borrow)]
    nominated_node_name: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(borrow)]
    reason: Cow<'a, str>,
    #[serde(borrow)]
    message: Cow<'a, str>,
}

/// Takes reports in.
#[derive(Clone)]
pub struct Reports(mpsc::Sender<Report>);

impl Reports {
    /// Starts to write reports, as the gate lets them pass.
    pub fn start(client: kube::Client, gate: impl Into<Gate>) -> Self {
        let (sender, receiver) = mpsc::channel(ARRIVING_MAX);
        tokio::spawn(Writer::new(client, gate.into()).run(receiver));
        Self(sender)
    }

    /// Has a report written.
    pub async fn tell(&self, report: Report) {
        let _ = self.0.send(report).await;
    }
}

/// What the status of a pod says, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// `metadata.resourceVersion` of the pod that says so.
    version: u64,
    /// Reason and message of `PodScheduled: False`.
    failure: Option<(String, String)>,
    /// The nominated node; empty is none.
    nominated: Option<Text>,
}

struct Writer {
    client: kube::Client,
    gate: Gate,
    written: HashMap<Uid, Written>,
    /// Latest report of each pod that waits, and their order.
    waiting: HashMap<Uid, Job>,
    order: VecDeque<Uid>,
    /// Reports that are being written, each cancelled when its pod needs no more reports.
    writing: HashMap<Uid, CancellationToken>,
}

#[derive(Clone, Debug)]
struct Job {
    pod: PodName,
    generation: i64,
    version: u64,
    failure: Option<(&'static str, String)>,
    nominate: Option<Text>,
}

impl Writer {
    fn new(client: kube::Client, gate: Gate) -> Self {
        Self {
            client,
            gate,
            written: HashMap::new(),
            waiting: HashMap::new(),
            order: VecDeque::new(),
            writing: HashMap::new(),
        }
    }

    async fn run(mut self, mut reports: mpsc::Receiver<Report>) {
        let mut under_way = FuturesUnordered::new();
        loop {
            while under_way.len() < WRITING_MAX
                && let Some((job, cancelled)) = self.next()
            {
                let (client, gate) = (self.client.clone(), self.gate.clone());
                under_way.push(write(client, gate, self.patch(&job), job, cancelled));
            }
            tokio::select! {
                report = reports.recv() => match report {
                    Some(report) => self.take(report),
                    None => return,
                },
                Some((job, version)) = under_way.next(), if !under_way.is_empty() => {
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

    fn take(&mut self, report: Report) {
        match report {
            Report::Done(uid) => {
                self.written.remove(&uid);
                self.waiting.remove(&uid);
                if let Some(cancelled) = self.writing.get(&uid) {
                    cancelled.cancel();
                }
                if self.order.len() > 2 * self.waiting.len() + WRITING_MAX {
                    self.order.retain(|uid| self.waiting.contains_key(uid));
                }
            }
            Report::Seen { uid, status } => self.see(uid, status),
            Report::Status { pod, generation, version, failure, nominate } => {
                let uid = pod.uid.clone();
                let job = Job { pod, generation, version, failure, nominate };
                if let Some(waiting) = self.waiting.get_mut(&uid) {
                    let earlier = std::mem::replace(waiting, job);
                    waiting.failure = waiting.failure.take().or(earlier.failure);
                    waiting.nominate = waiting.nominate.take().or(earlier.nominate);
                } else if self.waiting.len() < WAITING_MAX {
                    self.waiting.insert(uid.clone(), job);
                    self.order.push_back(uid);
                }
            }
        }
    }

    /// The next report that changes something, of a pod of which none is being written.
    fn next(&mut self) -> Option<(Job, CancellationToken)> {
        for _ in 0..self.order.len() {
            let uid = self.order.pop_front()?;
            if self.writing.contains_key(&uid) {
                self.order.push_back(uid);
                continue;
            }
            let Some(mut job) = self.waiting.remove(&uid) else { continue };
            if let Some(written) = self.written.get(&uid) {
                job.version = job.version.max(written.version);
                job.failure = job.failure.filter(|new| !written.says(new));
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

    fn patch(&self, job: &Job) -> Value {
        let mut status = serde_json::Map::new();
        if let Some((reason, message)) = &job.failure {
            let mut condition = json!({
                "type": "PodScheduled",
                "status": "False",
                "reason": reason,
                "message": message,
                "observedGeneration": job.generation,
            });
            let written = self.written.get(&job.pod.uid);
            if written.is_none_or(|written| written.failure.is_none()) {
                // Only a change of the condition's status is a transition.
                condition["lastTransitionTime"] = second_time(SystemTime::now()).into();
            }
            status.insert("conditions".to_owned(), json!([condition]));
        }
        if let Some(node) = &job.nominate {
            let node = if node.is_empty() { Value::Null } else { Value::from(&**node) };
            status.insert("nominatedNodeName".to_owned(), node);
        }
        json!({"metadata": {"uid": job.pod.uid.to_string()}, "status": status})
    }

    fn remember(&mut self, job: Job, version: u64) {
        self.make_room();
        let written = self.written.entry(job.pod.uid).or_default();
        let failure = job.failure.map(|(reason, message)| (reason.to_owned(), message));
        written.version = version;
        written.failure = failure.or(written.failure.take());
        written.nominated = job.nominate.or(written.nominated.take());
    }

    /// The watch may be behind what was written, and knows of what others wrote.
    fn see(&mut self, uid: Uid, status: Written) {
        let known = self.written.get(&uid).map_or(0, |written| written.version);
        if status.version > known && !self.writing.contains_key(&uid) {
            self.make_room();
            self.written.insert(uid, status);
        }
    }

    fn make_room(&mut self) {
        if self.written.len() >= REMEMBERED_MAX {
            self.written.clear();
        }
    }
}

impl Written {
    fn says(&self, (reason, message): &(&'static str, String)) -> bool {
        self.failure.as_ref().is_some_and(|said| said.0 == *reason && said.1 == *message)
    }
}

/// Writes until it is done, cancelled, refused for good, or tried too often. Returns the version of the
/// pod that says so, if it is done.
async fn write(
    client: kube::Client,
    gate: Gate,
    mut patch: Value,
    job: Job,
    cancelled: CancellationToken,
) -> (Job, Option<u64>) {
    let PodName { namespace, name, .. } = &job.pod;
    let limit = REQUEST_TIMEOUT.as_millis();
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/status?timeout={limit}ms");
    let mut version = job.version;
    for attempt in 1..=TRIES_MAX {
        if version > 0 {
            patch["metadata"]["resourceVersion"] = version.to_string().into();
        }
        let body = patch.to_string();
        let request = Request::patch(&path)
            .header("content-type", "application/strategic-merge-patch+json")
            .body(Body::from(body.into_bytes()));
        let Ok(request) = request else { return (job, None) };
        let Ok(under_way) = gate.begin_write().await else { return (job, None) };
        if cancelled.is_cancelled() {
            let _ = under_way.unsent();
            return (job, None);
        }
        let mut pause = PAUSE_FIRST * 4_u32.pow(attempt - 1);
        let answer = timeout(REQUEST_TIMEOUT, client.send(request)).await;
        if let Ok(Ok(response)) = &answer {
            under_way.answered(response.status());
        }
        let why = match answer {
            Ok(Ok(response)) if response.status().is_success() => {
                let version = version_of(response).await;
                return (job, Some(version));
            }
            Ok(Ok(response)) if response.status() == StatusCode::CONFLICT && version > 0 => {
                // It changed, or another pod has its name.
                match waiting_version(&client, &gate, &job.pod).await {
                    Ok(Some(found)) if found != version => {
                        version = found;
                        continue;
                    }
                    Ok(_) => return (job, None),
                    Err(why) => why,
                }
            }
            Ok(Ok(response)) => {
                pause = retry_after(&response).map_or(pause, |wait| wait.max(pause));
                let final_answer = !may_pass(response.status());
                let why = failure(response).await.to_string();
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
        if attempt == TRIES_MAX || pause > PAUSE_MAX {
            break;
        }
        if cancelled.run_until_cancelled(sleep(pause)).await.is_none() {
            break;
        }
    }
    (job, None)
}

/// What is read of a pod that changed while its status was being written.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Changed {
    metadata: ChangedMetadata,
    spec: ChangedSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ChangedMetadata {
    uid: String,
    resource_version: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ChangedSpec {
    node_name: String,
}

/// Reads the version of a pod; `None` when it is on a node or gone: then nothing is to be written.
async fn waiting_version(
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
        Ok(Ok(response)) => return Err(failure(response).await.to_string()),
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err("no answer".to_owned()),
    };
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect();
    let body = timeout(REQUEST_TIMEOUT, body).await.map_err(|_| "no answer".to_owned())?;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    let found: Changed = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    let same = Uid::from(&*found.metadata.uid) == pod.uid;
    let waits = same && found.spec.node_name.is_empty();
    Ok(found.metadata.resource_version.parse().ok().filter(|_| waits))
}

/// The version of a pod that was written; zero if it cannot be read, which any other is newer than.
async fn version_of(response: Response<Body>) -> u64 {
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect();
    let Ok(Ok(body)) = timeout(REQUEST_TIMEOUT, body).await else { return 0 };
    let pod: Option<Value> = serde_json::from_slice(&body.to_bytes()).ok();
    let version = pod.as_ref().and_then(|pod| pod.pointer("/metadata/resourceVersion")?.as_str());
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}
