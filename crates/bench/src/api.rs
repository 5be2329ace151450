//! Measures API servers side by side: the same requests to kube-apiserver with its etcd and to the sandbox, in turn, by
//! the server's CPU time per operation.

mod report;

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use cli::api_client::{ApiClient, pods_path};
use cli::output::{complain, say};
use controlplane::{
    ControlPlane, ProcessIdentity, RunningControlPlane, SchedulerChoice, StartOptions,
};
use futures::future::try_join_all;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Serialize;
use serde_json::{Value, json};

use self::report::{last_line, summarise, table};
use crate::server::Server;
use crate::workers::for_each_concurrent;

const NAMESPACE: &str = "bench-api";

/// Requests in flight.
const AT_ONCE: usize = 16;

/// Open watches, each of which gets every change.
const WATCHES: usize = 50;

/// Pods in each list.
const LISTED: usize = 1000;

/// Gets for each pod, since a get costs less than other operations.
const GETS_PER_POD: usize = 4;

/// Time for which the CPU use of idle servers is measured, which is subtracted later.
const IDLE_TIME: Duration = Duration::from_secs(5);

/// Time limit of one run of an operation.
const RUN_TIMEOUT: Duration = Duration::from_mins(5);

/// Settings of the measurement.
pub(crate) struct ApiSettings {
    /// Pods to create, patch, bind and delete.
    pub(crate) pods: usize,
    /// Number of rounds; the first one is not counted if there are others.
    pub(crate) rounds: usize,
    /// Fail if a ratio is below this.
    pub(crate) at_least: Option<f64>,
    /// Print JSON instead of a table.
    pub(crate) json: bool,
}

/// The server of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Side {
    KubeApiserver,
    Sandbox,
}

/// Operations, in the order in which they are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Operation {
    Create,
    Get,
    List,
    Patch,
    Watch,
    Bind,
    Delete,
}

const OPERATIONS: [Operation; 7] = [
    Operation::Create,
    Operation::Get,
    Operation::List,
    Operation::Patch,
    Operation::Watch,
    Operation::Bind,
    Operation::Delete,
];

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Watch => "watch",
            Self::Bind => "bind",
            Self::Delete => "delete",
        }
    }

    /// Returns what the figures of this operation count.
    fn unit(self) -> String {
        match self {
            Self::List => format!("lists of {LISTED} pods"),
            Self::Watch => format!("events to {WATCHES} watches, with the patches behind them"),
            _ => "pods".to_owned(),
        }
    }
}

/// One run of an operation on one server.
#[derive(Debug, Serialize)]
struct Run {
    round: usize,
    /// `true` if the run enters the ratios.
    counted: bool,
    side: Side,
    operation: Operation,
    /// Number of operations.
    count: usize,
    seconds: f64,
    /// CPU seconds of the server, without those of an idle server.
    cpu_s: f64,
    per_cpu_second: f64,
}

/// A server with its clients.
struct ServerUnderTest {
    side: Side,
    requests: ApiClient,
    /// Client for watches, on a connection of its own.
    watches: ApiClient,
    processes: Vec<ProcessIdentity>,
    /// CPU seconds per second of the idle server.
    idle: f64,
}

impl ServerUnderTest {
    async fn new(side: Side, kubeconfig: &Path, processes: Vec<ProcessIdentity>) -> Result<Self> {
        let (requests, watches) =
            (ApiClient::connect(kubeconfig).await?, ApiClient::connect(kubeconfig).await?);
        let mut server = Self { side, requests, watches, processes, idle: 0.0 };
        server.prepare().await?;
        let before = server.cpu_seconds()?;
        tokio::time::sleep(IDLE_TIME).await;
        server.idle = (server.cpu_seconds()? - before) / IDLE_TIME.as_secs_f64();
        Ok(server)
    }

    /// Creates the namespace and the service account of the pods.
    async fn prepare(&self) -> Result<()> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        self.requests.create("/api/v1/namespaces", &namespace).await?;
        // Pods are admitted only with a service account, and no controller creates it here.
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
        self.requests.create(&path, &account).await?;
        Ok(())
    }

    fn cpu_seconds(&self) -> Result<f64> {
        let times = self.processes.iter().map(ProcessIdentity::cpu_seconds);
        times.sum::<Option<f64>>().context("a server ended")
    }

    async fn run(
        &self,
        operation: Operation,
        pods: usize,
        round: usize,
        rounds: usize,
    ) -> Result<Run> {
        let (before, began) = (self.cpu_seconds()?, Instant::now());
        let done = tokio::time::timeout(RUN_TIMEOUT, self.act(operation, pods)).await;
        let count = done.with_context(|| format!("{} took too long", operation.name()))??;
        let seconds = began.elapsed().as_secs_f64();
        let cpu_s = (self.cpu_seconds()? - before - self.idle * seconds).max(TICK_S);
        Ok(Run {
            round,
            counted: round > 1 || rounds == 1,
            side: self.side,
            operation,
            count,
            seconds,
            cpu_s,
            per_cpu_second: count as f64 / cpu_s,
        })
    }

    /// Runs an operation for all pods and returns the number of operations.
    async fn act(&self, operation: Operation, pods: usize) -> Result<usize> {
        let path = pods_path(NAMESPACE);
        match operation {
            Operation::Create => {
                for_each_concurrent(0..pods, AT_ONCE, |number| {
                    let path = path.as_str();
                    async move { self.requests.create(path, &pod(number)).await.map(|_| ()) }
                })
                .await?;
                Ok(pods)
            }
            Operation::Get => {
                let gets = pods * GETS_PER_POD;
                self.each_pod(0..gets, |number| (Method::GET, name(number % pods), None)).await?;
                Ok(gets)
            }
            Operation::List => {
                let lists = (pods / 20).max(1);
                let path = format!("{path}?labelSelector=listed%3Dyes");
                for_each_concurrent(0..lists, 4, |_| async {
                    let list = self.requests.send(Method::GET, &path, None, &[]).await?;
                    // A cheap check that the list is complete, since parsing would take the client's CPU time.
                    if list.len() < LISTED.min(pods) * 100 || !list.trim_ascii_end().ends_with(b"}")
                    {
                        bail!("a list of {} bytes is not whole", list.len());
                    }
                    Ok(())
                })
                .await?;
                Ok(lists)
            }
            Operation::Patch => {
                self.patch(0..pods, "patched").await?;
                Ok(pods)
            }
            Operation::Watch => self.watch(pods / 3).await,
            Operation::Bind => {
                self.each_pod(0..pods, |number| {
                    let binding = json!({
                        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name(number)},
                        "target": {"apiVersion": "v1", "kind": "Node", "name": format!("node-{}", number % 100)},
                    });
                    (Method::POST, format!("{}/binding", name(number)), Some(binding))
                })
                .await?;
                Ok(pods)
            }
            Operation::Delete => {
                self.each_pod(0..pods, |number| {
                    (Method::DELETE, format!("{}?gracePeriodSeconds=0", name(number)), None)
                })
                .await?;
                Ok(pods)
            }
        }
    }

    async fn each_pod(
        &self,
        numbers: Range<usize>,
        request: impl Fn(usize) -> (Method, String, Option<Value>),
    ) -> Result<()> {
        let path = pods_path(NAMESPACE);
        for_each_concurrent(numbers, AT_ONCE, |number| {
            let (method, rest, body) = request(number);
            let path = format!("{path}/{rest}");
            async move { self.requests.send(method, &path, body.as_ref(), &[]).await.map(|_| ()) }
        })
        .await
    }

    async fn patch(&self, numbers: Range<usize>, label: &str) -> Result<()> {
        self.each_pod(numbers, |number| {
            let patch = json!({"metadata": {"labels": {label: format!("{number}")}}});
            (Method::PATCH, name(number), Some(patch))
        })
        .await
    }

    /// Patches pods with all watches open, and returns the number of events that the watches got.
    async fn watch(&self, changes: usize) -> Result<usize> {
        let list = self.requests.get(&format!("{}?limit=1", pods_path(NAMESPACE))).await?;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let path = format!("{}?watch=true&resourceVersion={version}", pods_path(NAMESPACE));
        let opened = (0..WATCHES).map(|_| async {
            let request = Request::get(path.as_str()).body(Body::empty())?;
            anyhow::Ok(self.watches.client().send(request).await?.into_body())
        });
        let watches = try_join_all(opened).await?;
        let reads = watches.into_iter().map(|mut body| async move {
            let mut seen = 0;
            while seen < changes {
                let Some(frame) = body.frame().await else {
                    bail!("a watch ended after {seen} of {changes} events")
                };
                if let Ok(data) = frame?.into_data() {
                    // The only line feed of an event is at its end.
                    seen += data.split(|byte| *byte == b'\n').count() - 1;
                }
            }
            anyhow::Ok(seen)
        });
        let (patched, seen) = tokio::join!(self.patch(0..changes, "watched"), try_join_all(reads));
        patched?;
        Ok(seen?.into_iter().sum())
    }
}

/// Resolution of the kernel's CPU time, in seconds.
const TICK_S: f64 = 0.01;

/// Runs the measurement and prints the results.
pub(crate) async fn run(settings: &ApiSettings) -> Result<()> {
    if settings.pods < LISTED {
        bail!("{} pods are too few: lists have {LISTED}", settings.pods);
    }
    if cfg!(debug_assertions) {
        complain("warning: this is a debug build; its figures say nothing");
    }
    complain("starting kube-apiserver with etcd …");
    let running = start_upstream().await?;
    let upstream: Vec<ProcessIdentity> =
        running.plane.processes.iter().map(|(_, identity)| identity.clone()).collect();
    let server = tokio::task::spawn_blocking(|| Server::start(false)).await??;
    let servers = [
        ServerUnderTest::new(Side::KubeApiserver, &running.plane.kubeconfig, upstream).await?,
        ServerUnderTest::new(Side::Sandbox, &server.kubeconfig, vec![server.identity.clone()])
            .await?,
    ];
    let mut runs = Vec::new();
    for round in 1..=settings.rounds {
        for operation in OPERATIONS {
            for server in &servers {
                let run = server.run(operation, settings.pods, round, settings.rounds).await;
                let run =
                    run.with_context(|| format!("{:?}: {}", server.side, operation.name()))?;
                complain(&format!(
                    "round {round} of {}: {}: {:?}: {:.0} per CPU second, {} in {:.1} s",
                    settings.rounds,
                    operation.name(),
                    run.side,
                    run.per_cpu_second,
                    run.count,
                    run.seconds
                ));
                if settings.json {
                    say(&(serde_json::to_string(&run)? + "\n"))?;
                }
                runs.push(run);
            }
        }
    }
    drop((servers, server));
    tokio::task::spawn_blocking(move || running.stop()).await??;
    let summaries = summarise(&runs);
    if settings.json {
        for summary in &summaries {
            say(&(serde_json::to_string(summary)? + "\n"))?;
        }
    } else {
        say(&format!("{}{}\n", table(&summaries), last_line(&summaries)))?;
    }
    let least = summaries.iter().map(|summary| summary.ratio).fold(f64::INFINITY, f64::min);
    match settings.at_least {
        Some(wanted) if least < wanted => bail!("the least ratio is {least:.1}, not {wanted}"),
        _ => Ok(()),
    }
}

async fn start_upstream() -> Result<RunningControlPlane> {
    let options = StartOptions {
        kwok: false,
        controllers: false,
        ..StartOptions::owned(SchedulerChoice::None)?
    };
    Ok(tokio::task::spawn_blocking(move || ControlPlane::start(&options)).await??)
}

fn name(number: usize) -> String {
    format!("pod-{number}")
}

/// Returns a pod; the first [`LISTED`] have the label `listed=yes`.
fn pod(number: usize) -> Value {
    let listed = if number < LISTED { "yes" } else { "no" };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name(number), "labels": {"app": "bench", "listed": listed}},
        "spec": {"containers": [{
            "name": "app", "image": "registry.k8s.io/pause:3.10",
            "ports": [{"containerPort": 80}],
            "env": [{"name": "MODE", "value": "bench"}],
            "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}, "limits": {"memory": "500Mi"}},
        }]},
    })
}
