//! Connections to the API server.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, anyhow};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderValue, header};
use kube::config::{Cluster, KubeConfigOptions, Kubeconfig};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use x509_cert::der::Decode as _;

use crate::client::ApiConnection;
use crate::events::rfc3339_seconds;

pub(crate) mod exec;
mod proxy_environment;
#[cfg(test)]
mod tests;

/// The `User-Agent` of requests; API servers derive the manager of fields from it.
const USER_AGENT: &str = concat!("jindou/", env!("CARGO_PKG_VERSION"));

/// How long an HTTP/2 connection may be silent before it is asked whether it lives.
pub(crate) const PING_AFTER: Duration = Duration::from_secs(10);

/// How long the answer may take before the connection counts as dead.
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// How long connecting may take.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes that the server may send ahead on one stream, and on all of a connection together. Of a long
/// list, so much is read each time the thread was at rest.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 512 << 10;
pub(crate) const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// Where the API server is and who we are.
#[derive(Clone, Debug, Default)]
pub struct ConfigSource {
    /// A kubeconfig file; `None` means the credentials of the pod that we run in.
    pub kubeconfig: Option<PathBuf>,
    /// Address that overrides the one of the kubeconfig; empty means none.
    pub master: String,
}

/// Reads where the API server is.
pub async fn load_config(target: &ConfigSource) -> Result<kube::Config> {
    let mut proxy = None;
    let mut config = if let Some(path) = &target.kubeconfig {
        let shown = path.display();
        let file = Kubeconfig::read_from(path).map_err(|error| {
            anyhow!("cannot read the kubeconfig {shown}: {}", root_cause(&error))
        })?;
        let options = KubeConfigOptions::default();
        let cluster = current_cluster(&file).cloned().unwrap_or_default();
        let config = kube::Config::from_custom_kubeconfig(file, &options);
        let mut config = config.await.map_err(|error| {
            anyhow!("the kubeconfig {shown} cannot be used: {}", root_cause(&error))
        })?;
        // A bundle in a file is read again when it changes.
        if cluster.certificate_authority_data.is_none() {
            config.root_cert_file = cluster.certificate_authority.map(PathBuf::from);
        }
        proxy = cluster.proxy_url.filter(|proxy| !proxy.is_empty());
        config
    } else if target.master.is_empty() {
        kube::Config::incluster().context(
            "no kubeconfig was given and this is not a pod with a service account: use --kubeconfig",
        )?
    } else {
        kube::Config::new(http::Uri::from_static("http://localhost"))
    };
    if !target.master.is_empty() {
        config.cluster_url =
            target.master.parse().with_context(|| format!("--master {:?}", target.master))?;
    }
    config.proxy_url = match proxy {
        Some(proxy) => {
            Some(proxy_environment::parse(&proxy).with_context(|| format!("proxy-url {proxy:?}"))?)
        }
        None => proxy_environment::from_environment(&config.cluster_url, |name| {
            std::env::var(name).ok()
        })?,
    };
    config.headers.push((header::USER_AGENT, HeaderValue::from_static(USER_AGENT)));
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // Watches are silent for long; each request has its own limit.
    config.read_timeout = None;
    config.write_timeout = None;
    Ok(config)
}

/// The cluster of the current context.
fn current_cluster(file: &Kubeconfig) -> Option<&Cluster> {
    let current = file.current_context.as_ref()?;
    let context = file.contexts.iter().find(|context| context.name == *current)?;
    let name = &context.context.as_ref()?.cluster;
    file.clusters.iter().find(|cluster| cluster.name == *name)?.cluster.as_ref()
}

/// A client of its own: one HTTP/2 connection, so that what goes over it is not held up by others.
pub fn client(config: &kube::Config) -> Result<kube::Client> {
    Ok(ApiConnection::new(config)?.client(&config.default_namespace))
}

/// Whether the certificate that says who we are is out of date, as a sentence: the API server only
/// says that it does not know us.
pub fn client_certificate_problem(config: &kube::Config, now: SystemTime) -> Option<String> {
    let who = &config.auth_info;
    let (pem, shown) = match (&who.client_certificate_data, &who.client_certificate) {
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

/// The name for which the API server must have a certificate.
pub(crate) fn server_name(config: &kube::Config) -> Result<ServerName<'static>> {
    let host = config.tls_server_name.as_deref().or(config.cluster_url.host());
    // In an address, an IPv6 host has brackets.
    let host = host.unwrap_or_default().trim_matches(['[', ']']);
    ServerName::try_from(host.to_owned())
        .with_context(|| format!("{host:?} cannot be the name of an API server"))
}

/// What is behind an error, without the sentences that repeat it.
pub(crate) fn root_cause<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> &'a dyn std::error::Error {
    let mut root_cause = error;
    while let Some(source) = root_cause.source() {
        root_cause = source;
    }
    root_cause
}
