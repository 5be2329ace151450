//! Taints, node affinity, pod affinity and anti-affinity, topology spread.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail, ensure};

use crate::test_env::{TestEnv, text};
use crate::{placements, schedulers};

const OBJECTS: &str = "conformance/e2e/constraints.yaml";

pub(crate) fn run(env: &TestEnv) -> Result<()> {
    env.apply(OBJECTS, Some("e2e=nodes"))?;
    env.wait_for_nodes(6)?;
    let scheduler = schedulers::jindou(env, schedulers::DEFAULT_CONFIG)?;
    env.apply(OBJECTS, Some("e2e=pods"))?;

    let on = env.wait_for_pods(&["tolerant"])?;
    ensure!(on == ["node1"], "tolerant is on {on:?}, not on node1");
    let refusal = env.wait_for_refusal("intolerant")?;
    ensure!(refusal.contains("untolerated taint"), "intolerant was refused with {refusal:?}");
    // The pod of its affinity does not exist yet; its creation must requeue this one.
    let refusal = env.wait_for_refusal("nginx")?;
    ensure!(refusal.contains("pod affinity rules"), "nginx was refused with {refusal:?}");
    env.apply(OBJECTS, Some("e2e=later"))?;
    for node in env.wait_for_pods(&["secure", "nginx"])? {
        ensure!(node.starts_with('b'), "secure or nginx is on {node}, not in zone az2");
    }
    check_apart(env)?;
    check_spread(env)?;
    placements::check(env)?;
    scheduler.stop()
}

/// Checks that five pods are on five nodes and the sixth is pending.
fn check_apart(env: &TestEnv) -> Result<()> {
    let waiting = env.wait("five of six pods to be apart", || {
        let pods = pods_of(env, "apart")?;
        let on: BTreeSet<_> = pods.iter().map(|(_, node)| node).filter(|n| !n.is_empty()).collect();
        let mut waiting = pods.iter().filter(|(_, node)| node.is_empty());
        match (pods.len(), on.len(), waiting.next(), waiting.next()) {
            (6, 5, Some((name, _)), None) => Ok(name.clone()),
            _ => bail!("they are {pods:?}"),
        }
    })?;
    let refusal = env.wait_for_refusal(&waiting)?;
    ensure!(refusal.contains("pod anti-affinity rules"), "{waiting} was refused with {refusal:?}");
    Ok(())
}

/// Checks that each of three zones has three pods.
fn check_spread(env: &TestEnv) -> Result<()> {
    let zones: BTreeMap<_, _> = env
        .list("nodes")?
        .iter()
        .map(|node| {
            let zone = text(node, "/metadata/labels/topology.kubernetes.io~1zone");
            (text(node, "/metadata/name").to_owned(), zone.to_owned())
        })
        .collect();
    env.wait("pods in all zones", || {
        let mut counts = BTreeMap::<_, usize>::new();
        for (_, node) in pods_of(env, "spread")? {
            *counts.entry(zones.get(&node)).or_default() += 1;
        }
        let even = counts.len() == 3 && counts.values().all(|count| *count == 3);
        if even { Ok(()) } else { bail!("pods per zone: {counts:?}") }
    })
}

/// Returns names and nodes of the pods of a Deployment.
fn pods_of(env: &TestEnv, app: &str) -> Result<Vec<(String, String)>> {
    let pods = env.list("pods")?;
    let own = pods.iter().filter(|pod| text(pod, "/metadata/labels/app") == app);
    let pair =
        |pod| (text(pod, "/metadata/name").to_owned(), text(pod, "/spec/nodeName").to_owned());
    Ok(own.map(pair).collect())
}
