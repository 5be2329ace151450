//! The certificates of a control plane, made anew for each one and thrown away with it.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// How long certificates are valid: longer than anybody keeps a control plane for tests.
const VALIDITY: Duration = Duration::from_hours(30 * 24);

/// How far clocks may differ.
const SKEW: Duration = Duration::from_hours(1);

/// Names that the API server is reached by, from outside and inside of the cluster.
const SERVER_NAMES: &[&str] = &[
    "127.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    super::components::SERVICE_ADDRESS,
];

/// Who gets a client certificate of the cluster: file, user, group.
const CLIENTS: &[(&str, &str, Option<&str>)] = &[
    ("admin", "admin", Some("system:masters")),
    ("kube-controller-manager", "system:kube-controller-manager", None),
    ("kube-scheduler", "system:kube-scheduler", None),
    ("kwok", "kwok", Some("system:masters")),
];

/// Writes all certificates and keys into a folder, as `NAME.crt` and `NAME.key`.
///
/// Etcd has an authority of its own, so that users of the cluster cannot go around the API server;
/// so have API servers that stand behind it, since who it vouches for can speak for every user.
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
    let accounts = KeyPair::generate().context("cannot make a key for service accounts")?;
    write_private(&folder.join("service-accounts.pub"), &accounts.public_key_pem())?;
    write_private(&folder.join("service-accounts.key"), &accounts.serialize_pem())
}

/// Writes a file that only its owner may read.
pub fn write_private(path: &Path, text: &str) -> Result<()> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a client certificate of a cluster that has expired, and its key, as `NAME.crt` and
/// `NAME.key`, to see what comes of it. `ca` is the certificate of the cluster's authority.
pub fn write_expired_client(ca: &Path, folder: &Path, name: &str, user: &str) -> Result<()> {
    let key = ca.with_extension("key");
    let key =
        std::fs::read_to_string(&key).with_context(|| format!("cannot read {}", key.display()))?;
    let key = KeyPair::from_pem(&key).context("the key of the authority cannot be read")?;
    let authority = Authority(Issuer::new(Authority::params("ca")?, key));
    let mut params = client(user, None)?;
    let now = SystemTime::now();
    (params.not_before, params.not_after) = ((now - VALIDITY).into(), (now - SKEW).into());
    authority.issue(folder, name, &params)
}

struct Authority(Issuer<'static, KeyPair>);

impl Authority {
    fn new(folder: &Path, name: &str) -> Result<Self> {
        let key = KeyPair::generate().context("cannot make a key")?;
        let params = Self::params(name)?;
        let certificate = params.self_signed(&key)?;
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
        let key = KeyPair::generate().context("cannot make a key")?;
        let certificate = params
            .signed_by(&key, &self.0)
            .with_context(|| format!("cannot make the certificate {file}"))?;
        write_private(&folder.join(format!("{file}.crt")), &certificate.pem())?;
        write_private(&folder.join(format!("{file}.key")), &key.serialize_pem())
    }
}

fn server(name: &str, names: &[&str]) -> Result<CertificateParams> {
    let mut params = subject(name, names)?;
    // Members of etcd are clients of each other with the same certificate.
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
    let mut params =
        CertificateParams::new(names).context("a name that no certificate can hold")?;
    let now = SystemTime::now();
    params.not_before = (now - SKEW).into();
    params.not_after = (now + VALIDITY).into();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}
