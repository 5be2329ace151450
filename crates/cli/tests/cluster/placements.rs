//! A thousand pods on an almost full sandbox: kube-scheduler and Jindou each place them, and the checker of
//! `bench live` verifies the placements.

use std::path::Path;
use std::process::Command;

use bench::placements::violations;
use serde_json::{Value, json};

use crate::test_cluster::{SchedulerProcess, TestCluster};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// Pods of the large Deployment, a quarter of a core each.
const PODS: usize = 1000;

/// Pods with anti-affinity to each other by hostname.
const LONELY: usize = 30;

/// Nodes in three zones, of 4, 6 and 8 cores. Some are tainted and some cordoned; the other 45 have room
/// for 1080 pods of the large Deployment.
const NODES: usize = 63;

fn node(index: usize) -> Value {
    let name = format!("n{index}");
    // Sizes, taints and cordons are distributed equally over the zones.
    let (cores, zone, group) = (4 + index % 3 * 2, index / 3 % 3, index / 9);
    let taint = json!({"key": "dedicated", "value": "others", "effect": "NoSchedule"});
    let spec = match group {
        0 => json!({"taints": [taint]}),
        1 => json!({"unschedulable": true}),
        _ => json!({}),
    };
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("z{zone}"),
        }},
        "spec": spec,
        "status": {"capacity": {"cpu": cores.to_string(), "memory": "32Gi", "pods": "110"}},
    })
}

fn deployment(name: &str, replicas: usize, cpu: &str, rules: &Value) -> Value {
    let labels = json!({"app": name});
    let mut spec = json!({"containers": [{
        "name": "main", "image": "example.com/none",
        "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
    }]});
    for (field, value) in rules.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    })
}

fn deployments() -> [Value; 2] {
    let selector = |name: &str| json!({"matchLabels": {"app": name}});
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector("web"),
    }]});
    let apart = json!({"affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": selector("lonely"), "topologyKey": "kubernetes.io/hostname"},
        ],
    }}});
    [deployment("lonely", LONELY, "100m", &apart), deployment("web", PODS, "250m", &spread)]
}

async fn cluster() -> TestCluster {
    TestCluster::new((0..NODES).map(node).collect()).await
}

async fn list(cluster: &TestCluster, path: &str) -> Vec<Value> {
    match cluster.get(path).await["items"].take() {
        Value::Array(items) => items,
        other => panic!("{path}: {other}"),
    }
}

/// Creates the pods, waits until a scheduler has placed all of them, and verifies the placements.
async fn check(cluster: TestCluster, mut scheduler: SchedulerProcess) {
    for deployment in deployments() {
        cluster.make(DEPLOYMENTS, &deployment).await;
    }
    let run = cluster.until(DEPLOYMENTS, |list| {
        let mut all = list["items"].as_array().expect("a list").iter();
        all.all(|one| one["status"]["availableReplicas"] == one["spec"]["replicas"])
    });
    scheduler.does(run).await;
    let pods = list(&cluster, "/api/v1/pods").await;
    assert_eq!(pods.len(), PODS + LONELY);
    let nodes = list(&cluster, "/api/v1/nodes").await;
    let namespaces = list(&cluster, "/api/v1/namespaces").await;
    let wrong = violations(&nodes, &pods, &namespaces).expect("amounts can be read");
    assert!(wrong.is_empty(), "{wrong:#?}");
    // The checker reports a pod that is moved to a node that rejects it.
    for (to, because) in [("n0", "dedicated"), ("n9", "node.kubernetes.io/unschedulable")] {
        let mut moved = pods.clone();
        let pod = moved.iter_mut().find(|pod| pod["metadata"]["labels"]["app"] == "web");
        pod.expect("a pod of web")["spec"]["nodeName"] = to.into();
        let wrong = violations(&nodes, &moved, &namespaces).expect("amounts can be read");
        assert!(wrong.iter().any(|line| line.contains(because)), "{to}: {wrong:#?}");
    }
    drop(scheduler);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jindou_places_a_thousand_pods_without_violations() {
    let cluster = cluster().await;
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/e2e/scheduler.yaml");
    let config = config.to_str().expect("a path");
    let arguments =
        ["scheduler", "--bind-address=127.0.0.1", "--secure-port=0", "--config", config];
    let scheduler = cluster.start(&arguments, "scheduler.log");
    check(cluster, scheduler).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kube_scheduler_places_a_thousand_pods_without_violations() {
    let Some(programs) = controlplane::installed_programs().expect("the cache can be read") else {
        // CI builds them before it tests.
        assert!(std::env::var_os("CI").is_none(), "kube-scheduler was not built");
        eprintln!(
            "SKIPPED: kube-scheduler was not found; build it with `cargo xtask controlplane up`"
        );
        return;
    };
    let cluster = cluster().await;
    // Its client sends 50 requests a second by default.
    let config = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
         leaderElection: {{leaderElect: false}}\n\
         clientConnection: {{kubeconfig: {:?}, qps: 1000, burst: 1000}}\n",
        cluster.path("kubeconfig")
    );
    let mut command = Command::new(programs.join("kube-scheduler"));
    command.arg("--config").arg(cluster.write("scheduler.yaml", &config)).arg("--secure-port=0");
    let scheduler = cluster.spawn(command, "kube-scheduler.log");
    check(cluster, scheduler).await;
}
