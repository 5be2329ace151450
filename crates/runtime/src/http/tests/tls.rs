//! Tests of TLS: versions, protocols and the server's certificate.

use std::path::Path;

use super::*;

#[tokio::test]
async fn http_2_is_offered_unless_it_is_disabled() {
    for (http2, want) in [(true, &b"h2"[..]), (false, b"http/1.1")] {
        let running = RunningServer::start(|serving| serving.http2 = http2).await;
        let mut config = running.config(None);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let stream = running.connect(&config).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(want));
        if !http2 {
            assert_eq!(send(stream, Method::GET, "/healthz", None).await.status, 200);
            continue;
        }
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        let task = tokio::spawn(connection);
        for (method, length) in [(Method::GET, 2), (Method::HEAD, 0)] {
            let request = Request::builder().method(method).uri("https://localhost/healthz");
            let request = request.body(Empty::<Bytes>::new()).unwrap();
            let response = sender.send_request(request).await.unwrap();
            assert_eq!(response.status(), 200);
            assert_eq!(response.headers()[CONTENT_LENGTH], "2");
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes().len(), length);
        }
        task.abort();
    }
}

#[tokio::test]
async fn the_self_signed_certificate_is_valid_for_this_machine() {
    let running = RunningServer::start(|_| {}).await;
    let config = running.config(None);
    for name in ["localhost", "127.0.0.1"] {
        let stream = connect(running.address, &config, name).await.unwrap();
        assert_eq!(send(stream, Method::GET, "/healthz", None).await.status, 200);
    }
    assert!(connect(running.address, &config, "example.org").await.is_err());
    let other = CertificateResolver::new(ServingCertificate::SelfSigned).unwrap();
    let config = self::config(other.leaf(), None);
    assert!(running.connect(&config).await.is_err(), "each server generates its own");
}

#[tokio::test]
async fn the_minimum_version_of_tls_is_enforced() {
    for (tls_min, version, works) in [
        (TlsMin::V1_2, &rustls::version::TLS12, true),
        (TlsMin::V1_2, &rustls::version::TLS13, true),
        (TlsMin::V1_3, &rustls::version::TLS12, false),
        (TlsMin::V1_3, &rustls::version::TLS13, true),
    ] {
        let running = RunningServer::start(|serving| serving.tls_min = tls_min).await;
        let mut roots = RootCertStore::empty();
        roots.add(running.certificate.leaf()).unwrap();
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        assert_eq!(running.connect(&config).await.is_ok(), works, "{tls_min:?} {version:?}");
    }
}

/// Writes a new certificate with its key and returns it.
fn write_pair(certificate: &Path, key: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(certificate, made.cert.pem()).unwrap();
    std::fs::write(key, made.signing_key.serialize_pem()).unwrap();
    made.cert.der().clone()
}

#[tokio::test]
async fn the_certificate_is_read_again_when_its_files_change() {
    let folder = tempfile::tempdir().unwrap();
    let (file, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let old = write_pair(&file, &key);
    let source = ServingCertificate::Files { certificate: file.clone(), key: key.clone() };
    let running = RunningServer::start(|serving| serving.certificate = source).await;
    assert!(running.connect(&config(old.clone(), None)).await.is_ok());

    // Only one of the files was replaced yet.
    let (new_file, new_key) = (folder.path().join("new.crt"), folder.path().join("new.key"));
    let new = write_pair(&new_file, &new_key);
    std::fs::rename(&new_file, &file).unwrap();
    let error = Chain(&running.certificate.refresh().unwrap_err()).to_string();
    assert!(error.contains("tls.crt") && error.contains("do not fit"), "{error}");
    assert!(running.connect(&config(old.clone(), None)).await.is_ok());

    std::fs::rename(&new_key, &key).unwrap();
    running.certificate.refresh().unwrap();
    assert!(!running.certificate.refresh().unwrap(), "the files have not changed since");
    assert!(running.connect(&config(old, None)).await.is_err());
    assert!(running.connect(&config(new.clone(), None)).await.is_ok());

    std::fs::remove_file(&key).unwrap();
    assert!(running.certificate.refresh().is_err());
    assert!(running.connect(&config(new, None)).await.is_ok());
}

#[test]
fn errors_name_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let (file, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let source = ServingCertificate::Files { certificate: file.clone(), key: key.clone() };
    let error = || Chain(&CertificateResolver::new(source.clone()).unwrap_err()).to_string();
    assert!(error().contains("cannot read") && error().contains("tls.crt"), "{}", error());
    write_pair(&file, &key);
    std::fs::write(&key, "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n").unwrap();
    assert!(error().contains("tls.key") && error().contains("no private key found"), "{}", error());
    assert!(!error().contains("c2VjcmV0"), "keys are not shown");
    std::fs::write(&file, "text").unwrap();
    assert!(error().contains("no certificate found; give certificates in PEM form"), "{}", error());
}
