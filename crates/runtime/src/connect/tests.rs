//! What can be told of a configuration before anybody is asked.

use super::*;

const HOUR: Duration = Duration::from_hours(1);

/// A configuration with a certificate that is valid for an hour before and after a time.
fn config_around(time: SystemTime) -> kube::Config {
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    (params.not_before, params.not_after) = ((time - HOUR).into(), (time + HOUR).into());
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let mut config = kube::Config::new(http::Uri::from_static("https://localhost"));
    config.auth_info.client_certificate_data = Some(BASE64_STANDARD.encode(pem));
    config
}

#[test]
fn certificates_that_are_out_of_date_are_told() {
    let noon = SystemTime::UNIX_EPOCH + Duration::from_hours(491_628);
    let mut config = config_around(noon);
    let told = |config: &kube::Config, now| outdated_certificate(config, now);
    assert_eq!(told(&config, noon), None);
    let ended = "the client certificate is no longer valid since 2026-01-31T13:00:00Z";
    assert_eq!(told(&config, noon + 2 * HOUR).as_deref(), Some(ended));
    let early = "the client certificate is not valid before 2026-01-31T11:00:00Z";
    assert_eq!(told(&config, noon - 2 * HOUR).as_deref(), Some(early));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("client.crt");
    let pem = config.auth_info.client_certificate_data.take().unwrap();
    std::fs::write(&path, BASE64_STANDARD.decode(pem).unwrap()).unwrap();
    let path = path.to_str().unwrap().to_owned();
    config.auth_info.client_certificate = Some(path.clone());
    assert!(told(&config, noon + 2 * HOUR).unwrap().contains(&path));

    config.auth_info.client_certificate = Some("absent".to_owned());
    assert_eq!(told(&config, noon), None, "whoever reads it says so");
    config.auth_info.client_certificate = None;
    assert_eq!(told(&config, noon), None);
}
