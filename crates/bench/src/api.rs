//! API servers side by side: the same requests to kube-apiserver with its etcd and to the sandbox, in
//! turn, each counted by the processor time that the server needs for it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use cli::api_client::{ApiClient, pods_path};
use cli::output::{columns, complain, say};
use controlplane::{
    ControlPlane, ProcessIdentity, RunningControlPlane, SchedulerChoice, StartOptions,
};
use futures::future::try_join_all;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Serialize;
use serde_json::{Value, json};

use crate::server::Server;
use crate::workers::for_each_concurrent;

const NAMESPACE: &str = "bench-api";

/// Requests at once.
const AT_ONCE: usize = 16;

/// Watches that each see every change.
const WATCHES: usize = 50;

/// Pods in a list.
const LISTED: usize = 1000;

/// Reads of one pod for each pod, since they cost less.
const GETS_PER_POD: usize = 4;

/// How long servers are watched doing nothing, to know what they need for that.
const IDLE_TIME: Duration = Duration::from_secs(5);

/// How long an operation may take.
const PATIENCE: Duration = Duration::from_mins(5);

/// What to measure.
pub(crate) struct Plan {
    /// Pods to create, patch, bind and delete.
    pub(crate) pods: usize,
    /// How often each side does everything; the first time does not count if there are others.
    pub(crate) rounds: usize,
    /// Fail when the sandbox is not so many times as good at everything.
    pub(crate) at_least: Option<f64>,
    /// Whether to print objects for programs.
    pub(crate) json: bool,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Side {
    KubeApiserver,
    Sandbox,
}

/// What is asked for, in this order.
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

    /// What is counted.
    fn unit(self) -> String {
        match self {
            Self::List => format!("lists of {LISTED} pods"),
            Self::Watch => format!("events to {WATCHES} watches, with the patches behind them"),
            _ => "pods".to_owned(),
        }
    }
}

/// One operation, many times, on one side.
#[derive(Debug, Serialize)]
struct Run {
    round: usize,
    /// Whether it enters the ratios.
    counted: bool,
    side: Side,
    operation: Operation,
    /// How often it was done.
    count: usize,
    seconds: f64,
    /// Processor seconds of the server, without those that it needs for nothing.
    cpu_s: f64,
    per_cpu_second: f64,
}

/// What all runs of an operation say.
#[derive(Debug, PartialEq, Serialize)]
struct Closing {
    operation: Operation,
    /// Medians of operations for a processor second.
    kube_apiserver: f64,
    sandbox: f64,
    /// Median of the ratios of runs beside each other, and the least of them.
    ratio: f64,
    ratio_worst: f64,
}

/// A server and how to ask it.
struct Contender {
    side: Side,
    requests: ApiClient,
    /// Watches have a connection of their own, as those of a client do.
    watches: ApiClient,
    processes: Vec<ProcessIdentity>,
    /// Processor seconds in a second of doing nothing.
    idle: f64,
}

impl Contender {
    async fn new(side: Side, kubeconfig: &Path, processes: Vec<ProcessIdentity>) -> Result<Self> {
        let (requests, watches) =
            (ApiClient::connect(kubeconfig).await?, ApiClient::connect(kubeconfig).await?);
        let mut contender = Self { side, requests, watches, processes, idle: 0.0 };
        contender.prepare().await?;
        let before = contender.cpu_seconds()?;
        tokio::time::sleep(IDLE_TIME).await;
        contender.idle = (contender.cpu_seconds()? - before) / IDLE_TIME.as_secs_f64();
        Ok(contender)
    }

    /// Makes what pods need.
    async fn prepare(&self) -> Result<()> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        self.requests.create("/api/v1/namespaces", &namespace).await?;
        // Without a service account no pod is admitted, and there is no controller that makes one.
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
        let done = tokio::time::timeout(PATIENCE, self.act(operation, pods)).await;
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

    /// Does it for all pods; how often that was.
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
                    // Looking at its end costs nothing, and shows that it is whole.
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

    /// Patches pods while many watch; how many events they got.
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
                    // An event ends with the only line feed in it.
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

/// How finely the system counts processor time.
const TICK_S: f64 = 0.01;

/// Measures and prints.
pub(crate) async fn run(plan: &Plan) -> Result<()> {
    if plan.pods < LISTED {
        bail!("{} pods are too few: lists have {LISTED}", plan.pods);
    }
    if cfg!(debug_assertions) {
        complain("warning: this is a debug build; its figures say nothing");
    }
    complain("starting kube-apiserver with etcd …");
    let running = start_upstream().await?;
    let upstream: Vec<ProcessIdentity> =
        running.plane.processes.iter().map(|(_, identity)| identity.clone()).collect();
    let server = tokio::task::spawn_blocking(|| Server::start(false)).await??;
    let contenders = [
        Contender::new(Side::KubeApiserver, &running.plane.kubeconfig, upstream).await?,
        Contender::new(Side::Sandbox, &server.kubeconfig, vec![server.identity.clone()]).await?,
    ];
    let mut runs = Vec::new();
    for round in 1..=plan.rounds {
        for operation in OPERATIONS {
            for contender in &contenders {
                let run = contender.run(operation, plan.pods, round, plan.rounds).await;
                let run =
                    run.with_context(|| format!("{:?}: {}", contender.side, operation.name()))?;
                complain(&format!(
                    "round {round} of {}: {}: {:?}: {:.0} for a processor second, {} in {:.1} s",
                    plan.rounds,
                    operation.name(),
                    run.side,
                    run.per_cpu_second,
                    run.count,
                    run.seconds
                ));
                if plan.json {
                    say(&(serde_json::to_string(&run)? + "\n"))?;
                }
                runs.push(run);
            }
        }
    }
    drop((contenders, server));
    tokio::task::spawn_blocking(move || running.stop()).await??;
    let closings = close(&runs);
    if plan.json {
        for closing in &closings {
            say(&(serde_json::to_string(closing)? + "\n"))?;
        }
    } else {
        say(&format!("{}{}\n", table(&closings), last_line(&closings)))?;
    }
    let least = closings.iter().map(|closing| closing.ratio).fold(f64::INFINITY, f64::min);
    match plan.at_least {
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

fn close(runs: &[Run]) -> Vec<Closing> {
    let mut by_operation: BTreeMap<Operation, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.counted) {
        let (kube, sandbox) = by_operation.entry(run.operation).or_default();
        match run.side {
            Side::KubeApiserver => kube.push(run.per_cpu_second),
            Side::Sandbox => sandbox.push(run.per_cpu_second),
        }
    }
    let close = |(operation, (kube, sandbox)): (Operation, (Vec<f64>, Vec<f64>))| {
        let ratios: Vec<f64> = kube.iter().zip(&sandbox).map(|(kube, own)| own / kube).collect();
        Some(Closing {
            operation,
            kube_apiserver: super::live::median(kube)?,
            sandbox: super::live::median(sandbox)?,
            ratio: super::live::median(ratios.iter().copied())?,
            ratio_worst: ratios.into_iter().fold(f64::INFINITY, f64::min),
        })
    };
    by_operation.into_iter().filter_map(close).collect()
}

fn table(closings: &[Closing]) -> String {
    let head = ["OPERATION", "KUBE-APISERVER", "SANDBOX", "RATIO", "WORST", "FOR A CPU SECOND"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for closing in closings {
        rows.push(vec![
            closing.operation.name().to_owned(),
            format!("{:.0}", closing.kube_apiserver),
            format!("{:.0}", closing.sandbox),
            format!("{:.1}", closing.ratio),
            format!("{:.1}", closing.ratio_worst),
            closing.operation.unit(),
        ]);
    }
    columns(&rows)
}

fn last_line(closings: &[Closing]) -> String {
    let by_ratio = |one: &&Closing, other: &&Closing| one.ratio.total_cmp(&other.ratio);
    let (Some(least), Some(most)) =
        (closings.iter().min_by(by_ratio), closings.iter().max_by(by_ratio))
    else {
        return "nothing was counted".to_owned();
    };
    format!(
        "For a second of processor time the sandbox does {:.1} ({}) to {:.1} ({}) times what kube-apiserver and etcd do.",
        least.ratio,
        least.operation.name(),
        most.ratio,
        most.operation.name()
    )
}

fn name(number: usize) -> String {
    format!("pod-{number}")
}

/// A pod as a replica set makes it; some can be listed by a label.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn runs() -> Vec<Run> {
        let mut runs = Vec::new();
        for (round, kube, sandbox) in [(1, 1.0, 1.0), (2, 500.0, 10_000.0), (3, 1000.0, 11_000.0)] {
            for (side, rate) in [(Side::KubeApiserver, kube), (Side::Sandbox, sandbox)] {
                for (operation, factor) in [(Operation::Get, 2.0), (Operation::Create, 1.0)] {
                    runs.push(Run {
                        round,
                        counted: round > 1,
                        side,
                        operation,
                        count: 1000,
                        seconds: 1.0,
                        cpu_s: 1000.0 / rate,
                        per_cpu_second: rate * if side == Side::Sandbox { factor } else { 1.0 },
                    });
                }
            }
        }
        runs
    }

    #[test]
    fn ratios_are_medians_of_pairs_and_the_first_pair_does_not_count() {
        let closings = close(&runs());
        let create = Closing {
            operation: Operation::Create,
            kube_apiserver: 750.0,
            sandbox: 10_500.0,
            ratio: 15.5,
            ratio_worst: 11.0,
        };
        assert_eq!(closings[0], create);
        assert_eq!((closings[1].operation, closings[1].ratio), (Operation::Get, 31.0));
        assert!(close(&[]).is_empty());
    }

    #[test]
    fn tables_are_for_people() {
        let closings = close(&runs());
        let table = table(&closings);
        let lines: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["create", "750", "10500", "15.5", "11.0", "pods"]);
        assert_eq!(lines[2][..4], ["get", "750", "21000", "31.0"]);
        assert_eq!(
            last_line(&closings),
            "For a second of processor time the sandbox does 15.5 (create) to 31.0 (get) times what kube-apiserver and etcd do."
        );
        assert_eq!(last_line(&[]), "nothing was counted");
    }
}
