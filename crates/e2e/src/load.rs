//! Load: pods that are created and deleted continuously, so that nodes stay nearly full.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::StreamExt as _;
use http::{Method, Request, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::draw::SplitMix;
use crate::ledger::Ledger;
use crate::test_env::{TestEnv, text};
use crate::watch;

/// Number of pods that fit on a node: four cores, a quarter of a core each.
pub(crate) const PODS_PER_NODE: usize = 16;

/// Maximum of requests in flight.
const REQUESTS_IN_FLIGHT_MAX: usize = 16;

/// Timeout of a request, and the delay before a failed one is sent again.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Amount of load.
#[derive(Clone, Copy)]
pub(crate) struct LoadProfile {
    /// Number of pods at any time.
    pub(crate) pods: usize,
    /// Number of bound pods that are never deleted, so that nodes stay nearly full even if pods are
    /// bound slowly.
    pub(crate) bound_min: usize,
    /// Number of pods that are deleted and replaced at once.
    pub(crate) burst: usize,
    /// Time between two bursts.
    pub(crate) pause: Duration,
}

/// Deletes and creates pods until it is finished.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    worker: JoinHandle<Result<(usize, usize)>>,
    runtime: tokio::runtime::Runtime,
}

/// Returns nodes for a control plane without controllers.
pub(crate) fn nodes(prefix: &str, count: usize) -> Vec<Value> {
    let node = |index: usize| {
        let name = format!("{prefix}-{index}");
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
        })
    };
    (0..count).map(node).collect()
}

/// Returns a pod of a scheduler that requests a quarter of a core.
pub(crate) fn pod(name: &str, scheduler: &str) -> Value {
    let container = json!({
        "name": "main", "image": "example.com/none",
        "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}},
    });
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"schedulerName": scheduler, "containers": [container]},
    })
}

impl Load {
    /// Creates the pods, and then starts to delete and replace them.
    pub(crate) fn start(
        env: &TestEnv,
        ledger: &Arc<Ledger>,
        profile: LoadProfile,
        seed: u64,
    ) -> Result<Self> {
        let (runtime, client) = watch::client(env)?;
        let path = format!("/api/v1/namespaces/{}/pods", env.namespace);
        let stop = Arc::new(AtomicBool::new(false));
        let load_worker = LoadWorker {
            client,
            path,
            ledger: Arc::clone(ledger),
            alive: BTreeSet::new(),
            made: 0,
        };
        let worker =
            runtime.spawn(load_worker.run(profile, SplitMix::new(seed), Arc::clone(&stop)));
        Ok(Self { stop, worker, runtime })
    }

    /// Waits for requests in flight. Returns the number of pods now and the number ever created.
    pub(crate) fn finish(self) -> Result<(usize, usize)> {
        self.stop.store(true, Ordering::Relaxed);
        self.runtime.block_on(self.worker)?
    }
}

struct LoadWorker {
    client: kube::Client,
    path: String,
    ledger: Arc<Ledger>,
    /// Names of the present pods.
    alive: BTreeSet<String>,
    /// Number of pods ever created.
    made: usize,
}

impl LoadWorker {
    async fn run(
        mut self,
        profile: LoadProfile,
        mut draw: SplitMix,
        stop: Arc<AtomicBool>,
    ) -> Result<(usize, usize)> {
        self.fill(profile.pods).await?;
        while !stop.load(Ordering::Relaxed) {
            sleep(profile.pause).await;
            let mut bound = self.ledger.state().bound();
            bound.retain(|name| self.alive.contains(name));
            let count = profile.burst.min(bound.len().saturating_sub(profile.bound_min));
            let chosen: Vec<_> =
                (0..count).map(|_| bound.swap_remove(draw.index(bound.len()))).collect();
            for name in &chosen {
                self.alive.remove(name);
            }
            let delete = |name| {
                let path = format!("{}/{name}?gracePeriodSeconds=0", self.path);
                send_until_done(&self.client, Method::DELETE, path, None)
            };
            run_all(chosen.into_iter().map(delete)).await?;
            self.fill(profile.pods).await?;
        }
        Ok((self.alive.len(), self.made))
    }

    /// Creates pods up to a number.
    async fn fill(&mut self, pods: usize) -> Result<()> {
        let missing = pods.saturating_sub(self.alive.len());
        let names: Vec<_> = (self.made..self.made + missing).map(|i| format!("w-{i}")).collect();
        self.made += missing;
        let create = |name: &String| {
            let body = pod(name, "default-scheduler").to_string();
            send_until_done(&self.client, Method::POST, self.path.clone(), Some(body))
        };
        run_all(names.iter().map(create)).await?;
        self.alive.extend(names);
        Ok(())
    }
}

/// Sends requests, a limited number of them at once.
async fn run_all(requests: impl Iterator<Item = impl Future<Output = Result<()>>>) -> Result<()> {
    let mut answers = futures::stream::iter(requests).buffer_unordered(REQUESTS_IN_FLIGHT_MAX);
    while let Some(answer) = answers.next().await {
        answer?;
    }
    Ok(())
}

/// Repeats a request until its success is certain; the server may be down meanwhile.
pub(crate) async fn send_until_done(
    client: &kube::Client,
    method: Method,
    path: String,
    body: Option<String>,
) -> Result<()> {
    loop {
        let request = Request::builder()
            .method(method.clone())
            .uri(&path)
            .header("content-type", "application/json")
            .body(Body::from(body.clone().unwrap_or_default().into_bytes()))?;
        let answer = timeout(REQUEST_TIMEOUT, client.send(request)).await;
        if let Ok(Ok(response)) = answer {
            let status = response.status();
            // An earlier attempt was successful although its response was lost.
            let done = match method {
                Method::DELETE => status == StatusCode::NOT_FOUND,
                _ => status == StatusCode::CONFLICT,
            };
            if status.is_success() || done {
                return Ok(());
            }
            let passes = status.is_server_error() || matches!(status.as_u16(), 403 | 409 | 429);
            ensure!(passes, "{method} {path} was answered {status}");
        }
        sleep(RETRY_DELAY).await;
    }
}

/// Returns the number of bound pods and of all pods.
pub(crate) fn wait_until_full(
    env: &TestEnv,
    ledger: &Ledger,
    pods: usize,
    room: usize,
) -> Result<()> {
    let want = (pods, pods.min(room));
    env.wait(&format!("{} of {pods} pods to be bound", want.1), || {
        let there = ledger.state().counts();
        ensure!(there == want, "there are {} pods and {} are bound", there.0, there.1);
        Ok(())
    })?;
    // The watch may lag behind the API server.
    let pods = env.list("pods")?;
    let bound = pods.iter().filter(|pod| !text(pod, "/spec/nodeName").is_empty()).count();
    ensure!(
        bound == want.1,
        "the watch delivered {} bound pods and the API server has {bound}",
        want.1
    );
    Ok(())
}
