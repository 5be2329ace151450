//! Nodes and pods that are deleted while pods are being bound.

use std::collections::BTreeSet;

use anyhow::{Result, bail, ensure};

use super::deployment::{deployment, nodes};
use super::history::History;
use super::restart::{PODS, wait_for_some};
use super::scene::{Scene, text};
use super::{placements, schedulers};

/// Enough room for all pods when some nodes are gone.
const NODES: usize = 65;

/// Nodes and pods that are deleted.
const GONE_NODES: usize = 6;
const GONE_PODS: usize = 50;

pub(crate) fn run(scene: &Scene) -> Result<()> {
    scene.create("nodes", &nodes(scene.namespace, NODES))?;
    scene.wait_for_nodes(NODES)?;
    let history = History::start(scene)?;
    scene.create("deployment", &[deployment("web", PODS)])?;
    scene.wait("all pods to be created", || {
        let seen = history.pods();
        if seen == PODS { Ok(()) } else { bail!("{seen} were seen") }
    })?;
    let pods = scene.list("pods")?;
    let scheduler = schedulers::jindou(scene, schedulers::UNHURRIED)?;
    wait_for_some(scene, &history)?;
    let gone: Vec<_> = (1..=GONE_NODES).map(|i| format!("{}-{i}", scene.namespace)).collect();
    delete(scene, "nodes", gone.iter().map(String::as_str))?;
    let bound = history.bound();
    ensure!(bound < PODS, "all pods were bound before nodes were gone");
    // All over the queue: some wait, some are being bound, some are.
    let chosen = pods.iter().step_by(PODS / GONE_PODS);
    delete(scene, "pods", chosen.map(|pod| text(pod, "/metadata/name")))?;
    scene.wait("all pods to run on nodes that there are", || {
        let there = scene.list("nodes")?;
        let there: BTreeSet<_> = there.iter().map(|node| text(node, "/metadata/name")).collect();
        let pods = scene.list("pods")?;
        // What the kubelet and the controller for orphans do after minutes is done at once.
        let orphans = pods.iter().filter(|pod| {
            let on = text(pod, "/spec/nodeName");
            !on.is_empty() && !there.contains(on)
        });
        let orphans: Vec<_> = orphans.map(|pod| text(pod, "/metadata/name")).collect();
        if !orphans.is_empty() {
            delete(scene, "pods", orphans.iter().copied())?;
            bail!("{} pods were on nodes that are gone", orphans.len());
        }
        let running = pods.iter().filter(|pod| text(pod, "/status/phase") == "Running").count();
        if running == PODS && pods.len() == PODS { Ok(()) } else { bail!("{running} run") }
    })?;
    placements::check(scene)?;
    history.check_bound_once()?;
    scheduler.stop()
}

fn delete<'a>(scene: &Scene, kind: &'a str, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut arguments = vec!["delete", kind, "--wait=false", "--ignore-not-found"];
    if kind == "pods" {
        arguments.extend(["--grace-period=0", "--force"]);
    }
    arguments.extend(names);
    scene.kubectl(&arguments).map(|_| ())
}
