//! What the scheduler tells over HTTPS, and to whom: client certificates of the cluster are good, by
//! the word of the API server. And how long a pod took, in its annotation.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::deployment;
use super::scene::{Scene, text};
use super::schedulers::{self, PLAIN};
use crate::controlplane::{free_ports, write_expired_client};
use crate::shell::root;

const PODS: usize = 20;
const NODES: usize = 5;

pub(crate) fn run(scene: &Scene) -> Result<()> {
    scene.create("nodes", &deployment::nodes("page", NODES))?;
    scene.wait_for_nodes(NODES)?;
    let [port] = free_ports()?;
    let more = ["--annotate-latency", "--authentication-tolerate-lookup-failure=false"];
    let scheduler = schedulers::jindou_at(scene, "jindou", &root().join(PLAIN), port, &more)?;
    scene.create("deployment", &[deployment::deployment("web", PODS)])?;
    deployment::wait_until_all_run(scene, PODS)?;
    check_annotations(scene)?;

    let certificates = scene.plane.ca.parent().context("the authority is in no folder")?;
    let admin = Visitor::new(scene, "admin", &certificates.join("admin.crt"), port)?;
    let metrics = scene.wait("the numbers to be shown", || admin.read("/metrics"))?;
    for part in [
        "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result=\"scheduled\"}",
        "scheduler_framework_extension_point_duration_seconds_count{extension_point=\"Bind\"",
        "scheduler_event_handling_duration_seconds_count{event=\"UnschedulablePodAdd\"}",
        "scheduler_plugin_evaluation_total{extension_point=\"PreFilter\"",
    ] {
        ensure!(metrics.contains(part), "{part} is not in\n{metrics}");
    }
    admin.read("/readyz")?;
    let slis = admin.read("/metrics/slis")?;
    let passed = "kubernetes_healthcheck{name=\"ping\",type=\"readyz\"} 1";
    ensure!(slis.contains(passed), "{passed} is not in\n{slis}");
    scene.wait("every pod in /metrics/resources", || {
        let resources = admin.read("/metrics/resources")?;
        let ours = format!("kube_pod_resource_request{{namespace=\"{}\",", scene.namespace);
        let ours = resources.lines().filter(|line| line.starts_with(&ours));
        let placed = ours.filter(|line| line.contains("node=\"page-") && line.ends_with("} 0.25"));
        let count = placed.count();
        ensure!(count == PODS, "{count} pods in\n{resources}");
        Ok(())
    })?;

    // Known, but without the right; then with a certificate that has expired.
    let other =
        Visitor::new(scene, "other", &certificates.join("kube-controller-manager.crt"), port)?;
    let error = format!("{:#}", other.read("/metrics").err().context("anybody may read metrics")?);
    ensure!(error.contains("system:kube-controller-manager"), "it was told {error}");
    write_expired_client(&scene.plane.ca, &scene.folder, "expired", "admin")?;
    let expired = Visitor::new(scene, "expired", &scene.folder.join("expired.crt"), port)?;
    let error = format!("{:#}", expired.read("/metrics").err().context("it has expired")?);
    ensure!(error.contains("Unauthorized") || error.contains("logged in"), "it was told {error}");
    scheduler.stop()
}

fn check_annotations(scene: &Scene) -> Result<()> {
    for pod in scene.list("pods")? {
        let latency =
            text(&pod, "/metadata/annotations/scheduling.novasphere.dev~1schedulerLatency");
        let seconds = latency.strip_suffix('s').and_then(|seconds| seconds.parse::<f64>().ok());
        ensure!(seconds.is_some_and(|seconds| seconds >= 0.0), "a pod has latency {latency:?}");
    }
    Ok(())
}

/// Somebody with a client certificate of the cluster.
struct Visitor<'a> {
    scene: &'a Scene<'a>,
    kubeconfig: String,
}

impl<'a> Visitor<'a> {
    fn new(scene: &'a Scene, name: &str, certificate: &Path, port: u16) -> Result<Self> {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "pages",
            "clusters": [{"name": "pages", "cluster": {
                "server": format!("https://127.0.0.1:{port}"), "insecure-skip-tls-verify": true,
            }}],
            "users": [{"name": "pages", "user": {
                "client-certificate": certificate, "client-key": certificate.with_extension("key"),
            }}],
            "contexts": [{"name": "pages", "context": {"cluster": "pages", "user": "pages"}}],
        });
        let path = scene.write(&format!("{name}.kubeconfig"), &config.to_string())?;
        Ok(Self { scene, kubeconfig: path.to_string_lossy().into_owned() })
    }

    fn read(&self, page: &str) -> Result<String> {
        self.scene.plane.kubectl(&["--kubeconfig", &self.kubeconfig, "get", "--raw", page])
    }
}
