//! The server's own certificate.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::Context;
use ring::digest::{Context as Digest, SHA256, SHA256_OUTPUT_LEN};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::ServingCertificate;

/// Chains of certificates have a few kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The one set of cryptographic functions that is used.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Reads a file that is not absurdly long.
pub(super) fn read_bounded(file: &Path) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(file)
        .and_then(|opened| opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut text))
        .with_context(|| format!("cannot read {}", file.display()))?;
    let short = text.len() as u64 <= FILE_BYTES_MAX;
    anyhow::ensure!(short, "{} is longer than {FILE_BYTES_MAX} bytes", file.display());
    Ok(text)
}

/// What files held, as a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContentHash([u8; SHA256_OUTPUT_LEN]);

impl ContentHash {
    pub(super) fn of(texts: &[&[u8]]) -> Self {
        let mut digest = Digest::new(&SHA256);
        for text in texts {
            digest.update(&(text.len() as u64).to_le_bytes());
            digest.update(text);
        }
        let mut hash = [0; SHA256_OUTPUT_LEN];
        hash.copy_from_slice(digest.finish().as_ref());
        Self(hash)
    }
}

/// Gives each handshake the certificate of now.
#[derive(Debug)]
pub(super) struct CertificateResolver {
    source: ServingCertificate,
    current: RwLock<(ContentHash, Arc<CertifiedKey>)>,
}

impl CertificateResolver {
    pub(super) fn new(source: ServingCertificate) -> anyhow::Result<Self> {
        let current = match &source {
            ServingCertificate::SelfSigned => (ContentHash::of(&[]), Arc::new(self_signed()?)),
            ServingCertificate::Files { certificate, key } => {
                let (certificate_text, key_text) = (read_bounded(certificate)?, read_bounded(key)?);
                let parsed = parse(&certificate_text, &key_text).with_context(|| {
                    format!("certificate {} with key {}", certificate.display(), key.display())
                })?;
                (ContentHash::of(&[&certificate_text, &key_text]), Arc::new(parsed))
            }
        };
        Ok(Self { source, current: RwLock::new(current) })
    }

    /// Reads the files again if they changed. On an error, such as a certificate and a key that do
    /// not belong together because only one was written yet, the old pair stays.
    pub(super) fn refresh(&self) -> anyhow::Result<bool> {
        let ServingCertificate::Files { certificate, key } = &self.source else { return Ok(false) };
        let (certificate_text, key_text) = (read_bounded(certificate)?, read_bounded(key)?);
        let contents = ContentHash::of(&[&certificate_text, &key_text]);
        if self.current.read().unwrap_or_else(PoisonError::into_inner).0 == contents {
            return Ok(false);
        }
        let parsed = parse(&certificate_text, &key_text).with_context(|| {
            format!("certificate {} with key {}", certificate.display(), key.display())
        })?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) =
            (contents, Arc::new(parsed));
        Ok(true)
    }
}

#[cfg(test)]
impl CertificateResolver {
    /// The certificate that clients see now.
    pub(super) fn leaf(&self) -> CertificateDer<'static> {
        self.current.read().unwrap().1.cert[0].clone()
    }
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).1))
    }
}

fn parse(certificates: &[u8], key: &[u8]) -> anyhow::Result<CertifiedKey> {
    let chain: Vec<CertificateDer> = CertificateDer::pem_slice_iter(certificates)
        .collect::<Result<_, _>>()
        .context("the certificate is not in PEM form")?;
    anyhow::ensure!(!chain.is_empty(), "no certificate found; give certificates in PEM form");
    // The error of the parser is left out: it could quote the key.
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| anyhow::anyhow!("no private key found; give one in PEM form"))?;
    CertifiedKey::from_der(chain, key, &provider()).context("certificate and key do not fit")
}

fn self_signed() -> anyhow::Result<CertifiedKey> {
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    let made = rcgen::generate_simple_self_signed(names).context("cannot make a certificate")?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    CertifiedKey::from_der(vec![made.cert.der().clone()], key.into(), &provider())
        .context("cannot use the certificate that was made")
}
