//! A whole sandbox: cluster, server and actors.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use thiserror::Error;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::actors::usage::Usage;
use crate::actors::{self, Settings, nodes};
use crate::cluster::{Cluster, WriteOptions};
use crate::faults::Faults;
use crate::http::{ListenError, Server, ServerIdentity, local_url, url};
use crate::status_error::{ApiResult, StatusError};

/// Namespaces that every cluster has.
const NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];

/// How a sandbox is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen. Port 0 means any that is free.
    pub address: SocketAddr,
    /// Nodes to begin with, all alike.
    pub nodes: usize,
    /// More nodes to begin with, see [`crate::import::node_groups`].
    pub more_nodes: Vec<Value>,
    /// Further names and addresses of the server in its certificate.
    pub names: Vec<String>,
    /// How fast time runs for actors.
    pub speed: f64,
    /// Whether there are kubelets and controllers. Without them nothing happens by itself.
    pub actors: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            nodes: 0,
            more_nodes: Vec::new(),
            names: Vec::new(),
            speed: 1.0,
            actors: true,
        }
    }
}

/// Why a sandbox cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// Its server cannot.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A node has a name that another one has.
    #[error(
        "node {0:?} is there already: names of --nodes (node-0, node-1, …), of node groups and of the snapshot must differ; rename the group"
    )]
    Taken(String),
    /// A node is refused.
    #[error("node {name:?} is refused: {message}")]
    Node {
        /// Its name.
        name: String,
        /// What is wrong with it.
        message: String,
    },
}

/// A sandbox at work. It ends with [`Sandbox::stop`].
pub struct Sandbox {
    /// The cluster, for those who are in the same process.
    pub cluster: Arc<Cluster>,
    /// What goes wrong on demand.
    pub faults: Arc<Faults>,
    address: SocketAddr,
    identity: ServerIdentity,
    stop: CancellationToken,
    server: JoinHandle<()>,
    actors: JoinSet<()>,
}

impl Sandbox {
    /// Makes a cluster and serves it.
    pub async fn start(options: &Options) -> Result<Self, StartError> {
        let cluster = Arc::new(Cluster::new());
        create_system_objects(&cluster);
        Self::serve(cluster, options).await
    }

    /// Serves a cluster that has what every cluster has, and more.
    pub async fn serve(cluster: Arc<Cluster>, options: &Options) -> Result<Self, StartError> {
        let plain = (0..options.nodes).map(nodes::plain);
        for node in plain.chain(options.more_nodes.iter().cloned()) {
            add_node(&cluster, node)?;
        }
        let ip = options.address.ip();
        let identity = ServerIdentity::new(ip, &options.names).map_err(ListenError::from)?;
        let usage = Usage::new(options.speed);
        let faults = Arc::new(Faults::default());
        let server = Server::bind(
            Arc::clone(&cluster),
            &identity,
            options.address,
            usage,
            Arc::clone(&faults),
        )
        .await?;
        let address = server.address();
        let stop = CancellationToken::new();
        let actors = if options.actors {
            actors::start(&cluster, Settings { speed: options.speed }, &stop)
        } else {
            JoinSet::new()
        };
        let server = tokio::spawn(server.run(stop.clone()));
        Ok(Self { cluster, faults, address, identity, stop, server, actors })
    }

    /// Where it is reached.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A kubeconfig for clients on this machine. It permits everything.
    pub fn kubeconfig(&self) -> String {
        self.identity.kubeconfig(&local_url(self.address), "jindou")
    }

    /// The URL of the server. If it listens on all addresses: at one that other machines reach.
    pub fn url(&self) -> String {
        url(self.address)
    }

    /// A kubeconfig for clients that reach [`Sandbox::url`]; cluster, user and context have this name.
    pub fn kubeconfig_named(&self, name: &str) -> String {
        self.identity.kubeconfig(&self.url(), name)
    }

    /// Ends it. Requests under way have a moment to end.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let _ = self.server.await;
        self.actors.shutdown().await;
    }
}

/// Makes what every cluster has from the start.
pub fn create_system_objects(cluster: &Cluster) {
    for name in NAMESPACES {
        add(cluster, "", "namespaces", "", json!({"metadata": {"name": name}}));
    }
    for (name, value) in
        [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)]
    {
        let what = if name == "system-cluster-critical" {
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
        } else {
            "Used for system critical pods that must not be moved from their current node."
        };
        let class = json!({"metadata": {"name": name}, "value": value, "description": what});
        add(cluster, "scheduling.k8s.io", "priorityclasses", "", class);
    }
    let class = json!({
        "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "sandbox.novasphere.dev/volumes", "volumeBindingMode": "WaitForFirstConsumer",
    });
    add(cluster, "storage.k8s.io", "storageclasses", "", class);
    let service = json!({
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443, "targetPort": 6443}]},
    });
    add(cluster, "", "services", "default", service);
}

fn add_node(cluster: &Cluster, node: Value) -> Result<(), StartError> {
    let name = crate::json::name(&node).to_owned();
    let resource = cluster.resource("", "nodes");
    match cluster.create(&resource, "", node, &WriteOptions::default()) {
        Ok(_) => Ok(()),
        Err(failure) if failure.reason == "AlreadyExists" => Err(StartError::Taken(name)),
        Err(StatusError { message, .. }) => Err(StartError::Node { name, message }),
    }
}

fn add(cluster: &Cluster, group: &str, plural: &str, namespace: &str, object: Value) {
    let made: ApiResult<_> = cluster.create(
        &cluster.resource(group, plural),
        namespace,
        object,
        &WriteOptions::default(),
    );
    if let Err(failure) = made {
        tracing::error!(plural, message = %failure.message, "an object of the new cluster is missing");
    }
}
