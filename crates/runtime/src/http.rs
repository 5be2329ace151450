//! The HTTPS server: health, metrics and configuration.
//!
//! ```text
//! connection ──TLS──► request ──always allowed?──► route
//!                        │                           ▲
//!                        └──► who is it? ──► may it? ┘      (TokenReview, SubjectAccessReview)
//! ```
//!
//! Whatever is not on the list of always allowed paths needs an identity and a right, and fails
//! closed. Nothing here reads the body of a request.

mod access;
mod certificate;
mod ciphers;
mod client_authorities;
mod cluster_authentication;
mod connection;
mod health;
mod identity;
mod paths;
mod review;
mod review_cache;
mod routes;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use tokio::net::{TcpListener, TcpSocket};

use crate::metrics::Metrics;
use crate::resources::PodResources;

use access::AccessControl;
use certificate::CertificateResolver;
use client_authorities::ClientAuthorities;
use connection::Connections;
use paths::AllowedPaths;
use routes::Routes;

pub use ciphers::Ciphers;
pub use cluster_authentication::{Authorities, ClusterAuthentication};
pub use health::HealthCheck;

/// Connections that the system accepts before the server does.
const WAITING_CONNECTIONS_MAX: u32 = 1024;

/// What to serve, where and to whom.
pub struct ServingOptions {
    /// Where to listen; port 0 switches the server off.
    pub address: SocketAddr,
    /// Whether other processes may listen at the same address and port (SO_REUSEPORT).
    pub shares_port: bool,
    /// What the server shows as its identity.
    pub certificate: ServingCertificate,
    /// Authorities whose client certificates are taken for identities, in PEM.
    pub client_ca: Option<PathBuf>,
    /// Authorities of clients and front proxies as the cluster has them, if these count.
    pub cluster: Option<ClusterAuthentication>,
    /// The oldest version of TLS that is spoken.
    pub tls_min: TlsMin,
    /// Cipher suites and key exchanges.
    pub ciphers: Ciphers,
    /// Whether HTTP/2 is spoken.
    pub http2: bool,
    /// Paths that anybody may read; `/x/*` stands for all below `/x/`.
    pub always_allowed: Vec<String>,
    /// Sends TokenReviews, and SubjectAccessReviews unless there is another client for these.
    pub client: kube::Client,
    /// Sends SubjectAccessReviews.
    pub access_client: Option<kube::Client>,
    /// For `/metrics`.
    pub metrics: Metrics,
    /// For `/metrics/resources`, which is not there without it.
    pub resources: Option<PodResources>,
    /// For `/configz`: the configuration in its newest version.
    pub configuration: serde_json::Value,
    /// For `/healthz`; `ping` if there are none. So for the others.
    pub health: Vec<HealthCheck>,
    /// For `/livez`.
    pub live: Vec<HealthCheck>,
    /// For `/readyz`.
    pub ready: Vec<HealthCheck>,
}

/// What the server shows as its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServingCertificate {
    /// Made at the start for `localhost` and `127.0.0.1`, and never written to a disk.
    SelfSigned,
    /// Files in PEM, read again when they change.
    Files {
        /// The certificate and those that lead to its authority.
        certificate: PathBuf,
        /// Its private key.
        key: PathBuf,
    },
}

/// The oldest version of TLS that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMin {
    /// 1.2
    V1_2,
    /// 1.3
    V1_3,
}

impl ServingOptions {
    /// Upstream's defaults: port 10259 on all addresses, a certificate of its own, health for all.
    pub fn new(client: kube::Client, metrics: Metrics) -> Self {
        Self {
            address: SocketAddr::from(([0, 0, 0, 0], 10259)),
            shares_port: false,
            certificate: ServingCertificate::SelfSigned,
            client_ca: None,
            cluster: None,
            tls_min: TlsMin::V1_2,
            ciphers: Ciphers::default(),
            http2: true,
            always_allowed: ["/healthz", "/readyz", "/livez"].map(str::to_owned).to_vec(),
            client,
            access_client: None,
            metrics,
            resources: None,
            configuration: serde_json::Value::Null,
            health: Vec::new(),
            live: Vec::new(),
            ready: Vec::new(),
        }
    }
}

/// A server that listens and does not answer yet.
pub struct Server {
    listener: TcpListener,
    connections: Connections,
    cluster: Option<ClusterAuthentication>,
}

impl Server {
    /// Listens at the address of the options; `None` if the server is switched off.
    pub fn bind(serving: ServingOptions) -> anyhow::Result<Option<Self>> {
        let address = serving.address;
        if address.port() == 0 {
            return Ok(None);
        }
        let listener = listen(address, serving.shares_port);
        let listener = listener.map_err(|error| cannot_listen(address, &error))?;
        Self::with_listener(listener, serving).map(Some)
    }

    /// Who vouches for clients by the cluster's word, if that counts.
    pub fn authorities(&self) -> Option<Authorities> {
        let cluster = self.cluster.as_ref()?;
        Some(cluster.authorities(Arc::clone(self.connections.client_ca()?)))
    }

    /// Serves at a socket that is already open; the address of the options is not used.
    pub fn with_listener(listener: TcpListener, serving: ServingOptions) -> anyhow::Result<Self> {
        let certificate = Arc::new(CertificateResolver::new(serving.certificate)?);
        let client_ca = match (&serving.client_ca, &serving.cluster) {
            (None, None) => None,
            (file, cluster) => {
                let client_ca = ClientAuthorities::new(file.clone())?;
                if let Some(cluster) = cluster {
                    client_ca.update(cluster.known())?;
                }
                Some(Arc::new(client_ca))
            }
        };
        let allowed = AllowedPaths::new(&serving.always_allowed)?;
        let routes = Routes::new(
            serving.metrics,
            serving.resources,
            &serving.configuration,
            [serving.health, serving.live, serving.ready],
        );
        let clients = [serving.client.clone(), serving.access_client.unwrap_or(serving.client)];
        let access = AccessControl::new(clients, allowed, client_ca.clone())?;
        let tls = connection::tls(
            &certificate,
            client_ca.as_ref(),
            serving.tls_min,
            &serving.ciphers,
            serving.http2,
        )?;
        let connections =
            Connections::new(tls, serving.http2, access, routes, certificate, client_ca);
        Ok(Self { listener, connections, cluster: serving.cluster })
    }

    /// Where it listens.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        self.listener.local_addr().context("cannot read the address of the HTTPS server")
    }

    /// Answers until `shutdown` is done, then lets requests under way end, for a bounded time.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        self.connections.run(self.listener, self.cluster, shutdown).await;
    }
}

/// Opens a port, also one on which connections of an earlier process are still being closed.
fn listen(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(shared)?;
    socket.bind(address)?;
    socket.listen(WAITING_CONNECTIONS_MAX)
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::AddrInUse => anyhow::anyhow!(
            "cannot listen on {address}: address in use; choose another --secure-port"
        ),
        io::ErrorKind::PermissionDenied => anyhow::anyhow!(
            "cannot listen on {address}: permission denied; choose a --secure-port of 1024 or more"
        ),
        io::ErrorKind::AddrNotAvailable => anyhow::anyhow!(
            "cannot listen on {address}: this machine has no such address; choose another --bind-address"
        ),
        _ => anyhow::anyhow!("cannot listen on {address}: {error}"),
    }
}

#[cfg(test)]
mod tests;
