//! Etcd is killed repeatedly while pods are bound to nodes that are nearly full.
//!
//! kube-apiserver answers 409 to a bind whose transaction got no answer, although etcd may have
//! committed it. A scheduler that takes the 409 as proof of failure gives the place to another pod.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::bare::{self, BareControlPlane, CAPACITY_PODS};
use crate::checkout::root;
use crate::draw::SplitMix;
use crate::load::{self, Load, LoadProfile};
use crate::programs::ControlPlaneProgram;
use crate::proxy::{Fault, Proxy, RequestKind, Rule, check_double_binds};
use crate::schedulers;
use crate::test_env::TestEnv;
use controlplane::tools::say;

const PROGRAM: &str = "etcd";

/// Pending pods beyond the capacity, so that every free place is taken at once.
const PODS_WAITING: usize = 80;

const LOAD: LoadProfile = LoadProfile {
    pods: CAPACITY_PODS + PODS_WAITING,
    bound_min: CAPACITY_PODS - 120,
    burst: 60,
    pause: Duration::from_millis(200),
};

/// Time from the first bind after a start to the next kill.
const KILL_INTERVAL: std::ops::Range<Duration> =
    Duration::from_millis(200)..Duration::from_millis(1500);

/// Before every second kill, etcd is stopped, so that requests queue up, and continued for this time:
/// some requests are committed and not answered.
const FREEZE_TIME: Duration = Duration::from_millis(700);
const THAW_TIME: std::ops::Range<Duration> = Duration::ZERO..Duration::from_millis(25);

/// Durations for which etcd is down: in the short one reads wait until it is up again, in the long one
/// they fail.
const DOWN_TIME: std::ops::Range<Duration> = Duration::ZERO..Duration::from_secs(4);

/// Delays watch events, so that the scheduler does not learn of a commit from its watch at once.
const RULES: &[Rule] = &[Rule(RequestKind::List, 1, Fault::Lag(Duration::from_secs(1)))];

/// Minimum of binds in flight at a kill, the time to wait for them, and the interval of checks.
const BINDS_IN_FLIGHT_MIN: usize = 12;
const WAIT_MAX: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(1);

pub(crate) fn run(outer: &TestEnv) -> Result<()> {
    bare::run(outer, &[PROGRAM], kill_repeatedly)
}

/// Waits until enough binds are in flight, or for the maximum: a kill without them is a fault too.
fn wait_for_binds_under_way(proxy: &Proxy) {
    let deadline = Instant::now() + WAIT_MAX;
    while proxy.record.binds_under_way() < BINDS_IN_FLIGHT_MIN && Instant::now() < deadline {
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn kill_repeatedly(bare: &BareControlPlane) -> Result<()> {
    let BareControlPlane { env, ledger, .. } = bare;
    let kills = env.size.rounds(3, 20);
    let mut draw = SplitMix::new(env.size.seed);
    let mut etcd = ControlPlaneProgram::of(env, bare.plane, PROGRAM)?;
    let proxy = Proxy::start(env)?;
    proxy.rule(RULES);
    let config = root().join(schedulers::UNLIMITED_CONFIG);
    let scheduler = schedulers::jindou_by(env, "jindou", &config, &proxy.kubeconfig, &[])?;
    let load = Load::start(env, ledger, LOAD, env.size.seed)?;
    env.wait("nodes to be full", || {
        let (_, bound) = ledger.state().counts();
        ensure!(bound >= LOAD.bound_min, "{bound} pods are bound");
        Ok(())
    })?;
    for kill in 0..kills {
        std::thread::sleep(draw.time(&KILL_INTERVAL));
        wait_for_binds_under_way(&proxy);
        if kill % 2 == 1 {
            etcd.freeze(FREEZE_TIME)?;
            std::thread::sleep(draw.time(&THAW_TIME));
        }
        etcd.kill()?;
        std::thread::sleep(draw.time(&DOWN_TIME));
        let bound = ledger.state().binds.len();
        etcd.start()?;
        env.wait("pods to be bound again", || {
            let now = ledger.state().binds.len();
            // A few may have been committed before the kill and seen after it.
            ensure!(now > bound + LOAD.burst, "{} were bound since etcd was killed", now - bound);
            Ok(())
        })?;
    }
    let (pods, made) = load.finish()?;
    load::wait_until_full(env, ledger, pods, CAPACITY_PODS)?;
    let writes = proxy.record.writes();
    let totals = ledger.state().totals(made, &writes);
    say(&format!("etcd: {kills} kills, {totals}"));
    ledger.check()?;
    check_double_binds(&writes)?;
    scheduler.stop()
}
