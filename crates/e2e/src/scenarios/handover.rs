//! Replicas hand over by SIGTERM, as in a rolling update, while binds are slow, refused and lost.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::bare::{self, BareControlPlane, CAPACITY_PODS};
use crate::draw::SplitMix;
use crate::load::{self, Load, LoadProfile};
use crate::proxy::{Fault, RequestKind, Rule, check_double_binds};
use crate::replicas::Replicas;
use crate::schedulers::UNLIMITED_CONFIG;
use crate::test_env::TestEnv;
use crate::verdict::{Verdict, gaps, median_and_max};
use controlplane::tools::say;

const LOAD: LoadProfile = LoadProfile {
    pods: CAPACITY_PODS + 80,
    bound_min: CAPACITY_PODS - 60,
    burst: 30,
    pause: Duration::from_millis(100),
};

/// Time for which a leader leads before its SIGTERM.
const HANDOVER_INTERVAL: std::ops::Range<Duration> =
    Duration::from_millis(500)..Duration::from_secs(2);

/// Slow, refused and lost binds, at coprime intervals.
const RULES: &[Rule] = &[
    Rule(RequestKind::Bind, 5, Fault::Delay(Duration::from_millis(1500))),
    Rule(RequestKind::Bind, 7, Fault::Answer(503)),
    Rule(RequestKind::Bind, 11, Fault::Lose),
    Rule(RequestKind::Bind, 13, Fault::Deny(409)),
    Rule(RequestKind::Bind, 17, Fault::Answer(409)),
    Rule(RequestKind::Read, 5, Fault::Answer(500)),
];

pub(crate) fn run(outer: &TestEnv) -> Result<()> {
    bare::run(outer, &[], hand_over_repeatedly)
}

fn hand_over_repeatedly(bare: &BareControlPlane) -> Result<()> {
    let BareControlPlane { env, ledger, .. } = bare;
    let count = env.size.rounds(6, 50);
    let mut draw = SplitMix::new(env.size.seed);
    let mut replicas = Replicas::start(bare, UNLIMITED_CONFIG, &["--leader-elect"])?;
    let load = Load::start(env, ledger, LOAD, env.size.seed)?;
    env.wait("nodes to be nearly full", || {
        let (_, bound) = ledger.state().counts();
        ensure!(bound >= LOAD.bound_min, "{bound} pods are bound");
        Ok(())
    })?;
    replicas.proxies().for_each(|proxy| proxy.rule(RULES));
    let mut stops = Vec::new();
    for _ in 0..count {
        let leader = replicas.wait_for_leader()?;
        std::thread::sleep(draw.time(&HANDOVER_INTERVAL));
        let asked = Instant::now();
        replicas.stop(leader)?;
        stops.push(asked.elapsed());
        // The other replica takes over; a new process replaces the old one.
        replicas.launch(leader)?;
    }
    replicas.wait_for_leader()?;
    let (pods, made) = load.finish()?;
    replicas.proxies().for_each(|proxy| proxy.rule(&[]));
    let full = load::wait_until_full(env, ledger, pods, CAPACITY_PODS);
    let writes = replicas.writes();
    let verdict = {
        let state = ledger.state();
        let totals = state.totals(made, &writes);
        let verdict = Verdict::of(&state, &writes);
        let Verdict { late_binds, late_writes, late_events, stale, unknown } = &verdict;
        say(&format!(
            "handover: {count} hand-overs, {totals}, \
             late binds {} ({stale} requests to bind without the lease, {unknown} binds unknown), \
             late writes {} (and {late_events} events); \
             time without binds: {}; time to stop: {}",
            late_binds.len(),
            late_writes.len(),
            median_and_max(gaps(&state.lease_changes, &writes)),
            median_and_max(stops),
        ));
        verdict
    };
    full?;
    ledger.check()?;
    verdict.check()?;
    check_double_binds(&writes)?;
    let leader = replicas.wait_for_leader()?;
    replicas.stop(1 - leader)?;
    replicas.stop(leader)
}
