//! The pod's own status: why it is not scheduled, and the node it is nominated for.
//!
//! Of one pod only the latest report is written, and none that would change nothing.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, SystemTime};

use engine::command::PodName;
use engine::object::Text;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http::{Request, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::answer::failure;
use crate::events::second_time;

/// Reports on their way to the writer.
const WAITING_MAX: usize = 4096;

/// Reports that are written at once.
const WRITING_MAX: usize = 16;

/// Pods whose last report is remembered; beyond that one is written too often, never too rarely.
const REMEMBERED_MAX: usize = 200_000;

/// How long writing one may take, and how often it is tried.
const WRITE_MAX: Duration = Duration::from_secs(10);
const TRIES_MAX: u32 = 4;
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// What is to be written of a pod.
#[derive(Clone, Debug)]
pub enum Report {
    /// Its status.
    Status {
        /// The pod.
        pod: PodName,
        /// `metadata.generation` that was looked at.
        generation: i64,
        /// Reason and message of the condition `PodScheduled: False`, if it is to be written.
        failure: Option<(&'static str, String)>,
        /// The nominated node, if it is to be written; empty takes it away.
        nominate: Option<Text>,
    },
    /// The pod needs no more reports.
    Done(Text),
}

/// Takes reports in.
#[derive(Clone)]
pub struct Reports(mpsc::Sender<Report>);

impl Reports {
    /// Starts to write reports.
    pub fn start(client: kube::Client) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        tokio::spawn(Writer::new(client).run(receiver));
        Self(sender)
    }

    /// Has a report written. Waits while there are too many.
    pub async fn tell(&self, report: Report) {
        let _ = self.0.send(report).await;
    }
}

/// What was last written of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Written {
    failure: Option<(&'static str, String)>,
    nominated: Option<Text>,
}

struct Writer {
    client: kube::Client,
    written: HashMap<Text, Written>,
    /// Latest report of each pod that waits, and their order.
    waiting: HashMap<Text, Job>,
    order: VecDeque<Text>,
    writing: HashSet<Text>,
}

#[derive(Clone, Debug)]
struct Job {
    pod: PodName,
    generation: i64,
    failure: Option<(&'static str, String)>,
    nominate: Option<Text>,
}

impl Writer {
    fn new(client: kube::Client) -> Self {
        Self {
            client,
            written: HashMap::new(),
            waiting: HashMap::new(),
            order: VecDeque::new(),
            writing: HashSet::new(),
        }
    }

    async fn run(mut self, mut reports: mpsc::Receiver<Report>) {
        let mut under_way = FuturesUnordered::new();
        loop {
            while under_way.len() < WRITING_MAX
                && let Some(job) = self.next()
            {
                under_way.push(write(self.client.clone(), self.patch(&job), job));
            }
            tokio::select! {
                report = reports.recv(), if self.waiting.len() < WAITING_MAX => match report {
                    Some(report) => self.take(report),
                    None => return,
                },
                Some((job, done)) = under_way.next(), if !under_way.is_empty() => {
                    self.writing.remove(&job.pod.uid);
                    if done {
                        self.remember(job);
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
            }
            Report::Status { pod, generation, failure, nominate } => {
                let uid = pod.uid.clone();
                let job = Job { pod, generation, failure, nominate };
                if let Some(waiting) = self.waiting.get_mut(&uid) {
                    let earlier = std::mem::replace(waiting, job);
                    waiting.failure = waiting.failure.take().or(earlier.failure);
                    waiting.nominate = waiting.nominate.take().or(earlier.nominate);
                } else {
                    self.waiting.insert(uid.clone(), job);
                    self.order.push_back(uid);
                }
            }
        }
    }

    /// The next report that changes something, of a pod of which none is being written.
    fn next(&mut self) -> Option<Job> {
        for _ in 0..self.order.len() {
            let uid = self.order.pop_front()?;
            if self.writing.contains(&uid) {
                self.order.push_back(uid);
                continue;
            }
            let Some(mut job) = self.waiting.remove(&uid) else { continue };
            if let Some(written) = self.written.get(&uid) {
                job.failure = job.failure.filter(|new| written.failure.as_ref() != Some(new));
                job.nominate = job.nominate.filter(|new| written.nominated.as_ref() != Some(new));
            } else if job.nominate.as_ref().is_some_and(|node| node.is_empty()) {
                // Never nominated by us; a foreign nomination would have come with the pod.
                job.nominate = job.nominate.filter(|_| job.failure.is_none());
            }
            if job.failure.is_some() || job.nominate.is_some() {
                self.writing.insert(uid);
                return Some(job);
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
        json!({"metadata": {"uid": *job.pod.uid}, "status": status})
    }

    fn remember(&mut self, job: Job) {
        if self.written.len() >= REMEMBERED_MAX {
            self.written.clear();
        }
        let written = self.written.entry(job.pod.uid).or_default();
        written.failure = job.failure.or(written.failure.take());
        written.nominated = job.nominate.or(written.nominated.take());
    }
}

/// Writes until it is done, refused for good, or tried too often. Tells whether it is done.
async fn write(client: kube::Client, patch: Value, job: Job) -> (Job, bool) {
    let path = format!("/api/v1/namespaces/{}/pods/{}/status", job.pod.namespace, job.pod.name);
    let body = patch.to_string();
    for attempt in 1..=TRIES_MAX {
        let request = Request::patch(&path)
            .header("content-type", "application/strategic-merge-patch+json")
            .body(Body::from(body.clone().into_bytes()));
        let Ok(request) = request else { return (job, false) };
        let why = match timeout(WRITE_MAX, client.send(request)).await {
            Ok(Ok(response)) if response.status().is_success() => return (job, true),
            // Gone, or another pod of this name: nothing is left to say.
            Ok(Ok(response)) if response.status() == StatusCode::NOT_FOUND => return (job, false),
            Ok(Ok(response)) => failure(response).await.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        tracing::debug!(pod = %job.pod.name, attempt, "cannot write the status: {why}");
        sleep(RETRY_AFTER * 4_u32.pow(attempt)).await;
    }
    (job, false)
}
