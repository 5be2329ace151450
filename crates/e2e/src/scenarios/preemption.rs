//! Preemption: the victims, the pods that stay, and the conditions and events about it.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::history::History;
use crate::test_env::{TestEnv, condition, text};
use crate::{placements, schedulers};

const OBJECTS: &str = "conformance/e2e/preemption.yaml";

pub(crate) fn run(env: &TestEnv) -> Result<()> {
    let scheduler = schedulers::jindou(env, schedulers::DEFAULT_CONFIG)?;
    env.apply(OBJECTS, Some("e2e=before"))?;
    env.wait_for_nodes(2)?;
    env.wait_for_pods(&["guarded", "open"])?;
    env.wait("the budget to know its pod", || {
        let budget = env.get("poddisruptionbudget", "guard")?;
        let healthy = &budget["status"]["currentHealthy"];
        if healthy == 1 { Ok(()) } else { bail!("healthy: {healthy}") }
    })?;
    // It does not fit, and its policy forbids preemption.
    env.apply(OBJECTS, Some("e2e=polite"))?;
    let refusal = env.wait_for_refusal("polite")?;
    ensure!(refusal.contains("preemptionPolicy=Never"), "polite was refused with {refusal:?}");

    let history = History::start(env)?;
    env.wait("the watch to begin", || {
        if history.pods() == 3 { Ok(()) } else { bail!("{} pods were seen", history.pods()) }
    })?;
    env.apply(OBJECTS, Some("e2e=later"))?;
    let on = env.wait_for_pods(&["urgent", "guarded"])?;
    ensure!(on == ["open-node", "guarded-node"], "urgent and guarded are on {on:?}");
    check_victim(&history.of("open"))?;
    let nominated = |version: &Value| text(version, "/status/nominatedNodeName") == "open-node";
    ensure!(history.of("urgent").iter().any(nominated), "urgent was never nominated");
    check_event(env)?;
    placements::check(env)?;
    history.check_bound_once()?;
    scheduler.stop()
}

fn check_victim(versions: &[Value]) -> Result<()> {
    let last = versions.last().context("the victim was never seen")?;
    let deleted = !text(last, "/metadata/deletionTimestamp").is_empty();
    ensure!(deleted, "the victim was not deleted: {last}");
    let target = condition(last, "DisruptionTarget")
        .context("the victim has no condition DisruptionTarget")?;
    let found = (text(target, "/status"), text(target, "/reason"), text(target, "/message"));
    let expected = (
        "True",
        "PreemptionByScheduler",
        "default-scheduler: preempting to accommodate a higher priority pod",
    );
    ensure!(found == expected, "the victim's condition is {found:?}");
    Ok(())
}

fn check_event(env: &TestEnv) -> Result<()> {
    let uid = text(&env.get("pod", "urgent")?, "/metadata/uid").to_owned();
    let expected = format!("Preempted by pod {uid} on node open-node");
    env.wait("the event Preempted", || {
        let events = env.list("events")?;
        let event = events.iter().find(|event| event["reason"] == "Preempted");
        let event = event.context("there is none")?;
        let (whom, what) = (text(event, "/involvedObject/name"), text(event, "/message"));
        ensure!((whom, what) == ("open", &expected), "{whom} got the event {what:?}");
        Ok(())
    })
}
