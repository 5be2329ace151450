//! Credentials and trusted authorities, as read from files and exec plugins at one time.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{Request, Response};
use kube::client::{Body, ConfigExt as _};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio_rustls::TlsConnector;
use tower::{BoxError, Layer as _};

use super::RECORD_BYTES;
use crate::connect::exec;

/// How long before their end the credentials of a plugin are replaced.
const EXPIRY_MARGIN: Duration = Duration::from_mins(1);

/// Protocols that are offered by ALPN, in order of preference. A server that supports none of the
/// offered ones ends the handshake, so HTTP/1.1 is among them.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Answers a request with the headers that the layers of `kube` gave it.
pub(super) type HeaderEcho =
    tower::util::BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// Credentials as they were loaded once; they do not change.
pub(super) struct Credentials {
    /// With the contents of all files, and what the plugin output.
    config: kube::Config,
    pub(super) tls: TlsConnector,
    pub(super) echo: HeaderEcho,
    /// Connections carry the number of the credentials that they were made with.
    pub(super) generation: u64,
    files: Vec<FileStamp>,
    /// Whether a plugin made them.
    pub(super) from_exec_plugin: bool,
    ends: Option<SystemTime>,
}

/// Inode, length and time of change of a file.
#[derive(Debug, PartialEq, Eq)]
struct FileStamp {
    path: PathBuf,
    seen: Option<(u64, u64, i64, i64)>,
}

impl FileStamp {
    fn of(path: &Path) -> Self {
        let stamp = |file: Metadata| (file.ino(), file.len(), file.mtime(), file.mtime_nsec());
        Self { path: path.to_owned(), seen: std::fs::metadata(path).ok().map(stamp) }
    }
}

impl Credentials {
    /// Reads files and runs the plugin.
    pub(super) fn load(given: &kube::Config) -> Result<Self> {
        let mut config = given.clone();
        let mut files = Vec::new();
        // The stamp is older than what is read, so that no change is missed.
        let mut read = |path: &Path| {
            files.push(FileStamp::of(path));
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
        };
        if let Some(path) = config.root_cert_file.take() {
            let ca = certificates(&read(&path)?);
            config.root_cert = Some(ca.with_context(|| path.display().to_string())?);
        }
        let who = &mut config.auth_info;
        if let (None, Some(path)) = (&who.client_certificate_data, who.client_certificate.take()) {
            who.client_certificate_data = Some(BASE64_STANDARD.encode(read(path.as_ref())?));
        }
        if let (None, Some(path)) = (&who.client_key_data, who.client_key.take()) {
            who.client_key_data = Some(BASE64_STANDARD.encode(read(path.as_ref())?).into());
        }
        if let (None, Some(path)) = (&who.token, who.token_file.take()) {
            let token = String::from_utf8(read(path.as_ref())?);
            let token = token.with_context(|| format!("the token file {path}"))?;
            let token = token.trim();
            ensure!(!token.is_empty(), "the token file {path} is empty");
            who.token = Some(token.to_owned().into());
        }
        let (mut from_exec_plugin, mut ends) = (false, None);
        let is_known = who.token.is_some() || who.username.is_some() || who.auth_provider.is_some();
        if let (false, Some(plugin)) = (is_known, who.exec.take()) {
            let output = exec::run(&plugin)?;
            (from_exec_plugin, ends) = (true, output.ends);
            who.token = output.token.map(|token| token.trim().to_owned().into());
            if let Some((certificate, key)) = output.certificate {
                who.client_certificate_data = Some(BASE64_STANDARD.encode(certificate));
                who.client_key_data = Some(BASE64_STANDARD.encode(key).into());
            }
        }
        let mut tls =
            config.rustls_client_config().context("cannot set up TLS for the API server")?;
        tls.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
        tls.max_fragment_size = Some(RECORD_BYTES);
        let (tls, echo) = (TlsConnector::from(Arc::new(tls)), echo(&config)?);
        Ok(Self { config, tls, echo, generation: 0, files, from_exec_plugin, ends })
    }

    /// Returns the next credentials, with the same number if connections do not depend on the change.
    pub(super) fn replaced_by(&self, next: Self) -> Self {
        let shown = |of: &Self| of.config.auth_info.client_certificate_data.clone();
        let same = shown(self) == shown(&next) && self.config.root_cert == next.config.root_cert;
        Self { generation: self.generation + u64::from(!same), ..next }
    }

    /// Whether it is time to load them again.
    pub(super) fn is_stale(&self) -> bool {
        self.files.iter().any(|file| FileStamp::of(&file.path) != *file)
            || self.ends.is_some_and(|ends| SystemTime::now() + EXPIRY_MARGIN >= ends)
    }

    /// The configuration without paths: contents of files, and the output of the plugin.
    pub(super) fn config(&self) -> &kube::Config {
        &self.config
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>> {
    let certificates = CertificateDer::pem_slice_iter(pem).map(|read| Ok(read?.to_vec()));
    let certificates = certificates.collect::<Result<Vec<_>>>()?;
    ensure!(!certificates.is_empty(), "there is no certificate in it");
    Ok(certificates)
}

fn echo(config: &kube::Config) -> Result<HeaderEcho> {
    let echo = tower::service_fn(|request: Request<Body>| async {
        let mut response = Response::new(Body::empty());
        *response.headers_mut() = request.into_parts().0.headers;
        Ok::<_, BoxError>(response)
    });
    let credentials = config.auth_layer().context("cannot set up the credentials")?;
    let echo = tower::util::option_layer(credentials).layer(echo);
    let headers = config.extra_headers_layer().context("cannot set up the credentials")?;
    Ok(HeaderEcho::new(headers.layer(echo)))
}
