//! Faults of the network and of the API server while pods are being bound.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::deployment::{deployment, nodes, wait_until_all_run};
use super::restart::{NODES, PODS, check_that_some_wait, wait_for_some};
use crate::checkout::root;
use crate::history::History;
use crate::placements;
use crate::proxy::{Fault, Proxy, RequestKind, Rule};
use crate::schedulers::{self, LIMITED_CONFIG};
use crate::test_env::TestEnv;
use controlplane::tools::say;

/// Longer than the timeout of a bind, so that the outcome of binds in flight is unknown.
const STALL: Duration = Duration::from_secs(4);

/// Longer than the idle timeout of a connection, so that it is closed.
const LONG_STALL: Duration = Duration::from_secs(17);

/// Number of cuts of all connections, and the time between two.
const CUTS: u32 = 8;
const BETWEEN_CUTS: Duration = Duration::from_millis(300);

/// One of twenty responses to binds is lost, and watch events are late. Upstream's scheduler then runs
/// with the same faults, and the number of its violations is printed.
pub(crate) fn lost(env: &TestEnv) -> Result<()> {
    let late = Fault::Lag(Duration::from_secs(2));
    let rules = [
        Rule(RequestKind::Bind, 40, Fault::Lose),
        Rule(RequestKind::Bind, 40, Fault::Swallow),
        Rule(RequestKind::List, 1, late),
    ];
    run_with_faults(env, &rules, |_, _| Ok(()))?;
    env.kubectl(&["delete", "deployment", "web"])?;
    env.wait("all pods to be gone", || {
        let all = format!("/api/v1/namespaces/{}/pods?gracePeriodSeconds=0", env.namespace);
        env.kubectl(&["delete", "--raw", &all])?;
        let left = env.kubectl(&["get", "pods", "-o", "name"])?.lines().count();
        ensure!(left == 0, "{left} are left");
        Ok(())
    })?;
    let proxy = Proxy::start(env)?;
    proxy.rule(&rules);
    let kube = schedulers::kube_by(env, LIMITED_CONFIG, &proxy.kubeconfig)?;
    env.create("deployment", &[deployment("web", PODS)])?;
    wait_until_all_run(env, PODS)?;
    let violations = placements::violations(env)?.len();
    say(&format!(
        "with the same faults kube-scheduler violates {violations} constraints, such as capacities"
    ));
    kube.kill()
}

/// The API server answers with errors of all kinds.
pub(crate) fn answers(env: &TestEnv) -> Result<()> {
    let rules = [
        Rule(RequestKind::Bind, 11, Fault::Answer(409)),
        Rule(RequestKind::Bind, 13, Fault::Answer(429)),
        Rule(RequestKind::Bind, 17, Fault::Answer(500)),
        Rule(RequestKind::Bind, 19, Fault::Deny(500)),
        Rule(RequestKind::Bind, 23, Fault::Answer(503)),
        Rule(RequestKind::Bind, 29, Fault::Deny(504)),
        Rule(RequestKind::Read, 5, Fault::Answer(500)),
        Rule(RequestKind::Watch, 2, Fault::Answer(410)),
    ];
    // Cut, so that watches are requested again and meet the rules.
    run_with_faults(env, &rules, |proxy, _| {
        proxy.cut();
        Ok(())
    })
}

/// All connections are cut repeatedly, and every request is slow.
pub(crate) fn cut(env: &TestEnv) -> Result<()> {
    let slow = Fault::Delay(Duration::from_millis(200));
    run_with_faults(env, &[Rule(RequestKind::Any, 1, slow)], |proxy, _| {
        for _ in 0..CUTS {
            proxy.cut();
            sleep(BETWEEN_CUTS);
        }
        Ok(())
    })
}

/// The network accepts bytes and delivers none, for 4 s and for 17 s.
pub(crate) fn stalled(env: &TestEnv) -> Result<()> {
    run_with_faults(env, &[], |proxy, history| {
        for time in [STALL, LONG_STALL] {
            proxy.stall(true);
            sleep(time);
            check_that_some_wait(env)?;
            let bound = history.bound();
            proxy.stall(false);
            env.wait("work to go on", || {
                ensure!(history.bound() > bound, "{bound} pods are bound");
                Ok(())
            })?;
        }
        Ok(())
    })
}

/// Binds pods through a proxy with rules, and runs a disturbance once some pods are bound.
fn run_with_faults(
    env: &TestEnv,
    rules: &[Rule],
    disturbance: impl FnOnce(&Proxy, &History) -> Result<()>,
) -> Result<()> {
    let before = placements::bindings(env)?;
    env.create("nodes", &nodes(env.namespace, NODES))?;
    env.wait_for_nodes(NODES)?;
    let history = History::start(env)?;
    let proxy = Proxy::start(env)?;
    let config = root().join(LIMITED_CONFIG);
    proxy.rule(rules);
    let scheduler = schedulers::jindou_by(env, "jindou", &config, &proxy.kubeconfig, &[])?;
    env.create("deployment", &[deployment("web", PODS)])?;
    wait_for_some(env, &history)?;
    disturbance(&proxy, &history)?;
    wait_until_all_run(env, PODS)?;
    proxy.check_rules()?;
    proxy.rule(&[]);
    placements::check(env)?;
    history.check_bound_once()?;
    placements::check_bindings(env, &before, PODS as u64)?;
    scheduler.stop()
}
