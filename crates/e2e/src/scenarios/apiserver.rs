//! The API server is killed while pods are being bound, and restarted.

use anyhow::{Context as _, Result, ensure};

use super::deployment::{deployment, nodes, wait_until_all_run};
use super::restart::{NODES, PODS, check_that_some_wait};
use crate::placements;
use crate::programs::ControlPlaneProgram;
use crate::schedulers::{self, LIMITED_CONFIG};
use crate::test_env::{TestEnv, text};
use controlplane::{ControlPlane, SchedulerChoice, StartOptions};

const PROGRAM: &str = "kube-apiserver";

/// Minimum of bound pods when it is killed.
const BOUND_MIN: usize = 50;

/// Runs on a separate control plane, because the other scenarios need the shared one.
pub(crate) fn run(outer: &TestEnv) -> Result<()> {
    let running = ControlPlane::start(&StartOptions::owned(SchedulerChoice::None)?)?;
    let mut plane = running.plane.clone();
    // `TestEnv::wait` fails if a listed process ends, and this one is meant to.
    plane.processes.retain(|(name, _)| name != PROGRAM);
    let env = TestEnv::open(&plane, outer.jindou, outer.namespace, outer.size)?;
    let done = kill_during_binding(&env, &running.plane);
    if done.is_err() {
        controlplane::tools::say(&env.describe());
    }
    done.and(running.stop().map_err(Into::into))
}

fn kill_during_binding(env: &TestEnv, plane: &ControlPlane) -> Result<()> {
    env.create("nodes", &nodes(env.namespace, NODES))?;
    env.wait_for_nodes(NODES)?;
    let scheduler = schedulers::jindou(env, LIMITED_CONFIG)?;
    env.create("deployment", &[deployment("web", PODS)])?;
    let bound = env.wait("some pods to be bound", || {
        let mut pods = env.list("pods")?;
        pods.retain(|pod| !text(pod, "/spec/nodeName").is_empty());
        ensure!(pods.len() >= BOUND_MIN, "{} are", pods.len());
        Ok(pods)
    })?;
    check_that_some_wait(env)?;
    let mut server = ControlPlaneProgram::of(env, plane, PROGRAM)?;
    server.kill()?;
    server.start()?;
    env.wait("the API server to come back", || env.kubectl(&["get", "--raw=/readyz"]))?;
    wait_until_all_run(env, PODS)?;
    placements::check(env)?;
    let pods = env.list("pods")?;
    for before in &bound {
        let name = text(before, "/metadata/name");
        let now = pods.iter().find(|pod| text(pod, "/metadata/name") == name);
        let now = now.with_context(|| format!("{name} is gone"))?;
        let places = [before, now].map(|pod| text(pod, "/spec/nodeName"));
        ensure!(places[0] == places[1], "{name} moved: {places:?}");
    }
    scheduler.stop()?;
    // Kept until here: the other programs of the control plane need it until they end.
    drop(server);
    Ok(())
}
