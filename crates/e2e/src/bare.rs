//! A control plane of one scenario, without controllers and kubelets: its programs can be killed
//! without harm to other scenarios, and the processor is left to the scheduler.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::ledger::Ledger;
use crate::load::{self, PODS_PER_NODE};
use crate::test_env::TestEnv;
use controlplane::tools::say;
use controlplane::{ControlPlane, SchedulerChoice, StartOptions};

/// Nodes, all alike.
const NODES: usize = 20;

/// Pods that fit.
pub(crate) const CAPACITY_PODS: usize = NODES * PODS_PER_NODE;

/// What a scenario works with.
pub(crate) struct BareControlPlane<'a> {
    pub(crate) env: &'a TestEnv<'a>,
    /// All that runs, what the scenario kills included.
    pub(crate) plane: &'a ControlPlane,
    /// Follows all pods and the lease.
    pub(crate) ledger: Arc<Ledger>,
}

/// Runs a scenario in such a control plane, of which it may kill the programs of these names.
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
    done.and(running.stop())
}

fn prepare(
    outer: &TestEnv,
    all: &ControlPlane,
    killed: &[&str],
    act: impl FnOnce(&BareControlPlane) -> Result<()>,
) -> Result<()> {
    let mut plane = all.clone();
    // Waiting is not to fail because these have ended.
    plane.processes.retain(|(name, _)| !killed.contains(&name.as_str()));
    let folder = plane.folder.join("e2e");
    std::fs::create_dir_all(&folder)?;
    let env = TestEnv { plane: &plane, folder, ..*outer };
    env.kubectl(&["create", "namespace", env.namespace])?;
    // No controller makes one, and no pod is admitted without.
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"},
    });
    env.create("account", &[account])?;
    env.create("nodes", &load::nodes(env.namespace, NODES))?;
    // New nodes are not ready, and no kubelet says otherwise.
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
