//! Client certificates that are replaced while requests are in flight.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use rcgen::{CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::server::WebPkiClientVerifier;
use tokio::sync::Notify;
use x509_cert::der::Decode as _;

use super::*;

/// Returns an authority that signs client certificates.
fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "authority");
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Writes the certificate and key of a client of this name; `expired` ends its validity in 2020.
fn write_client(
    authority: &CertifiedIssuer<'static, KeyPair>,
    folder: &Path,
    name: &str,
    expired: bool,
) {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    if expired {
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    }
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    for (file, content) in [("tls.crt", certificate.pem()), ("tls.key", key.serialize_pem())] {
        std::fs::write(folder.join("new"), content).unwrap();
        std::fs::rename(folder.join("new"), folder.join(file)).unwrap();
    }
}

/// A server that answers with the name in the client certificate.
struct Naming {
    config: kube::Config,
    /// The client "old" is answered with 401.
    expired: Arc<AtomicBool>,
    /// Releases the responses to held requests.
    released: Arc<Notify>,
    connections: Arc<AtomicUsize>,
}

impl Naming {
    async fn start(authority: &CertifiedIssuer<'static, KeyPair>, folder: &Path) -> Self {
        let certified = rcgen::generate_simple_self_signed(vec!["api.example".to_owned()]).unwrap();
        let certificate = certified.cert.der().clone();
        let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let clients = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
        let mut tls = rustls::ServerConfig::builder()
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut config = config(listener.local_addr().unwrap().port(), &certificate);
        let path = |file| Some(folder.join(file).display().to_string());
        config.auth_info = AuthInfo {
            client_certificate: path("tls.crt"),
            client_key: path("tls.key"),
            ..AuthInfo::default()
        };
        let expired = Arc::new(AtomicBool::new(false));
        let (released, connections) = (Arc::<Notify>::default(), Arc::<AtomicUsize>::default());
        let this = Self { config, expired, released, connections };
        let (expired, released) = (Arc::clone(&this.expired), Arc::clone(&this.released));
        let connections = Arc::clone(&this.connections);
        tokio::spawn(async move {
            let acceptor = TlsAcceptor::from(Arc::new(tls));
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                connections.fetch_add(1, Ordering::Relaxed);
                let acceptor = acceptor.clone();
                let (expired, released) = (Arc::clone(&expired), Arc::clone(&released));
                tokio::spawn(async move {
                    let Ok(tls) = acceptor.accept(tcp).await else { return };
                    name_client(tls, &expired, released).await;
                });
            }
        });
        this
    }
}

async fn name_client(
    tls: tokio_rustls::server::TlsStream<TcpStream>,
    expired: &AtomicBool,
    released: Arc<Notify>,
) {
    let certificate = tls.get_ref().1.peer_certificates().unwrap()[0].clone();
    let certificate = x509_cert::Certificate::from_der(&certificate).unwrap();
    let name = certificate.tbs_certificate().subject().to_string();
    let mut connection = h2::server::handshake(tls).await.unwrap();
    while let Some(Ok((request, mut answer))) = connection.accept().await {
        let refused = name == "CN=old" && expired.load(Ordering::Relaxed);
        let status = if refused { StatusCode::UNAUTHORIZED } else { StatusCode::OK };
        let held = request.uri().query() == Some("timeout=999s");
        let (name, released) = (name.clone(), Arc::clone(&released));
        tokio::spawn(async move {
            if held {
                released.notified().await;
            }
            let response = Response::builder().status(status).body(()).unwrap();
            let mut body = answer.send_response(response, false).unwrap();
            body.send_data(name.into(), true).unwrap();
        });
    }
}

#[tokio::test]
async fn a_replaced_client_certificate_is_used_and_the_old_connection_drained() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority();
    write_client(&authority, folder.path(), "old", false);
    let server = Naming::start(&authority, folder.path()).await;
    let connection = ApiConnection::new(&server.config).unwrap();
    assert_eq!(post(&connection, 1).await.unwrap(), "CN=old");
    let held = connection.send(ask(999, String::new()));
    write_client(&authority, folder.path(), "new", false);
    // As after the expiry of the old certificate.
    server.expired.store(true, Ordering::Relaxed);
    let refused = connection.send(ask(2, String::new())).await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(post(&connection, 3).await.unwrap(), "CN=new");
    assert_eq!(post(&connection, 4).await.unwrap(), "CN=new");
    assert_eq!(server.connections.load(Ordering::Relaxed), 2);
    server.released.notify_one();
    assert_eq!(held.await.unwrap().body(), "CN=old", "the request in flight is answered");
}

#[tokio::test]
async fn an_expired_client_certificate_is_named_and_its_successor_used() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority();
    write_client(&authority, folder.path(), "old", true);
    let server = Naming::start(&authority, folder.path()).await;
    let connection = ApiConnection::new(&server.config).unwrap();
    // In TLS 1.3 the server checks the client's certificate after the client's handshake is complete.
    let error = format!("{:#}", post(&connection, 1).await.unwrap_err());
    let crt = folder.path().join("tls.crt");
    let expected = format!("the client certificate {} is no longer valid", crt.display());
    assert!(error.contains(&expected), "{error}");
    write_client(&authority, folder.path(), "new", false);
    assert_eq!(post(&connection, 2).await.unwrap(), "CN=new");
}
