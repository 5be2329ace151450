//! The scheduler's own `up`: pods of all plugins on a live cluster.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use http::{Method, Request};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

/// Time-out of every wait, on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(1);

const PODS: &str = "/api/v1/namespaces/default/pods";

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_custom-scheduler"));
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null());
    command
}

/// A running `up`; killed when dropped.
struct Live {
    up: Child,
    kubeconfig: String,
    client: kube::Client,
    _folder: tempfile::TempDir,
}

impl Live {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut up = program(&["up", "--nodes", "3", "--config", "config.yaml", "-o", "json"])
            .env("XDG_RUNTIME_DIR", folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let mut stdout = BufReader::new(up.stdout.take().expect("a pipe"));
        stdout.read_line(&mut line).expect("a line");
        let about: Value = serde_json::from_str(&line).expect("JSON");
        let kubeconfig = about["kubeconfig"].as_str().expect("a path").to_owned();
        let file = Kubeconfig::read_from(&kubeconfig).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(file, &options).await.expect("a config");
        let client = kube::Client::try_from(config).expect("a client");
        Self { up, kubeconfig, client, _folder: folder }
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json").body(Body::from(body));
        let response = self.client.send(request.expect("a request")).await.expect("an answer");
        assert!(response.status().is_success(), "{path}: {}", response.status());
        let bytes = response.into_body().collect_bytes().await.expect("a body");
        serde_json::from_slice(&bytes).expect("JSON")
    }

    /// Creates a pod with one annotation.
    async fn create(&self, name: &str, profile: &str, annotation: (&str, &str)) {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": {annotation.0: annotation.1}},
            "spec": {"schedulerName": profile, "containers": [{"name": "main", "image": "main"}]}});
        self.send(Method::POST, PODS, &pod).await;
    }

    async fn delete(&self, name: &str) {
        let now = json!({"gracePeriodSeconds": 0});
        self.send(Method::DELETE, &format!("{PODS}/{name}"), &now).await;
    }

    async fn pod(&self, name: &str) -> Value {
        self.send(Method::GET, &format!("{PODS}/{name}"), &Value::Null).await
    }

    /// Waits until a condition on a pod holds, and returns the pod.
    async fn until(&self, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut pod = Value::Null;
        let wait = async {
            loop {
                pod = self.pod(name).await;
                if holds(&pod) {
                    break;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        let in_time = timeout(TIMEOUT, wait).await.is_ok();
        assert!(in_time, "the condition on {name} does not hold: {pod:#}");
        pod
    }

    async fn bound(&self, name: &str) {
        self.until(name, is_bound).await;
    }

    /// Waits until a pod is refused with a text.
    async fn refused(&self, name: &str, text: &str) {
        let refused = |pod: &Value| pod["status"]["conditions"].to_string().contains(text);
        let pod = self.until(name, refused).await;
        assert!(!is_bound(&pod), "{pod:#}");
    }

    /// Runs `explain pod/NAME` on the cluster.
    fn explain(&self, name: &str) -> Value {
        let pod = format!("pod/{name}");
        let arguments = ["explain", &pod, "-o", "json", "--config", "config.yaml", "--kubeconfig"];
        let output = program(&arguments).arg(&self.kubeconfig).output().expect("it runs");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.up.kill();
        let _ = self.up.wait();
    }
}

fn is_bound(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_string()
}

#[tokio::test]
async fn licences_are_counted_over_both_profiles() {
    let live = Live::start().await;
    let licence = ("example.com/licence", "matlab");
    live.create("a", "default-scheduler", licence).await;
    live.bound("a").await;
    live.create("b", "batch", licence).await;
    live.bound("b").await;
    for (name, profile) in [("c", "default-scheduler"), ("d", "batch")] {
        live.create(name, profile, licence).await;
        live.refused(name, "2 of 2 seats of matlab were taken").await;
        let answer = live.explain(name);
        assert_eq!((&answer["selected"], &answer["scheduler"]), (&json!(""), &json!(profile)));
        assert_eq!(answer["nodes"]["node-0"]["plugin"], "Licences", "{answer:#}");
    }
    live.delete("c").await;
    live.delete("b").await;
    live.bound("d").await;
}

#[tokio::test]
async fn a_pair_is_bound_together() {
    let live = Live::start().await;
    let pair = ("example.com/pair", "p");
    live.create("a", "default-scheduler", pair).await;
    let nominated = |pod: &Value| pod["status"]["nominatedNodeName"].is_string();
    let waiting = live.until("a", nominated).await;
    assert!(!is_bound(&waiting), "{waiting:#}");
    let answer = live.explain("a");
    assert_eq!(answer["objections"][0]["plugin"], "Pairs", "{answer:#}");
    live.create("b", "default-scheduler", pair).await;
    live.bound("a").await;
    live.bound("b").await;
}

#[tokio::test]
async fn a_pod_is_bound_when_its_hours_begin() {
    let live = Live::start().await;
    live.create("wrong", "default-scheduler", ("example.com/hours", "9 to 5")).await;
    live.refused("wrong", "found \\\"9 to 5\\\"").await;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock").as_secs();
    let clock = |minute: u64| format!("{:02}:{:02}", minute / 60 % 24, minute % 60);
    // Hours that begin with the next minute but one hold for the pod to be refused before.
    let begin = now / 60 + 1 + u64::from(now % 60 > 50);
    let hours = format!("{}-{}", clock(begin), clock(begin + 60));
    live.create("day", "default-scheduler", ("example.com/hours", &hours)).await;
    live.refused("day", "the pod is outside of its hours").await;
    assert_eq!(live.explain("day")["nodes"]["node-0"]["plugin"], "BusinessHours");
    let left = Duration::from_secs((begin * 60).saturating_sub(now));
    let started = Instant::now();
    let deadline = started + left + TIMEOUT;
    while !is_bound(&live.pod("day").await) {
        assert!(Instant::now() < deadline, "it is not bound {TIMEOUT:?} after its hours began");
        sleep(Duration::from_millis(50)).await;
    }
    let after = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock");
    assert!(after.as_secs() >= begin * 60, "it was bound before its hours");
}
