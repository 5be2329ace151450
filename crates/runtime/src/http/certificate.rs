//! The server's certificate.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use ring::digest::{Context as Digest, SHA256, SHA256_OUTPUT_LEN};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::ServingCertificate;

/// Maximum length of a file of certificates, in bytes; chains have a few kilobytes.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Why it cannot be read.
        #[source]
        error: std::io::Error,
    },
    /// A file is too long.
    #[error("{} is longer than {FILE_BYTES_MAX} bytes", .0.display())]
    TooLong(PathBuf),
    /// The files do not hold a certificate with its key.
    #[error("certificate {} with key {}", .certificate.display(), .key.display())]
    Files {
        /// File of the certificate.
        certificate: PathBuf,
        /// File of the key.
        key: PathBuf,
        /// What is wrong with them.
        #[source]
        error: KeyPairError,
    },
    /// A certificate cannot be generated.
    #[error("cannot make a certificate")]
    Generate(#[source] rcgen::Error),
    /// The generated certificate cannot be used.
    #[error("cannot use the certificate that was made")]
    UseGenerated(#[source] rustls::Error),
}

/// Why a certificate and a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyPairError {
    /// The certificate is malformed.
    #[error("the certificate is not in PEM form")]
    CertificatePem(#[source] pem::Error),
    /// The file holds no certificate.
    #[error("no certificate found; give certificates in PEM form")]
    NoCertificate,
    /// The file holds no key. The parser's error is left out, since it could quote the key.
    #[error("no private key found; give one in PEM form")]
    NoKey,
    /// The key is not that of the certificate.
    #[error("certificate and key do not fit")]
    Mismatch(#[source] rustls::Error),
}

/// Returns the cryptography provider of all TLS connections.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Reads a file of at most [`FILE_BYTES_MAX`].
pub(super) fn read_bounded(file: &Path) -> Result<Vec<u8>, CertificateError> {
    let mut text = Vec::new();
    File::open(file)
        .and_then(|opened| opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut text))
        .map_err(|error| CertificateError::Read { path: file.to_owned(), error })?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(CertificateError::TooLong(file.to_owned()));
    }
    Ok(text)
}

/// Hash of the contents of files.
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

/// Resolves the certificate of each handshake to the present one.
#[derive(Debug)]
pub(super) struct CertificateResolver {
    source: ServingCertificate,
    current: RwLock<(ContentHash, Arc<CertifiedKey>)>,
}

impl CertificateResolver {
    pub(super) fn new(source: ServingCertificate) -> Result<Self, CertificateError> {
        let current = match &source {
            ServingCertificate::SelfSigned => (ContentHash::of(&[]), Arc::new(self_signed()?)),
            ServingCertificate::Files { certificate, key } => {
                let texts = [read_bounded(certificate)?, read_bounded(key)?];
                (
                    ContentHash::of(&texts.each_ref().map(Vec::as_slice)),
                    parse_files(certificate, key, &texts)?,
                )
            }
        };
        Ok(Self { source, current: RwLock::new(current) })
    }

    /// Reads the files again. Returns `true` if they have changed. After an error the old pair stays in
    /// use, such as when only one of the files was replaced yet.
    pub(super) fn refresh(&self) -> Result<bool, CertificateError> {
        let ServingCertificate::Files { certificate, key } = &self.source else { return Ok(false) };
        let texts = [read_bounded(certificate)?, read_bounded(key)?];
        let contents = ContentHash::of(&texts.each_ref().map(Vec::as_slice));
        if self.current.read().unwrap_or_else(PoisonError::into_inner).0 == contents {
            return Ok(false);
        }
        let parsed = parse_files(certificate, key, &texts)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = (contents, parsed);
        Ok(true)
    }
}

#[cfg(test)]
impl CertificateResolver {
    /// Returns the present certificate.
    pub(super) fn leaf(&self) -> CertificateDer<'static> {
        self.current.read().unwrap().1.cert[0].clone()
    }
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).1))
    }
}

fn parse_files(
    certificate: &Path,
    key: &Path,
    [certificate_text, key_text]: &[Vec<u8>; 2],
) -> Result<Arc<CertifiedKey>, CertificateError> {
    let parsed = parse(certificate_text, key_text).map_err(|error| CertificateError::Files {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        error,
    });
    parsed.map(Arc::new)
}

fn parse(certificates: &[u8], key: &[u8]) -> Result<CertifiedKey, KeyPairError> {
    let chain: Vec<CertificateDer> = CertificateDer::pem_slice_iter(certificates)
        .collect::<Result<_, _>>()
        .map_err(KeyPairError::CertificatePem)?;
    if chain.is_empty() {
        return Err(KeyPairError::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| KeyPairError::NoKey)?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(KeyPairError::Mismatch)
}

fn self_signed() -> Result<CertifiedKey, CertificateError> {
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    let made = rcgen::generate_simple_self_signed(names).map_err(CertificateError::Generate)?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    CertifiedKey::from_der(vec![made.cert.der().clone()], key.into(), &provider())
        .map_err(CertificateError::UseGenerated)
}
