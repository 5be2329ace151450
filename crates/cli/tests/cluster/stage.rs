//! A sandbox, a client of it, and schedulers that work on it.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use sandbox::kinds::Resource;
use sandbox::{Options, Sandbox};
use serde_json::{Value, json};
use tokio::process::Child;
use tokio::time::timeout;

/// How long anything may take here, on a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_mins(4);

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
        self.spawn(self.jindou(arguments), log)
    }

    /// Starts any scheduler, whose errors go to a file.
    pub(crate) fn spawn(&self, mut command: Command, log: &str) -> Scheduler {
        let path = self.path(log);
        let log = File::create(&path).expect("a file");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut command = tokio::process::Command::from(command);
        let child = command.kill_on_drop(true).spawn().expect("it starts");
        Scheduler { child, log: path }
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

    /// Waits until an object or a list is as it should be, looking again whenever one of its kind changes.
    pub(crate) async fn until(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut news = self.kind_at(path).objects.subscribe();
        let mut last = Value::Null;
        let wait = async {
            loop {
                // What changes from here on is seen by the answer or waited for.
                news.borrow_and_update();
                last = self.get(path).await;
                if holds(&last) {
                    break;
                }
                news.changed().await.expect("the sandbox runs");
            }
        };
        let in_time = timeout(PATIENCE, wait).await.is_ok();
        assert!(in_time, "{path} did not come to what was expected; last: {last:#}");
        last
    }

    /// The kind that a path leads to.
    fn kind_at(&self, path: &str) -> Arc<Resource> {
        let segments: Vec<_> = path.split('/').collect();
        let (group, rest) = match &*segments {
            ["", "api", _, rest @ ..] => ("", rest),
            ["", "apis", group, _, rest @ ..] => (*group, rest),
            _ => panic!("{path} leads to no kind"),
        };
        let (["namespaces", _, plural, ..] | [plural, ..]) = rest else {
            panic!("{path} leads to no kind")
        };
        self.sandbox.cluster.resource(group, plural)
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

/// A scheduler at work; killed when it is dropped.
pub(crate) struct Scheduler {
    child: Child,
    log: PathBuf,
}

impl Scheduler {
    /// Waits for what it does; it must not end before.
    pub(crate) async fn does<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            ended = self.child.wait() => panic!("the scheduler ended: {ended:?}"),
            done = work => done,
        }
    }

    /// Waits until its log holds a text.
    pub(crate) async fn says(&mut self, text: &str) {
        let log = self.log.clone();
        let holds = async {
            while !std::fs::read_to_string(&log).unwrap_or_default().contains(text) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let said = self.does(timeout(PATIENCE, holds)).await;
        assert!(said.is_ok(), "the log does not hold {text:?}");
    }

    /// How many TCP sockets of it wait for connections.
    pub(crate) fn listening_sockets(&self) -> usize {
        let process = PathBuf::from(format!("/proc/{}", self.child.id().expect("it runs")));
        let links = std::fs::read_dir(process.join("fd")).expect("its files");
        let links = links.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
        let own: Vec<_> = links.map(|link| link.to_string_lossy().into_owned()).collect();
        let tables = ["net/tcp", "net/tcp6"].map(|table| process.join(table));
        let rows = tables.map(|table| std::fs::read_to_string(table).unwrap_or_default()).concat();
        let rows = rows.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
        // The fourth column is the state, and 0A is listening; the tenth is the number of the socket.
        let listening = rows.filter(|row| row.get(3) == Some(&"0A"));
        let is_own = |row: &Vec<&str>| own.contains(&format!("socket:[{}]", row[9]));
        listening.filter(is_own).count()
    }

    /// Asks it to end, and waits.
    pub(crate) async fn stop(self) {
        let pid = self.child.id().expect("nobody has waited for it").to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
        let (ended, said) = self.ended().await;
        assert!(ended.success(), "{ended}: {said}");
    }

    /// Waits until it ends.
    pub(crate) async fn ended(mut self) -> (ExitStatus, String) {
        let ended = timeout(PATIENCE, self.child.wait()).await.expect("it ends in time");
        (ended.expect("it can be waited for"), self.said())
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Scheduler {
    #[expect(clippy::print_stderr, reason = "the test that fails shows it")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} holds:\n{}", self.log.display(), self.said());
        }
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
