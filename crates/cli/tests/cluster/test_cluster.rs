//! A sandbox with a client, and schedulers that run on it.

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

/// Time-out of every wait, on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(4);

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

pub(crate) struct TestCluster {
    pub(crate) sandbox: Sandbox,
    client: kube::Client,
    folder: tempfile::TempDir,
}

impl TestCluster {
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

    /// Returns a command of `jindou` on the sandbox.
    pub(crate) fn jindou(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jindou"));
        command.args(arguments).arg("--kubeconfig").arg(self.path("kubeconfig"));
        command
    }

    /// Starts a scheduler without leader election, with additional arguments.
    pub(crate) fn scheduler(&self, arguments: &[&str]) -> SchedulerProcess {
        let alone = ["scheduler", "--secure-port=0", "--leader-elect=false"];
        self.start(&[&alone, arguments].concat(), "scheduler.log")
    }

    pub(crate) fn start(&self, arguments: &[&str], log: &str) -> SchedulerProcess {
        self.spawn(self.jindou(arguments), log)
    }

    /// Starts any scheduler, with its log in a file.
    pub(crate) fn spawn(&self, mut command: Command, log: &str) -> SchedulerProcess {
        let path = self.path(log);
        let log = File::create(&path).expect("a file");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut command = tokio::process::Command::from(command);
        let child = command.kill_on_drop(true).spawn().expect("it starts");
        SchedulerProcess { child, log: path }
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

    /// Waits until a condition on an object or a list holds, and checks it after each change of its kind.
    pub(crate) async fn until(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut news = self.kind_at(path).objects.subscribe();
        let mut last = Value::Null;
        let wait = async {
            loop {
                // Later changes are in the response, or end the wait below.
                news.borrow_and_update();
                last = self.get(path).await;
                if holds(&last) {
                    break;
                }
                news.changed().await.expect("the sandbox runs");
            }
        };
        let in_time = timeout(TIMEOUT, wait).await.is_ok();
        assert!(in_time, "the condition on {path} does not hold; last: {last:#}");
        last
    }

    /// Returns the kind of a path.
    fn kind_at(&self, path: &str) -> Arc<Resource> {
        let segments: Vec<_> = path.split('/').collect();
        let (group, rest) = match &*segments {
            ["", "api", _, rest @ ..] => ("", rest),
            ["", "apis", group, _, rest @ ..] => (*group, rest),
            _ => panic!("{path} has no kind"),
        };
        let (["namespaces", _, plural, ..] | [plural, ..]) = rest else {
            panic!("{path} has no kind")
        };
        self.sandbox.cluster.resource(group, plural)
    }

    /// Waits until a pod is bound, and returns its node.
    pub(crate) async fn node_of(&self, pod: &str) -> String {
        let path = format!("{PODS}/{pod}");
        let pod = self.until(&path, |pod| pod["spec"]["nodeName"].is_string()).await;
        pod["spec"]["nodeName"].as_str().expect("a name").to_owned()
    }

    /// Waits until a pod has the condition PodScheduled=False, and returns its message.
    pub(crate) async fn refusal_of(&self, pod: &str) -> String {
        let refused = |pod: &Value| condition(pod, "PodScheduled")["status"] == "False";
        let pod = self.until(&format!("{PODS}/{pod}"), refused).await;
        condition(&pod, "PodScheduled")["message"].as_str().expect("a message").to_owned()
    }

    /// Waits until all pods are bound, and returns the number of pods by node.
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

/// A running scheduler; killed when dropped.
pub(crate) struct SchedulerProcess {
    child: Child,
    log: PathBuf,
}

impl SchedulerProcess {
    /// Waits for `work`; panics if the scheduler exits before.
    pub(crate) async fn does<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            ended = self.child.wait() => panic!("the scheduler ended: {ended:?}"),
            done = work => done,
        }
    }

    /// Waits until its log contains a text.
    pub(crate) async fn says(&mut self, text: &str) {
        let log = self.log.clone();
        let holds = async {
            while !std::fs::read_to_string(&log).unwrap_or_default().contains(text) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let said = self.does(timeout(TIMEOUT, holds)).await;
        assert!(said.is_ok(), "the log does not hold {text:?}");
    }

    /// Returns the number of its listening TCP sockets.
    pub(crate) fn listening_sockets(&self) -> usize {
        let process = PathBuf::from(format!("/proc/{}", self.child.id().expect("it runs")));
        let links = std::fs::read_dir(process.join("fd")).expect("its files");
        let links = links.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
        let own: Vec<_> = links.map(|link| link.to_string_lossy().into_owned()).collect();
        let tables = ["net/tcp", "net/tcp6"].map(|table| process.join(table));
        let rows = tables.map(|table| std::fs::read_to_string(table).unwrap_or_default()).concat();
        let rows = rows.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
        // The fourth column is the state (0A is LISTEN), the tenth the inode of the socket.
        let listening = rows.filter(|row| row.get(3) == Some(&"0A"));
        let is_own = |row: &Vec<&str>| own.contains(&format!("socket:[{}]", row[9]));
        listening.filter(is_own).count()
    }

    /// Stops it by SIGTERM and asserts success.
    pub(crate) async fn stop(self) {
        let pid = self.child.id().expect("it was not waited for").to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
        let (ended, said) = self.ended().await;
        assert!(ended.success(), "{ended}: {said}");
    }

    /// Waits until it exits, and returns its status and log.
    pub(crate) async fn ended(mut self) -> (ExitStatus, String) {
        let ended = timeout(TIMEOUT, self.child.wait()).await.expect("it ends in time");
        (ended.expect("it can be waited for"), self.said())
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for SchedulerProcess {
    #[expect(clippy::print_stderr, reason = "the test that fails shows it")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} holds:\n{}", self.log.display(), self.said());
        }
    }
}

/// Returns a node on which this number of pods of [`pod`] fit.
pub(crate) fn node(name: &str, pods: usize) -> Value {
    let room = json!({"cpu": pods.to_string(), "memory": "64Gi", "pods": "110"});
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": room, "allocatable": room}})
}

/// Returns a pod that requests one core.
pub(crate) fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
    "metadata": {"name": name, "labels": {"app": name}},
    "spec": {"containers": [{
        "name": "app", "image": "app:1", "resources": {"requests": {"cpu": "1"}},
    }]}})
}

/// Returns the same pod with additional fields in its spec.
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
