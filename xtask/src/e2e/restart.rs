//! A scheduler that dies in the middle of its work, and the next one.

use anyhow::{Result, bail, ensure};

use super::deployment::{deployment, nodes, wait_until_all_run};
use super::history::History;
use super::placements;
use super::scene::Scene;
use super::schedulers::{self, Process, UNHURRIED};
use crate::shell::root;

pub(crate) const PODS: usize = 500;
pub(crate) const NODES: usize = 50;

/// Pods that are bound when the scheduler is killed, at least.
const BOUND_MIN: usize = 50;

pub(crate) fn run(scene: &Scene) -> Result<()> {
    let before = placements::bindings(scene)?;
    scene.create("nodes", &nodes("restart", NODES))?;
    scene.wait_for_nodes(NODES)?;
    let history = History::start(scene)?;
    scene.create("deployment", &[deployment("web", PODS)])?;
    scene.wait("all pods to be created", || {
        let seen = history.pods();
        if seen == PODS { Ok(()) } else { bail!("{seen} were seen") }
    })?;
    let config = root().join(UNHURRIED);
    let first = schedulers::jindou_as(scene, "first", &config, &[])?;
    kill_in_the_middle(scene, &history, first)?;
    // At once: requests of the first may still be under way.
    let second = schedulers::jindou_as(scene, "second", &config, &[])?;
    wait_until_all_run(scene, PODS)?;
    placements::check(scene)?;
    history.check_bound_once()?;
    placements::check_bindings(scene, &before, PODS as u64)?;
    second.stop()
}

/// Kills a scheduler when it has bound some pods and not all.
pub(crate) fn kill_in_the_middle(
    scene: &Scene,
    history: &History,
    scheduler: Process,
) -> Result<()> {
    wait_for_some(scene, history)?;
    scheduler.kill()?;
    check_that_some_wait(scene)
}

/// Waits until some pods are bound.
pub(crate) fn wait_for_some(scene: &Scene, history: &History) -> Result<()> {
    scene.wait("some pods to be bound", || {
        let bound = history.bound();
        if bound >= BOUND_MIN { Ok(()) } else { bail!("{bound} are") }
    })
}

/// Fails if all pods are bound: then what was done was not done in the middle.
pub(crate) fn check_that_some_wait(scene: &Scene) -> Result<()> {
    let pods = scene.list("pods")?;
    let waits = pods.len() < PODS || pods.iter().any(|pod| pod["spec"]["nodeName"].is_null());
    ensure!(waits, "all pods were bound before the scheduler came to harm");
    Ok(())
}
