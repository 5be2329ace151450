//! The nodes and pods of one family on a control plane.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use cli::api_client::{ApiClient, pods_path};
use cli::output::complain;
use engine::change::Change;
use engine::object::{ClusterObject, Labels};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::cluster::LiveCluster;
use super::manifest;
use super::observer::Observer;
use crate::families::Family;
use crate::workers::{WORKERS, for_each_concurrent};
use crate::{metrics, placements};

/// Binds in flight when the API server's limit is measured: as many as one connection allows.
const BINDS_AT_ONCE: usize = 100;

/// Maximum number of pods bound to measure this limit.
const RAW_PODS_MAX: usize = 5000;

/// Time limit for the watch to show created pods, and for nodes to have the workload's taints only.
const SETUP_TIMEOUT: Duration = Duration::from_mins(1);

/// Maximum number of violations printed.
const SHOWN_MAX: usize = 5;

/// A workload as Kubernetes objects.
pub(super) struct WorkloadObjects {
    family: &'static str,
    namespaces: Vec<(String, Value)>,
    nodes: Vec<Value>,
    initial: Vec<PodObject>,
    measured: Vec<PodObject>,
}

/// A pod as a Kubernetes object.
pub(super) struct PodObject {
    /// Its namespace.
    pub(super) namespace: String,
    /// Its name.
    pub(super) name: String,
    /// The object.
    pub(super) object: Value,
}

/// Returns the objects of a family; fails if a control plane without controllers cannot provide some of them.
pub(super) fn prepare(
    family: &'static Family,
    nodes: usize,
    pods: Option<usize>,
) -> Result<WorkloadObjects> {
    let work = (family.work)(nodes);
    let reject = |why: &str| anyhow::anyhow!("{} cannot be measured live: {why}", family.name);
    let mut namespaces: BTreeMap<String, Labels> = BTreeMap::new();
    for change in work.objects {
        match change {
            Change::Object(ClusterObject::Namespace(found)) => {
                namespaces.insert(found.name.to_string(), found.labels.clone());
            }
            _ => return Err(reject("it needs more than nodes, pods and namespaces")),
        }
    }
    let nodes: Vec<Value> = work.nodes.map(|node| manifest::node(&node)).collect();
    let make = |pod: engine::object::Pod| -> Result<PodObject> {
        let object = manifest::pod(&pod).map_err(|why| reject(&why.to_string()))?;
        Ok(PodObject { namespace: pod.namespace.to_string(), name: pod.name.to_string(), object })
    };
    // Initial pods are assigned to the nodes in turn, which the constraints of all families allow.
    let names: Vec<String> = nodes.iter().map(|node| text(node, "name")).collect();
    let initial = work.initial.zip(names.iter().cycle()).map(|(mut pod, node)| {
        pod.node = (&**node).into();
        make(pod)
    });
    // Waiting pods exist in all runs, so they are created with the initial ones.
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
    Ok(WorkloadObjects { family: family.name, namespaces, nodes, initial, measured })
}

/// A workload on a control plane.
pub(super) struct LiveWorkload {
    objects: WorkloadObjects,
    /// Client of an administrator.
    pub(super) requests: ApiClient,
    /// Client with the scheduler's credentials.
    scheduler: ApiClient,
    /// Watch of binds.
    pub(super) observer: Observer,
    /// Namespaces that were created here.
    namespaces: Vec<String>,
}

impl LiveWorkload {
    /// Creates namespaces, nodes and initial pods. Fails if the cluster has other nodes, on which pods could be placed.
    pub(super) async fn set_up(cluster: &LiveCluster, objects: WorkloadObjects) -> Result<Self> {
        let requests = ApiClient::connect(&cluster.kubeconfig).await?;
        let scheduler = ApiClient::connect(&cluster.scheduler_kubeconfig).await?;
        let others = requests.get("/api/v1/nodes?limit=1").await?;
        if others["items"].as_array().is_some_and(|nodes| !nodes.is_empty()) {
            bail!("the cluster has nodes already; measuring needs one without");
        }
        let observer = Observer::start(ApiClient::connect(&cluster.kubeconfig).await?).await?;
        let mut workload = Self { objects, requests, scheduler, observer, namespaces: Vec::new() };
        complain(&format!(
            "{}: creating {} nodes and {} initial pods …",
            workload.objects.family,
            workload.objects.nodes.len(),
            workload.objects.initial.len()
        ));
        workload.create_namespaces().await?;
        workload.create_nodes().await?;
        for_each_concurrent(&workload.objects.initial, WORKERS, |made| async {
            workload.requests.create(&pods_path(&made.namespace), &made.object).await.map(|_| ())
        })
        .await?;
        let bound = workload
            .objects
            .initial
            .iter()
            .filter(|made| !made.object["spec"]["nodeName"].is_null());
        tokio::time::timeout(SETUP_TIMEOUT, workload.observer.wait(bound.count()))
            .await
            .context("the watch does not show the pods that were created")??;
        workload.observer.take();
        Ok(workload)
    }

    /// Returns the name of the family.
    pub(super) fn family(&self) -> &'static str {
        self.objects.family
    }

    /// Returns the number of nodes.
    pub(super) fn nodes(&self) -> usize {
        self.objects.nodes.len()
    }

    /// Returns the number of measured pods.
    pub(super) fn pods(&self) -> usize {
        self.objects.measured.len()
    }

    /// Returns the measured pods.
    pub(super) fn measured(&self) -> &[PodObject] {
        &self.objects.measured
    }

    async fn create_namespaces(&mut self) -> Result<()> {
        for (name, object) in &self.objects.namespaces {
            if !self.requests.create("/api/v1/namespaces", object).await?.is_empty() {
                self.namespaces.push(name.clone());
            }
            // Pods are admitted only with a service account, and there may be no controller that creates it.
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
            let path = format!("/api/v1/namespaces/{name}/serviceaccounts");
            self.requests.create(&path, &account).await?;
        }
        Ok(())
    }

    async fn create_nodes(&self) -> Result<()> {
        for_each_concurrent(&self.objects.nodes, WORKERS, |node| async {
            self.requests.create("/api/v1/nodes", node).await?;
            // Admission adds the not-ready taint to new nodes.
            let path = format!("/api/v1/nodes/{}", text(node, "name"));
            let patch = json!({"spec": {"taints": node["spec"]["taints"]}});
            self.requests.send(Method::PATCH, &path, Some(&patch), &[]).await.map(|_| ())
        })
        .await?;
        let deadline = Instant::now() + SETUP_TIMEOUT;
        let taints = |nodes: &[Value]| -> usize {
            nodes.iter().map(|n| n["spec"]["taints"].as_array().map_or(0, Vec::len)).sum()
        };
        while taints(&self.requests.list("/api/v1/nodes").await?) != taints(&self.objects.nodes) {
            if Instant::now() > deadline {
                bail!("nodes do not become ready; controllers need a kubelet or kwok for them");
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Ok(())
    }

    /// Creates the measured pods. Fails if one is bound, since no scheduler should run.
    pub(super) async fn create_pods(&self) -> Result<()> {
        self.observer.take();
        for_each_concurrent(&self.objects.measured, WORKERS, |made| async {
            self.requests.create(&pods_path(&made.namespace), &made.object).await.map(|_| ())
        })
        .await?;
        match self.observer.take().bound.len() {
            0 => Ok(()),
            count => bail!("another scheduler bound {count} pods; end it first"),
        }
    }

    /// Deletes the measured pods and all events.
    pub(super) async fn delete_pods(&self) -> Result<()> {
        for_each_concurrent(&self.objects.measured, WORKERS, |made| async {
            self.requests.delete(&format!("{}/{}", pods_path(&made.namespace), made.name)).await
        })
        .await?;
        for (namespace, _) in &self.objects.namespaces {
            for path in ["api/v1", "apis/events.k8s.io/v1"] {
                let path = format!("/{path}/namespaces/{namespace}/events");
                self.requests.send(Method::DELETE, &path, None, &[StatusCode::NOT_FOUND]).await?;
            }
        }
        self.observer.take();
        Ok(())
    }

    /// Measures the API server's limit: binds per second without a scheduler.
    pub(super) async fn raw_binds_per_second(&self) -> Result<f64> {
        self.create_pods().await?;
        let began = Instant::now();
        let pods = &self.objects.measured[..self.objects.measured.len().min(RAW_PODS_MAX)];
        for_each_concurrent(
            pods.iter().zip(self.objects.nodes.iter().cycle()),
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
        .context("binding without a scheduler")?;
        let rate = pods.len() as f64 / began.elapsed().as_secs_f64();
        self.delete_pods().await?;
        Ok(rate)
    }

    /// Checks all placements, prints violations and returns their number.
    pub(super) async fn violations(&self) -> Result<usize> {
        let nodes = self.requests.list("/api/v1/nodes").await?;
        let namespaces = self.requests.list("/api/v1/namespaces").await?;
        let pods = self.requests.list("/api/v1/pods").await?;
        let wrong = placements::violations(&nodes, &pods, &namespaces)?;
        report_violations(&wrong);
        Ok(wrong.len())
    }

    /// Returns the numbers of binds and of created events since the API server started.
    pub(super) async fn binds_and_events(&self) -> Result<(u64, u64)> {
        let text = self.requests.get_text("/metrics").await?;
        let count =
            |labels: &[(&str, &str)]| metrics::sum(&text, "apiserver_request_total", labels);
        let created = ("code", "201");
        let binds = count(&[("resource", "pods"), ("subresource", "binding"), created]);
        let events = count(&[("resource", "events"), created]);
        Ok((binds as u64, events as u64))
    }

    /// Deletes all that was created except namespaces, which the next family may use, and returns their names.
    pub(super) async fn clear(self) -> Result<Vec<String>> {
        self.delete_pods().await?;
        for_each_concurrent(&self.objects.initial, WORKERS, |made| async {
            self.requests.delete(&format!("{}/{}", pods_path(&made.namespace), made.name)).await
        })
        .await?;
        for_each_concurrent(&self.objects.nodes, WORKERS, |node| async {
            self.requests.delete(&format!("/api/v1/nodes/{}", text(node, "name"))).await
        })
        .await?;
        Ok(self.namespaces)
    }
}

/// Prints up to [`SHOWN_MAX`] violations.
pub(super) fn report_violations(wrong: &[String]) {
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
