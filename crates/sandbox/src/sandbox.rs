//! A complete sandbox: cluster, server and actors.

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

/// Namespaces of every cluster.
const NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];

/// Options of a sandbox.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address to listen on. Port 0 selects a free port.
    pub address: SocketAddr,
    /// Number of initial nodes with default properties.
    pub nodes: usize,
    /// Further initial nodes, see [`crate::import::node_groups`].
    pub more_nodes: Vec<Value>,
    /// Further names and addresses in the certificate of the server.
    pub names: Vec<String>,
    /// Factor by which the time of actors runs faster than real time.
    pub speed: f64,
    /// Set to run kubelets and controllers. Without them objects change only by requests.
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

/// Reason why a sandbox cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The server cannot start.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Two nodes have the same name.
    #[error(
        "node {0:?} exists already: names of --nodes (node-0, node-1, …), of node groups and of the snapshot must differ; rename the group"
    )]
    Taken(String),
    /// A node is invalid.
    #[error("node {name:?} was rejected: {message}")]
    Node {
        /// Name of the node.
        name: String,
        /// Reason.
        message: String,
    },
}

/// A running sandbox. It ends with [`Sandbox::stop`].
pub struct Sandbox {
    /// The cluster, for callers in the same process.
    pub cluster: Arc<Cluster>,
    /// Injected faults.
    pub faults: Arc<Faults>,
    address: SocketAddr,
    identity: ServerIdentity,
    stop: CancellationToken,
    server: JoinHandle<()>,
    actors: JoinSet<()>,
}

impl Sandbox {
    /// Creates a cluster and serves it.
    pub async fn start(options: &Options) -> Result<Self, StartError> {
        let cluster = Arc::new(Cluster::new());
        create_system_objects(&cluster);
        Self::serve(cluster, options).await
    }

    /// Serves a cluster that has its system objects.
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

    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a kubeconfig with all permissions for clients on this machine.
    pub fn kubeconfig(&self) -> String {
        self.identity.kubeconfig(&local_url(self.address), "jindou")
    }

    /// Returns the URL of the server. If it listens on all addresses, other machines can reach the URL.
    pub fn url(&self) -> String {
        url(self.address)
    }

    /// Returns a kubeconfig with [`Sandbox::url`]; its cluster, user and context have this name.
    pub fn kubeconfig_named(&self, name: &str) -> String {
        self.identity.kubeconfig(&self.url(), name)
    }

    /// Stops the sandbox. Requests in progress have a short grace period.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let _ = self.server.await;
        self.actors.shutdown().await;
    }
}

/// Creates the objects that every cluster has.
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
        tracing::error!(plural, message = %failure.message, "failed to create a system object");
    }
}
