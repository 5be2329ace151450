//! Replicas hand over by SIGTERM, as in a rolling update, while binds are slow, refused and lost.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::bare::{self, Bare, ROOM};
use super::draw::Draw;
use super::load::{self, Load, Plan};
use super::proxy::{Fault, Kind, Rule, bind_answers, double_binds};
use super::replicas::Replicas;
use super::scene::Scene;
use super::schedulers::EAGER;
use super::verdict::{Verdict, gaps, middle_and_longest};
use crate::shell::say;

const LOAD: Plan =
    Plan { pods: ROOM + 80, bound_min: ROOM - 60, burst: 30, pause: Duration::from_millis(100) };

/// The time that a leader has until it is asked to stop.
const BETWEEN: std::ops::Range<Duration> = Duration::from_millis(500)..Duration::from_secs(2);

/// Slow, refused and lost binds, by counts that have no common factor.
const RULES: &[Rule] = &[
    Rule(Kind::Bind, 5, Fault::Delay(Duration::from_millis(1500))),
    Rule(Kind::Bind, 7, Fault::Answer(503)),
    Rule(Kind::Bind, 11, Fault::Lose),
    Rule(Kind::Bind, 13, Fault::Deny(409)),
    Rule(Kind::Bind, 17, Fault::Answer(409)),
    Rule(Kind::Read, 5, Fault::Answer(500)),
];

pub(crate) fn run(outer: &Scene) -> Result<()> {
    bare::run(outer, &[], drain)
}

fn drain(bare: &Bare) -> Result<()> {
    let Bare { scene, ledger, .. } = bare;
    let count = scene.size.rounds(6, 50);
    let mut draw = Draw::new(scene.size.seed);
    let mut replicas = Replicas::start(bare, EAGER, &["--leader-elect"])?;
    let load = Load::start(scene, ledger, LOAD, scene.size.seed)?;
    scene.wait("nodes to be nearly full", || {
        let (_, bound) = ledger.book().counts();
        ensure!(bound >= LOAD.bound_min, "{bound} pods are bound");
        Ok(())
    })?;
    replicas.proxies().for_each(|proxy| proxy.rule(RULES));
    let mut stops = Vec::new();
    for _ in 0..count {
        let leader = replicas.wait_for_leader()?;
        std::thread::sleep(draw.time(&BETWEEN));
        let asked = Instant::now();
        replicas.stop(leader)?;
        stops.push(asked.elapsed());
        // The other one takes over by itself; a new one takes the place of the old.
        replicas.launch(leader)?;
    }
    replicas.wait_for_leader()?;
    let (pods, made) = load.finish()?;
    replicas.proxies().for_each(|proxy| proxy.rule(&[]));
    let full = load::wait_until_full(scene, ledger, pods, ROOM);
    let writes = replicas.writes();
    let twice = double_binds(&writes);
    let verdict = {
        let book = ledger.book();
        let verdict = Verdict::of(&book, &writes);
        let Verdict { late_binds, late_writes, late_events, stale, unknown } = &verdict;
        say(&format!(
            "handover: {count} hand-overs, {made} pods, {} binds (requests \
             answered: {}), {} versions seen ({} gaps); {} of {ROOM} places taken at the end; overcommits {}, moved pods {}, double binds {}, \
             late binds {} ({stale} requests to bind without the lease, {unknown} binds unknown), \
             late writes {} (and {late_events} events); \
             time without binds: {}; time to stop: {}",
            book.binds.len(),
            bind_answers(&writes),
            book.versions,
            book.gaps,
            book.counts().1,
            book.overcommits.len(),
            book.moves.len(),
            twice.len(),
            late_binds.len(),
            late_writes.len(),
            middle_and_longest(gaps(&book.holds, &writes)),
            middle_and_longest(stops),
        ));
        verdict
    };
    full?;
    ledger.check()?;
    verdict.check()?;
    ensure!(twice.is_empty(), "{}", twice.join("\n"));
    let leader = replicas.wait_for_leader()?;
    replicas.stop(1 - leader)?;
    replicas.stop(leader)
}
