//! `jindou up`: a cluster that answers, schedules and stops on request.

mod apply;
mod command;
mod kubeconfig;
mod sockets;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::api::WatchEvent;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Folder, jindou};

/// Time-out for the pod on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A running `jindou up`; killed when dropped.
struct Up {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Up {
    fn start(arguments: &[&str], folder: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jindou"));
        command.arg("up").args(arguments).current_dir(folder);
        command.env("XDG_RUNTIME_DIR", folder).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, stdout }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        line
    }

    /// Returns its output until `ready`.
    fn until_ready(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = self.line();
            assert_ne!(line, "", "it ended before it was ready: {lines:?}");
            lines.push(line.trim_end().to_owned());
            if line == "ready\n" {
                return lines;
            }
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status().expect("kill runs");
        assert!(sent.success());
    }

    /// Stops it by SIGTERM, and returns its exit code and remaining output.
    fn end(&mut self) -> (Option<i32>, String) {
        self.signal("-TERM");
        let code = self.child.wait().expect("it ends").code();
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("text");
        (code, rest)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a client for the current context of a kubeconfig.
async fn client(path: &Path) -> kube::Client {
    let file = Kubeconfig::read_from(path).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(file, &options).await.expect("a config");
    kube::Client::try_from(config).expect("a client")
}

async fn make(client: &kube::Client, path: &str, object: &Value) {
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(object.to_string().into_bytes()).expect("a request");
    let _: Value = client.request(request).await.expect("it is made");
}

async fn get(client: &kube::Client, path: &str) -> Value {
    let request = http::Request::get(path).body(Vec::new()).expect("a request");
    client.request(request).await.expect("an answer")
}

/// Watches pods until one of them runs.
async fn one_runs(client: &kube::Client, pods: &str) {
    let request = http::Request::get(format!("{pods}?watch=true")).body(Vec::new());
    let events = client.request_events::<Value>(request.expect("a request"));
    let mut events = pin!(events.await.expect("a watch"));
    while let Some(event) = events.try_next().await.expect("an event") {
        if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) = event
            && pod["status"]["phase"] == "Running"
        {
            return;
        }
    }
    panic!("the watch ended before a pod ran");
}

const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "a", "image": "a"}]}})
}

#[tokio::test]
async fn a_pod_runs_and_a_signal_stops_the_cluster() {
    let folder = Folder::new(&[]);
    // A path with a space, which must be quoted.
    let kubeconfig = folder.0.join("the kubeconfig");
    let mut up = Up::start(&["--nodes", "3", "--kubeconfig", "the kubeconfig"], &folder.0);
    let lines = up.until_ready();
    assert!(lines[0].starts_with("API server: https://127.0.0.1:"), "{lines:?}");
    assert_eq!(lines[1], format!("export KUBECONFIG='{}'", kubeconfig.display()));
    assert_eq!(lines.len(), 3, "{lines:?}");

    let client = client(&kubeconfig).await;
    make(&client, PODS, &pod("a")).await;
    timeout(TIMEOUT, one_runs(&client, PODS)).await.expect("it runs in time");

    assert_eq!(up.end(), (Some(0), String::new()));
    assert!(!kubeconfig.exists(), "it was made by the cluster");
}

#[tokio::test]
async fn json_output_is_one_line_and_no_scheduler_leaves_pods_pending() {
    let folder = Folder::new(&[]);
    let mut up = Up::start(&["--nodes", "2", "-o", "json", "--no-scheduler"], &folder.0);
    let about: Value = serde_json::from_str(&up.line()).expect("one line of JSON");
    let path = PathBuf::from(about["kubeconfig"].as_str().expect("a path"));
    assert!(path.starts_with(folder.0.canonicalize().unwrap()) || path.is_absolute());
    assert_eq!((&about["nodes"], &about["scheduler"]), (&json!(2), &json!(false)));
    let client = client(&path).await;
    let port = about["address"].as_str().unwrap().rsplit(':').next().unwrap();
    let file = Kubeconfig::read_from(&path).unwrap();
    assert_eq!(file.current_context, Some(format!("jindou-{port}")));
    // The pod stays pending without a scheduler.
    make(&client, PODS, &pod("a")).await;
    assert_eq!(get(&client, &format!("{PODS}/a")).await["spec"]["nodeName"], Value::Null);
    assert_eq!(up.end(), (Some(0), String::new()));
    assert!(!path.exists());
}

#[test]
fn wrong_flags_are_reported_before_anything_starts() {
    let folder = Folder::new(&[
        ("groups.yaml", "groups: [{name: a, count: 1, colour: red}]"),
        ("bad-label.yaml", "groups: [{name: a, count: 1, labels: {gpu: \"not a label\"}}]"),
        ("node.yaml", "groups: [{name: node, count: 1}]"),
        ("snapshot.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: q}, spec: {}}"),
        ("config", "{apiVersion: v1, kind: Pod}"),
    ]);
    for (arguments, message) in [
        (&["up", "--nodes", "1000000"][..], "error: --nodes 1000000: must be at most 100000"),
        (&["up", "--speed", "0"], "error: --speed 0: must be greater than 0"),
        (&["up", "--config", "none.yaml"], "none.yaml"),
        (&["up", "--node-groups", "groups.yaml"], "groups[0].colour: unknown field"),
        (
            &["up", "--node-groups", "bad-label.yaml"],
            "node \"a-0\" was rejected: Node \"a-0\" is invalid: metadata.labels: Invalid value: \"not a label\"",
        ),
        (&["up", "--node-groups", "node.yaml", "--nodes", "1"], "node \"node-0\" exists already"),
        (&["up", "--snapshot", "snapshot.yaml"], "spec.containers: Required value"),
        (&["up", "--snapshot", "none.yaml"], "cannot read none.yaml"),
        (&["up", "--kubeconfig", "config"], "kind: found \"Pod\", expected \"Config\""),
        (&["up", "--tls-san", "ä ö"], "cannot make a certificate"),
    ] {
        let run = jindou(&folder.0, arguments);
        assert_eq!(run.code, 1, "{}", run.text());
        assert!(run.stderr.contains(message), "{}", run.text());
    }
    let text = std::fs::read_to_string(folder.0.join("config")).unwrap();
    assert_eq!(text, "{apiVersion: v1, kind: Pod}");
}
