//! Tests of which errors are retried.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::*;
use crate::testing::{FakeApiServer, Reply};

/// Waits for a server whose replies depend on the number of version requests and the path.
async fn reach(
    reply: impl Fn(usize, &str) -> Reply + Send + Sync + 'static,
) -> Result<String, UnreachableError> {
    let count = AtomicUsize::new(0);
    let fake = FakeApiServer::new(move |request| match &*request.path {
        "/version" => reply(count.fetch_add(1, Ordering::Relaxed), "/version"),
        path => reply(count.load(Ordering::Relaxed), path),
    });
    let connection = ApiConnection::from(fake.client());
    wait_until_reachable_over(&connection, &http::Uri::from_static("https://server:6443")).await
}

fn version() -> Reply {
    Reply::json(200, &json!({"gitVersion": "v1.36.4"}))
}

#[tokio::test(start_paused = true)]
async fn temporary_errors_are_retried_without_limit() {
    for what in
        [Reply::broken(), Reply::never(), Reply::failure(500, "etcd"), Reply::failure(503, "")]
    {
        let many = 1000;
        let begun = Instant::now();
        let reached = reach(move |number, _| if number < many { what.clone() } else { version() });
        assert_eq!(reached.await.unwrap(), "v1.36.4");
        assert!(begun.elapsed() >= RETRY_DELAY_MAX * (many as u32 - 5));
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_back_is_reached_within_the_longest_delay() {
    let back = Instant::now() + Duration::from_mins(10);
    let answer = move |_, _: &str| if Instant::now() < back { Reply::broken() } else { version() };
    reach(answer).await.unwrap();
    assert!(back.elapsed() <= RETRY_DELAY_MAX, "{:?}", back.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_ready_server_that_refuses_the_credentials_ends_the_wait() {
    for status in [401, 403] {
        let error = reach(move |_, path| match path {
            "/version" => Reply::failure(status, "no"),
            _ => Reply::json(200, &json!("ok")),
        });
        let error = Chain(&error.await.unwrap_err()).to_string();
        assert!(error.contains("https://server:6443") && error.contains("no"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_by_a_server_that_is_not_ready_is_retried() {
    let reached = reach(|number, path| match (path, number) {
        ("/version", 0..20) => Reply::failure(403, "no"),
        ("/version", _) => version(),
        (_, 0..20) => Reply::failure(500, "[-]poststarthook/rbac/bootstrap-roles failed"),
        _ => Reply::json(200, &json!("ok")),
    });
    assert_eq!(reached.await.unwrap(), "v1.36.4");
}

#[test]
fn a_certificate_for_another_name_or_of_another_authority_is_permanent() {
    let is_permanent = |problem| {
        let error = std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            rustls::Error::InvalidCertificate(problem),
        );
        matches!(classify(&error), VersionFailure::Permanent(_))
    };
    assert!(is_permanent(CertificateError::NotValidForName));
    assert!(is_permanent(CertificateError::UnknownIssuer));
    assert!(!is_permanent(CertificateError::Expired), "the server may get another one");
    assert!(!is_permanent(CertificateError::NotValidYet), "the clock may be corrected");
}
