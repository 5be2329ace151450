//! A thousand pods on a sandbox with little room to spare: kube-scheduler and Jindou each place them, and
//! the judge of `bench live` looks at where they are.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cli::bench::placements::violations;
use kube::config::{KubeConfigOptions, Kubeconfig};
use sandbox::{Options, Sandbox};
use serde_json::{Value, json};

use super::{Folder, root};

/// Pods of the large Deployment, a quarter of a core each.
const PODS: usize = 1000;

/// Pods that want no other of their kind on their node.
const LONELY: usize = 30;

/// Nodes in three zones, of 4, 6 and 8 cores. Some are tainted and some cordoned; the other 45 have room
/// for 1080 pods of the large Deployment.
const NODES: usize = 63;

/// How long all of it may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_mins(4);

/// Ends the program however the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn node(index: usize) -> Value {
    let name = format!("n{index}");
    // Every size and every handicap is in each zone alike.
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

struct Stage {
    sandbox: Sandbox,
    client: kube::Client,
    folder: Folder,
}

impl Stage {
    async fn new() -> Self {
        let options = Options { more_nodes: (0..NODES).map(node).collect(), ..Options::default() };
        let sandbox = Sandbox::start(&options).await.expect("it starts");
        let folder = Folder::new(&[("kubeconfig", &sandbox.kubeconfig())]);
        let file = Kubeconfig::from_yaml(&sandbox.kubeconfig()).expect("a kubeconfig");
        let config =
            kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        let client = kube::Client::try_from(config.expect("a config")).expect("a client");
        Self { sandbox, client, folder }
    }

    fn kubeconfig(&self) -> std::path::PathBuf {
        self.folder.0.join("kubeconfig")
    }

    async fn list(&self, path: &str) -> Vec<Value> {
        let request = http::Request::get(path).body(Vec::new()).expect("a request");
        let mut list: Value = self.client.request(request).await.expect("a list");
        match list["items"].take() {
            Value::Array(items) => items,
            other => panic!("{path}: {other}"),
        }
    }

    /// Creates the pods, waits until a scheduler has placed all of them, and looks at where they are.
    async fn check(self, scheduler: Command) {
        let mut scheduler = Running(start(scheduler, &self.folder.0));
        for deployment in deployments() {
            let path = "/apis/apps/v1/namespaces/default/deployments";
            let request = http::Request::post(path).header("content-type", "application/json");
            let request = request.body(deployment.to_string().into_bytes()).expect("a request");
            let _: Value = self.client.request(request).await.expect("it is made");
        }
        let deadline = Instant::now() + PATIENCE;
        let pods = loop {
            let pods = self.list("/api/v1/pods").await;
            let runs = |pod: &&Value| pod["status"]["phase"] == "Running";
            let running = pods.iter().filter(runs).count();
            if running == PODS + LONELY {
                break pods;
            }
            let log = || std::fs::read_to_string(self.folder.0.join("log")).unwrap_or_default();
            let ended = scheduler.0.try_wait().expect("it can be asked");
            assert!(ended.is_none(), "the scheduler ended: {}", log());
            assert!(Instant::now() < deadline, "{running} of {} run: {}", pods.len(), log());
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        let nodes = self.list("/api/v1/nodes").await;
        let namespaces = self.list("/api/v1/namespaces").await;
        let wrong = violations(&nodes, &pods, &namespaces).expect("amounts can be read");
        assert!(wrong.is_empty(), "{wrong:#?}");
        // The same judge minds one pod that is moved where it may not be.
        for (to, because) in [("n0", "dedicated"), ("n9", "node.kubernetes.io/unschedulable")] {
            let mut moved = pods.clone();
            let pod = moved.iter_mut().find(|pod| pod["metadata"]["labels"]["app"] == "web");
            pod.expect("a pod of web")["spec"]["nodeName"] = to.into();
            let wrong = violations(&nodes, &moved, &namespaces).expect("amounts can be read");
            assert!(wrong.iter().any(|line| line.contains(because)), "{to}: {wrong:#?}");
        }
        drop(scheduler);
        drop(self.client);
        self.sandbox.stop().await;
    }
}

fn start(mut command: Command, folder: &Path) -> Child {
    let log = std::fs::File::create(folder.join("log")).expect("a file");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().expect("it starts")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jindou_places_a_thousand_pods_where_they_may_be() {
    let stage = Stage::new().await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_jindou"));
    command.args(["scheduler", "--bind-address=127.0.0.1", "--secure-port=0", "--config"]);
    command.arg(root().join("conformance/e2e/scheduler.yaml"));
    command.arg("--kubeconfig").arg(stage.kubeconfig());
    stage.check(command).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kube_scheduler_places_a_thousand_pods_where_they_may_be() {
    let Some(programs) = controlplane::built().expect("the cache can be read") else {
        // CI builds them before it tests.
        assert!(std::env::var_os("CI").is_none(), "kube-scheduler was not built");
        eprintln!(
            "SKIPPED: kube-scheduler was not found; build it with `cargo xtask controlplane up`"
        );
        return;
    };
    let stage = Stage::new().await;
    let config = stage.folder.0.join("scheduler.yaml");
    // Its client sends 50 requests a second by default.
    let text = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
         leaderElection: {{leaderElect: false}}\n\
         clientConnection: {{kubeconfig: {:?}, qps: 1000, burst: 1000}}\n",
        stage.kubeconfig()
    );
    std::fs::write(&config, text).expect("it can be written");
    let mut command = Command::new(programs.join("kube-scheduler"));
    command.arg("--config").arg(config).arg("--secure-port=0");
    stage.check(command).await;
}
