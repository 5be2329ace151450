//! The certificate that the server shows, and the kubeconfig that trusts it.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use ring::rand::SecureRandom as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// Longer than anybody keeps a sandbox.
const VALIDITY: Duration = Duration::from_hours(365 * 24);
/// How far clocks may differ.
const SKEW: Duration = Duration::from_hours(1);
/// Random bytes of the token.
const TOKEN_BYTES: usize = 32;

/// Who the server is and whom it lets in: made at the start, gone at the end.
#[derive(Debug)]
pub struct Identity {
    authority_pem: String,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    /// The token that clients show.
    pub token: String,
}

impl Identity {
    /// A new one, for these names and addresses.
    pub fn new(names: &[String]) -> Result<Self, rcgen::Error> {
        let authority_key = KeyPair::generate()?;
        let mut params = subject("jindou-sandbox-ca", &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority_pem = params.self_signed(&authority_key)?.pem();
        let authority = Issuer::new(params, authority_key);
        let key = KeyPair::generate()?;
        let mut params = subject("kube-apiserver", names)?;
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &authority)?.der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut token = [0; TOKEN_BYTES];
        ring::rand::SystemRandom::new()
            .fill(&mut token)
            .map_err(|_| rcgen::Error::RingUnspecified)?;
        let token = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token);
        Ok(Self { authority_pem, certificate, key, token })
    }

    /// How TLS is spoken.
    pub(super) fn tls(&self) -> Result<rustls::ServerConfig, rustls::Error> {
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// A kubeconfig for this server.
    pub fn kubeconfig(&self, address: SocketAddr) -> String {
        let authority = STANDARD.encode(&self.authority_pem);
        let host = match address.ip() {
            ip if ip.is_unspecified() => format!("127.0.0.1:{}", address.port()),
            _ => address.to_string(),
        };
        let token = &self.token;
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: jindou\n  cluster:\n    server: https://{host}\n    certificate-authority-data: {authority}\nusers:\n- name: jindou\n  user:\n    token: {token}\ncontexts:\n- name: jindou\n  context:\n    cluster: jindou\n    user: jindou\n    namespace: default\ncurrent-context: jindou\n"
        )
    }
}

fn subject(name: &str, names: &[String]) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names.to_vec())?;
    let now = SystemTime::now();
    params.not_before = (now - SKEW).into();
    params.not_after = (now + VALIDITY).into();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok(params)
}
