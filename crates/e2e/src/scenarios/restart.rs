//! A scheduler is killed while pods are being bound, and restarted.

use anyhow::{Result, bail, ensure};

use super::deployment::{deployment, nodes, wait_until_all_run};
use crate::checkout::root;
use crate::history::History;
use crate::placements;
use crate::schedulers::{self, LIMITED_CONFIG, SchedulerProcess};
use crate::test_env::TestEnv;

pub(crate) const PODS: usize = 500;
pub(crate) const NODES: usize = 50;

/// Minimum of bound pods when the scheduler is killed.
const BOUND_MIN: usize = 50;

pub(crate) fn run(env: &TestEnv) -> Result<()> {
    let before = placements::bindings(env)?;
    env.create("nodes", &nodes("restart", NODES))?;
    env.wait_for_nodes(NODES)?;
    let history = History::start(env)?;
    env.create("deployment", &[deployment("web", PODS)])?;
    env.wait("all pods to be created", || {
        let seen = history.pods();
        if seen == PODS { Ok(()) } else { bail!("{seen} were seen") }
    })?;
    let config = root().join(LIMITED_CONFIG);
    let first = schedulers::jindou_as(env, "first", &config, &[])?;
    kill_in_the_middle(env, &history, first)?;
    // At once, while requests of the first process may still be in flight.
    let second = schedulers::jindou_as(env, "second", &config, &[])?;
    wait_until_all_run(env, PODS)?;
    placements::check(env)?;
    history.check_bound_once()?;
    placements::check_bindings(env, &before, PODS as u64)?;
    second.stop()
}

/// Kills a scheduler once it has bound some pods, but not all.
pub(crate) fn kill_in_the_middle(
    env: &TestEnv,
    history: &History,
    scheduler: SchedulerProcess,
) -> Result<()> {
    wait_for_some(env, history)?;
    scheduler.kill()?;
    check_that_some_wait(env)
}

/// Waits until some pods are bound.
pub(crate) fn wait_for_some(env: &TestEnv, history: &History) -> Result<()> {
    env.wait("some pods to be bound", || {
        let bound = history.bound();
        if bound >= BOUND_MIN { Ok(()) } else { bail!("{bound} are") }
    })
}

/// Fails if all pods are bound, because then the disturbance came too late.
pub(crate) fn check_that_some_wait(env: &TestEnv) -> Result<()> {
    let pods = env.list("pods")?;
    let waits = pods.len() < PODS || pods.iter().any(|pod| pod["spec"]["nodeName"].is_null());
    ensure!(waits, "all pods were bound before the scheduler came to harm");
    Ok(())
}
