//! The API server dies in the middle of the work, and comes back.

use anyhow::{Context as _, Result, ensure};

use super::deployment::{deployment, nodes, wait_until_all_run};
use super::placements;
use super::programs::Program;
use super::restart::{NODES, PODS, check_that_some_wait};
use super::scene::{Scene, text};
use super::schedulers::{self, UNHURRIED};
use crate::controlplane::{ControlPlane, SchedulerChoice, StartOptions};

const PROGRAM: &str = "kube-apiserver";

/// Pods that are bound when it dies, at least.
const BOUND_MIN: usize = 50;

/// In a control plane of its own, since the others rely on theirs.
pub(crate) fn run(outer: &Scene) -> Result<()> {
    let running = ControlPlane::start(&StartOptions::owned(SchedulerChoice::None)?)?;
    let mut plane = running.plane.clone();
    // Who waits is not to wonder that this one has ended.
    plane.processes.retain(|(name, _)| name != PROGRAM);
    let scene = Scene::open(&plane, outer.jindou, outer.namespace, outer.size)?;
    let done = drain(&scene, &running.plane);
    if done.is_err() {
        crate::shell::say(&scene.describe());
    }
    done.and(running.stop())
}

fn drain(scene: &Scene, plane: &ControlPlane) -> Result<()> {
    scene.create("nodes", &nodes(scene.namespace, NODES))?;
    scene.wait_for_nodes(NODES)?;
    let scheduler = schedulers::jindou(scene, UNHURRIED)?;
    scene.create("deployment", &[deployment("web", PODS)])?;
    let bound = scene.wait("some pods to be bound", || {
        let mut pods = scene.list("pods")?;
        pods.retain(|pod| !text(pod, "/spec/nodeName").is_empty());
        ensure!(pods.len() >= BOUND_MIN, "{} are", pods.len());
        Ok(pods)
    })?;
    check_that_some_wait(scene)?;
    let mut server = Program::of(scene, plane, PROGRAM)?;
    server.kill()?;
    server.start()?;
    scene.wait("the API server to come back", || scene.kubectl(&["get", "--raw=/readyz"]))?;
    wait_until_all_run(scene, PODS)?;
    placements::check(scene)?;
    let pods = scene.list("pods")?;
    for before in &bound {
        let name = text(before, "/metadata/name");
        let now = pods.iter().find(|pod| text(pod, "/metadata/name") == name);
        let now = now.with_context(|| format!("{name} is gone"))?;
        let places = [before, now].map(|pod| text(pod, "/spec/nodeName"));
        ensure!(places[0] == places[1], "{name} moved: {places:?}");
    }
    scheduler.stop()?;
    // The rest of the control plane needs it until it ends.
    drop(server);
    Ok(())
}
