//! The API server dies in the middle of the work, and comes back.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::deployment::{deployment, nodes, wait_until_all_run};
use super::placements;
use super::restart::{NODES, PODS, check_that_some_wait};
use super::scene::{Scene, text};
use super::schedulers::{self, Process, UNHURRIED};
use crate::controlplane::{ControlPlane, Options, Scheduler};

const PROGRAM: &str = "kube-apiserver";

/// Pods that are bound when it dies, at least.
const BOUND_MIN: usize = 50;

/// In a control plane of its own, since the others rely on theirs.
pub(crate) fn run(outer: &Scene) -> Result<()> {
    let running = ControlPlane::start(&Options::owned(Scheduler::None)?)?;
    let mut plane = running.plane.clone();
    // Who waits is not to wonder that this one has ended.
    plane.processes.retain(|(name, _)| name != PROGRAM);
    let scene = Scene::open(&plane, outer.jindou, outer.namespace)?;
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
    let server = restart(scene, plane)?;
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

/// Kills it, and starts it again as it was started.
fn restart(scene: &Scene, plane: &ControlPlane) -> Result<Process> {
    let (_, identity) =
        plane.processes.iter().find(|(name, _)| name == PROGRAM).context("there is none")?;
    let line = fs::read_to_string(format!("/proc/{}/cmdline", identity.pid))?;
    let mut words = line.trim_end_matches('\0').split('\0');
    let mut command = Command::new(words.next().context("it has no name")?);
    command.args(words).env_clear().env("HOME", &plane.folder).current_dir(&plane.folder);
    let pid = Pid::from_raw(identity.pid).context("it has no number")?;
    ensure!(identity.is_alive(), "it has already ended");
    kill_process(pid, Signal::KILL)?;
    // Its threads end one by one, and its port is free when the last one has.
    let address = plane.server.trim_start_matches("https://");
    scene.wait("the API server to end", || {
        ensure!(!identity.is_alive(), "it still runs");
        TcpListener::bind(address).with_context(|| format!("{address} is still taken"))
    })?;
    let server = schedulers::start(scene, PROGRAM, command)?;
    scene.wait("the API server to come back", || scene.kubectl(&["get", "--raw=/readyz"]))?;
    Ok(server)
}
