//! The nodes and pods of one family on a control plane.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use cli::api_client::{ApiClient, pods_path};
use cli::output::complain;
use engine::change::Change;
use engine::object::Labels;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::manifest;
use super::observer::Observer;
use super::place::Place;
use crate::families::Family;
use crate::workers::{WORKERS, for_each_concurrent};
use crate::{metrics, placements};

/// Binds under way at once when the API server's limit is looked for: a connection's worth.
const BINDS_AT_ONCE: usize = 100;

/// Pods that are bound for it.
const RAW_PODS_MAX: usize = 5000;

/// How long the cluster may take to show what was made, and nodes to lose the taints that they are
/// admitted with.
const PATIENCE: Duration = Duration::from_mins(1);

/// Violations that are shown.
const SHOWN_MAX: usize = 5;

/// A workload as Kubernetes objects.
pub(super) struct Work {
    family: &'static str,
    namespaces: Vec<(String, Value)>,
    nodes: Vec<Value>,
    initial: Vec<Made>,
    measured: Vec<Made>,
}

/// A pod that can be created.
pub(super) struct Made {
    /// Its namespace.
    pub(super) namespace: String,
    /// Its name.
    pub(super) name: String,
    /// All of it.
    pub(super) object: Value,
}

/// Makes the objects of a family; fails if it has some that cannot be made live.
pub(super) fn prepare(family: &'static Family, nodes: usize, pods: Option<usize>) -> Result<Work> {
    let work = (family.work)(nodes);
    let refuse = |why: &str| anyhow::anyhow!("{} cannot be measured live: {why}", family.name);
    let mut namespaces: BTreeMap<String, Labels> = BTreeMap::new();
    for change in work.objects {
        match change {
            Change::Namespace(found) => {
                namespaces.insert(found.name.to_string(), found.labels);
            }
            _ => return Err(refuse("it needs more than nodes, pods and namespaces")),
        }
    }
    let nodes: Vec<Value> = work.nodes.map(|node| manifest::node(&node)).collect();
    let make = |pod: engine::object::Pod| -> Result<Made> {
        let object = manifest::pod(&pod).map_err(|why| refuse(&why.to_string()))?;
        Ok(Made { namespace: pod.namespace.to_string(), name: pod.name.to_string(), object })
    };
    // Those that are there before take turns on the nodes, which all families' constraints allow.
    let names: Vec<String> = nodes.iter().map(|node| text(node, "name")).collect();
    let initial = work.initial.zip(names.iter().cycle()).map(|(mut pod, node)| {
        pod.node = (&**node).into();
        make(pod)
    });
    // Those that wait stay there, so they come with those that were there before.
    let initial = initial.chain(work.waiting.map(make)).collect::<Result<Vec<_>>>()?;
    let measured = work.measured.take(pods.unwrap_or(usize::MAX)).map(make);
    let measured = measured.collect::<Result<Vec<_>>>()?;
    if pods.is_some_and(|pods| pods > measured.len()) {
        bail!(
            "{} has {} pods for {} nodes; give fewer --pods or more --nodes",
            family.name,
            measured.len(),
            nodes.len()
        );
    }
    if measured.is_empty() {
        bail!("{} has no pods for {} nodes; give more --nodes", family.name, nodes.len());
    }
    for made in initial.iter().chain(&measured) {
        namespaces.entry(made.namespace.clone()).or_default();
    }
    let namespaces = namespaces.into_iter().map(|(name, labels)| {
        let object = manifest::namespace(&name, &labels);
        (name, object)
    });
    let namespaces = namespaces.collect();
    Ok(Work { family: family.name, namespaces, nodes, initial, measured })
}

/// A workload that is set up.
pub(super) struct Stage {
    work: Work,
    /// As an administrator.
    pub(super) requests: ApiClient,
    /// As a scheduler.
    scheduler: ApiClient,
    /// Sees binds.
    pub(super) observer: Observer,
    /// Namespaces that were not there before.
    made: Vec<String>,
}

impl Stage {
    /// Creates namespaces, nodes and the pods that are there before. Nodes of others would take pods, so there may be none.
    pub(super) async fn set(place: &Place, work: Work) -> Result<Self> {
        let requests = ApiClient::connect(&place.kubeconfig).await?;
        let scheduler = ApiClient::connect(&place.scheduler_kubeconfig).await?;
        let others = requests.get("/api/v1/nodes?limit=1").await?;
        if others["items"].as_array().is_some_and(|nodes| !nodes.is_empty()) {
            bail!("the cluster has nodes already; measuring needs one without");
        }
        let observer = Observer::start(ApiClient::connect(&place.kubeconfig).await?).await?;
        let mut stage = Self { work, requests, scheduler, observer, made: Vec::new() };
        complain(&format!(
            "{}: making {} nodes and {} pods that are there before …",
            stage.work.family,
            stage.work.nodes.len(),
            stage.work.initial.len()
        ));
        stage.make_namespaces().await?;
        stage.make_nodes().await?;
        for_each_concurrent(&stage.work.initial, WORKERS, |made| async {
            stage.requests.create(&pods_path(&made.namespace), &made.object).await.map(|_| ())
        })
        .await?;
        let bound =
            stage.work.initial.iter().filter(|made| !made.object["spec"]["nodeName"].is_null());
        tokio::time::timeout(PATIENCE, stage.observer.wait(bound.count()))
            .await
            .context("the watch does not show the pods that were made")??;
        stage.observer.take();
        Ok(stage)
    }

    /// Name of the family.
    pub(super) fn family(&self) -> &'static str {
        self.work.family
    }

    /// How many nodes there are.
    pub(super) fn nodes(&self) -> usize {
        self.work.nodes.len()
    }

    /// How many pods are measured.
    pub(super) fn pods(&self) -> usize {
        self.work.measured.len()
    }

    /// The pods that are measured.
    pub(super) fn measured(&self) -> &[Made] {
        &self.work.measured
    }

    async fn make_namespaces(&mut self) -> Result<()> {
        for (name, object) in &self.work.namespaces {
            if !self.requests.create("/api/v1/namespaces", object).await?.is_empty() {
                self.made.push(name.clone());
            }
            // Without a service account no pod is admitted, and there may be no controller that makes one.
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
            let path = format!("/api/v1/namespaces/{name}/serviceaccounts");
            self.requests.create(&path, &account).await?;
        }
        Ok(())
    }

    async fn make_nodes(&self) -> Result<()> {
        for_each_concurrent(&self.work.nodes, WORKERS, |node| async {
            self.requests.create("/api/v1/nodes", node).await?;
            // Nodes are admitted as not ready, whatever they say.
            let path = format!("/api/v1/nodes/{}", text(node, "name"));
            let patch = json!({"spec": {"taints": node["spec"]["taints"]}});
            self.requests.send(Method::PATCH, &path, Some(&patch), &[]).await.map(|_| ())
        })
        .await?;
        let deadline = Instant::now() + PATIENCE;
        let taints = |nodes: &[Value]| -> usize {
            nodes.iter().map(|n| n["spec"]["taints"].as_array().map_or(0, Vec::len)).sum()
        };
        while taints(&self.requests.list("/api/v1/nodes").await?) != taints(&self.work.nodes) {
            if Instant::now() > deadline {
                bail!("nodes do not get ready; controllers want a kubelet or kwok for them");
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Ok(())
    }

    /// Creates the pods that are measured. Nobody may bind them yet.
    pub(super) async fn make_pods(&self) -> Result<()> {
        self.observer.take();
        for_each_concurrent(&self.work.measured, WORKERS, |made| async {
            self.requests.create(&pods_path(&made.namespace), &made.object).await.map(|_| ())
        })
        .await?;
        match self.observer.take().bound.len() {
            0 => Ok(()),
            count => bail!("another scheduler bound {count} pods; end it first"),
        }
    }

    /// Deletes the pods that are measured, and all events.
    pub(super) async fn delete_pods(&self) -> Result<()> {
        for_each_concurrent(&self.work.measured, WORKERS, |made| async {
            self.requests.delete(&format!("{}/{}", pods_path(&made.namespace), made.name)).await
        })
        .await?;
        for (namespace, _) in &self.work.namespaces {
            for path in ["api/v1", "apis/events.k8s.io/v1"] {
                let path = format!("/{path}/namespaces/{namespace}/events");
                self.requests.send(Method::DELETE, &path, None, &[StatusCode::NOT_FOUND]).await?;
            }
        }
        self.observer.take();
        Ok(())
    }

    /// How many pods the API server binds in a second when nobody decides anything.
    pub(super) async fn raw_binds_per_second(&self) -> Result<f64> {
        self.make_pods().await?;
        let began = Instant::now();
        let pods = &self.work.measured[..self.work.measured.len().min(RAW_PODS_MAX)];
        for_each_concurrent(
            pods.iter().zip(self.work.nodes.iter().cycle()),
            BINDS_AT_ONCE,
            |(made, node)| async {
                let binding = json!({
                    "apiVersion": "v1", "kind": "Binding",
                    "metadata": {"name": made.name},
                    "target": {"kind": "Node", "name": text(node, "name")},
                });
                let path = format!("{}/{}/binding", pods_path(&made.namespace), made.name);
                self.scheduler.send(Method::POST, &path, Some(&binding), &[]).await.map(|_| ())
            },
        )
        .await
        .context("binding without deciding")?;
        let rate = pods.len() as f64 / began.elapsed().as_secs_f64();
        self.delete_pods().await?;
        Ok(rate)
    }

    /// Checks where all pods are and tells what is wrong with that.
    pub(super) async fn violations(&self) -> Result<usize> {
        let nodes = self.requests.list("/api/v1/nodes").await?;
        let namespaces = self.requests.list("/api/v1/namespaces").await?;
        let pods = self.requests.list("/api/v1/pods").await?;
        let wrong = placements::violations(&nodes, &pods, &namespaces)?;
        tell(&wrong);
        Ok(wrong.len())
    }

    /// How many pods were bound since the API server started, and how many events written.
    pub(super) async fn written(&self) -> Result<(u64, u64)> {
        let text = self.requests.get_text("/metrics").await?;
        let count =
            |labels: &[(&str, &str)]| metrics::sum(&text, "apiserver_request_total", labels);
        let created = ("code", "201");
        let binds = count(&[("resource", "pods"), ("subresource", "binding"), created]);
        let events = count(&[("resource", "events"), created]);
        Ok((binds as u64, events as u64))
    }

    /// Deletes everything that was made but namespaces, and names those: the next family may use them.
    pub(super) async fn clear(self) -> Result<Vec<String>> {
        self.delete_pods().await?;
        for_each_concurrent(&self.work.initial, WORKERS, |made| async {
            self.requests.delete(&format!("{}/{}", pods_path(&made.namespace), made.name)).await
        })
        .await?;
        for_each_concurrent(&self.work.nodes, WORKERS, |node| async {
            self.requests.delete(&format!("/api/v1/nodes/{}", text(node, "name"))).await
        })
        .await?;
        Ok(self.made)
    }
}

/// Shows some of what is wrong.
pub(super) fn tell(wrong: &[String]) {
    for line in wrong.iter().take(SHOWN_MAX) {
        complain(&format!("violation: {line}"));
    }
    if wrong.len() > SHOWN_MAX {
        complain(&format!("… and {} more", wrong.len() - SHOWN_MAX));
    }
}

fn text(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or("").to_owned()
}
