//! Verification of client certificates.
//!
//! The handshake only requires that a client has the key of its certificate. The chain is verified with
//! each request: so a probe with an unknown certificate is answered, a rejected certificate gets a 401,
//! and an expired certificate stops working on an open connection.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use http::HeaderMap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};

use super::certificate::{CertificateError, ContentHash, provider, read_bounded};
use super::cluster_authentication::{ClusterAuthorities, RequestHeaderConfig};
use super::identity::{RequestUser, common_name};

/// Why the authorities of client certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] CertificateError),
    /// The file holds no usable authority.
    #[error("client certificate authority {}", .path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        error: VerifierError,
    },
    /// The cluster's authority of clients is not usable.
    #[error("the cluster's authority for client certificates")]
    ClusterClients(#[source] VerifierError),
    /// The cluster's authority of front proxies is not usable.
    #[error("the cluster's authority for front proxies")]
    ClusterProxies(#[source] VerifierError),
}

/// Why a text holds no usable authority.
#[derive(Debug, thiserror::Error)]
pub enum VerifierError {
    /// The text is malformed.
    #[error("not in PEM form")]
    Pem(#[source] pem::Error),
    /// The PEM holds something else than a certificate.
    #[error("not a certificate")]
    Certificate(#[source] rustls::Error),
    /// The text holds no certificate.
    #[error("no certificate found; give certificates in PEM form")]
    Empty,
    /// The verifier cannot be built from the certificates.
    #[error(transparent)]
    Build(#[from] VerifierBuilderError),
}

/// Authorities of client certificates, from a file or from the cluster, and those of front proxies, from
/// the cluster. They may change at any time.
#[derive(Debug)]
pub(super) struct ClientAuthorities {
    /// A file replaces the cluster's authority of clients.
    file: Option<PathBuf>,
    algorithms: WebPkiSupportedAlgorithms,
    current: RwLock<Current>,
}

#[derive(Debug, Default)]
struct Current {
    clients: Option<(ContentHash, Verifier)>,
    proxies: Option<Arc<(RequestHeaderConfig, Verifier)>>,
}

type Verifier = Arc<dyn ClientCertVerifier>;

impl ClientAuthorities {
    /// Reads the file, if there is one. Without a file no certificate is accepted until
    /// [`Self::update`].
    pub(super) fn new(file: Option<PathBuf>) -> Result<Self, AuthorityError> {
        let algorithms = provider().signature_verification_algorithms;
        let client_ca = Self { file, algorithms, current: RwLock::default() };
        client_ca.refresh()?;
        Ok(client_ca)
    }

    /// Reads the file again. Returns `true` if it has changed. After an error the old authorities stay.
    pub(super) fn refresh(&self) -> Result<bool, AuthorityError> {
        let Some(file) = &self.file else { return Ok(false) };
        let text = read_bounded(file)?;
        self.set_clients(&text).map_err(|error| AuthorityError::File { path: file.clone(), error })
    }

    /// Uses the authorities of the cluster. Returns `true` if they have changed. After an error the old
    /// authorities stay.
    pub(super) fn update(&self, new: &ClusterAuthorities) -> Result<bool, AuthorityError> {
        let clients = match (&self.file, &*new.client_ca) {
            (Some(_), _) => false,
            (None, "") => self.write().clients.take().is_some(),
            (None, text) => {
                self.set_clients(text.as_bytes()).map_err(AuthorityError::ClusterClients)?
            }
        };
        if self.read().proxies.as_ref().map(|proxies| &proxies.0) == new.proxies.as_ref() {
            return Ok(clients);
        }
        let proxies = new.proxies.clone().map(|rules| {
            let verifier = verifier(rules.ca.as_bytes()).map_err(AuthorityError::ClusterProxies)?;
            Ok::<_, AuthorityError>(Arc::new((rules, verifier)))
        });
        self.write().proxies = proxies.transpose()?;
        Ok(true)
    }

    /// Returns `true` if there is an authority of clients or proxies.
    pub(super) fn has_any(&self) -> bool {
        let current = self.read();
        current.clients.is_some() || current.proxies.is_some()
    }

    /// Returns `true` if a certificate is valid now, meant for clients and signed by an authority of
    /// clients.
    pub(super) fn accepts_client(
        &self,
        certificate: &CertificateDer,
        intermediates: &[CertificateDer],
    ) -> bool {
        let verifier = self.read().clients.as_ref().map(|(_, verifier)| Arc::clone(verifier));
        verifier.is_some_and(|verifier| accepts(&verifier, certificate, intermediates))
    }

    /// Returns the user that a front proxy names in headers, if the certificate is that of a proxy.
    pub(super) fn proxied(
        &self,
        certificate: &CertificateDer,
        intermediates: &[CertificateDer],
        headers: &HeaderMap,
    ) -> Option<RequestUser> {
        let proxies = self.read().proxies.as_ref().map(Arc::clone)?;
        let (rules, verifier) = &*proxies;
        if !accepts(verifier, certificate, intermediates) {
            return None;
        }
        let names = &rules.allowed_names;
        let named = |name: String| names.contains(&name);
        let allowed = names.is_empty() || common_name(certificate).is_some_and(named);
        if allowed { RequestUser::of_headers(headers, rules) } else { None }
    }

    fn set_clients(&self, text: &[u8]) -> Result<bool, VerifierError> {
        let contents = ContentHash::of(&[text]);
        if self.read().clients.as_ref().is_some_and(|(known, _)| *known == contents) {
            return Ok(false);
        }
        let verifier = verifier(text)?;
        self.write().clients = Some((contents, verifier));
        Ok(true)
    }

    fn read(&self) -> RwLockReadGuard<'_, Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Current> {
        self.current.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accepts(
    verifier: &Verifier,
    certificate: &CertificateDer,
    intermediates: &[CertificateDer],
) -> bool {
    verifier.verify_client_cert(certificate, intermediates, UnixTime::now()).is_ok()
}

fn verifier(text: &[u8]) -> Result<Verifier, VerifierError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(text) {
        roots.add(certificate.map_err(VerifierError::Pem)?).map_err(VerifierError::Certificate)?;
    }
    if roots.is_empty() {
        return Err(VerifierError::Empty);
    }
    Ok(WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build()?)
}

/// Accepts any certificate whose key the client has; see the module documentation.
impl ClientCertVerifier for ClientAuthorities {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
