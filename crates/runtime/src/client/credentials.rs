//! Credentials and trusted authorities, as read from files and exec plugins at one time.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, Request, Response};
use kube::client::{Body, ConfigExt as _};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use tokio::task::JoinError;
use tokio_rustls::TlsConnector;
use tower::{BoxError, Layer as _, ServiceExt as _};

use crate::connect::exec::{self, ExecError};

/// Time before their expiry at which the credentials of an exec plugin are replaced.
const EXPIRY_MARGIN: Duration = Duration::from_mins(1);

/// The ALPN name of HTTP/2.
pub(super) const ALPN_HTTP2: &[u8] = b"h2";

/// Protocols offered by ALPN, in order of preference. A server that supports none of them ends the
/// handshake, so HTTP/1.1 is among them.
const ALPN_PROTOCOLS: [&[u8]; 2] = [ALPN_HTTP2, b"http/1.1"];

/// Plaintext bytes of a TLS record. The encrypted record fits into 16 KiB, a size class of most
/// allocators that other buffers use as well.
const RECORD_BYTES: usize = 16_000;

/// Why credentials cannot be loaded or used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    ReadFile {
        /// The file.
        path: PathBuf,
        /// The failure.
        source: std::io::Error,
    },
    /// A CA bundle is not PEM.
    #[error("{} is no CA bundle", path.display())]
    ParseCaBundle {
        /// The file.
        path: PathBuf,
        /// The failure.
        source: pem::Error,
    },
    /// A CA bundle is empty.
    #[error("{}: there is no certificate in it", .0.display())]
    EmptyCaBundle(PathBuf),
    /// A token file is not UTF-8.
    #[error("the token file {path}")]
    ParseToken {
        /// The file.
        path: String,
        /// The failure.
        source: std::string::FromUtf8Error,
    },
    /// A token file is empty.
    #[error("the token file {0} is empty")]
    EmptyToken(String),
    /// The kubeconfig names no program for an exec plugin.
    #[error("users[].user.exec.command is missing")]
    NoExecCommand,
    /// An exec plugin failed.
    #[error("the exec plugin {program}")]
    Exec {
        /// The program.
        program: String,
        /// The failure.
        source: ExecError,
    },
    /// TLS cannot be set up with these certificates and keys.
    #[error("cannot set up TLS for the API server")]
    Tls(#[source] Box<kube::Error>),
    /// No layers of kube's client can be made.
    #[error("cannot set up the credentials")]
    Layers(#[source] Box<kube::Error>),
    /// A layer of kube's client cannot add credentials to a request.
    #[error("no credentials: {0}")]
    AddHeaders(BoxError),
    /// The thread that loads credentials panicked.
    #[error("the thread that loads them")]
    LoadTask(#[source] JoinError),
}

impl CredentialsError {
    pub(super) fn tls(error: kube::Error) -> Self {
        Self::Tls(Box::new(error))
    }

    pub(super) fn layers(error: kube::Error) -> Self {
        Self::Layers(Box::new(error))
    }
}

/// A service that responds with the headers that kube's layers added to a request.
type HeaderEcho = tower::util::BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// Credentials as they were loaded once; they do not change.
pub(super) struct Credentials {
    /// With the contents of all files and the output of the exec plugin.
    config: kube::Config,
    pub(super) tls: TlsConnector,
    header_echo: HeaderEcho,
    /// Number of changes so far on which connections depend: those of certificates.
    pub(super) generation: u64,
    files: Vec<FileStamp>,
    pub(super) from_exec_plugin: bool,
    expires: Option<SystemTime>,
}

/// Inode, length and time of modification of a file.
#[derive(Debug, PartialEq, Eq)]
struct FileStamp {
    path: PathBuf,
    stamp: Option<(u64, u64, i64, i64)>,
}

impl FileStamp {
    fn of(path: &Path) -> Self {
        let stamp = |file: Metadata| (file.ino(), file.len(), file.mtime(), file.mtime_nsec());
        Self { path: path.to_owned(), stamp: std::fs::metadata(path).ok().map(stamp) }
    }
}

impl Credentials {
    /// Reads the files and runs the exec plugin.
    pub(super) fn load(given: &kube::Config) -> Result<Self, CredentialsError> {
        let mut config = given.clone();
        let mut files = Vec::new();
        // The stamp is taken before the file is read, so that no change is missed.
        let mut read = |path: &Path| {
            files.push(FileStamp::of(path));
            let read_file = |source| CredentialsError::ReadFile { path: path.to_owned(), source };
            std::fs::read(path).map_err(read_file)
        };
        if let Some(path) = config.root_cert_file.take() {
            config.root_cert = Some(certificates(&read(&path)?, &path)?);
        }
        let user = &mut config.auth_info;
        if let (None, Some(path)) = (&user.client_certificate_data, user.client_certificate.take())
        {
            user.client_certificate_data = Some(BASE64_STANDARD.encode(read(path.as_ref())?));
        }
        if let (None, Some(path)) = (&user.client_key_data, user.client_key.take()) {
            user.client_key_data = Some(BASE64_STANDARD.encode(read(path.as_ref())?).into());
        }
        if let (None, Some(path)) = (&user.token, user.token_file.take()) {
            user.token = Some(token(read(path.as_ref())?, &path)?.into());
        }
        let (mut from_exec_plugin, mut expires) = (false, None);
        let has_credentials =
            user.token.is_some() || user.username.is_some() || user.auth_provider.is_some();
        if let (false, Some(plugin)) = (has_credentials, user.exec.take()) {
            let program = plugin.command.clone().ok_or(CredentialsError::NoExecCommand)?;
            let output = exec::run(&plugin, &program)
                .map_err(|source| CredentialsError::Exec { program, source })?;
            (from_exec_plugin, expires) = (true, output.expires);
            user.token = output.token.map(|token| token.trim().to_owned().into());
            if let Some((certificate, key)) = output.certificate {
                user.client_certificate_data = Some(BASE64_STANDARD.encode(certificate));
                user.client_key_data = Some(BASE64_STANDARD.encode(key).into());
            }
        }
        let mut tls = config.rustls_client_config().map_err(CredentialsError::tls)?;
        tls.alpn_protocols = ALPN_PROTOCOLS.map(<[u8]>::to_vec).into();
        tls.max_fragment_size = Some(RECORD_BYTES);
        let (tls, header_echo) = (TlsConnector::from(Arc::new(tls)), header_echo(&config)?);
        Ok(Self { config, tls, header_echo, generation: 0, files, from_exec_plugin, expires })
    }

    /// Returns the headers that carry the credentials, and those of the configuration.
    pub(super) async fn headers(&self) -> Result<HeaderMap, CredentialsError> {
        let response = self.header_echo.clone().oneshot(Request::new(Body::empty())).await;
        Ok(response.map_err(CredentialsError::AddHeaders)?.into_parts().0.headers)
    }

    /// Returns the next credentials, of the same generation if connections do not depend on the change.
    pub(super) fn replaced_by(&self, next: Self) -> Self {
        let certificate = |of: &Self| of.config.auth_info.client_certificate_data.clone();
        let is_same = certificate(self) == certificate(&next)
            && self.config.root_cert == next.config.root_cert;
        Self { generation: self.generation + u64::from(!is_same), ..next }
    }

    /// Returns `true` if a file changed, or if the credentials expire soon.
    pub(super) fn is_stale(&self) -> bool {
        self.files.iter().any(|file| FileStamp::of(&file.path) != *file)
            || self.expires.is_some_and(|expires| SystemTime::now() + EXPIRY_MARGIN >= expires)
    }

    /// Returns the configuration with the contents of files and the output of the exec plugin.
    pub(super) fn config(&self) -> &kube::Config {
        &self.config
    }
}

fn certificates(pem: &[u8], path: &Path) -> Result<Vec<Vec<u8>>, CredentialsError> {
    let certificates = CertificateDer::pem_slice_iter(pem).map(|read| Ok(read?.to_vec()));
    let certificates = certificates.collect::<Result<Vec<_>, pem::Error>>();
    let parse = |source| CredentialsError::ParseCaBundle { path: path.to_owned(), source };
    match certificates.map_err(parse)? {
        none if none.is_empty() => Err(CredentialsError::EmptyCaBundle(path.to_owned())),
        certificates => Ok(certificates),
    }
}

fn token(bytes: Vec<u8>, path: &str) -> Result<String, CredentialsError> {
    let parse = |source| CredentialsError::ParseToken { path: path.to_owned(), source };
    match String::from_utf8(bytes).map_err(parse)?.trim() {
        "" => Err(CredentialsError::EmptyToken(path.to_owned())),
        token => Ok(token.to_owned()),
    }
}

fn header_echo(config: &kube::Config) -> Result<HeaderEcho, CredentialsError> {
    let echo = tower::service_fn(|request: Request<Body>| async {
        let mut response = Response::new(Body::empty());
        *response.headers_mut() = request.into_parts().0.headers;
        Ok::<_, BoxError>(response)
    });
    let credentials = config.auth_layer().map_err(CredentialsError::layers)?;
    let echo = tower::util::option_layer(credentials).layer(echo);
    let headers = config.extra_headers_layer().map_err(CredentialsError::layers)?;
    Ok(HeaderEcho::new(headers.layer(echo)))
}
