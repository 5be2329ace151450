//! The HTTPS endpoints of the scheduler, with the cluster's authentication and authorisation by client
//! certificates; and the annotation with the latency of a pod.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::deployment;
use crate::checkout::root;
use crate::schedulers::{self, DEFAULT_CONFIG};
use crate::test_env::{TestEnv, text};
use controlplane::{free_ports, write_expired_client};

const PODS: usize = 20;
const NODES: usize = 5;

pub(crate) fn run(env: &TestEnv) -> Result<()> {
    env.create("nodes", &deployment::nodes("page", NODES))?;
    env.wait_for_nodes(NODES)?;
    let [port] = free_ports()?;
    let more = ["--annotate-latency", "--authentication-tolerate-lookup-failure=false"];
    let scheduler =
        schedulers::jindou_at(env, "jindou", &root().join(DEFAULT_CONFIG), port, &more)?;
    env.create("deployment", &[deployment::deployment("web", PODS)])?;
    deployment::wait_until_all_run(env, PODS)?;
    check_annotations(env)?;

    let certificates = env.plane.ca.parent().context("the authority is in no folder")?;
    let admin = ClientIdentity::new(env, "admin", &certificates.join("admin.crt"), port)?;
    let metrics = env.wait("the numbers to be shown", || admin.read("/metrics"))?;
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
    env.wait("every pod in /metrics/resources", || {
        let resources = admin.read("/metrics/resources")?;
        let ours = format!("kube_pod_resource_request{{namespace=\"{}\",", env.namespace);
        let ours = resources.lines().filter(|line| line.starts_with(&ours));
        let placed = ours.filter(|line| line.contains("node=\"page-") && line.ends_with("} 0.25"));
        let count = placed.count();
        ensure!(count == PODS, "{count} pods in\n{resources}");
        Ok(())
    })?;

    // First a user without the permission, then one whose certificate has expired.
    let other =
        ClientIdentity::new(env, "other", &certificates.join("kube-controller-manager.crt"), port)?;
    let error = format!("{:#}", other.read("/metrics").err().context("anybody may read metrics")?);
    ensure!(error.contains("system:kube-controller-manager"), "the error is {error}");
    write_expired_client(&env.plane.ca, &env.folder, "expired", "admin")?;
    let expired = ClientIdentity::new(env, "expired", &env.folder.join("expired.crt"), port)?;
    let error = format!("{:#}", expired.read("/metrics").err().context("it has expired")?);
    ensure!(error.contains("Unauthorized") || error.contains("logged in"), "the error is {error}");
    scheduler.stop()
}

fn check_annotations(env: &TestEnv) -> Result<()> {
    for pod in env.list("pods")? {
        let latency =
            text(&pod, "/metadata/annotations/scheduling.novasphere.dev~1schedulerLatency");
        let seconds = latency.strip_suffix('s').and_then(|seconds| seconds.parse::<f64>().ok());
        ensure!(seconds.is_some_and(|seconds| seconds >= 0.0), "a pod has latency {latency:?}");
    }
    Ok(())
}

/// A user with a client certificate of the cluster.
struct ClientIdentity<'a> {
    env: &'a TestEnv<'a>,
    kubeconfig: String,
}

impl<'a> ClientIdentity<'a> {
    fn new(env: &'a TestEnv, name: &str, certificate: &Path, port: u16) -> Result<Self> {
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
        let path = env.write(&format!("{name}.kubeconfig"), &config.to_string())?;
        Ok(Self { env, kubeconfig: path.to_string_lossy().into_owned() })
    }

    fn read(&self, page: &str) -> Result<String> {
        Ok(self.env.plane.kubectl(&["--kubeconfig", &self.kubeconfig, "get", "--raw", page])?)
    }
}
