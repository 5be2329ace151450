//! Certificates and keys of a control plane, generated for each one.

use std::path::Path;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::files::{FileError, write_private};

/// A certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot generate a key")]
    GenerateKey(#[source] rcgen::Error),
    #[error("cannot read the key of the authority")]
    ParseKey(#[source] rcgen::Error),
    #[error("a certificate cannot hold the names {0:?}")]
    Names(Vec<String>, #[source] rcgen::Error),
    #[error("cannot sign the certificate {0}")]
    Sign(String, #[source] rcgen::Error),
}

type Result<T> = std::result::Result<T, CertificateError>;

/// Validity of certificates, longer than a control plane for tests is kept.
const VALIDITY: Duration = Duration::from_hours(30 * 24);

/// Tolerance for clocks that differ.
const SKEW: Duration = Duration::from_hours(1);

/// Names of the API server, outside and inside of the cluster.
const SERVER_NAMES: &[&str] = &[
    "127.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    super::components::SERVICE_ADDRESS,
];

/// Client certificates of the cluster: file, user, group.
const CLIENTS: &[(&str, &str, Option<&str>)] = &[
    ("admin", "admin", Some("system:masters")),
    ("kube-controller-manager", "system:kube-controller-manager", None),
    ("kube-scheduler", "system:kube-scheduler", None),
    ("kwok", "kwok", Some("system:masters")),
];

/// Writes all certificates and keys into a folder, as `NAME.crt` and `NAME.key`.
///
/// Etcd has its own authority, so that users of the cluster cannot bypass the API server. So has the
/// front proxy of aggregated API servers, whose certificate can impersonate every user.
pub(crate) fn write(folder: &Path) -> Result<()> {
    let cluster = Authority::new(folder, "ca")?;
    cluster.issue(folder, "kube-apiserver", &server("kube-apiserver", SERVER_NAMES)?)?;
    for (file, user, group) in CLIENTS {
        cluster.issue(folder, file, &client(user, *group)?)?;
    }
    let store = Authority::new(folder, "etcd-ca")?;
    store.issue(folder, "etcd", &server("etcd", &["127.0.0.1", "localhost"])?)?;
    store.issue(folder, "etcd-client", &client("kube-apiserver", None)?)?;
    let front = Authority::new(folder, "front-proxy-ca")?;
    front.issue(folder, "front-proxy", &client("front-proxy", None)?)?;
    let accounts = generate_key()?;
    write_private(&folder.join("service-accounts.pub"), &accounts.public_key_pem())?;
    write_private(&folder.join("service-accounts.key"), &accounts.serialize_pem())?;
    Ok(())
}

/// Writes a client certificate that has expired, and its key, as `NAME.crt` and `NAME.key`, for tests
/// of its rejection. `ca` is the certificate of the cluster's authority.
pub fn write_expired_client(ca: &Path, folder: &Path, name: &str, user: &str) -> Result<()> {
    let path = ca.with_extension("key");
    let key = std::fs::read_to_string(&path).map_err(FileError::at("read", &path))?;
    let key = KeyPair::from_pem(&key).map_err(CertificateError::ParseKey)?;
    let authority = Authority(Issuer::new(Authority::params("ca")?, key));
    let mut params = client(user, None)?;
    let now = SystemTime::now();
    (params.not_before, params.not_after) = ((now - VALIDITY).into(), (now - SKEW).into());
    authority.issue(folder, name, &params)
}

struct Authority(Issuer<'static, KeyPair>);

impl Authority {
    fn new(folder: &Path, name: &str) -> Result<Self> {
        let key = generate_key()?;
        let params = Self::params(name)?;
        let certificate =
            params.self_signed(&key).map_err(|e| CertificateError::Sign(name.to_owned(), e))?;
        write_private(&folder.join(format!("{name}.crt")), &certificate.pem())?;
        write_private(&folder.join(format!("{name}.key")), &key.serialize_pem())?;
        Ok(Self(Issuer::new(params, key)))
    }

    fn params(name: &str) -> Result<CertificateParams> {
        let mut params = subject(&format!("jindou-{name}"), &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Ok(params)
    }

    fn issue(&self, folder: &Path, file: &str, params: &CertificateParams) -> Result<()> {
        let key = generate_key()?;
        let certificate = params
            .signed_by(&key, &self.0)
            .map_err(|e| CertificateError::Sign(file.to_owned(), e))?;
        write_private(&folder.join(format!("{file}.crt")), &certificate.pem())?;
        write_private(&folder.join(format!("{file}.key")), &key.serialize_pem())?;
        Ok(())
    }
}

fn generate_key() -> Result<KeyPair> {
    KeyPair::generate().map_err(CertificateError::GenerateKey)
}

fn server(name: &str, names: &[&str]) -> Result<CertificateParams> {
    let mut params = subject(name, names)?;
    // Members of etcd use the same certificate as clients of each other.
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    Ok(params)
}

fn client(user: &str, group: Option<&str>) -> Result<CertificateParams> {
    let mut params = subject(user, &[])?;
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    Ok(params)
}

fn subject(name: &str, names: &[&str]) -> Result<CertificateParams> {
    let names: Vec<_> = names.iter().copied().map(str::to_owned).collect();
    let mut params = CertificateParams::new(names.clone())
        .map_err(|error| CertificateError::Names(names, error))?;
    let now = SystemTime::now();
    params.not_before = (now - SKEW).into();
    params.not_after = (now + VALIDITY).into();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}
