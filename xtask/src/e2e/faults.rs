//! Bad days of the network and of the API server, while a scheduler is at work.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::deployment::{deployment, nodes, wait_until_all_run};
use super::history::History;
use super::placements;
use super::proxy::{Fault, Kind, Proxy, Rule};
use super::restart::{NODES, PODS, check_that_some_wait, wait_for_some};
use super::scene::Scene;
use super::schedulers::{self, UNHURRIED};
use crate::shell::{root, say};

/// Longer than a bind may take, so that nobody knows what came of those under way.
const STALL: Duration = Duration::from_secs(4);

/// Longer than a connection may be silent, so that it is given up.
const LONG_STALL: Duration = Duration::from_secs(17);

/// Times that all connections are cut, and the time in between.
const CUTS: u32 = 8;
const BETWEEN_CUTS: Duration = Duration::from_millis(300);

/// Of every twenty answers to binds one is lost, and what happens is told late. Upstream's scheduler
/// has the same day after Jindou, and what it makes of it is told.
pub(crate) fn lost(scene: &Scene) -> Result<()> {
    let late = Fault::Lag(Duration::from_secs(2));
    let rules = [
        Rule(Kind::Bind, 40, Fault::Lose),
        Rule(Kind::Bind, 40, Fault::Swallow),
        Rule(Kind::List, 1, late),
    ];
    drain(scene, &rules, |_, _| Ok(()))?;
    scene.kubectl(&["delete", "deployment", "web"])?;
    scene.wait("all pods to be gone", || {
        let all = format!("/api/v1/namespaces/{}/pods?gracePeriodSeconds=0", scene.namespace);
        scene.kubectl(&["delete", "--raw", &all])?;
        let left = scene.kubectl(&["get", "pods", "-o", "name"])?.lines().count();
        ensure!(left == 0, "{left} are left");
        Ok(())
    })?;
    let proxy = Proxy::start(scene)?;
    proxy.rule(&rules);
    let kube = schedulers::kube_by(scene, UNHURRIED, &proxy.kubeconfig)?;
    scene.create("deployment", &[deployment("web", PODS)])?;
    wait_until_all_run(scene, PODS)?;
    let wrong = placements::wrong(scene)?;
    say(&format!("on the same day kube-scheduler makes {} nodes too full", wrong.len()));
    kube.kill()
}

/// The API server has every excuse that there is.
pub(crate) fn answers(scene: &Scene) -> Result<()> {
    let rules = [
        Rule(Kind::Bind, 11, Fault::Answer(409)),
        Rule(Kind::Bind, 13, Fault::Answer(429)),
        Rule(Kind::Bind, 17, Fault::Answer(500)),
        Rule(Kind::Bind, 19, Fault::Deny(500)),
        Rule(Kind::Bind, 23, Fault::Answer(503)),
        Rule(Kind::Bind, 29, Fault::Deny(504)),
        Rule(Kind::Read, 5, Fault::Answer(500)),
        Rule(Kind::Watch, 2, Fault::Answer(410)),
    ];
    // Watches begin again when they are cut.
    drain(scene, &rules, |proxy, _| {
        proxy.cut();
        Ok(())
    })
}

/// All connections break again and again, and everything is slow.
pub(crate) fn cut(scene: &Scene) -> Result<()> {
    let slow = Fault::Delay(Duration::from_millis(200));
    drain(scene, &[Rule(Kind::Any, 1, slow)], |proxy, _| {
        for _ in 0..CUTS {
            proxy.cut();
            sleep(BETWEEN_CUTS);
        }
        Ok(())
    })
}

/// The network takes everything and delivers nothing, for a while and then for longer.
pub(crate) fn stalled(scene: &Scene) -> Result<()> {
    drain(scene, &[], |proxy, history| {
        for time in [STALL, LONG_STALL] {
            proxy.stall(true);
            sleep(time);
            check_that_some_wait(scene)?;
            let bound = history.bound();
            proxy.stall(false);
            scene.wait("work to go on", || {
                ensure!(history.bound() > bound, "{bound} pods are bound");
                Ok(())
            })?;
        }
        Ok(())
    })
}

/// Binds pods by way of a proxy; rules hold and something is done when some are bound.
fn drain(
    scene: &Scene,
    rules: &[Rule],
    harm: impl FnOnce(&Proxy, &History) -> Result<()>,
) -> Result<()> {
    let before = placements::bindings(scene)?;
    scene.create("nodes", &nodes(scene.namespace, NODES))?;
    scene.wait_for_nodes(NODES)?;
    let history = History::start(scene)?;
    let proxy = Proxy::start(scene)?;
    let config = root().join(UNHURRIED);
    proxy.rule(rules);
    let scheduler = schedulers::jindou_by(scene, "jindou", &config, &proxy.kubeconfig, &[])?;
    scene.create("deployment", &[deployment("web", PODS)])?;
    wait_for_some(scene, &history)?;
    harm(&proxy, &history)?;
    wait_until_all_run(scene, PODS)?;
    proxy.check_rules()?;
    proxy.rule(&[]);
    placements::check(scene)?;
    history.check_bound_once()?;
    placements::check_bindings(scene, &before, PODS as u64)?;
    scheduler.stop()
}
