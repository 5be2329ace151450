//! Scheduling gates.

use anyhow::{Context as _, Result, ensure};

use super::scene::{Scene, condition};
use super::schedulers;

pub(crate) fn run(scene: &Scene) -> Result<()> {
    let scheduler = schedulers::jindou(scene, schedulers::PLAIN)?;
    scene.apply("conformance/e2e/gates.yaml", None)?;
    // The other pod was created after it, so there was a chance to schedule the gated one.
    scene.wait_for_pods(&["ungated"])?;
    let gated = scene.get("pod", "gated")?;
    ensure!(gated["spec"]["nodeName"].is_null(), "the gated pod was bound: {gated}");
    let state = condition(&gated, "PodScheduled").context("the gated pod has no condition")?;
    let fine = state["status"] == "False" && state["reason"] == "SchedulingGated";
    ensure!(fine, "the gated pod was told {state}");
    let listed = scene.kubectl(&["get", "pod", "gated"])?;
    ensure!(listed.contains("SchedulingGated"), "kubectl shows {listed}");

    let patch = r#"{"spec": {"schedulingGates": null}}"#;
    scene.kubectl(&["patch", "pod", "gated", "--type=merge", "-p", patch])?;
    scene.wait_for_pods(&["gated"])?;
    scheduler.stop()
}
