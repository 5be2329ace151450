//! Two replicas, and the one that leads dies or freezes in the middle of its work.

use anyhow::{Result, bail, ensure};

use super::deployment::{deployment, nodes, wait_until_all_run};
use super::history::History;
use super::placements;
use super::restart::{NODES, PODS, check_that_some_wait, kill_in_the_middle, wait_for_some};
use super::scene::Scene;
use super::schedulers::{self, Process, UNHURRIED};
use crate::shell::root;

/// A shorter lease than usual, so that the other replica need not wait long.
const ELECTION: &[&str] = &[
    "--leader-elect",
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=6s",
    "--leader-elect-retry-period=1s",
];

/// The leader is killed.
pub(crate) fn run(scene: &Scene) -> Result<()> {
    drain(scene, |history, first| kill_in_the_middle(scene, history, first).map(|()| None))
}

/// The leader is frozen; when it goes on, somebody else leads.
pub(crate) fn frozen(scene: &Scene) -> Result<()> {
    drain(scene, |history, first| {
        wait_for_some(scene, history)?;
        first.freeze(true)?;
        check_that_some_wait(scene)?;
        Ok(Some(first))
    })
}

/// Binds pods while the leader comes to harm; it may come back when all is done.
fn drain(
    scene: &Scene,
    harm: impl FnOnce(&History, Process) -> Result<Option<Process>>,
) -> Result<()> {
    let before = placements::bindings(scene)?;
    scene.create("nodes", &nodes(scene.namespace, NODES))?;
    scene.wait_for_nodes(NODES)?;
    let history = History::start(scene)?;
    let first = replica(scene, "first")?;
    let leader = scene.wait("the first replica to lead", || match holder(scene)? {
        holder if holder.is_empty() => bail!("nobody leads"),
        holder => Ok(holder),
    })?;
    let second = replica(scene, "second")?;
    scene.create("deployment", &[deployment("web", PODS)])?;
    ensure!(holder(scene)? == leader, "the lease changed hands although its holder lives");
    let harmed = harm(&history, first)?;
    wait_until_all_run(scene, PODS)?;
    let next = holder(scene)?;
    ensure!(next != leader && !next.is_empty(), "{next:?} leads after {leader:?} came to harm");
    if let Some(first) = harmed {
        first.freeze(false)?;
        let status = first.end()?;
        ensure!(status.code() == Some(1), "one that lost its lease ended with {status}");
        ensure!(holder(scene)? == next, "one that lost its lease took it back");
    }
    placements::check(scene)?;
    history.check_bound_once()?;
    placements::check_bindings(scene, &before, PODS as u64)?;
    second.stop()?;
    let last = holder(scene)?;
    ensure!(last.is_empty(), "{last} was asked to stop and still holds the lease");
    Ok(())
}

fn replica(scene: &Scene, name: &str) -> Result<Process> {
    schedulers::jindou_as(scene, name, &root().join(UNHURRIED), ELECTION)
}

/// Who holds the lease; empty when nobody does.
fn holder(scene: &Scene) -> Result<String> {
    let lease = ["get", "lease", "kube-scheduler", "-n", "kube-system"];
    let form = ["--ignore-not-found", "-o", "jsonpath={.spec.holderIdentity}"];
    scene.plane.kubectl(&[&lease[..], &form[..]].concat())
}
