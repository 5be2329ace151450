//! Kubeconfigs and client certificates.

use super::*;

const HOUR: Duration = Duration::from_hours(1);

/// Returns a configuration with a client certificate that is valid for an hour before and after a time.
fn config_around(time: SystemTime) -> kube::Config {
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    (params.not_before, params.not_after) = ((time - HOUR).into(), (time + HOUR).into());
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let mut config = kube::Config::new(http::Uri::from_static("https://localhost"));
    config.auth_info.client_certificate_data = Some(BASE64_STANDARD.encode(pem));
    config
}

/// Loads a kubeconfig whose cluster has these fields.
async fn read(cluster: &str) -> Result<kube::Config, ConnectError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let ca = rcgen::generate_simple_self_signed(Vec::new()).unwrap().cert.pem();
    std::fs::write(folder.path().join("ca.crt"), ca).unwrap();
    let file = format!(
        "apiVersion: v1
kind: Config
clusters:
- {{name: other, cluster: {{server: 'https://other', proxy-url: 'http://other:1'}}}}
- {{name: ours, cluster: {{server: 'https://api.example:6443', {cluster}}}}}
users: [{{name: me, user: {{as: someone}}}}]
contexts: [{{name: here, context: {{cluster: ours, user: me}}}}]
current-context: here
"
    );
    std::fs::write(&path, file).unwrap();
    load_config(&ConfigSource { kubeconfig: Some(path), master: String::new() }).await
}

#[tokio::test]
async fn proxy_ca_file_impersonation_and_user_agent_are_taken_from_the_kubeconfig() {
    let config =
        read("certificate-authority: ca.crt, proxy-url: 'http://proxy:3128'").await.unwrap();
    assert_eq!(config.proxy_url.unwrap().to_string(), "http://proxy:3128/");
    assert!(
        config.root_cert_file.unwrap().ends_with("ca.crt"),
        "the file is read again when it changes"
    );
    assert_eq!(config.auth_info.impersonate.as_deref(), Some("someone"));
    let agent = HeaderValue::from_static(USER_AGENT);
    assert!(USER_AGENT.starts_with("jindou/"));
    assert_eq!(config.headers, [(header::USER_AGENT, agent)]);
    let config = read("insecure-skip-tls-verify: true").await.unwrap();
    assert_eq!((config.proxy_url, config.root_cert_file), (None, None));
    let error = read("proxy-url: 'http://a b'").await.unwrap_err().to_string();
    assert!(error.starts_with("the kubeconfig /"), "{error}");
}

#[test]
fn expired_and_future_client_certificates_are_reported() {
    let noon = SystemTime::UNIX_EPOCH + Duration::from_hours(491_628);
    let mut config = config_around(noon);
    let problem = |config: &kube::Config, now| client_certificate_problem(config, now);
    assert_eq!(problem(&config, noon), None);
    let ended = "the client certificate is no longer valid since 2026-01-31T13:00:00Z";
    assert_eq!(problem(&config, noon + 2 * HOUR).as_deref(), Some(ended));
    let early = "the client certificate is not valid before 2026-01-31T11:00:00Z";
    assert_eq!(problem(&config, noon - 2 * HOUR).as_deref(), Some(early));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("client.crt");
    let pem = config.auth_info.client_certificate_data.take().unwrap();
    std::fs::write(&path, BASE64_STANDARD.decode(pem).unwrap()).unwrap();
    let path = path.to_str().unwrap().to_owned();
    config.auth_info.client_certificate = Some(path.clone());
    assert!(problem(&config, noon + 2 * HOUR).unwrap().contains(&path));

    config.auth_info.client_certificate = Some("absent".to_owned());
    assert_eq!(problem(&config, noon), None, "the error of reading it is reported elsewhere");
    config.auth_info.client_certificate = None;
    assert_eq!(problem(&config, noon), None);
}
