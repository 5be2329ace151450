//! Tests of the whole server over loopback, with an API server that answers reviews.

mod client_certificates;
mod log;
mod server;
mod tls;

use std::sync::Mutex;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::{Method, Request};
use http_body_util::{BodyExt, Empty, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};

use super::certificate::provider;
use super::*;
use crate::api_error::Chain;
use crate::testing::{BodyPart, FakeApiServer, Reply};
use server::{Reviewer, RunningServer, config, connect, send};

#[tokio::test]
async fn health_pages_need_no_credential_and_no_review() {
    let running = RunningServer::start(|_| {}).await;
    *running.reviewer.broken.lock().unwrap() = true;
    let table = [
        ("/healthz", 200, "ok"),
        ("/livez", 200, "ok"),
        ("/livez?verbose", 200, "[+]ping ok\nlivez check passed\n"),
        ("/readyz", 500, "[+]ping ok\n[-]sync failed: reason withheld\nreadyz check failed\n"),
        ("/readyz?exclude=sync", 200, "ok"),
        (
            "/readyz?verbose&exclude=sync",
            200,
            "[+]ping ok\n[+]sync excluded: ok\nreadyz check passed\n",
        ),
    ];
    for (path, status, text) in table {
        for token in [None, Some("bad")] {
            let got = running.get(path, token).await;
            assert_eq!((got.status, got.text.as_str()), (status, text), "{path}");
            assert_eq!(got.headers[CONTENT_TYPE], "text/plain; charset=utf-8");
            assert_eq!(got.headers["x-content-type-options"], "nosniff");
            assert_eq!(got.headers[CACHE_CONTROL], "no-cache, no-store, private");
        }
    }
    assert!(running.reviewer.received.lock().unwrap().is_empty());
}

#[tokio::test]
async fn pages_need_a_credential_and_a_right() {
    let running = RunningServer::start(|_| {}).await;
    let table = [
        // Anonymous.
        ("/metrics", None, 403),
        ("/configz", None, 403),
        ("/readyz/sync", None, 403),
        ("/nothing", None, 403),
        ("/metrics", Some("Basic YTpi"), 403),
        ("/metrics", Some("Bearer "), 403),
        // Refused credentials.
        ("/metrics", Some("Bearer bad"), 401),
        ("/metrics", Some("bearer bad"), 401),
        ("/metrics", Some("Bearer erroneous"), 401),
        ("/metrics", Some("Bearer nameless"), 401),
        ("/nothing", Some("Bearer bad"), 401),
        // Known, without the right.
        ("/metrics", Some("Bearer may-not"), 403),
        ("/nothing", Some("Bearer may-not"), 403),
        // Known, with the right.
        ("/metrics", Some("Bearer may"), 200),
        ("/metrics", Some("bearer  may"), 200),
        ("/configz", Some("Bearer may"), 200),
        ("/livez/ping", Some("Bearer may"), 200),
        ("/readyz/sync", Some("Bearer may"), 500),
        ("/readyz/nothing", Some("Bearer may"), 404),
        ("/metrics/", Some("Bearer may"), 404),
        ("//metrics", Some("Bearer may"), 404),
        ("/", Some("Bearer may"), 404),
        ("/debug/pprof/", Some("Bearer may"), 404),
    ];
    for (path, authorization, want) in table {
        let got = running.send(Method::GET, path, authorization).await;
        assert_eq!(got.status, want, "{path} {authorization:?}: {}", got.text);
        assert_eq!(got.headers["x-content-type-options"], "nosniff");
        assert_eq!(got.headers[CACHE_CONTROL], "no-cache, no-store, private");
    }
}

#[tokio::test]
async fn refusals_have_the_texts_of_kubernetes() {
    let running = RunningServer::start(|_| {}).await;
    let got = running.get("/metrics", None).await;
    assert_eq!(got.message(), r#"forbidden: User "system:anonymous" cannot get path "/metrics""#);
    let got = running.get("/metrics", Some("reason")).await;
    assert_eq!(got.message(), r#"forbidden: User "reason" cannot get path "/metrics": not today"#);
    let got = running.send(Method::DELETE, "/metrics", Some("Bearer may-not")).await;
    assert_eq!(got.message(), r#"forbidden: User "may-not" cannot delete path "/metrics""#);
    let got = running.get("/metrics", Some("bad")).await;
    assert_eq!(got.message(), "Unauthorized");
    assert_eq!(got.headers["www-authenticate"], "Bearer");
}

#[tokio::test]
async fn pages_have_their_content() {
    let running = RunningServer::start(|_| {}).await;
    let got = running.get("/metrics", Some("may")).await;
    assert_eq!(got.headers[CONTENT_TYPE], "text/plain; version=0.0.4; charset=utf-8");
    assert!(got.text.contains("# TYPE scheduler_preemption_attempts_total counter\n"));
    let got = running.get("/configz", Some("may")).await;
    assert_eq!(got.headers[CONTENT_TYPE], "application/json");
    assert_eq!(got.text, r#"{"componentconfig":{"kind":"KubeSchedulerConfiguration"}}"#);
    let got = running.get("/readyz/sync", Some("may")).await;
    assert_eq!(got.text, "internal server error: not synchronized\n");
    let got = running.send(Method::HEAD, "/configz", Some("Bearer may")).await;
    assert_eq!((got.status, got.text.as_str()), (200, ""));
    assert_eq!(got.headers[CONTENT_LENGTH], "57");
    let got = running.send(Method::POST, "/configz", Some("Bearer may")).await;
    assert_eq!(got.status, 405);
    assert_eq!(got.headers["allow"], "GET, HEAD");
}

#[tokio::test]
async fn results_of_health_checks_have_a_page() {
    let running = RunningServer::start(|_| {}).await;
    for path in ["/readyz", "/readyz", "/readyz?exclude=sync", "/livez", "/readyz/sync"] {
        running.get(path, Some("may")).await;
    }
    let got = running.get("/metrics/slis", Some("may")).await;
    assert_eq!(got.headers[CONTENT_TYPE], "text/plain; version=0.0.4; charset=utf-8");
    let text: String = got
        .text
        .lines()
        .filter(|line| !line.contains("process_"))
        .flat_map(|l| [l, "\n"])
        .collect();
    insta::assert_snapshot!(text);
    assert_eq!(running.get("/metrics/slis", Some("may-not")).await.status, 403);
    assert!(!running.get("/metrics", Some("may")).await.text.contains("healthcheck"));
}

#[tokio::test]
async fn requests_of_pods_are_read_from_the_engine() {
    let (inputs, mut requests) = tokio::sync::mpsc::channel(1);
    let resources = PodResources::new(inputs);
    let running = RunningServer::start(|serving| serving.resources = Some(resources.clone())).await;
    let engine = tokio::spawn(async move {
        let state = engine::state::State::default();
        while let Some(crate::driver::Input::Pods { from, reply }) = requests.recv().await {
            let _ = reply.send(crate::resources::PodPage::new(&state, from));
        }
    });
    let got = running.get("/metrics/resources", Some("may")).await;
    assert_eq!((got.status, got.headers.get(CONTENT_LENGTH)), (200, None));
    assert_eq!(got.text.matches("# TYPE kube_pod_resource_").count(), 2);
    let got = running.send(Method::HEAD, "/metrics/resources", Some("Bearer may")).await;
    assert_eq!((got.status, got.text.as_str()), (200, ""));
    let _others = (resources.text().unwrap(), resources.text().unwrap());
    let got = running.get("/metrics/resources", Some("may")).await;
    assert_eq!((got.status, &got.headers["retry-after"]), (503, &"5".parse().unwrap()));
    engine.abort();
    let absent = RunningServer::start(|_| {}).await;
    assert_eq!(absent.get("/metrics/resources", Some("may")).await.status, 404);
}

#[tokio::test]
async fn reviews_name_user_and_path_and_are_cached() {
    let running = RunningServer::start(|_| {}).await;
    for _ in 0..3 {
        assert_eq!(running.get("/metrics", Some("may")).await.status, 200);
        assert_eq!(running.get("/metrics", Some("bad")).await.status, 401);
        assert_eq!(running.get("/metrics", None).await.status, 403);
    }
    assert_eq!(running.reviewer.reviews("TokenReview").len(), 2);
    let reviews = running.reviewer.reviews("SubjectAccessReview");
    let specs: Vec<&Value> = reviews.iter().map(|review| &review["spec"]).collect();
    let attributes = json!({"path": "/metrics", "verb": "get"});
    assert_eq!(
        specs,
        [
            &json!({
                "user": "may", "uid": "7", "groups": ["g", "system:authenticated"],
                "extra": {"k": ["v"]}, "nonResourceAttributes": attributes,
            }),
            &json!({
                "user": "system:anonymous", "groups": ["system:unauthenticated"],
                "nonResourceAttributes": attributes,
            }),
        ]
    );
    // Another path or verb needs another review.
    assert_eq!(running.get("/configz", Some("may")).await.status, 200);
    assert_eq!(running.send(Method::HEAD, "/metrics", Some("Bearer may")).await.status, 200);
    assert_eq!(running.reviewer.reviews("TokenReview").len(), 2);
    assert_eq!(running.reviewer.reviews("SubjectAccessReview").len(), 4);
}

#[tokio::test]
async fn anonymous_requests_for_unknown_paths_cause_no_review() {
    let running = RunningServer::start(|_| {}).await;
    for number in 0..20 {
        assert_eq!(running.get(&format!("/metrics/{number}"), None).await.status, 403);
    }
    assert_eq!(running.send(Method::PUT, "/metrics", None).await.status, 403);
    assert!(running.reviewer.received.lock().unwrap().is_empty());
}

#[tokio::test]
async fn without_a_review_requests_are_refused() {
    let running = RunningServer::start(|_| {}).await;
    *running.reviewer.broken.lock().unwrap() = true;
    assert_eq!(running.get("/metrics", None).await.status, 503);
    let got = running.get("/metrics", Some("may")).await;
    assert_eq!(got.status, 503);
    assert!(!got.text.contains("may"), "{}", got.text);
    // Failures are not cached.
    *running.reviewer.broken.lock().unwrap() = false;
    assert_eq!(running.get("/metrics", Some("may")).await.status, 200);
}

#[tokio::test]
async fn the_list_of_allowed_paths_can_be_changed() {
    let running = RunningServer::start(|serving| {
        serving.always_allowed = vec!["/metrics".to_owned(), "/readyz/*".to_owned()];
    })
    .await;
    for (path, want) in
        [("/metrics", 200), ("/readyz/sync", 500), ("/readyz", 403), ("/livez", 403)]
    {
        assert_eq!(running.get(path, None).await.status, want, "{path}");
    }
}

#[tokio::test]
async fn long_bodies_and_headers_are_refused() {
    let running = RunningServer::start(|_| {}).await;
    let stream = running.connect(&running.config(None)).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let task = tokio::spawn(connection);
    let body = Full::new(Bytes::from(vec![0; 65 * 1024]));
    let request = Request::post("/healthz").header(HOST, "localhost").body(body).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 413);
    task.abort();
    let got = running.get("/healthz", Some(&"x".repeat(65 * 1024))).await;
    assert_eq!(got.status, 431);
}

#[tokio::test]
async fn the_error_about_a_port_in_use_says_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let client = Arc::new(Reviewer::default()).client();
    let serving = ServingOptions { address, ..ServingOptions::new(client, Metrics::new("x")) };
    let error = Server::bind(serving).map(|_| ()).unwrap_err();
    let want = format!("cannot listen on {address}: address in use; choose another --secure-port");
    assert_eq!(Chain(&error).to_string(), want);
}

#[tokio::test]
async fn port_0_disables_the_server() {
    let client = Arc::new(Reviewer::default()).client();
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let serving = ServingOptions { address, ..ServingOptions::new(client, Metrics::new("x")) };
    assert!(Server::bind(serving).unwrap().is_none());
}

#[tokio::test]
async fn requests_in_flight_are_answered_before_shutdown() {
    let mut running = RunningServer::start(|_| {}).await;
    // An idle connection must not delay the shutdown.
    let idle = running.connect(&running.config(None)).await.unwrap();
    let (arrived, arrival) = oneshot::channel();
    let proceed = Arc::new(Notify::new());
    *running.reviewer.held.lock().unwrap() = Some((arrived, Arc::clone(&proceed)));
    let stream = running.connect(&running.config(None)).await.unwrap();
    let request = tokio::spawn(send(stream, Method::GET, "/metrics", Some("Bearer may")));
    arrival.await.unwrap();
    running.stop.take().unwrap().send(()).unwrap();
    // The address is free once the server has closed its socket.
    while TcpListener::bind(running.address).await.is_err() {
        tokio::task::yield_now().await;
    }
    assert!(!running.task.is_finished());
    proceed.notify_one();
    assert_eq!(request.await.unwrap().status, 200);
    running.task.await.unwrap();
    drop(idle);
}
