//! Nodes and pods that are deleted while pods are being bound.

use std::collections::BTreeSet;

use anyhow::{Result, bail, ensure};

use super::deployment::{deployment, nodes};
use super::restart::{PODS, wait_for_some};
use crate::history::History;
use crate::test_env::{TestEnv, text};
use crate::{placements, schedulers};

/// All pods fit even without the deleted nodes.
const NODES: usize = 65;

/// Nodes and pods that are deleted.
const GONE_NODES: usize = 6;
const GONE_PODS: usize = 50;

pub(crate) fn run(env: &TestEnv) -> Result<()> {
    env.create("nodes", &nodes(env.namespace, NODES))?;
    env.wait_for_nodes(NODES)?;
    let history = History::start(env)?;
    env.create("deployment", &[deployment("web", PODS)])?;
    env.wait("all pods to be created", || {
        let seen = history.pods();
        if seen == PODS { Ok(()) } else { bail!("{seen} were seen") }
    })?;
    let pods = env.list("pods")?;
    let scheduler = schedulers::jindou(env, schedulers::LIMITED_CONFIG)?;
    wait_for_some(env, &history)?;
    let gone: Vec<_> = (1..=GONE_NODES).map(|i| format!("{}-{i}", env.namespace)).collect();
    delete(env, "nodes", gone.iter().map(String::as_str))?;
    let bound = history.bound();
    ensure!(bound < PODS, "all pods were bound before nodes were gone");
    // Spread over the queue: pending, in flight and bound pods.
    let chosen = pods.iter().step_by(PODS / GONE_PODS);
    delete(env, "pods", chosen.map(|pod| text(pod, "/metadata/name")))?;
    env.wait("all pods to run on nodes that there are", || {
        let there = env.list("nodes")?;
        let there: BTreeSet<_> = there.iter().map(|node| text(node, "/metadata/name")).collect();
        let pods = env.list("pods")?;
        // kubelet and the pod garbage collector would delete these pods after minutes.
        let orphans = pods.iter().filter(|pod| {
            let on = text(pod, "/spec/nodeName");
            !on.is_empty() && !there.contains(on)
        });
        let orphans: Vec<_> = orphans.map(|pod| text(pod, "/metadata/name")).collect();
        if !orphans.is_empty() {
            delete(env, "pods", orphans.iter().copied())?;
            bail!("{} pods were on nodes that are gone", orphans.len());
        }
        let running = pods.iter().filter(|pod| text(pod, "/status/phase") == "Running").count();
        if running == PODS && pods.len() == PODS { Ok(()) } else { bail!("{running} run") }
    })?;
    placements::check(env)?;
    history.check_bound_once()?;
    scheduler.stop()
}

fn delete<'a>(env: &TestEnv, kind: &'a str, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut arguments = vec!["delete", kind, "--wait=false", "--ignore-not-found"];
    if kind == "pods" {
        arguments.extend(["--grace-period=0", "--force"]);
    }
    arguments.extend(names);
    env.kubectl(&arguments).map(|_| ())
}
