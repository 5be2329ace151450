//! Certificates of clients.
//!
//! During the handshake a client only has to prove that it has the key of its certificate. Who
//! signed it is checked with each request: so a probe with a strange certificate still gets its
//! answer, a refused one gets a 401 that says so, and an expired one stops working on an open
//! connection.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::Context;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};

use super::certificate::{Contents, provider, read};

/// Authorities that vouch for clients, from a file that may change.
#[derive(Debug)]
pub(super) struct ClientCa {
    file: PathBuf,
    algorithms: WebPkiSupportedAlgorithms,
    current: RwLock<(Contents, Arc<dyn ClientCertVerifier>)>,
}

impl ClientCa {
    pub(super) fn new(file: PathBuf) -> anyhow::Result<Self> {
        let text = read(&file)?;
        let verifier = verifier(&text)
            .with_context(|| format!("client certificate authority {}", file.display()))?;
        let algorithms = provider().signature_verification_algorithms;
        Ok(Self { file, algorithms, current: RwLock::new((Contents::of(&[&text]), verifier)) })
    }

    /// Reads the file again if it changed. On an error the old authorities stay.
    pub(super) fn refresh(&self) -> anyhow::Result<bool> {
        let text = read(&self.file)?;
        let contents = Contents::of(&[&text]);
        if self.current.read().unwrap_or_else(PoisonError::into_inner).0 == contents {
            return Ok(false);
        }
        let verifier = verifier(&text)
            .with_context(|| format!("client certificate authority {}", self.file.display()))?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = (contents, verifier);
        Ok(true)
    }

    /// Whether a certificate is good now, for a client, and signed by one of the authorities.
    pub(super) fn vouches_for(
        &self,
        certificate: &CertificateDer,
        intermediates: &[CertificateDer],
    ) -> bool {
        let verifier = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).1);
        verifier.verify_client_cert(certificate, intermediates, UnixTime::now()).is_ok()
    }
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
impl ClientCertVerifier for ClientCa {
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
