//! What is waited for, and what is not.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::*;
use crate::testing::{FakeApiServer, Reply};

/// Waits for a server that answers like this, by the number of the request for the version.
async fn reach_a(answer: impl Fn(usize, &str) -> Reply + Send + Sync + 'static) -> Result<String> {
    let count = AtomicUsize::new(0);
    let fake = FakeApiServer::new(move |asked| match &*asked.path {
        "/version" => answer(count.fetch_add(1, Ordering::Relaxed), "/version"),
        path => answer(count.load(Ordering::Relaxed), path),
    });
    let connection = ApiConnection::from(fake.client());
    wait_until_reachable_over(&connection, &http::Uri::from_static("https://server:6443")).await
}

fn version() -> Reply {
    Reply::json(200, &json!({"gitVersion": "v1.36.4"}))
}

#[tokio::test(start_paused = true)]
async fn what_may_pass_is_waited_for_as_long_as_it_takes() {
    for what in
        [Reply::broken(), Reply::never(), Reply::failure(500, "etcd"), Reply::failure(503, "")]
    {
        let many = 1000;
        let begun = Instant::now();
        let reached =
            reach_a(move |number, _| if number < many { what.clone() } else { version() });
        assert_eq!(reached.await.unwrap(), "v1.36.4");
        assert!(begun.elapsed() >= RETRY_DELAY_MAX * (many as u32 - 5));
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_back_is_reached_within_the_longest_pause() {
    let back = Instant::now() + Duration::from_mins(10);
    let answer = move |_, _: &str| if Instant::now() < back { Reply::broken() } else { version() };
    reach_a(answer).await.unwrap();
    assert!(back.elapsed() <= RETRY_DELAY_MAX, "{:?}", back.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_ready_server_that_does_not_accept_our_credentials_ends_the_wait_at_once() {
    for status in [401, 403] {
        let error = reach_a(move |_, path| match path {
            "/version" => Reply::failure(status, "no"),
            _ => Reply::json(200, &json!("ok")),
        });
        let error = format!("{:#}", error.await.unwrap_err());
        assert!(error.contains("https://server:6443") && error.contains("no"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_ready_may_accept_them_later() {
    let reached = reach_a(|number, path| match (path, number) {
        ("/version", 0..20) => Reply::failure(403, "no"),
        ("/version", _) => version(),
        (_, 0..20) => Reply::failure(500, "[-]poststarthook/rbac/bootstrap-roles failed"),
        _ => Reply::json(200, &json!("ok")),
    });
    assert_eq!(reached.await.unwrap(), "v1.36.4");
}

#[test]
fn a_certificate_for_another_name_or_by_another_authority_is_final() {
    let is_permanent = |why| {
        let error = std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            rustls::Error::InvalidCertificate(why),
        );
        matches!(classify(&error.into()), Unreachable::Permanent(_))
    };
    assert!(is_permanent(CertificateError::NotValidForName));
    assert!(is_permanent(CertificateError::UnknownIssuer));
    assert!(!is_permanent(CertificateError::Expired), "the server may get another one");
    assert!(!is_permanent(CertificateError::NotValidYet), "the clock may be set");
}
