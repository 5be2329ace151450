//! The leader is partitioned from the API server: segments are dropped, not refused, so what it sent
//! is retransmitted by its kernel and arrives when the partition is over, perhaps long after the
//! process has ended and another replica leads.

use std::ops::Range;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::bare::{self, Bare, ROOM};
use super::draw::Draw;
use super::load::{self, Load, Plan};
use super::proxy::{Run, bind_answers, double_binds};
use super::replicas::Replicas;
use super::scene::{PATIENCE, Scene};
use super::schedulers::UNHURRIED;
use super::verdict::{Verdict, gaps, middle_and_longest};
use crate::controlplane::POLL_INTERVAL;
use crate::shell::say;

/// More than a replica may bind: it always has binds that wait for their turn, and goes on sending
/// them when the partition has begun.
const LOAD: Plan =
    Plan { pods: ROOM + 200, bound_min: ROOM - 240, burst: 120, pause: Duration::from_millis(300) };

/// The time that a leader has until it is partitioned.
const BETWEEN: Range<Duration> = Duration::from_millis(500)..Duration::from_secs(2);

/// How long a partition takes, in the short and in the long form.
const SHORT: Range<Duration> = Duration::from_secs(6)..Duration::from_secs(14);
const LONG: Range<Duration> = Duration::from_secs(5)..Duration::from_secs(40);

/// A lease that expires within the shorter partitions, and the default one.
const SHORT_LEASE: &[&str] = &[
    "--leader-elect",
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=6s",
    "--leader-elect-retry-period=1s",
];
const LONG_LEASE: &[&str] = &["--leader-elect"];

pub(crate) fn run(outer: &Scene) -> Result<()> {
    bare::run(outer, &[], drain)
}

/// Waits after a partition until pods are bound again and both replicas run: the one that led either
/// still does, or has lost the lease, ended, and been started again. Returns how many ended.
fn recover(replicas: &mut Replicas, bare: &Bare, leader: usize, run: Option<Run>) -> Result<usize> {
    let binds = || bare.ledger.book().binds.len();
    let (before, deadline) = (binds(), Instant::now() + PATIENCE);
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
        ensure!(Instant::now() < deadline, "no work {} s after a partition", PATIENCE.as_secs());
        sleep(POLL_INTERVAL);
    }
}

fn drain(bare: &Bare) -> Result<()> {
    let Bare { scene, ledger, .. } = bare;
    let count = scene.size.rounds(2, 20);
    let range = scene.size.pick(SHORT, LONG);
    let mut draw = Draw::new(scene.size.seed);
    let mut replicas = Replicas::start(bare, UNHURRIED, scene.size.pick(SHORT_LEASE, LONG_LEASE))?;
    let load = Load::start(scene, ledger, LOAD, scene.size.seed)?;
    scene.wait("nodes to be nearly full", || {
        let (_, bound) = ledger.book().counts();
        ensure!(bound >= LOAD.bound_min, "{bound} pods are bound");
        Ok(())
    })?;
    let (mut times, mut ended) = (Vec::new(), 0);
    // Until then the kernel may retransmit what was sent in a partition: the pauses between its
    // tries are never longer than the time since the first.
    let mut quiet = Instant::now();
    for _ in 0..count {
        let leader = replicas.wait_for_leader()?;
        sleep(draw.time(&BETWEEN));
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
    let full = load::wait_until_full(scene, ledger, pods, ROOM);
    let writes = replicas.writes();
    let twice = double_binds(&writes);
    let verdict = {
        let book = ledger.book();
        let verdict = Verdict::of(&book, &writes);
        let Verdict { late_binds, stale, unknown, .. } = &verdict;
        say(&format!(
            "partition: {count} partitions (seed {}: {}), {} changes of the lease, {ended} replicas \
             ended, {made} pods, {} binds (requests answered: {}), {} versions seen ({} gaps); \
             {} of {ROOM} places taken at the end; overcommits {}, moved pods {}, double binds {}, late binds {} ({stale} \
             requests to bind without the lease, {unknown} binds unknown); time without binds: {}",
            scene.size.seed,
            middle_and_longest(times),
            book.holds.len().saturating_sub(1),
            book.binds.len(),
            bind_answers(&writes),
            book.versions,
            book.gaps,
            book.counts().1,
            book.overcommits.len(),
            book.moves.len(),
            twice.len(),
            late_binds.len(),
            middle_and_longest(gaps(&book.holds, &writes)),
        ));
        verdict
    };
    full?;
    ledger.check()?;
    verdict.check()?;
    ensure!(twice.is_empty(), "{}", twice.join("\n"));
    // One that lost the lease may just be ending.
    let leader = replicas.wait_for_leader()?;
    if replicas.take_ended(1 - leader)?.is_none() {
        replicas.stop(1 - leader)?;
    }
    replicas.stop(leader)
}
