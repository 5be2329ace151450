//! Measures one contender draining one workload: CPU time, rate, memory, and latency of arriving pods.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use cli::api_client::pods_path;
use cli::output::complain;

use super::cluster::LiveCluster;
use super::contender::{Contender, Contenders, Process};
use super::report::Run;
use super::workload::{LiveWorkload, PodObject, report_violations};
use crate::statistics::percentile;
use crate::workers::for_each_concurrent;

/// Time without a bind after which a scheduler has failed.
const STALL_MAX: Duration = Duration::from_mins(1);

/// Interval at which a process is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// A process is idle if it used less than this share of a core for a second.
const IDLE_SHARE: f64 = 0.03;

/// Time limit for a process to become idle; later CPU time is not attributed to the workload.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Rate at which pods arrive one by one, as a share of the baseline's rate.
const ARRIVAL_SHARE: f64 = 0.6;

/// Creations in flight, more than an API server needs for the rate of arrivals.
const ARRIVALS_AT_ONCE: usize = 200;

/// Runs drains of one workload.
pub(super) struct Drain<'a> {
    cluster: &'a LiveCluster,
    contenders: &'a Contenders<'a>,
    workload: &'a LiveWorkload,
    arrival_seconds: u64,
    /// Arrivals per second, set by the first contender's rate.
    arrivals_per_second: Option<f64>,
}

/// Latencies of pods that arrived one by one, in milliseconds, sorted.
struct Latency(Vec<f64>);

impl<'a> Drain<'a> {
    /// Starts nothing yet.
    pub(super) fn new(
        cluster: &'a LiveCluster,
        contenders: &'a Contenders<'a>,
        workload: &'a LiveWorkload,
        arrival_seconds: u64,
    ) -> Self {
        Self { cluster, contenders, workload, arrival_seconds, arrivals_per_second: None }
    }

    /// Creates the pods, starts a contender, and measures until it is idle.
    pub(super) async fn run(&mut self, contender: Contender) -> Result<Run> {
        let (workload, requests) = (self.workload, &self.workload.requests);
        workload.create_pods().await?;
        let pods = workload.pods();
        let (binds_before, events_before) = workload.binds_and_events().await?;
        let before = self.cluster.cpu_use(requests).await?;
        let began = Instant::now();
        let mut process = self.contenders.start(contender)?;
        self.cluster.adopt(contender.name(), &process.identity)?;
        wait_for(workload, &mut process, 1).await?;
        let (first_cpu, first) = (process.cpu_seconds()?, self.cluster.cpu_use(requests).await?);
        wait_for(workload, &mut process, pods).await?;
        let (last_cpu, last) = (process.cpu_seconds()?, self.cluster.cpu_use(requests).await?);
        let cpu = wait_until_idle(&mut process).await?;
        let after = self.cluster.cpu_use(requests).await?;
        let rss = process.identity.memory_bytes_max().unwrap_or(0);

        let seen = workload.observer.take();
        let Some((first_seen, last_seen)) = seen.span else { bail!("no pod was seen on a node") };
        let (binds, events) = workload.binds_and_events().await?;
        let mut violations = workload.violations().await?;
        violations += bound_twice(&seen.moved, binds - binds_before, pods);
        workload.delete_pods().await?;

        let per_1000 = |seconds: f64| seconds * 1000.0 / pods as f64;
        let drain_s = last_seen.duration_since(first_seen).as_secs_f64();
        let pods_per_second = pods as f64 / drain_s.max(1e-3);
        let rate = *self.arrivals_per_second.get_or_insert(pods_per_second * ARRIVAL_SHARE);
        let latency = self.arrive(&mut process, rate, &mut violations).await?;
        Ok(Run {
            family: workload.family(),
            nodes: workload.nodes(),
            pods,
            scheduler: contender,
            round: 0,
            counted: false,
            cpu_s_per_1000: per_1000(cpu),
            pods_per_second,
            p50_ms: latency.as_ref().and_then(|all| percentile(&all.0, 0.5)),
            p99_ms: latency.as_ref().and_then(|all| percentile(&all.0, 0.99)),
            arrivals_per_second: latency.is_some().then_some(rate),
            rss_mb: rss as f64 / 1e6,
            apiserver_cpu_s: after.apiserver - before.apiserver,
            first_bind_s: first_seen.duration_since(began).as_secs_f64(),
            drain_s,
            drain_cpu_s_per_1000: per_1000(last_cpu - first_cpu),
            outside_cpu_s_per_1000: per_1000(last.outside - first.outside),
            events: events - events_before,
            violations,
        })
    }

    /// Creates pods at a fixed rate and measures the latency from the time at which each was due to its bind.
    async fn arrive(
        &self,
        process: &mut Process,
        rate: f64,
        violations: &mut usize,
    ) -> Result<Option<Latency>> {
        let workload = self.workload;
        let wanted = (rate * self.arrival_seconds as f64) as usize;
        if wanted == 0 {
            return Ok(None);
        }
        let pods = &workload.measured()[..workload.pods().min(wanted)];
        // By then the scheduler has processed the deletions.
        wait_until_idle(process).await?;
        workload.observer.take();
        let created = RefCell::new(Vec::with_capacity(pods.len()));
        let began = Instant::now();
        let arrivals = pods.iter().enumerate();
        for_each_concurrent(arrivals, ARRIVALS_AT_ONCE, |(index, made)| {
            let due = began + Duration::from_secs_f64(index as f64 / rate);
            let created = &created;
            async move {
                tokio::time::sleep_until(due.into()).await;
                let uid = create(workload, made).await?;
                created.borrow_mut().push((uid, due));
                Ok(())
            }
        })
        .await?;
        wait_for(workload, process, pods.len()).await?;
        let seen = workload.observer.take();
        *violations += workload.violations().await?;
        *violations += bound_twice(&seen.moved, pods.len() as u64, pods.len());
        let waits = created.into_inner().into_iter().filter_map(|(uid, due)| {
            let (_, bound) = seen.bound.get(&uid)?;
            Some(bound.saturating_duration_since(due).as_secs_f64() * 1000.0)
        });
        let mut waits: Vec<f64> = waits.collect();
        waits.sort_by(f64::total_cmp);
        workload.delete_pods().await?;
        Ok(Some(Latency(waits)))
    }
}

async fn create(workload: &LiveWorkload, pod: &PodObject) -> Result<String> {
    workload.requests.create(&pods_path(&pod.namespace), &pod.object).await
}

/// Waits until `pods` pods are bound; fails if no bind is seen for [`STALL_MAX`].
async fn wait_for(workload: &LiveWorkload, process: &mut Process, pods: usize) -> Result<()> {
    let mut progress = (workload.observer.count(), Instant::now());
    loop {
        if tokio::time::timeout(POLL_INTERVAL, workload.observer.wait(pods)).await.is_ok() {
            return Ok(());
        }
        process.check()?;
        let count = workload.observer.count();
        if count != progress.0 {
            progress = (count, Instant::now());
        }
        if progress.1.elapsed() > STALL_MAX {
            let seconds = STALL_MAX.as_secs();
            bail!(
                "{count} of {pods} pods are bound, and no more for {seconds} s\n{}",
                process.tail()
            );
        }
    }
}

/// Waits until a process is idle, and returns the CPU seconds that it used until then.
async fn wait_until_idle(process: &mut Process) -> Result<f64> {
    let deadline = Instant::now() + IDLE_TIMEOUT;
    let mut used = process.cpu_seconds()?;
    while Instant::now() < deadline {
        tokio::time::sleep(Duration::from_secs(1)).await;
        process.check()?;
        let now = process.cpu_seconds()?;
        if now - used < IDLE_SHARE {
            return Ok(now);
        }
        used = now;
    }
    complain("warning: the scheduler does not become idle");
    Ok(used)
}

/// Returns the number of pods that moved plus that of surplus binds, and reports them.
fn bound_twice(moved: &[String], binds: u64, pods: usize) -> usize {
    report_violations(moved);
    let surplus = binds.saturating_sub(pods as u64) as usize;
    if surplus > 0 {
        report_violations(&[format!("{pods} pods were bound {binds} times")]);
    }
    moved.len() + surplus
}
