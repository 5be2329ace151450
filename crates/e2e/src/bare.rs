//! A control plane for one scenario, without controllers and kubelets: its programs can be killed
//! without effect on other scenarios, and the scheduler gets more of the CPU.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::ledger::Ledger;
use crate::load::{self, PODS_PER_NODE};
use crate::test_env::TestEnv;
use controlplane::tools::say;
use controlplane::{ControlPlane, SchedulerChoice, StartOptions};

/// Number of nodes, which are equal.
const NODES: usize = 20;

/// Number of pods that fit.
pub(crate) const CAPACITY_PODS: usize = NODES * PODS_PER_NODE;

/// The surroundings of a scenario.
pub(crate) struct BareControlPlane<'a> {
    pub(crate) env: &'a TestEnv<'a>,
    /// The control plane, with the programs that the scenario kills.
    pub(crate) plane: &'a ControlPlane,
    /// Record of all pods and of the lease.
    pub(crate) ledger: Arc<Ledger>,
}

/// Runs a scenario on such a control plane. `killed` names the programs that it kills.
pub(crate) fn run(
    outer: &TestEnv,
    killed: &[&str],
    act: impl FnOnce(&BareControlPlane) -> Result<()>,
) -> Result<()> {
    let quiet = StartOptions {
        kwok: false,
        controllers: false,
        ..StartOptions::owned(SchedulerChoice::None)?
    };
    let running = ControlPlane::start(&quiet)?;
    let done = prepare(outer, &running.plane, killed, act);
    done.and(running.stop().map_err(Into::into))
}

fn prepare(
    outer: &TestEnv,
    all: &ControlPlane,
    killed: &[&str],
    act: impl FnOnce(&BareControlPlane) -> Result<()>,
) -> Result<()> {
    let mut plane = all.clone();
    // `TestEnv::wait` fails if a listed process ends, and these are meant to.
    plane.processes.retain(|(name, _)| !killed.contains(&name.as_str()));
    let folder = plane.folder.join("e2e");
    std::fs::create_dir_all(&folder)?;
    let env = TestEnv { plane: &plane, folder, ..*outer };
    env.kubectl(&["create", "namespace", env.namespace])?;
    // Pods are not admitted without it, and no controller creates it.
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"},
    });
    env.create("account", &[account])?;
    env.create("nodes", &load::nodes(env.namespace, NODES))?;
    // New nodes get this taint, and no controller removes it.
    env.kubectl(&["taint", "nodes", "--all", "node.kubernetes.io/not-ready-"])?;
    let tainted = env.list("nodes")?.iter().any(|node| !node["spec"]["taints"].is_null());
    ensure!(!tainted, "nodes are still tainted");
    let ledger = Arc::new(Ledger::start(&env)?);
    let bare = BareControlPlane { env: &env, plane: all, ledger };
    let done = act(&bare);
    if done.is_err() {
        say(&env.describe());
    }
    done
}
