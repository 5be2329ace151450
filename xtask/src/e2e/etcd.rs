//! Etcd is killed again and again while pods are bound to nodes that are nearly full.
//!
//! To kube-apiserver a bind whose transaction got no answer is a conflict, although etcd may have
//! committed it. A scheduler that takes the conflict for proof gives the place to another pod.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::bare::{self, Bare, ROOM};
use super::draw::Draw;
use super::load::{self, Load, Plan};
use super::programs::Program;
use super::proxy::{Fault, Kind, Proxy, Rule, bind_answers, double_binds};
use super::scene::Scene;
use super::schedulers;
use crate::shell::{root, say};

const PROGRAM: &str = "etcd";

/// Pods that do not fit, so that every place is taken as soon as it is free.
const WAITING: usize = 80;

const LOAD: Plan = Plan {
    pods: ROOM + WAITING,
    bound_min: ROOM - 120,
    burst: 60,
    pause: Duration::from_millis(200),
};

/// The time from the first bind after a start to the next kill.
const BETWEEN: std::ops::Range<Duration> = Duration::from_millis(200)..Duration::from_millis(1500);

/// Before every second kill etcd is stopped, so that requests queue up, and continued for a moment:
/// some of them are committed and not answered.
const FREEZE: Duration = Duration::from_millis(700);
const THAW: std::ops::Range<Duration> = Duration::ZERO..Duration::from_millis(25);

/// How long etcd is down: for short, reads wait until it is back; for long, they fail.
const DOWN: std::ops::Range<Duration> = Duration::ZERO..Duration::from_secs(4);

/// Watches are late, so that what was committed is not known at once by another way.
const RULES: &[Rule] = &[Rule(Kind::List, 1, Fault::Lag(Duration::from_secs(1)))];

/// Binds that are to be under way at a kill, how long to wait for them, and how often to look.
const UNDER_WAY: usize = 12;
const WAIT_MAX: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(1);

pub(crate) fn run(outer: &Scene) -> Result<()> {
    bare::run(outer, &[PROGRAM], drain)
}

/// Waits until many binds are under way, or long enough: a kill without them is a fault as well.
fn wait_for_binds_under_way(proxy: &Proxy) {
    let deadline = Instant::now() + WAIT_MAX;
    while proxy.record.binds_under_way() < UNDER_WAY && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
}

fn drain(bare: &Bare) -> Result<()> {
    let Bare { scene, ledger, .. } = bare;
    let kills = scene.size.rounds(3, 20);
    let mut draw = Draw::new(scene.size.seed);
    let mut etcd = Program::of(scene, bare.plane, PROGRAM)?;
    let proxy = Proxy::start(scene)?;
    proxy.rule(RULES);
    let config = root().join(schedulers::EAGER);
    let scheduler = schedulers::jindou_by(scene, "jindou", &config, &proxy.kubeconfig, &[])?;
    let load = Load::start(scene, ledger, LOAD, scene.size.seed)?;
    scene.wait("nodes to be full", || {
        let (_, bound) = ledger.book().counts();
        ensure!(bound >= LOAD.bound_min, "{bound} pods are bound");
        Ok(())
    })?;
    for kill in 0..kills {
        std::thread::sleep(draw.time(&BETWEEN));
        wait_for_binds_under_way(&proxy);
        if kill % 2 == 1 {
            etcd.freeze(FREEZE)?;
            std::thread::sleep(draw.time(&THAW));
        }
        etcd.kill()?;
        std::thread::sleep(draw.time(&DOWN));
        let bound = ledger.book().binds.len();
        etcd.start()?;
        scene.wait("pods to be bound again", || {
            let now = ledger.book().binds.len();
            // A few may have been committed before the kill and seen after it.
            ensure!(now > bound + LOAD.burst, "{} were bound since etcd was killed", now - bound);
            Ok(())
        })?;
    }
    let (pods, made) = load.finish()?;
    load::wait_until_full(scene, ledger, pods, ROOM)?;
    let writes = proxy.record.writes();
    let twice = double_binds(&writes);
    {
        let book = ledger.book();
        say(&format!(
            "etcd: {kills} kills, {made} pods, {} binds (requests \
             answered: {}), {} versions seen ({} gaps); {} of {ROOM} places taken at the end; overcommits {}, moved pods {}, double binds {}",
            book.binds.len(),
            bind_answers(&writes),
            book.versions,
            book.gaps,
            book.counts().1,
            book.overcommits.len(),
            book.moves.len(),
            twice.len(),
        ));
    }
    ledger.check()?;
    ensure!(twice.is_empty(), "{}", twice.join("\n"));
    scheduler.stop()
}
