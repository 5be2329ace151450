//! The configuration of connections to the API server: kubeconfig, service account, proxy.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::uri::InvalidUri;
use http::{HeaderValue, header};
use kube::config::{Cluster, InClusterError, KubeConfigOptions, Kubeconfig};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName};
use x509_cert::der::Decode as _;

use crate::client::{ApiConnection, ClientError};
use crate::events::rfc3339_seconds;

pub(crate) mod exec;
mod proxy_environment;
#[cfg(test)]
mod tests;

/// The `User-Agent` of requests. API servers derive the field manager from it.
const USER_AGENT: &str = concat!("jindou/", env!("CARGO_PKG_VERSION"));

/// Maximum time to establish a connection, with TLS.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be read.
    #[error("cannot read the kubeconfig {}: {problem}", path.display())]
    ReadKubeconfig {
        /// The file.
        path: PathBuf,
        /// The failure.
        problem: String,
    },
    /// The kubeconfig was read and cannot be used.
    #[error("the kubeconfig {} cannot be used: {problem}", path.display())]
    UseKubeconfig {
        /// The file.
        path: PathBuf,
        /// The failure.
        problem: String,
    },
    /// There is no service account.
    #[error(
        "no kubeconfig was given and this is not a pod with a service account: use --kubeconfig"
    )]
    InCluster(#[source] InClusterError),
    /// The address given by `--master` is no address.
    #[error("--master {address:?}")]
    Master {
        /// The address.
        address: String,
        /// The failure.
        source: InvalidUri,
    },
    /// The address of a proxy is no address.
    #[error("{setting} {address:?} is no address of a proxy")]
    Proxy {
        /// The field or variable.
        setting: &'static str,
        /// Its value.
        address: String,
        /// The failure.
        source: InvalidUri,
    },
    /// The address of the API server has no host.
    #[error("the API server's address has no host")]
    NoHost,
    /// The host or `tls-server-name` is not a DNS name or IP address.
    #[error("{name:?} cannot be the name of an API server")]
    ServerName {
        /// The name.
        name: String,
        /// The failure.
        source: InvalidDnsNameError,
    },
}

/// Sources of the client configuration.
#[derive(Clone, Debug, Default)]
pub struct ConfigSource {
    /// A kubeconfig file; `None` means the service account of the pod that this process runs in.
    pub kubeconfig: Option<PathBuf>,
    /// Address of the API server, instead of the one in the kubeconfig; empty means none.
    pub master: String,
}

/// Loads the client configuration.
pub async fn load_config(target: &ConfigSource) -> Result<kube::Config, ConnectError> {
    let mut proxy = None;
    let mut config = if let Some(path) = &target.kubeconfig {
        let file = Kubeconfig::read_from(path).map_err(|error| ConnectError::ReadKubeconfig {
            path: path.clone(),
            problem: root_cause(&error).to_string(),
        })?;
        let options = KubeConfigOptions::default();
        let cluster = current_cluster(&file).cloned().unwrap_or_default();
        let config = kube::Config::from_custom_kubeconfig(file, &options);
        let mut config = config.await.map_err(|error| ConnectError::UseKubeconfig {
            path: path.clone(),
            problem: root_cause(&error).to_string(),
        })?;
        // A CA bundle in a file is read again when the file changes.
        if cluster.certificate_authority_data.is_none() {
            config.root_cert_file = cluster.certificate_authority.map(PathBuf::from);
        }
        proxy = cluster.proxy_url.filter(|proxy| !proxy.is_empty());
        config
    } else if target.master.is_empty() {
        kube::Config::incluster().map_err(ConnectError::InCluster)?
    } else {
        kube::Config::new(http::Uri::from_static("http://localhost"))
    };
    if !target.master.is_empty() {
        let master = |source| ConnectError::Master { address: target.master.clone(), source };
        config.cluster_url = target.master.parse().map_err(master)?;
    }
    config.proxy_url = match proxy {
        Some(proxy) => Some(proxy_environment::parse("proxy-url", &proxy)?),
        None => proxy_environment::from_environment(&config.cluster_url, |name| {
            std::env::var(name).ok()
        })?,
    };
    config.headers.push((header::USER_AGENT, HeaderValue::from_static(USER_AGENT)));
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // Watches can be silent for minutes; each request has a timeout of its own.
    config.read_timeout = None;
    config.write_timeout = None;
    Ok(config)
}

/// Returns the cluster of the current context.
fn current_cluster(file: &Kubeconfig) -> Option<&Cluster> {
    let current = file.current_context.as_ref()?;
    let context = file.contexts.iter().find(|context| context.name == *current)?;
    let name = &context.context.as_ref()?.cluster;
    file.clusters.iter().find(|cluster| cluster.name == *name)?.cluster.as_ref()
}

/// Returns a kube client with an HTTP/2 connection of its own, so that the flow control of other
/// requests does not delay those of this client.
pub fn client(config: &kube::Config) -> Result<kube::Client, ClientError> {
    Ok(ApiConnection::new(config)?.client(&config.default_namespace))
}

/// Returns a sentence if the client certificate is expired or not valid yet. The API server itself only
/// answers "Unauthorized".
pub fn client_certificate_problem(config: &kube::Config, now: SystemTime) -> Option<String> {
    let user = &config.auth_info;
    let (pem, shown) = match (&user.client_certificate_data, &user.client_certificate) {
        (Some(data), _) => (BASE64_STANDARD.decode(data).ok()?, String::new()),
        (None, Some(path)) => (std::fs::read(path).ok()?, format!(" {path}")),
        (None, None) => return None,
    };
    let certificate = CertificateDer::from_pem_slice(&pem).ok()?;
    let certificate = x509_cert::Certificate::from_der(&certificate).ok()?;
    let validity = certificate.tbs_certificate().validity();
    let [begin, end] = [&validity.not_before, &validity.not_after]
        .map(|at| SystemTime::UNIX_EPOCH + at.to_unix_duration());
    let (is, at) = match () {
        () if now > end => ("is no longer valid since", end),
        () if now < begin => ("is not valid before", begin),
        () => return None,
    };
    Some(format!("the client certificate{shown} {is} {}", rfc3339_seconds(at)))
}

/// Returns the name that the certificate of the API server must have.
pub(crate) fn server_name(config: &kube::Config) -> Result<ServerName<'static>, ConnectError> {
    let host = config.tls_server_name.as_deref().or(config.cluster_url.host());
    // In an address, an IPv6 host has brackets.
    let host = host.unwrap_or_default().trim_matches(['[', ']']);
    ServerName::try_from(host.to_owned())
        .map_err(|source| ConnectError::ServerName { name: host.to_owned(), source })
}

/// Returns the innermost source of an error. The texts of kube's errors repeat those of their sources.
pub(crate) fn root_cause<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> &'a dyn std::error::Error {
    let mut root_cause = error;
    while let Some(source) = root_cause.source() {
        root_cause = source;
    }
    root_cause
}
