//! Credentials that change.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use kube::config::ExecConfig;
use tempfile::TempDir;

use super::*;

/// Returns a configuration that trusts a certificate of its own.
fn config() -> kube::Config {
    let certified = rcgen::generate_simple_self_signed(vec!["api.example".to_owned()]).unwrap();
    let mut config = kube::Config::new("https://localhost".parse().unwrap());
    config.root_cert = Some(vec![certified.cert.der().to_vec()]);
    config
}

async fn headers(credential_store: &CredentialStore) -> String {
    let (_, fields) = credential_store.refresh().await.unwrap();
    String::from_utf8_lossy(fields.as_bytes()).into_owned()
}

/// Returns a plugin that prints the file `out` and appends its input to the file `runs`.
fn plugin(folder: &TempDir, prints: &str) -> ExecConfig {
    let path = |name| folder.path().join(name).display().to_string();
    let script = format!(
        "#!/bin/sh\necho \"$KUBERNETES_EXEC_INFO\" >> {}\ncat {}\n",
        path("runs"),
        path("out")
    );
    std::fs::write(path("plugin"), script).unwrap();
    std::fs::set_permissions(path("plugin"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(path("out"), prints).unwrap();
    let exec = format!(
        r#"{{"apiVersion": "client.authentication.k8s.io/v1", "command": "{}", "interactiveMode": "Never"}}"#,
        path("plugin")
    );
    serde_json::from_str(&exec).unwrap()
}

fn runs(folder: &TempDir) -> usize {
    std::fs::read_to_string(folder.path().join("runs")).unwrap().lines().count()
}

fn replace(path: &Path, content: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, content).unwrap();
    std::fs::rename(new, path).unwrap();
}

#[tokio::test]
async fn a_token_file_is_trimmed_and_read_again_when_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "one\n").unwrap();
    let mut config = config();
    config.auth_info.token_file = Some(path.display().to_string());
    let credential_store = CredentialStore::new(&config).unwrap();
    assert!(headers(&credential_store).await.ends_with("Bearer one"));
    replace(&path, "two\r\n");
    assert!(headers(&credential_store).await.ends_with("Bearer two"));
    assert_eq!(
        credential_store.credentials().generation,
        0,
        "a connection does not depend on a token"
    );
    replace(&path, "\n");
    assert!(headers(&credential_store).await.ends_with("Bearer two"), "an empty file is no token");
    std::fs::remove_file(&path).unwrap();
    assert!(headers(&credential_store).await.ends_with("Bearer two"), "the last one stays");
    replace(&path, "three");
    assert!(headers(&credential_store).await.ends_with("Bearer three"));
}

#[tokio::test]
async fn a_new_ca_bundle_makes_new_connections() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.crt");
    let pem = || rcgen::generate_simple_self_signed(Vec::new()).unwrap().cert.pem();
    std::fs::write(&path, pem()).unwrap();
    let mut config = config();
    config.root_cert_file = Some(path.clone());
    let credential_store = CredentialStore::new(&config).unwrap();
    assert_eq!(credential_store.refresh().await.unwrap().0, 0);
    replace(&path, "half a");
    assert_eq!(credential_store.refresh().await.unwrap().0, 0);
    replace(&path, &pem());
    assert_eq!(credential_store.refresh().await.unwrap().0, 1);
    assert_eq!(credential_store.refresh().await.unwrap().0, 1);
}

#[tokio::test]
async fn impersonation_is_part_of_every_request() {
    let mut config = config();
    config.auth_info.impersonate = Some("someone".to_owned());
    config.auth_info.impersonate_groups = Some(vec!["one".to_owned(), "two".to_owned()]);
    let headers = headers(&CredentialStore::new(&config).unwrap()).await;
    for expected in ["impersonate-user\x07someone", "impersonate-group\x03one", "\x03two"] {
        assert!(headers.contains(expected), "{headers:?}");
    }
}

#[tokio::test]
async fn a_plugin_runs_again_when_its_credentials_are_refused_or_expire() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config();
    let credential = |token, expiry| {
        format!(r#"{{"kind": "ExecCredential", "status": {{"token": "{token}"{expiry}}}}}"#)
    };
    config.auth_info.exec = Some(plugin(&folder, &credential("one", "")));
    let credential_store = CredentialStore::new(&config).unwrap();
    assert!(headers(&credential_store).await.ends_with("Bearer one"));
    assert_eq!(runs(&folder), 1);
    let info = std::fs::read_to_string(folder.path().join("runs")).unwrap();
    assert!(info.contains(r#""interactive":false"#), "{info}");

    let expired = r#", "expirationTimestamp": "2020-01-01T00:00:00Z""#;
    std::fs::write(folder.path().join("out"), credential("two", expired)).unwrap();
    credential_store.refused();
    assert!(credential_store.fresh().is_none());
    assert!(headers(&credential_store).await.ends_with("Bearer one"), "at most one run in 30 s");
    assert_eq!(runs(&folder), 1);
    let long_ago = || Instant::now().checked_sub(PLUGIN_RUN_INTERVAL_MIN).unwrap();
    lock(&credential_store.current).loaded = long_ago();
    credential_store.refused();
    assert!(headers(&credential_store).await.ends_with("Bearer two"));
    lock(&credential_store.current).loaded = long_ago();
    std::fs::write(folder.path().join("out"), credential("three", "")).unwrap();
    assert!(headers(&credential_store).await.ends_with("Bearer three"), "the second had expired");
    assert_eq!(runs(&folder), 3);
}

#[tokio::test]
async fn certificates_of_a_plugin_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = || {
        let made = rcgen::generate_simple_self_signed(Vec::new()).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        serde_json::json!({"status": {"clientCertificateData": certificate, "clientKeyData": key}})
    };
    let mut config = config();
    config.auth_info.exec = Some(plugin(&folder, &certificate().to_string()));
    let credential_store = CredentialStore::new(&config).unwrap();
    assert_eq!(headers(&credential_store).await, "");
    let first = credential_store.credentials();
    std::fs::write(folder.path().join("out"), certificate().to_string()).unwrap();
    lock(&credential_store.current).loaded =
        Instant::now().checked_sub(PLUGIN_RUN_INTERVAL_MIN).unwrap();
    credential_store.refused();
    assert_eq!(credential_store.refresh().await.unwrap().0, first.generation + 1);
}

#[tokio::test]
async fn errors_of_a_plugin_name_it_and_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    for (prints, why) in [
        ("", "does not print an ExecCredential"),
        ("{}", "prints neither status.token nor"),
        (r#"{"status": {"token": "a", "expirationTimestamp": "soon"}}"#, "expirationTimestamp"),
    ] {
        let mut config = config();
        config.auth_info.exec = Some(plugin(&folder, prints));
        let error = Chain(&CredentialStore::new(&config).err().unwrap()).to_string();
        assert!(error.starts_with("the exec plugin /") && error.contains(why), "{error}");
    }
    let mut config = config();
    let mut absent = plugin(&folder, "");
    absent.command = Some("/absent".to_owned());
    config.auth_info.exec = Some(absent);
    let error = Chain(&CredentialStore::new(&config).err().unwrap()).to_string();
    assert!(error.starts_with("the exec plugin /absent: cannot be run"), "{error}");
}
