//! The leader is partitioned from the API server: segments are dropped, not refused, so what it sent
//! is retransmitted by its kernel and arrives when the partition is over, perhaps long after the
//! process has ended and another replica leads.

use std::ops::Range;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::bare::{self, BareControlPlane, CAPACITY_PODS};
use crate::draw::SplitMix;
use crate::load::{self, Load, LoadProfile};
use crate::proxy::{RunId, check_double_binds};
use crate::replicas::Replicas;
use crate::schedulers::LIMITED_CONFIG;
use crate::test_env::{TIMEOUT, TestEnv};
use crate::verdict::{Verdict, gaps, median_and_max};
use controlplane::POLL_INTERVAL;
use controlplane::tools::say;

/// More pods than a replica may bind at once, so that it still sends binds when the partition begins.
const LOAD: LoadProfile = LoadProfile {
    pods: CAPACITY_PODS + 200,
    bound_min: CAPACITY_PODS - 240,
    burst: 120,
    pause: Duration::from_millis(300),
};

/// Time for which a leader leads before it is partitioned.
const PARTITION_INTERVAL: Range<Duration> = Duration::from_millis(500)..Duration::from_secs(2);

/// Range of the duration of a partition, in the short and in the long form.
const SHORT_PARTITION: Range<Duration> = Duration::from_secs(6)..Duration::from_secs(14);
const LONG_PARTITION: Range<Duration> = Duration::from_secs(5)..Duration::from_secs(40);

/// A lease that expires within the shorter partitions, and the default one.
const SHORT_LEASE: &[&str] = &[
    "--leader-elect",
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=6s",
    "--leader-elect-retry-period=1s",
];
const LONG_LEASE: &[&str] = &["--leader-elect"];

pub(crate) fn run(outer: &TestEnv) -> Result<()> {
    bare::run(outer, &[], partition_repeatedly)
}

/// Waits after a partition until pods are bound again and both replicas run: the one that led either
/// still does, or has lost the lease, ended, and been started again. Returns how many ended.
fn recover(
    replicas: &mut Replicas,
    bare: &BareControlPlane,
    leader: usize,
    run: Option<RunId>,
) -> Result<usize> {
    let binds = || bare.ledger.state().binds.len();
    let (before, deadline) = (binds(), Instant::now() + TIMEOUT);
    let mut ended = 0;
    loop {
        for slot in 0..2 {
            if let Some(status) = replicas.take_ended(slot)? {
                ensure!(status.code() == Some(1), "a replica ended with {status}");
                ended += 1;
                replicas.launch(slot)?;
            }
        }
        let leads = replicas.leader().ok();
        let settled = leads == Some(leader) || leads.is_some() && replicas.run(leader) != run;
        if settled && binds() > before {
            return Ok(ended);
        }
        ensure!(Instant::now() < deadline, "no work {} s after a partition", TIMEOUT.as_secs());
        sleep(POLL_INTERVAL);
    }
}

fn partition_repeatedly(bare: &BareControlPlane) -> Result<()> {
    let BareControlPlane { env, ledger, .. } = bare;
    let count = env.size.rounds(2, 20);
    let range = env.size.pick(SHORT_PARTITION, LONG_PARTITION);
    let mut draw = SplitMix::new(env.size.seed);
    let mut replicas =
        Replicas::start(bare, LIMITED_CONFIG, env.size.pick(SHORT_LEASE, LONG_LEASE))?;
    let load = Load::start(env, ledger, LOAD, env.size.seed)?;
    env.wait("nodes to be nearly full", || {
        let (_, bound) = ledger.state().counts();
        ensure!(bound >= LOAD.bound_min, "{bound} pods are bound");
        Ok(())
    })?;
    let (mut times, mut ended) = (Vec::new(), 0);
    // Until then the kernel may retransmit what was sent in a partition: the pauses between its
    // tries are never longer than the time since the first.
    let mut quiet = Instant::now();
    for _ in 0..count {
        let leader = replicas.wait_for_leader()?;
        sleep(draw.time(&PARTITION_INTERVAL));
        let time = draw.time(&range);
        let run = replicas.run(leader);
        replicas.proxy(leader).partition(true);
        sleep(time);
        replicas.proxy(leader).partition(false);
        quiet = quiet.max(Instant::now() + time);
        times.push(time);
        ended += recover(&mut replicas, bare, leader, run)?;
    }
    replicas.wait_for_leader()?;
    sleep(quiet.saturating_duration_since(Instant::now()));
    let (pods, made) = load.finish()?;
    let full = load::wait_until_full(env, ledger, pods, CAPACITY_PODS);
    let writes = replicas.writes();
    let verdict = {
        let state = ledger.state();
        let totals = state.totals(made, &writes);
        let verdict = Verdict::of(&state, &writes);
        let Verdict { late_binds, stale, unknown, .. } = &verdict;
        say(&format!(
            "partition: {count} partitions (seed {}: {}), {} changes of the lease, {ended} replicas \
             ended, {totals}, late binds {} ({stale} requests to bind without the lease, {unknown} \
             binds unknown); time without binds: {}",
            env.size.seed,
            median_and_max(times),
            state.lease_changes.len().saturating_sub(1),
            late_binds.len(),
            median_and_max(gaps(&state.lease_changes, &writes)),
        ));
        verdict
    };
    full?;
    ledger.check()?;
    verdict.check()?;
    check_double_binds(&writes)?;
    // A process that lost the lease may not have exited yet.
    let leader = replicas.wait_for_leader()?;
    if replicas.take_ended(1 - leader)?.is_none() {
        replicas.stop(1 - leader)?;
    }
    replicas.stop(leader)
}
