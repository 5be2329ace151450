//! Measures preemption on a full cluster whose victims terminate slowly, while other pods keep arriving.
//!
//! ```text
//! nodes full of victims ─▶ scheduler starts ─▶ other pods alone ─▶ preemptors and other pods together
//!                                              (quiet latency)     (latency while pods are nominated)
//! ─▶ all preemptors bound, nothing terminates ─▶ count deleted victims, check all placements
//! ```

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use cli::api_client::{ApiClient, pods_path};
use cli::output::{columns, complain, say};
use serde::Serialize;
use serde_json::{Value, json};

use crate::live::contender::{Contender, Contenders, Process};
use crate::live::observer::{Observer, Seen};
use crate::placements;
use crate::programs;
use crate::server::Server;
use crate::statistics::percentile;
use crate::workers::{WORKERS, for_each_concurrent};

/// Victims on each node. A preemptor requests as much as one of them.
const VICTIMS_PER_NODE: usize = 4;

/// CPU of a node beyond its victims' requests, in thousandths of a core: enough for [`OTHERS_PER_NODE`] other pods, too
/// little for a preemptor.
const SPARE_MILLI: usize = 100;

/// CPU request of each other pod, in thousandths of a core.
const OTHER_MILLI: usize = 10;

/// Other pods that fit on a node beside its victims or preemptors.
const OTHERS_PER_NODE: usize = SPARE_MILLI / OTHER_MILLI;

/// Time during which other pods arrive before the preemptors.
const QUIET: Duration = Duration::from_secs(5);

/// Creations of other pods in flight.
const ARRIVALS_AT_ONCE: usize = 200;

/// Time without a bind after which a scheduler has failed, in addition to the time that victims take.
const STALL_MAX: Duration = Duration::from_mins(2);

/// Interval at which the cluster is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

const NAMESPACE: &str = "default";
const PRIORITY_CLASS: &str = "bench-preemptor";

/// Annotation that sets how long a pod takes to terminate on the sandbox's kubelets.
const STOPS_AFTER: &str = "sandbox.novasphere.dev/stops-after";

/// Settings of the measurement.
pub(crate) struct PreemptSettings {
    /// Number of nodes, each full of victims.
    pub(crate) nodes: usize,
    /// Number of preemptors; each needs one victim.
    pub(crate) preemptors: usize,
    /// Time that a victim takes to terminate.
    pub(crate) terminate: Duration,
    /// Other pods that arrive per second.
    pub(crate) arrivals: f64,
    /// Measure kube-scheduler first.
    pub(crate) against: bool,
    /// Build of Jindou to measure, if not the one beside this program.
    pub(crate) jindou: Option<PathBuf>,
    /// Print JSON instead of a table.
    pub(crate) json: bool,
}

/// The results of one scheduler.
#[derive(Debug, Serialize)]
struct Outcome {
    scheduler: Contender,
    nodes: usize,
    preemptors: usize,
    terminate_s: f64,
    /// Victims that were deleted.
    victims: usize,
    /// Victims divided by preemptors; 1 is the minimum.
    victims_per_needed: f64,
    /// Other pods that were deleted, which never makes a preemptor fit.
    others_killed: usize,
    /// Seconds from the creation of the first preemptor to the bind of the last.
    seconds: f64,
    /// Milliseconds from the creation of another pod to its bind, before the preemptors arrive.
    quiet_p50_ms: Option<f64>,
    quiet_p99_ms: Option<f64>,
    /// The same while pods are nominated.
    nominated_p50_ms: Option<f64>,
    nominated_p99_ms: Option<f64>,
    /// CPU seconds of the scheduler, from its start until no pod terminates.
    cpu_s: f64,
    /// Pods that kubelets rejected because their node had too little left.
    refused: usize,
    /// Placements that break a rule, and pods that were seen on two nodes.
    violations: usize,
}

/// Runs the measurement and prints the results. Fails if Jindou evicted more pods than needed or a placement is wrong.
pub(crate) async fn run(settings: &PreemptSettings) -> Result<()> {
    if cfg!(debug_assertions) {
        complain("warning: this is a debug build; its figures say nothing");
    }
    let kube = if settings.against {
        tokio::task::spawn_blocking(controlplane::build_programs).await??.join("kube-scheduler")
    } else {
        PathBuf::new()
    };
    let mut outcomes = Vec::new();
    for contender in [Contender::KubeScheduler, Contender::Jindou] {
        if contender == Contender::KubeScheduler && !settings.against {
            continue;
        }
        let outcome = measure(settings, kube.clone(), contender);
        let outcome = outcome.await.with_context(|| contender.name().to_owned())?;
        if settings.json {
            say(&(serde_json::to_string(&outcome)? + "\n"))?;
        }
        outcomes.push(outcome);
    }
    if !settings.json {
        say(&table(&outcomes))?;
    }
    let of_ours = outcomes.iter().filter(|outcome| outcome.scheduler == Contender::Jindou);
    for outcome in of_ours {
        if outcome.victims != outcome.preemptors || outcome.others_killed > 0 {
            let Outcome { victims, others_killed, preemptors, .. } = outcome;
            bail!(
                "{victims} victims and {others_killed} other pods were deleted for {preemptors} preemptors"
            );
        }
        if outcome.violations + outcome.refused > 0 {
            bail!("{} violations, {} pods refused", outcome.violations, outcome.refused);
        }
    }
    Ok(())
}

async fn measure(
    settings: &PreemptSettings,
    kube: PathBuf,
    contender: Contender,
) -> Result<Outcome> {
    let server = tokio::task::spawn_blocking(|| Server::start(true)).await??;
    let requests = ApiClient::connect(&server.kubeconfig).await?;
    let victims = settings.nodes * VICTIMS_PER_NODE;
    complain(&format!(
        "{}: making {} nodes full of {victims} pods …",
        contender.name(),
        settings.nodes
    ));
    make_cluster(settings, &requests).await?;
    let observer = Observer::start(ApiClient::connect(&server.kubeconfig).await?).await?;
    let folder = tempfile::Builder::new().prefix("jindou-bench-").tempdir()?;
    let contenders = Contenders {
        kube,
        jindou: programs::jindou(settings.jindou.as_deref())?,
        kubeconfig: server.kubeconfig.clone(),
        folder: folder.path().to_owned(),
        cores: None,
    };
    let mut process = contenders.start(contender)?;
    let mut others = Others { settings, requests: &requests, observer: &observer, made: 0 };
    // When the first pod is bound, the scheduler has synced its caches.
    others.arrive(1.0, 1).await?;
    wait_for(&observer, &mut process, 1, settings.terminate).await?;
    observer.take();

    let quiet = (settings.arrivals * QUIET.as_secs_f64()) as usize;
    let created = others.arrive(settings.arrivals, quiet).await?;
    wait_for(&observer, &mut process, quiet, settings.terminate).await?;
    let seen = observer.take();
    let quiet_waits = waits(&created, &seen);

    let began = Instant::now();
    // For about as long as victims terminate, and at most half of the other pods that fit.
    let beside = (settings.arrivals * settings.terminate.as_secs_f64()) as usize;
    let beside = beside.min((settings.nodes * OTHERS_PER_NODE / 2).saturating_sub(quiet + 1));
    let preemptors = for_each_concurrent(0..settings.preemptors, WORKERS, |number| {
        let requests = &requests;
        async move { requests.create(&pods_path(NAMESPACE), &preemptor(number)).await.map(|_| ()) }
    });
    let (made, created) = tokio::join!(preemptors, others.arrive(settings.arrivals, beside));
    made?;
    let created = created?;
    wait_for(&observer, &mut process, settings.preemptors + beside, settings.terminate).await?;
    let seen = observer.take();
    let nominated_waits = waits(&created, &seen);
    let last = seen.span.map_or(began, |(_, last)| last);
    let made = others.made;
    let pods = settle(&requests).await?;
    let cpu_s = process.cpu_seconds()?;
    let with_role =
        |role: &str| pods.iter().filter(|pod| pod["metadata"]["labels"]["role"] == role).count();
    let nodes = requests.list("/api/v1/nodes").await?;
    let wrong = placements::violations(&nodes, &pods, &requests.list("/api/v1/namespaces").await?)?;
    for line in wrong.iter().chain(&seen.moved).take(5) {
        complain(&format!("violation: {line}"));
    }
    let died = victims - with_role("victim");
    Ok(Outcome {
        scheduler: contender,
        nodes: settings.nodes,
        preemptors: settings.preemptors,
        terminate_s: settings.terminate.as_secs_f64(),
        victims: died,
        victims_per_needed: died as f64 / settings.preemptors as f64,
        others_killed: made - with_role("other"),
        seconds: last.saturating_duration_since(began).as_secs_f64(),
        quiet_p50_ms: percentile(&quiet_waits, 0.5),
        quiet_p99_ms: percentile(&quiet_waits, 0.99),
        nominated_p50_ms: percentile(&nominated_waits, 0.5),
        nominated_p99_ms: percentile(&nominated_waits, 0.99),
        cpu_s,
        refused: pods.iter().filter(|pod| pod["status"]["phase"] == "Failed").count(),
        violations: wrong.len() + seen.moved.len(),
    })
}

async fn make_cluster(settings: &PreemptSettings, requests: &ApiClient) -> Result<()> {
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": PRIORITY_CLASS}, "value": 1000,
    });
    requests.create("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await?;
    for_each_concurrent(0..settings.nodes, WORKERS, |number| async move {
        requests.create("/api/v1/nodes", &node(number)).await.map(|_| ())
    })
    .await?;
    for_each_concurrent(0..settings.nodes * VICTIMS_PER_NODE, WORKERS, |number| async move {
        let victim = victim(number, settings.terminate);
        requests.create(&pods_path(NAMESPACE), &victim).await.map(|_| ())
    })
    .await?;
    let deadline = Instant::now() + STALL_MAX;
    loop {
        let running = requests.list("/api/v1/pods").await?;
        let running = running.iter().filter(|pod| pod["status"]["phase"] == "Running").count();
        if running == settings.nodes * VICTIMS_PER_NODE {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("{running} of {} pods run", settings.nodes * VICTIMS_PER_NODE);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Creates pods of low priority that fit beside all others.
struct Others<'a> {
    settings: &'a PreemptSettings,
    requests: &'a ApiClient,
    observer: &'a Observer,
    /// Number of pods created.
    made: usize,
}

impl Others<'_> {
    /// Creates pods at a fixed rate. Returns the uid of each and the time at which it was due.
    async fn arrive(&mut self, rate: f64, count: usize) -> Result<Vec<(String, Instant)>> {
        debug_assert!(self.observer.count() <= self.made + self.settings.preemptors);
        let created = RefCell::new(Vec::with_capacity(count));
        let (began, first) = (Instant::now(), self.made);
        for_each_concurrent(0..count, ARRIVALS_AT_ONCE, |index| {
            let due = began + Duration::from_secs_f64(index as f64 / rate);
            let (created, requests) = (&created, self.requests);
            async move {
                tokio::time::sleep_until(due.into()).await;
                let uid = requests.create(&pods_path(NAMESPACE), &other(first + index)).await?;
                created.borrow_mut().push((uid, due));
                Ok(())
            }
        })
        .await?;
        self.made += count;
        Ok(created.into_inner())
    }
}

/// Waits until this many pods are bound; fails if no bind is seen for [`STALL_MAX`] plus `terminate`.
async fn wait_for(
    observer: &Observer,
    process: &mut Process,
    pods: usize,
    terminate: Duration,
) -> Result<()> {
    let mut progress = (observer.count(), Instant::now());
    loop {
        if tokio::time::timeout(POLL_INTERVAL, observer.wait(pods)).await.is_ok() {
            return Ok(());
        }
        process.check()?;
        if observer.count() != progress.0 {
            progress = (observer.count(), Instant::now());
        }
        if progress.1.elapsed() > STALL_MAX + terminate {
            bail!(
                "{} of {pods} pods are bound, and no others for too long\n{}",
                progress.0,
                process.tail()
            );
        }
    }
}

/// Waits until no pod is terminating, and returns all pods.
async fn settle(requests: &ApiClient) -> Result<Vec<Value>> {
    let deadline = Instant::now() + STALL_MAX;
    loop {
        let pods = requests.list("/api/v1/pods").await?;
        let going = pods.iter().filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
        match going.count() {
            0 => return Ok(pods),
            going if Instant::now() > deadline => bail!("{going} pods do not terminate"),
            _ => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

/// Returns the milliseconds from when each pod was due until it was seen bound, sorted.
fn waits(created: &[(String, Instant)], seen: &Seen) -> Vec<f64> {
    let waits = created.iter().filter_map(|(uid, due)| {
        let (_, bound) = seen.bound.get(uid)?;
        Some(bound.saturating_duration_since(*due).as_secs_f64() * 1000.0)
    });
    let mut waits: Vec<f64> = waits.collect();
    waits.sort_by(f64::total_cmp);
    waits
}

fn node(number: usize) -> Value {
    let capacity = json!({
        "cpu": format!("{}m", VICTIMS_PER_NODE * 1000 + SPARE_MILLI), "memory": "32Gi", "pods": "110",
    });
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": format!("full-{number}")},
        "status": {
            "capacity": capacity, "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Bench", "message": "ready"}],
        },
    })
}

fn victim(number: usize, terminate: Duration) -> Value {
    let mut pod = pod(&format!("victim-{number}"), "victim", 1000);
    // The grace period is longer, so that it does not end the pod earlier.
    let grace = terminate.as_secs() + 1;
    let after = format!("{}ms", terminate.as_millis());
    pod["metadata"]["annotations"] = json!({STOPS_AFTER: after});
    pod["spec"]["terminationGracePeriodSeconds"] = grace.into();
    pod["spec"]["nodeName"] = format!("full-{}", number / VICTIMS_PER_NODE).into();
    pod
}

fn preemptor(number: usize) -> Value {
    let mut pod = pod(&format!("preemptor-{number}"), "preemptor", 1000);
    pod["spec"]["priorityClassName"] = PRIORITY_CLASS.into();
    pod
}

fn other(number: usize) -> Value {
    pod(&format!("other-{number}"), "other", OTHER_MILLI)
}

fn pod(name: &str, role: &str, milli_cpu: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"role": role}},
        "spec": {"containers": [{
            "name": "app", "image": "registry.k8s.io/pause:3.10",
            "resources": {"requests": {"cpu": format!("{milli_cpu}m")}},
        }]},
    })
}

fn table(outcomes: &[Outcome]) -> String {
    let head = [
        "SCHEDULER",
        "NODES",
        "PREEMPTORS",
        "VICTIMS",
        "PER NEEDED",
        "SECONDS",
        "QUIET P50 MS",
        "NOMINATED P50 MS",
        "QUIET P99 MS",
        "NOMINATED P99 MS",
        "CPU S",
        "REFUSED",
        "VIOLATIONS",
    ];
    let ms = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.1}"));
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for outcome in outcomes {
        rows.push(vec![
            outcome.scheduler.name().to_owned(),
            outcome.nodes.to_string(),
            outcome.preemptors.to_string(),
            outcome.victims.to_string(),
            format!("{:.3}", outcome.victims_per_needed),
            format!("{:.1}", outcome.seconds),
            ms(outcome.quiet_p50_ms),
            ms(outcome.nominated_p50_ms),
            ms(outcome.quiet_p99_ms),
            ms(outcome.nominated_p99_ms),
            format!("{:.2}", outcome.cpu_s),
            outcome.refused.to_string(),
            outcome.violations.to_string(),
        ]);
    }
    columns(&rows)
}
