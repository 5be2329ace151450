//! Upstream's kube-scheduler on the sandbox, if it was built.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

use crate::server::{TestServer, deployment, program};

/// Number of pods. The scheduler sends 50 requests per second by default, so this takes seconds.
const PODS: u64 = 200;

/// Kills the program when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kube_scheduler_schedules_a_deployment() {
    let Some(scheduler) = program("kube-scheduler") else {
        eprintln!(
            "SKIPPED: kube-scheduler was not found; build it with `cargo xtask controlplane up`"
        );
        return;
    };
    let server = TestServer::new(20).await;
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, server.sandbox.kubeconfig()).unwrap();
    let mut command = Command::new(scheduler);
    command.arg("--kubeconfig").arg(&kubeconfig).args(["--secure-port=0", "--leader-elect=true"]);
    let _running = Running(command.stderr(Stdio::null()).spawn().unwrap());
    server.create("/apis/apps/v1/namespaces/default/deployments", &deployment("web", PODS)).await;
    server
        .wait_until("/apis/apps/v1/namespaces/default/deployments/web", |value| {
            value["status"]["availableReplicas"] == PODS
        })
        .await;
    let pods = server.get("/api/v1/namespaces/default/pods").await.1;
    let mut nodes: BTreeMap<&str, u64> = BTreeMap::new();
    for pod in pods["items"].as_array().unwrap() {
        *nodes.entry(pod["spec"]["nodeName"].as_str().unwrap()).or_default() += 1;
    }
    assert_eq!(nodes.values().sum::<u64>(), PODS);
    // It spreads equal pods over equal nodes.
    assert!(nodes.len() == 20 && nodes.values().all(|count| (8..=12).contains(count)), "{nodes:?}");
    server.stop().await;
}
