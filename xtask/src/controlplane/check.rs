//! Checks that a control plane works: upstream's scheduler binds the pods of a Deployment and of a Job.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::{ControlPlane, POLL_INTERVAL, SchedulerChoice, StartOptions, write_private};
use crate::shell::say;

const NODES: usize = 3;
const PODS: usize = 20;

/// Deadline for the pods to run.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Starts a control plane, checks it and ends it.
pub(crate) fn run() -> Result<()> {
    let began = Instant::now();
    let running = ControlPlane::start(&StartOptions::owned(SchedulerChoice::Kube)?)?;
    let plane = &running.plane;
    say(&format!("{} answers after {:.1?}", plane.server, began.elapsed()));
    let version: Value = serde_json::from_str(&plane.kubectl(&["version", "-o", "json"])?)?;
    say(&format!("version {}", version["serverVersion"]["gitVersion"]));

    let manifest = plane.folder.join("check.json");
    write_private(&manifest, &objects().to_string())?;
    let began = Instant::now();
    plane.kubectl(&["create", "-f", &manifest.to_string_lossy()])?;
    let count = |selector: &str, phase: &str| -> Result<usize> {
        let field = format!("--field-selector=status.phase={phase}");
        Ok(plane.kubectl(&["get", "pods", "-l", selector, &field, "-o", "name"])?.lines().count())
    };
    wait("pods that run", PODS, || count("app=check", "Running"))?;
    say(&format!("{PODS} pods of a Deployment run after {:.1?}", began.elapsed()));
    wait("pods that succeed", 1, || count("job-name=check", "Succeeded"))?;
    say(&format!("the pod of a Job succeeded after {:.1?}", began.elapsed()));
    plane.kubectl(&["delete", "deployment", "check"])?;
    wait("pods left", 0, || count("app=check", "Running"))?;
    say("the pods of the Deployment are deleted");

    let kubeconfig = format!("--kubeconfig={}", plane.scheduler_kubeconfig.display());
    let may_create = |what: &[&str]| {
        // The exit status is the answer.
        plane.kubectl(&[&["auth", "can-i", "create", &kubeconfig, "-A"], what].concat())
    };
    may_create(&["pods", "--subresource=binding"]).context("a scheduler may not bind pods")?;
    if may_create(&["deployments.apps"]).is_ok() {
        bail!("a scheduler may create deployments, so RBAC is off");
    }
    say("a scheduler may bind pods and may not create deployments");
    Ok(running.stop()?)
}

fn wait(what: &str, want: usize, count: impl Fn() -> Result<usize>) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let got = count()?;
        if got == want {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("{what}: {got} instead of {want} after {} s", TIMEOUT.as_secs());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn objects() -> Value {
    let container = json!([{
        "name": "main", "image": "example.com/none",
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }]);
    let mut items: Vec<_> = (0..NODES)
        .map(|index| {
            json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": format!("node-{index}")},
                "status": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
            })
        })
        .collect();
    let labels = json!({"app": "check"});
    items.push(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "check"},
        "spec": {
            "replicas": PODS,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": container}},
        },
    }));
    items.push(json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "check"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": container}}},
    }));
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}
