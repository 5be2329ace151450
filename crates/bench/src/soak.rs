//! Checks that the sandbox's memory depends on the objects that exist and not on those deleted: creates and deletes many
//! times as many pods as exist at once, with a watch open, and compares resident memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use cli::api_client::{ApiClient, pods_path};
use cli::output::{complain, say};
use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Serialize;
use serde_json::{Value, json};

use crate::metrics;
use crate::server::Server;
use crate::workers::for_each_concurrent;

const NAMESPACE: &str = "default";

/// Share of all pods after which memory should no longer grow.
const WARM_UP_SHARE: f64 = 0.1;
/// Minimum length of the warm-up, as a multiple of the pods that exist at once, so that every log is full.
const WARM_UP_ROUNDS: usize = 10;

/// Interval of progress messages.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// Time limit for the watch to show all changes.
const WATCH_TIMEOUT: Duration = Duration::from_mins(1);

/// Settings of the measurement.
pub(crate) struct SoakSettings {
    /// Pods to create and delete.
    pub(crate) pods: usize,
    /// Pods that exist at once.
    pub(crate) alive: usize,
    /// Requests in flight.
    pub(crate) at_once: usize,
    /// Bytes by which memory may grow.
    pub(crate) margin: u64,
    /// Print JSON instead of text.
    pub(crate) json: bool,
}

/// The result.
#[derive(Debug, Serialize)]
struct Outcome {
    pods: usize,
    alive: usize,
    seconds: f64,
    cpu_s: f64,
    /// Resident bytes after the warm-up.
    warm_bytes: u64,
    /// Resident bytes at the end, with as many pods.
    end_bytes: u64,
    /// Bytes of pods at the end, as the sandbox counts them.
    pod_bytes: u64,
    /// Bytes of the log of their changes.
    log_bytes: u64,
    /// Changes that the watch showed.
    seen: u64,
    /// Number of times that the watch ended and was started again.
    expired: u64,
}

/// Counters of what the watch showed.
#[derive(Default)]
struct Seen {
    added: AtomicU64,
    deleted: AtomicU64,
    expired: AtomicU64,
}

/// Runs the measurement and prints the result. Fails if memory grew by more than the margin.
pub(crate) async fn run(settings: &SoakSettings) -> Result<()> {
    if cfg!(debug_assertions) {
        complain("warning: this is a debug build; its figures say nothing");
    }
    let server = tokio::task::spawn_blocking(|| Server::start(true)).await??;
    let requests = ApiClient::connect(&server.kubeconfig).await?;
    let seen = Arc::new(Seen::default());
    let watching = ApiClient::connect(&server.kubeconfig).await?;
    let watch = tokio::spawn(watch(watching, Arc::clone(&seen)));
    let done = churn(settings, &server, &requests, &seen).await;
    watch.abort();
    let outcome = done?;
    let grown = outcome.end_bytes.saturating_sub(outcome.warm_bytes);
    if settings.json {
        say(&(serde_json::to_string(&outcome)? + "\n"))?;
    } else {
        say(&format!(
            "{} pods created and deleted, {} alive at once, in {:.0} s, {:.0} µs of CPU time each\n\
             resident: {} when warm, {} at the end ({:+.1} MiB; up to {} more are allowed)\n\
             counted at the end: {} in pods, {} in the log of their changes\n\
             the watch showed {} changes and was started again {} times\n",
            outcome.pods,
            outcome.alive,
            outcome.seconds,
            outcome.cpu_s * 1e6 / outcome.pods as f64,
            mib(outcome.warm_bytes),
            mib(outcome.end_bytes),
            (outcome.end_bytes as f64 - outcome.warm_bytes as f64) / f64::from(1 << 20),
            mib(settings.margin),
            mib(outcome.pod_bytes),
            mib(outcome.log_bytes),
            outcome.seen,
            outcome.expired,
        ))?;
    }
    if grown > settings.margin {
        bail!("memory grew by {}, more than {}", mib(grown), mib(settings.margin));
    }
    Ok(())
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

async fn churn(
    settings: &SoakSettings,
    server: &Server,
    requests: &ApiClient,
    seen: &Seen,
) -> Result<Outcome> {
    let path = pods_path(NAMESPACE);
    let warm_at =
        ((settings.pods as f64 * WARM_UP_SHARE) as usize).max(settings.alive * WARM_UP_ROUNDS);
    if warm_at >= settings.pods {
        bail!("{} pods are too few to tell: more than {warm_at} are needed", settings.pods);
    }
    let (began, mut reported) = (Instant::now(), Instant::now());
    let cpu_before = server.identity.cpu_seconds().context("the sandbox ended")?;
    let mut alive: VecDeque<usize> = VecDeque::new();
    let (mut made, mut warm) = (0, None);
    while made < settings.pods {
        let next =
            made..(made + settings.alive.min(settings.pods - made).min(settings.at_once * 16));
        made = next.end;
        for_each_concurrent(next.clone(), settings.at_once, |number| {
            let path = path.as_str();
            async move { requests.create(path, &pod(number)).await.map(|_| ()) }
        })
        .await?;
        alive.extend(next);
        let surplus = alive.len().saturating_sub(settings.alive);
        for_each_concurrent(alive.drain(..surplus), settings.at_once, |number| {
            let path = format!("{path}/{}", name(number));
            async move { requests.delete(&path).await }
        })
        .await?;
        if warm.is_none() && made >= warm_at {
            warm = Some(server.resident_bytes()?);
        }
        if reported.elapsed() > PROGRESS_INTERVAL {
            reported = Instant::now();
            complain(&format!(
                "{made} of {} pods, {:.0} a second, resident {}",
                settings.pods,
                made as f64 / began.elapsed().as_secs_f64(),
                mib(server.resident_bytes()?)
            ));
        }
    }
    let (added, deleted) = (made as u64, (made - alive.len()) as u64);
    settle(seen, added, deleted).await?;
    let page = requests.get_text("/metrics").await?;
    let of_pods = [("resource", "pods"), ("group", "")];
    Ok(Outcome {
        pods: settings.pods,
        alive: alive.len(),
        seconds: began.elapsed().as_secs_f64(),
        cpu_s: server.identity.cpu_seconds().context("the sandbox ended")? - cpu_before,
        warm_bytes: warm.context("the warm-up did not end")?,
        end_bytes: server.resident_bytes()?,
        pod_bytes: metrics::sum(&page, "sandbox_object_bytes", &of_pods) as u64,
        log_bytes: metrics::sum(&page, "sandbox_log_bytes", &of_pods) as u64,
        seen: seen.added.load(Ordering::Relaxed) + seen.deleted.load(Ordering::Relaxed),
        expired: seen.expired.load(Ordering::Relaxed),
    })
}

/// Waits until the watch has shown all changes; one that was started again has missed some, so nothing is expected of it.
async fn settle(seen: &Seen, added: u64, deleted: u64) -> Result<()> {
    let deadline = Instant::now() + WATCH_TIMEOUT;
    loop {
        let shown = (seen.added.load(Ordering::Relaxed), seen.deleted.load(Ordering::Relaxed));
        if shown == (added, deleted) || seen.expired.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("the watch showed {shown:?} pods that came and went, of {:?}", (added, deleted));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Watches pods without end, and starts a new watch whenever one ends.
async fn watch(requests: ApiClient, seen: Arc<Seen>) {
    loop {
        if let Err(error) = watch_once(&requests, &seen).await {
            complain(&format!("the watch ended: {error:#}"));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        seen.expired.fetch_add(1, Ordering::Relaxed);
    }
}

async fn watch_once(requests: &ApiClient, seen: &Seen) -> Result<()> {
    let request = Request::get(format!("{}?watch=true", pods_path(NAMESPACE)));
    let response = requests.client().send(request.body(Body::empty())?).await?;
    let mut body = response.into_body();
    let mut rest: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        rest.extend_from_slice(&data);
        let mut start = 0;
        while let Some(end) = rest[start..].iter().position(|byte| *byte == b'\n') {
            let line = &rest[start..start + end];
            start += end + 1;
            if line.starts_with(b"{\"type\":\"ADDED\"") {
                seen.added.fetch_add(1, Ordering::Relaxed);
            } else if line.starts_with(b"{\"type\":\"DELETED\"") {
                seen.deleted.fetch_add(1, Ordering::Relaxed);
            } else if line.starts_with(b"{\"type\":\"ERROR\"") {
                return Ok(());
            }
        }
        rest.drain(..start);
    }
    Ok(())
}

fn name(number: usize) -> String {
    format!("soak-{number}")
}

fn pod(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name(number), "labels": {"app": "soak", "number": number.to_string()}},
        "spec": {"containers": [{
            "name": "app", "image": "registry.k8s.io/pause:3.10",
            "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}},
        }]},
    })
}
