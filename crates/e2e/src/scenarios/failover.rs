//! Two replicas; the leader is killed or stopped while pods are being bound.

use anyhow::{Result, bail, ensure};

use super::deployment::{deployment, nodes, wait_until_all_run};
use super::restart::{NODES, PODS, check_that_some_wait, kill_in_the_middle, wait_for_some};
use crate::checkout::root;
use crate::history::History;
use crate::placements;
use crate::schedulers::{self, LIMITED_CONFIG, SchedulerProcess};
use crate::test_env::TestEnv;

/// A lease shorter than the default, so that the other replica leads sooner.
const ELECTION_FLAGS: &[&str] = &[
    "--leader-elect",
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=6s",
    "--leader-elect-retry-period=1s",
];

/// The leader is killed.
pub(crate) fn run(env: &TestEnv) -> Result<()> {
    disturb_leader(env, |history, first| kill_in_the_middle(env, history, first).map(|()| None))
}

/// The leader is stopped by SIGSTOP and continued once the other replica leads.
pub(crate) fn frozen(env: &TestEnv) -> Result<()> {
    disturb_leader(env, |history, first| {
        wait_for_some(env, history)?;
        first.freeze(true)?;
        check_that_some_wait(env)?;
        Ok(Some(first))
    })
}

/// Binds pods while the leader is disturbed. If `disturbance` returns the leader, it is continued after
/// all pods run.
fn disturb_leader(
    env: &TestEnv,
    disturbance: impl FnOnce(&History, SchedulerProcess) -> Result<Option<SchedulerProcess>>,
) -> Result<()> {
    let before = placements::bindings(env)?;
    env.create("nodes", &nodes(env.namespace, NODES))?;
    env.wait_for_nodes(NODES)?;
    let history = History::start(env)?;
    let first = replica(env, "first")?;
    let leader = env.wait("the first replica to lead", || match holder(env)? {
        holder if holder.is_empty() => bail!("the lease has no holder"),
        holder => Ok(holder),
    })?;
    let second = replica(env, "second")?;
    env.create("deployment", &[deployment("web", PODS)])?;
    ensure!(holder(env)? == leader, "the lease changed hands although its holder lives");
    let frozen_leader = disturbance(&history, first)?;
    wait_until_all_run(env, PODS)?;
    let next = holder(env)?;
    ensure!(next != leader && !next.is_empty(), "{next:?} leads after {leader:?} was disturbed");
    if let Some(first) = frozen_leader {
        first.freeze(false)?;
        let status = first.end()?;
        ensure!(status.code() == Some(1), "one that lost its lease ended with {status}");
        ensure!(holder(env)? == next, "one that lost its lease took it back");
    }
    placements::check(env)?;
    history.check_bound_once()?;
    placements::check_bindings(env, &before, PODS as u64)?;
    second.stop()?;
    let last = holder(env)?;
    ensure!(last.is_empty(), "{last} was asked to stop and still holds the lease");
    Ok(())
}

fn replica(env: &TestEnv, name: &str) -> Result<SchedulerProcess> {
    schedulers::jindou_as(env, name, &root().join(LIMITED_CONFIG), ELECTION_FLAGS)
}

/// Returns the holder of the lease, empty if there is none.
fn holder(env: &TestEnv) -> Result<String> {
    let lease = ["get", "lease", "kube-scheduler", "-n", "kube-system"];
    let form = ["--ignore-not-found", "-o", "jsonpath={.spec.holderIdentity}"];
    Ok(env.plane.kubectl(&[&lease[..], &form[..]].concat())?)
}
