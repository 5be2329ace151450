//! Certificates of clients.
//!
//! During the handshake a client only has to prove that it has the key of its certificate. Who
//! signed it is checked with each request: so a probe with a strange certificate still gets its
//! answer, a refused one gets a 401 that says so, and an expired one stops working on an open
//! connection.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use anyhow::Context;
use http::HeaderMap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};

use super::certificate::{ContentHash, provider, read_bounded};
use super::cluster_authentication::{ClusterAuthorities, RequestHeaderConfig};
use super::identity::{RequestUser, common_name};

/// Authorities that vouch for clients, from a file or from the cluster, and those that vouch for
/// front proxies, from the cluster. They may change.
#[derive(Debug)]
pub(super) struct ClientAuthorities {
    /// With a file, what the cluster says of clients does not count.
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
    /// Reads the file, if there is one. Without one nobody is vouched for as long as the cluster did
    /// not say anything.
    pub(super) fn new(file: Option<PathBuf>) -> anyhow::Result<Self> {
        let algorithms = provider().signature_verification_algorithms;
        let client_ca = Self { file, algorithms, current: RwLock::default() };
        client_ca.refresh()?;
        Ok(client_ca)
    }

    /// Reads the file again if it changed. On an error the old authorities stay.
    pub(super) fn refresh(&self) -> anyhow::Result<bool> {
        let Some(file) = &self.file else { return Ok(false) };
        let text = read_bounded(file)?;
        let taken = self.set_clients(&text);
        taken.with_context(|| format!("client certificate authority {}", file.display()))
    }

    /// Takes over what the cluster says. Whether it is new. On an error the old authorities stay.
    pub(super) fn update(&self, new: &ClusterAuthorities) -> anyhow::Result<bool> {
        let clients = match (&self.file, &*new.client_ca) {
            (Some(_), _) => false,
            (None, "") => self.write().clients.take().is_some(),
            (None, text) => self
                .set_clients(text.as_bytes())
                .context("the cluster's authority for client certificates")?,
        };
        if self.read().proxies.as_ref().map(|proxies| &proxies.0) == new.proxies.as_ref() {
            return Ok(clients);
        }
        let proxies = new.proxies.clone().map(|rules| {
            let verifier = verifier(rules.ca.as_bytes())
                .context("the cluster's authority for front proxies")?;
            anyhow::Ok(Arc::new((rules, verifier)))
        });
        self.write().proxies = proxies.transpose()?;
        Ok(true)
    }

    /// Whether there is anybody who could vouch for a certificate.
    pub(super) fn knows_any(&self) -> bool {
        let current = self.read();
        current.clients.is_some() || current.proxies.is_some()
    }

    /// Whether a certificate is good now, for a client, and signed by one of the authorities.
    pub(super) fn vouches_for(
        &self,
        certificate: &CertificateDer,
        intermediates: &[CertificateDer],
    ) -> bool {
        let verifier = self.read().clients.as_ref().map(|(_, verifier)| Arc::clone(verifier));
        verifier.is_some_and(|verifier| accepts(&verifier, certificate, intermediates))
    }

    /// The user on whose behalf a front proxy asks, if the certificate is that of one.
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

    fn set_clients(&self, text: &[u8]) -> anyhow::Result<bool> {
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

fn verifier(text: &[u8]) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(text) {
        roots.add(certificate.context("not in PEM form")?).context("not a certificate")?;
    }
    anyhow::ensure!(!roots.is_empty(), "no certificate found; give certificates in PEM form");
    Ok(WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build()?)
}

/// Lets any certificate through the handshake whose key the client has. See the top of the file.
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
