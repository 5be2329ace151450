//! A sandbox, a client of it, and schedulers that work on it.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use http::{Method, Request, StatusCode};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use sandbox::{Options, Sandbox};
use serde_json::{Value, json};

/// How often it is looked whether something has happened, and how many times.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LOOKS: usize = 2400;

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

pub(crate) struct Stage {
    pub(crate) sandbox: Sandbox,
    client: kube::Client,
    folder: tempfile::TempDir,
}

impl Stage {
    pub(crate) async fn new(nodes: Vec<Value>) -> Self {
        let options = Options { more_nodes: nodes, ..Options::default() };
        let sandbox = Sandbox::start(&options).await.expect("it starts");
        let folder = tempfile::tempdir().expect("a folder");
        let stage_kubeconfig = sandbox.kubeconfig();
        std::fs::write(folder.path().join("kubeconfig"), &stage_kubeconfig).expect("a file");
        let file = Kubeconfig::from_yaml(&stage_kubeconfig).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(file, &options).await;
        let client = kube::Client::try_from(config.expect("a config")).expect("a client");
        Self { sandbox, client, folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// A program that talks to the sandbox.
    pub(crate) fn jindou(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jindou"));
        command.args(arguments).arg("--kubeconfig").arg(self.path("kubeconfig"));
        command
    }

    /// A scheduler that leads from the start, with more arguments.
    pub(crate) fn scheduler(&self, arguments: &[&str]) -> Scheduler {
        let alone = ["scheduler", "--secure-port=0", "--leader-elect=false"];
        self.start(&[&alone, arguments].concat(), "scheduler.log")
    }

    pub(crate) fn start(&self, arguments: &[&str], log: &str) -> Scheduler {
        let path = self.path(log);
        let log = File::create(&path).expect("a file");
        let mut command = self.jindou(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Scheduler { child: command.spawn().expect("it starts"), log: path }
    }

    async fn send(&self, method: Method, path: &str, form: &str, body: &Value) -> Value {
        let request = Request::builder().method(&method).uri(path).header("content-type", form);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let response = self.client.send(request.body(Body::from(body)).expect("a request"));
        let response = response.await.expect("an answer");
        let status = response.status();
        let bytes = response.into_body().collect_bytes().await.expect("a body");
        let value = serde_json::from_slice(&bytes).unwrap_or_default();
        assert!(status.is_success() || status == StatusCode::NOT_FOUND, "{method} {path}: {value}");
        value
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.send(Method::GET, path, "application/json", &Value::Null).await
    }

    pub(crate) async fn make(&self, path: &str, object: &Value) {
        self.send(Method::POST, path, "application/json", object).await;
    }

    pub(crate) async fn merge(&self, path: &str, patch: &Value) {
        self.send(Method::PATCH, path, "application/merge-patch+json", patch).await;
    }

    /// Waits until an object is as it should be.
    pub(crate) async fn until(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..LOOKS {
            last = self.get(path).await;
            if holds(&last) {
                return last;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        panic!("{path} did not come to what was expected; last: {last:#}");
    }

    /// Waits until a pod is on a node; its name.
    pub(crate) async fn node_of(&self, pod: &str) -> String {
        let path = format!("{PODS}/{pod}");
        let pod = self.until(&path, |pod| pod["spec"]["nodeName"].is_string()).await;
        pod["spec"]["nodeName"].as_str().expect("a name").to_owned()
    }

    /// Waits until it is written on a pod why it is not scheduled.
    pub(crate) async fn refusal_of(&self, pod: &str) -> String {
        let refused = |pod: &Value| condition(pod, "PodScheduled")["status"] == "False";
        let pod = self.until(&format!("{PODS}/{pod}"), refused).await;
        condition(&pod, "PodScheduled")["message"].as_str().expect("a message").to_owned()
    }

    /// Waits until all pods are on nodes; how many are on each, by the nodes' names.
    pub(crate) async fn placements(&self, pods: usize) -> Vec<(String, usize)> {
        let placed = |list: &Value| {
            let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
            items.len() == pods && items.iter().all(|pod| pod["spec"]["nodeName"].is_string())
        };
        let list = self.until(PODS, placed).await;
        let mut counts = std::collections::BTreeMap::new();
        for pod in list["items"].as_array().expect("a list") {
            let node = pod["spec"]["nodeName"].as_str().expect("a name").to_owned();
            *counts.entry(node).or_default() += 1;
        }
        counts.into_iter().collect()
    }

    pub(crate) async fn end(self) {
        drop(self.client);
        self.sandbox.stop().await;
    }
}

/// A scheduler at work; killed if the test fails.
pub(crate) struct Scheduler {
    child: Child,
    log: PathBuf,
}

impl Scheduler {
    /// Asks it to end, and waits.
    pub(crate) async fn stop(self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
        let (ended, said) = self.ended().await;
        assert!(ended.success(), "{ended}: {said}");
    }

    /// Waits until it ends, without holding up the sandbox, which is on this thread.
    pub(crate) async fn ended(mut self) -> (ExitStatus, String) {
        for _ in 0..LOOKS {
            if let Some(ended) = self.child.try_wait().expect("it can be asked") {
                return (ended, self.said());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        panic!("it did not end: {}", self.said());
    }

    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A node on which so many pods of [`pod`] fit.
pub(crate) fn node(name: &str, pods: usize) -> Value {
    let room = json!({"cpu": pods.to_string(), "memory": "64Gi", "pods": "110"});
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": room, "allocatable": room}})
}

/// A pod that takes one of a node's places.
pub(crate) fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
    "metadata": {"name": name, "labels": {"app": name}},
    "spec": {"containers": [{
        "name": "app", "image": "app:1", "resources": {"requests": {"cpu": "1"}},
    }]}})
}

/// The same with more in its spec.
pub(crate) fn pod_with(name: &str, spec: &Value) -> Value {
    let mut pod = pod(name);
    let more = spec.as_object().expect("an object").clone();
    pod["spec"].as_object_mut().expect("an object").extend(more);
    pod
}

pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|one| one["type"] == kind));
    found.unwrap_or(&Value::Null)
}
