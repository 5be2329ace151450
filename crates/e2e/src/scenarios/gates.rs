//! Scheduling gates.

use anyhow::{Context as _, Result, ensure};

use crate::schedulers;
use crate::test_env::{TestEnv, condition};

pub(crate) fn run(env: &TestEnv) -> Result<()> {
    let scheduler = schedulers::jindou(env, schedulers::DEFAULT_CONFIG)?;
    env.apply("conformance/e2e/gates.yaml", None)?;
    // The other pod was created later, so the gated one could have been scheduled before it.
    env.wait_for_pods(&["ungated"])?;
    let gated = env.get("pod", "gated")?;
    ensure!(gated["spec"]["nodeName"].is_null(), "the gated pod was bound: {gated}");
    let state = condition(&gated, "PodScheduled").context("the gated pod has no condition")?;
    let fine = state["status"] == "False" && state["reason"] == "SchedulingGated";
    ensure!(fine, "the gated pod is {state}");
    let listed = env.kubectl(&["get", "pod", "gated"])?;
    ensure!(listed.contains("SchedulingGated"), "kubectl shows {listed}");

    let patch = r#"{"spec": {"schedulingGates": null}}"#;
    env.kubectl(&["patch", "pod", "gated", "--type=merge", "-p", patch])?;
    env.wait_for_pods(&["gated"])?;
    scheduler.stop()
}
