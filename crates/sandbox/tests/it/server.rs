//! A sandbox and a client for one test.

use std::path::PathBuf;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use sandbox::{Options, Sandbox};
use serde_json::{Value, json};

/// Time-out of each wait.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(3);

/// Returns the path of an upstream program if `cargo xtask controlplane` has built it. CI has built all.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let programs = controlplane::installed_programs().expect("the cache can be read");
    assert!(programs.is_some() || std::env::var_os("CI").is_none(), "{name} was not built");
    programs.map(|folder| folder.join(name))
}

/// A sandbox and a client of it.
pub(crate) struct TestServer {
    pub(crate) sandbox: Sandbox,
    pub(crate) client: kube::Client,
}

impl TestServer {
    pub(crate) async fn new(nodes: usize) -> Self {
        Self::with(&Options { nodes, ..Options::default() }).await
    }

    pub(crate) async fn with(options: &Options) -> Self {
        Self::of(Sandbox::start(options).await.expect("it starts")).await
    }

    /// Creates a client of a running sandbox.
    pub(crate) async fn of(sandbox: Sandbox) -> Self {
        let kubeconfig = Kubeconfig::from_yaml(&sandbox.kubeconfig()).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options);
        let mut config = config.await.expect("a config");
        // Tests check every response, so nothing is retried.
        config.default_retry = false;
        let client = kube::Client::try_from(config).expect("a client");
        Self { sandbox, client }
    }

    /// Sends a request. Returns status and body.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: impl Into<Vec<u8>>,
    ) -> (StatusCode, Value) {
        let mut request = Request::builder().method(method).uri(path);
        if !kind.is_empty() {
            request = request.header("content-type", kind);
        }
        let request = request.body(Body::from(body.into())).expect("a request");
        let response = tokio::time::timeout(TIMEOUT, self.client.send(request))
            .await
            .expect("an answer in time")
            .expect("an answer");
        let status = response.status();
        let bytes = response.into_body().collect_bytes().await.expect("a body");
        let value = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into());
        (status, value)
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.send(Method::GET, path, "", "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        self.send(Method::POST, path, "application/json", body.to_string()).await
    }

    pub(crate) async fn patch(&self, path: &str, form: &str, body: &Value) -> (StatusCode, Value) {
        self.send(Method::PATCH, path, &format!("application/{form}"), body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> (StatusCode, Value) {
        self.send(Method::DELETE, path, "", "").await
    }

    /// Creates an object, which must succeed.
    pub(crate) async fn create(&self, path: &str, body: &Value) -> Value {
        let (status, value) = self.post(path, body).await;
        assert_eq!(status, 201, "{path}: {value}");
        value
    }

    /// Waits until a condition on the object at a path holds.
    pub(crate) async fn wait_until(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..600 {
            last = self.get(path).await.1;
            if holds(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("timed out waiting for {path}; last: {last:#}");
    }

    pub(crate) async fn stop(self) {
        drop(self.client);
        self.sandbox.stop().await;
    }
}

pub(crate) fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]}})
}

pub(crate) fn deployment(name: &str, replicas: u64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}}}})
}

/// Binds every unbound pod to some node, without checking whether it fits.
pub(crate) async fn bind_pods(server: &TestServer) -> tokio::task::JoinHandle<()> {
    let cluster = std::sync::Arc::clone(&server.sandbox.cluster);
    let client = server.client.clone();
    tokio::spawn(async move {
        let (pods, nodes) = (cluster.resource("", "pods"), cluster.resource("", "nodes"));
        let mut updates = pods.objects.subscribe();
        loop {
            let placed = nodes.objects.list("").objects;
            for (number, pod) in pods.objects.list("").objects.iter().enumerate() {
                if pod.field_named("spec.nodeName").is_empty()
                    && !pod.deleting
                    && !placed.is_empty()
                {
                    let affinity = &pod.value()["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
                    let wanted = affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
                        .as_str()
                        .map(str::to_owned);
                    let node =
                        wanted.unwrap_or_else(|| placed[number % placed.len()].name.to_string());
                    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": &*pod.name}, "target": {"kind": "Node", "name": node}});
                    let path =
                        format!("/api/v1/namespaces/{}/pods/{}/binding", pod.namespace, pod.name);
                    let request = Request::post(path).header("content-type", "application/json");
                    let request = request
                        .body(Body::from(binding.to_string().into_bytes()))
                        .expect("a request");
                    if client.send(request).await.is_err() {
                        return;
                    }
                }
            }
            if updates.changed().await.is_err() {
                return;
            }
        }
    })
}
