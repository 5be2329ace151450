//! The server's certificate, and kubeconfigs that trust it.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use ring::rand::SecureRandom as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::addresses;

/// Validity of certificates, longer than any sandbox runs.
const VALIDITY: Duration = Duration::from_hours(365 * 24);
/// Tolerated clock skew of clients.
const SKEW: Duration = Duration::from_hours(1);
/// Number of random bytes in the token.
const TOKEN_BYTES: usize = 32;

/// Certificate, key and bearer token of a server, generated at each start.
#[derive(Debug)]
pub struct ServerIdentity {
    authority_pem: String,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    /// Bearer token of clients.
    pub token: String,
}

impl ServerIdentity {
    /// Generates an identity for a server that listens on `address`. `more` are further names and
    /// addresses in the certificate.
    pub fn new(address: IpAddr, more: &[String]) -> Result<Self, rcgen::Error> {
        let names = names(address, more);
        let authority_key = KeyPair::generate()?;
        let mut params = subject("jindou-sandbox-ca", &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority_pem = params.self_signed(&authority_key)?.pem();
        let authority = Issuer::new(params, authority_key);
        let key = KeyPair::generate()?;
        let mut params = subject("kube-apiserver", &names)?;
        // Strict clients such as Python 3.13 require the authority key identifier.
        params.use_authority_key_identifier_extension = true;
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

    /// Returns the TLS configuration of the server.
    pub(super) fn tls(&self) -> Result<rustls::ServerConfig, rustls::Error> {
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// Returns a kubeconfig for this server; its cluster, user and context have the given name.
    pub(crate) fn kubeconfig(&self, url: &str, name: &str) -> String {
        let authority = STANDARD.encode(&self.authority_pem);
        let token = &self.token;
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: {name}\n  cluster:\n    server: {url}\n    certificate-authority-data: {authority}\nusers:\n- name: {name}\n  user:\n    token: {token}\ncontexts:\n- name: {name}\n  context:\n    cluster: {name}\n    user: {name}\n    namespace: default\ncurrent-context: {name}\n"
        )
    }
}

/// Returns the URL for clients on this machine.
pub(crate) fn local_url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    format!("https://{}", SocketAddr::new(ip, address.port()))
}

/// Returns the URL for clients on this machine and, if the server listens on all addresses, on others.
pub(crate) fn url(address: SocketAddr) -> String {
    let reached = address.ip().is_unspecified().then(|| addresses::outgoing(address.is_ipv6()));
    match reached.flatten() {
        Some(ip) => format!("https://{}", SocketAddr::new(ip, address.port())),
        None => local_url(address),
    }
}

/// Returns the names and addresses in the certificate.
fn names(address: IpAddr, more: &[String]) -> Vec<String> {
    let own = [
        "localhost",
        "127.0.0.1",
        "::1",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
    ];
    let addresses =
        if address.is_unspecified() { addresses::local() } else { BTreeSet::from([address]) };
    let mut names: Vec<String> = own.iter().map(|&name| name.to_owned()).collect();
    names.extend(addresses.iter().map(IpAddr::to_string));
    names.extend_from_slice(more);
    names.sort();
    names.dedup();
    names
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_has_an_authority_key_identifier_and_all_names() {
        let more = ["cluster.example".to_owned(), "192.0.2.7".to_owned()];
        let identity = ServerIdentity::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), &more).unwrap();
        let has =
            |bytes: &[u8]| identity.certificate.windows(bytes.len()).any(|part| part == bytes);
        // The object identifier 2.5.29.35, authority key identifier.
        assert!(has(&[0x06, 0x03, 0x55, 0x1d, 0x23]));
        assert!(has(b"cluster.example") && has(&[192, 0, 2, 7]) && has(&[127, 0, 0, 1]));
        for ip in addresses::local() {
            let octets = match ip {
                IpAddr::V4(ip) => ip.octets().to_vec(),
                IpAddr::V6(ip) => ip.octets().to_vec(),
            };
            assert!(has(&octets), "{ip}");
        }
        assert!(
            ServerIdentity::new(IpAddr::V4(Ipv4Addr::LOCALHOST), &["\u{e4}".to_owned()]).is_err()
        );
    }

    #[test]
    fn kubeconfigs_have_a_reachable_address() {
        let any = SocketAddr::from(([0, 0, 0, 0], 7));
        assert_eq!(local_url(any), "https://127.0.0.1:7");
        assert!(!url(any).contains("0.0.0.0"));
        assert_eq!(local_url("[::]:7".parse().unwrap()), "https://[::1]:7");
        let one = SocketAddr::from(([127, 0, 0, 2], 7));
        assert_eq!(
            (url(one), local_url(one)),
            ("https://127.0.0.2:7".into(), "https://127.0.0.2:7".into())
        );
    }
}
