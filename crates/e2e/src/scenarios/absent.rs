//! The API server is down when schedulers start, and again later; Jindou beside kube-scheduler.
//!
//! Both are restarted when they exit, with the backoff of kubelet for static pods.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use http::Method;

use crate::bare::{self, BareControlPlane};
use crate::load::{pod, send_until_done};
use crate::programs::ControlPlaneProgram;
use crate::schedulers::{self, SchedulerProcess};
use crate::test_env::{TIMEOUT, TestEnv, text};
use crate::watch;
use controlplane::tools::say;

const PROGRAM: &str = "kube-apiserver";

/// Scheduler names of the two sides, which are also the prefixes of their pods' names.
const SIDES: [&str; 2] = ["jindou-side", "kube-side"];

/// Pods of each side.
const PODS: usize = 10;

/// Delay after kube-scheduler's first bind from which Jindou's counts as later.
const BIND_DELAY_TOLERANCE: Duration = Duration::from_secs(1);

/// Interval between two looks at processes and pods.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Restart backoff of kubelet, which begins with the second exit of a container.
const RESTART_BACKOFF_MIN: Duration = Duration::from_secs(10);
const RESTART_BACKOFF_MAX: Duration = Duration::from_mins(5);

/// A scheduler that is restarted when it exits.
struct RestartedScheduler<'a> {
    env: &'a TestEnv<'a>,
    name: &'static str,
    process: Option<SchedulerProcess>,
    ends: usize,
    restart_at: Instant,
    backoff: Duration,
}

impl<'a> RestartedScheduler<'a> {
    fn new(env: &'a TestEnv<'a>, name: &'static str) -> Self {
        let restart_at = Instant::now();
        Self { env, name, process: None, ends: 0, restart_at, backoff: Duration::ZERO }
    }

    /// Starts the process if it does not run and its backoff is over.
    fn poll(&mut self) -> Result<()> {
        if let Some(process) = &mut self.process {
            if process.has_ended()?.is_none() {
                return Ok(());
            }
            self.process = None;
            self.ends += 1;
            self.restart_at = Instant::now() + self.backoff;
            self.backoff = (self.backoff * 2).clamp(RESTART_BACKOFF_MIN, RESTART_BACKOFF_MAX);
        }
        if Instant::now() >= self.restart_at {
            let config = format!("conformance/e2e/{}.yaml", self.name);
            let start = if self.name == SIDES[0] { schedulers::jindou } else { schedulers::kube };
            self.process = Some(start(self.env, &config)?);
        }
        Ok(())
    }
}

pub(crate) fn run(outer: &TestEnv) -> Result<()> {
    bare::run(outer, &[PROGRAM], compare)
}

fn compare(bare: &BareControlPlane) -> Result<()> {
    let BareControlPlane { env, ledger, .. } = bare;
    let away = env.size.pick(Duration::from_secs(10), Duration::from_mins(1));
    let mut server = ControlPlaneProgram::of(env, bare.plane, PROGRAM)?;
    let mut sides = SIDES.map(|name| RestartedScheduler::new(env, name));
    let mut later = Vec::new();
    let mut report = Vec::new();
    for when in ["start", "middle"] {
        server.kill()?;
        let until = Instant::now() + away;
        while Instant::now() < until {
            poll(&mut sides)?;
        }
        server.start()?;
        let began = Instant::now();
        let created = create_pods(env, when)?;
        let first = wait_for_first(env, &mut sides, when, began)?;
        let [own, kube] = first.map(|time| format!("{:.2} s", time.as_secs_f64()));
        report.push(format!(
            "away {} s at the {when}: first bind {own} after the API server was started again, by \
             kube-scheduler {kube} (the first pod was created after {:.2} s)",
            away.as_secs(),
            created.saturating_duration_since(began).as_secs_f64(),
        ));
        if first[0] > first[1] + BIND_DELAY_TOLERANCE {
            later.push(format!("{when}: {own} and {kube}"));
        }
    }
    env.wait("all pods to be bound", || {
        let counts = ledger.state().counts();
        ensure!(counts == (4 * PODS, 4 * PODS), "{counts:?} are there and bound");
        Ok(())
    })?;
    {
        let state = ledger.state();
        say(&format!(
            "absent: {}; ended by themselves {} and {} times; {} pods, {} versions seen ({} gaps); \
             overcommits {}, moved pods {}",
            report.join("; "),
            sides[0].ends,
            sides[1].ends,
            state.counts().0,
            state.versions,
            state.gaps,
            state.overcommits.len(),
            state.moves.len(),
        ));
    }
    ledger.check()?;
    // In the short form the API server is down for less than a retry interval of either scheduler.
    if env.size.long && !later.is_empty() {
        bail!("kube-scheduler bound earlier: {}", later.join("; "));
    }
    // Upstream's scheduler exits with an error on SIGTERM; it is killed when it is dropped.
    let own = sides[0].process.take().context("Jindou has ended")?;
    own.stop()
}

/// Creates pods of both sides as soon as the API server accepts them. Returns the time of the first.
fn create_pods(env: &TestEnv, when: &str) -> Result<Instant> {
    let (runtime, client) = watch::client(env)?;
    let path = format!("/api/v1/namespaces/{}/pods", env.namespace);
    let mut first = None;
    for index in 0..PODS {
        for side in SIDES {
            let body = pod(&format!("{side}-{when}-{index}"), side).to_string();
            runtime.block_on(send_until_done(&client, Method::POST, path.clone(), Some(body)))?;
            first.get_or_insert(Instant::now());
        }
    }
    first.context("no pods are to be made")
}

/// Waits until each side has bound a pod. Returns the times since the start of the API server.
fn wait_for_first(
    env: &TestEnv,
    sides: &mut [RestartedScheduler; 2],
    when: &str,
    began: Instant,
) -> Result<[Duration; 2]> {
    let deadline = began + 2 * TIMEOUT;
    let (runtime, client) = watch::client(env)?;
    let path = format!("/api/v1/namespaces/{}/pods", env.namespace);
    let mut found = [None; 2];
    loop {
        poll(sides)?;
        // Lists, because the API server may start to serve a watch late.
        let pods = runtime.block_on(watch::list(&client, &path))?;
        let now = began.elapsed();
        for pod in pods["items"].as_array().into_iter().flatten() {
            for (side, found) in SIDES.iter().zip(&mut found) {
                let own = text(pod, "/metadata/name").starts_with(&format!("{side}-{when}-"));
                if own && !text(pod, "/spec/nodeName").is_empty() {
                    found.get_or_insert(now);
                }
            }
        }
        match found {
            [Some(own), Some(kube)] => return Ok([own, kube]),
            _ if Instant::now() > deadline => {
                bail!("waited {} s for both to bind a pod: {found:?}", 2 * TIMEOUT.as_secs())
            }
            _ => {}
        }
    }
}

fn poll(sides: &mut [RestartedScheduler; 2]) -> Result<()> {
    for side in sides {
        side.poll()?;
    }
    std::thread::sleep(POLL_INTERVAL);
    Ok(())
}
