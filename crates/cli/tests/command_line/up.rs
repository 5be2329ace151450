//! `jindou up`: a cluster that answers, schedules, and ends when it is told to.

use std::io::{BufRead as _, BufReader};
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::api::WatchEvent;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Folder, jindou};

/// How long the pod may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_mins(1);

/// Ends the program however the test ends.
struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn make(client: &kube::Client, path: &str, object: &Value) {
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(object.to_string().into_bytes()).expect("a request");
    let _: Value = client.request(request).await.expect("it is made");
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

#[tokio::test]
async fn a_pod_is_scheduled_and_runs_and_a_signal_ends_it_well() {
    let folder = Folder::new(&[]);
    let kubeconfig = folder.0.join("kubeconfig");
    let mut command = Command::new(env!("CARGO_BIN_EXE_jindou"));
    command.args(["up", "--nodes", "3", "--kubeconfig"]).arg(&kubeconfig);
    let mut up = Up(command.stdout(Stdio::piped()).spawn().expect("it starts"));
    let mut line = String::new();
    BufReader::new(up.0.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");

    let file = Kubeconfig::read_from(&kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(file, &options).await.expect("a config");
    let client = kube::Client::try_from(config).expect("a client");
    let pods = "/api/v1/namespaces/default/pods";
    let pod =
        json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    make(&client, pods, &pod).await;
    timeout(PATIENCE, one_runs(&client, pods)).await.expect("it runs in time");

    let pid = up.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
    let ended = up.0.wait().expect("it ends");
    assert_eq!(ended.code(), Some(0));
}

#[test]
fn wrong_flags_are_told_before_anything_starts() {
    let folder = Folder::new(&[
        ("groups.yaml", "groups: [{name: a, count: 1, colour: red}]"),
        ("snapshot.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: q}, spec: {}}"),
    ]);
    for (arguments, told) in [
        (&["up", "--nodes", "1000000"][..], "error: --nodes 1000000: at most 100000 are possible"),
        (&["up", "--speed", "0"], "error: --speed 0: must be greater than 0"),
        (&["up", "--config", "none.yaml"], "none.yaml"),
        (&["up", "--node-groups", "groups.yaml"], "groups[0].colour is not known"),
        (&["up", "--snapshot", "snapshot.yaml"], "spec.containers: Required value"),
        (&["up", "--snapshot", "none.yaml"], "cannot read none.yaml"),
    ] {
        let run = jindou(&folder.0, arguments);
        assert_eq!(run.code, 1, "{}", run.text());
        assert!(run.stderr.contains(told), "{}", run.text());
    }
}
