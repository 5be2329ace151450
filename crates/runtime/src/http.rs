//! The HTTPS server: health, metrics and configuration.
//!
//! ```text
//! connection ──TLS──► request ──always allowed?──────────► route
//!                        │                                  ▲
//!                        └──► authenticate ──► authorise ───┘   (TokenReview, SubjectAccessReview)
//! ```
//!
//! Paths that are not always allowed need a credential and a right, and fail closed. No page reads the
//! body of a request.

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

use tokio::net::{TcpListener, TcpSocket};

use crate::metrics::Metrics;
use crate::resources::PodResources;

use access::AccessControl;
use certificate::CertificateResolver;
use client_authorities::ClientAuthorities;
use connection::Connections;
use paths::AllowedPaths;
use routes::Routes;

pub use certificate::{CertificateError, KeyPairError};
pub use ciphers::{CipherError, Ciphers};
pub use client_authorities::{AuthorityError, VerifierError};
pub use cluster_authentication::{Authorities, ClusterAuthentication, ClusterAuthenticationError};
pub use health::HealthCheck;
pub use paths::AllowedPathError;
pub use review_cache::NoRandomNumbers;

/// Backlog of the listening socket, in connections.
const BACKLOG_MAX: u32 = 1024;

/// Options of the server.
pub struct ServingOptions {
    /// Address to listen at; port 0 switches the server off.
    pub address: SocketAddr,
    /// Other processes may listen at the same address and port (`SO_REUSEPORT`).
    pub shares_port: bool,
    /// Certificate of the server.
    pub certificate: ServingCertificate,
    /// File with the authorities of client certificates, in PEM.
    pub client_ca: Option<PathBuf>,
    /// Authorities of the cluster, if these are used.
    pub cluster: Option<ClusterAuthentication>,
    /// Minimum version of TLS.
    pub tls_min: TlsMin,
    /// Cipher suites and key exchanges.
    pub ciphers: Ciphers,
    /// HTTP/2 is enabled.
    pub http2: bool,
    /// Paths that need no credential; `/x/*` stands for all paths below `/x/`.
    pub always_allowed: Vec<String>,
    /// Client of TokenReviews, and of SubjectAccessReviews without `access_client`.
    pub client: kube::Client,
    /// Client of SubjectAccessReviews.
    pub access_client: Option<kube::Client>,
    /// Contents of `/metrics`.
    pub metrics: Metrics,
    /// Contents of `/metrics/resources`; without it the path is not found.
    pub resources: Option<PodResources>,
    /// Contents of `/configz`: the configuration in its newest version.
    pub configuration: serde_json::Value,
    /// Checks of `/healthz`; without any, `ping`.
    pub health: Vec<HealthCheck>,
    /// Checks of `/livez`; without any, `ping`.
    pub live: Vec<HealthCheck>,
    /// Checks of `/readyz`; without any, `ping`.
    pub ready: Vec<HealthCheck>,
}

/// Source of the server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServingCertificate {
    /// Generated at the start for `localhost` and `127.0.0.1`, in memory only.
    SelfSigned,
    /// Files in PEM; read again when they change.
    Files {
        /// The certificate with its intermediates.
        certificate: PathBuf,
        /// The private key.
        key: PathBuf,
    },
}

/// Minimum version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMin {
    /// TLS 1.2.
    V1_2,
    /// TLS 1.3.
    V1_3,
}

impl ServingOptions {
    /// Returns upstream's defaults: port 10259 on all addresses, a self-signed certificate, and health pages
    /// without a credential.
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

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port cannot be opened.
    #[error("cannot listen on {address}: {}", listen_problem(.error))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why it cannot be opened. No source, since the message describes it.
        error: io::Error,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The authorities of clients cannot be used.
    #[error(transparent)]
    Authorities(#[from] AuthorityError),
    /// A path that is to be allowed always is malformed.
    #[error(transparent)]
    AllowedPaths(#[from] AllowedPathError),
    /// The system has no random numbers.
    #[error(transparent)]
    NoRandomNumbers(#[from] NoRandomNumbers),
    /// TLS cannot be configured.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// The address of the socket is unknown.
    #[error("cannot read the address of the HTTPS server")]
    Address(#[source] io::Error),
}

/// A server that listens but does not answer yet.
pub struct Server {
    listener: TcpListener,
    connections: Connections,
    cluster: Option<ClusterAuthentication>,
}

impl Server {
    /// Listens at the address of the options. Returns `None` if the server is switched off.
    pub fn bind(serving: ServingOptions) -> Result<Option<Self>, ServeError> {
        let address = serving.address;
        if address.port() == 0 {
            return Ok(None);
        }
        let listener = listen(address, serving.shares_port);
        let listener = listener.map_err(|error| ServeError::Listen { address, error })?;
        Self::with_listener(listener, serving).map(Some)
    }

    /// Returns a handle on the authorities of the cluster, if these are used.
    pub fn authorities(&self) -> Option<Authorities> {
        let cluster = self.cluster.as_ref()?;
        Some(cluster.authorities(Arc::clone(self.connections.client_ca()?)))
    }

    /// Serves at an open socket; the address of the options is not used.
    pub fn with_listener(
        listener: TcpListener,
        serving: ServingOptions,
    ) -> Result<Self, ServeError> {
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

    /// Returns the address of the socket.
    pub fn address(&self) -> Result<SocketAddr, ServeError> {
        self.listener.local_addr().map_err(ServeError::Address)
    }

    /// Serves until `shutdown` completes, then answers the requests in flight, for at most 5 s.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        self.connections.run(self.listener, self.cluster, shutdown).await;
    }
}

/// Opens a port, even if connections of an earlier process are still being closed (`SO_REUSEADDR`).
fn listen(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(shared)?;
    socket.bind(address)?;
    socket.listen(BACKLOG_MAX)
}

/// Describes why a port cannot be opened and, if possible, what to do about it.
fn listen_problem(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "address in use; choose another --secure-port".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "permission denied; choose a --secure-port of 1024 or more".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address; choose another --bind-address".to_owned()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
