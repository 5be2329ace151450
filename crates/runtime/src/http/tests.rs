//! The whole server over loopback, with an API server that answers reviews as told.

mod client_certificates;

use std::fmt::Write;
use std::path::Path;
use std::sync::Mutex;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::certificate::provider;
use super::*;
use crate::testing::{BodyPart, FakeApiServer, Reply};

/// What the API server was asked, and what it does.
#[derive(Default)]
struct Reviewer {
    asked: Mutex<Vec<Value>>,
    broken: Mutex<bool>,
    /// When set, reviews of access wait for it, after they say that they came.
    held: Mutex<Option<(oneshot::Sender<()>, Arc<Notify>)>>,
}

impl Reviewer {
    fn client(self: &Arc<Self>) -> kube::Client {
        let reviewer = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let reviewer = Arc::clone(&reviewer);
            async move {
                let (parts, body) = request.into_parts();
                assert_eq!(parts.method, Method::POST);
                let body = body.collect().await?.to_bytes();
                let mut review: Value = serde_json::from_slice(&body)?;
                reviewer.asked.lock().unwrap().push(review.clone());
                let held = reviewer.held.lock().unwrap().take();
                if let Some((came, go_on)) = held {
                    came.send(()).unwrap();
                    go_on.notified().await;
                }
                let (mut status, mut answer) = (StatusCode::CREATED, Value::Null);
                if *reviewer.broken.lock().unwrap() {
                    status = StatusCode::INTERNAL_SERVER_ERROR;
                    answer = json!({"kind": "Status", "status": "Failure", "message": "broken", "reason": "InternalError", "code": 500});
                } else {
                    review["status"] = match parts.uri.path() {
                        "/apis/authentication.k8s.io/v1/tokenreviews" => {
                            token_status(review["spec"]["token"].as_str().unwrap())
                        }
                        "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
                            access_status(&review["spec"])
                        }
                        path => panic!("unexpected {path}"),
                    };
                }
                let body = if answer.is_null() { review } else { answer };
                let response = Response::builder().status(status);
                Ok::<_, tower::BoxError>(response.body(Full::new(Bytes::from(body.to_string())))?)
            }
        });
        kube::Client::new(service, "default")
    }

    fn asked(&self, kind: &str) -> Vec<Value> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|review| review["kind"] == kind).cloned().collect()
    }
}

fn token_status(token: &str) -> Value {
    let user =
        |name: &str| json!({"username": name, "uid": "7", "groups": ["g"], "extra": {"k": ["v"]}});
    match token {
        "may" | "may-not" | "reason" => json!({"authenticated": true, "user": user(token)}),
        "erroneous" => json!({"authenticated": true, "user": user("may"), "error": "odd"}),
        "nameless" => json!({"authenticated": true, "user": {}}),
        _ => json!({"authenticated": false}),
    }
}

fn access_status(spec: &Value) -> Value {
    match spec["user"].as_str().unwrap() {
        "may" | "prometheus" => json!({"allowed": true}),
        "reason" => json!({"allowed": false, "reason": "not today"}),
        _ => json!({"allowed": false}),
    }
}

/// A server under test.
struct RunningServer {
    address: SocketAddr,
    certificate: Arc<CertificateResolver>,
    reviewer: Arc<Reviewer>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl RunningServer {
    async fn start(change: impl FnOnce(&mut ServingOptions)) -> Self {
        let reviewer = Arc::new(Reviewer::default());
        let mut serving = ServingOptions::new(reviewer.client(), Metrics::new("kube-scheduler"));
        serving.configuration = json!({"kind": "KubeSchedulerConfiguration"});
        serving.ready = vec![
            HealthCheck::ping(),
            HealthCheck::new("sync", || Err("not synchronized".to_owned())),
        ];
        change(&mut serving);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server::with_listener(listener, serving).unwrap();
        let address = server.address().unwrap();
        let certificate = Arc::clone(&server.connections.certificate);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Self { address, certificate, reviewer, stop: Some(stop), task }
    }

    async fn get(&self, path: &str, token: Option<&str>) -> ReceivedResponse {
        let authorization = token.map(|token| format!("Bearer {token}"));
        self.send(Method::GET, path, authorization.as_deref()).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        authorization: Option<&str>,
    ) -> ReceivedResponse {
        send(self.connect(&self.config(None)).await.unwrap(), method, path, authorization).await
    }

    /// Trusts the server's own certificate.
    fn config(
        &self,
        client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    ) -> ClientConfig {
        config(self.certificate.leaf(), client)
    }

    async fn connect(&self, config: &ClientConfig) -> std::io::Result<TlsStream<TcpStream>> {
        connect(self.address, config, "localhost").await
    }
}

fn config(
    trusted: CertificateDer<'static>,
    client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(trusted).unwrap();
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    match client {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
        None => builder.with_no_client_auth(),
    }
}

async fn connect(
    address: SocketAddr,
    config: &ClientConfig,
    name: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(Arc::new(config.clone())).connect(name, stream).await
}

struct ReceivedResponse {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl ReceivedResponse {
    fn message(&self) -> String {
        let status: Value = serde_json::from_str(&self.text).unwrap();
        assert_eq!(status["kind"], "Status");
        assert_eq!(status["code"], self.status);
        status["message"].as_str().unwrap().to_owned()
    }
}

async fn send(
    stream: TlsStream<TcpStream>,
    method: Method,
    path: &str,
    authorization: Option<&str>,
) -> ReceivedResponse {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let task = tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header(HOST, "localhost");
    if let Some(authorization) = authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    let response = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    task.abort();
    ReceivedResponse { status: parts.status.as_u16(), headers: parts.headers, text }
}

#[tokio::test]
async fn health_is_for_everybody_and_never_asks_the_api_server() {
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
    assert!(running.reviewer.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn who_may_see_what() {
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
async fn refusals_speak_the_words_of_kubernetes() {
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
async fn results_of_health_checks_are_a_page_of_their_own() {
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
async fn what_pods_request_comes_from_whoever_knows() {
    let (inputs, mut asked) = tokio::sync::mpsc::channel(1);
    let resources = PodResources::new(inputs);
    let running = RunningServer::start(|serving| serving.resources = Some(resources.clone())).await;
    let engine = tokio::spawn(async move {
        let state = engine::state::State::default();
        while let Some(crate::driver::Input::Pods { from, reply }) = asked.recv().await {
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
async fn reviews_say_who_asks_for_what_and_are_remembered() {
    let running = RunningServer::start(|_| {}).await;
    for _ in 0..3 {
        assert_eq!(running.get("/metrics", Some("may")).await.status, 200);
        assert_eq!(running.get("/metrics", Some("bad")).await.status, 401);
        assert_eq!(running.get("/metrics", None).await.status, 403);
    }
    assert_eq!(running.reviewer.asked("TokenReview").len(), 2);
    let asked = running.reviewer.asked("SubjectAccessReview");
    let specs: Vec<&Value> = asked.iter().map(|review| &review["spec"]).collect();
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
    // Another path or verb is another right.
    assert_eq!(running.get("/configz", Some("may")).await.status, 200);
    assert_eq!(running.send(Method::HEAD, "/metrics", Some("Bearer may")).await.status, 200);
    assert_eq!(running.reviewer.asked("TokenReview").len(), 2);
    assert_eq!(running.reviewer.asked("SubjectAccessReview").len(), 4);
}

#[tokio::test]
async fn made_up_paths_of_strangers_cause_no_questions() {
    let running = RunningServer::start(|_| {}).await;
    for number in 0..20 {
        assert_eq!(running.get(&format!("/metrics/{number}"), None).await.status, 403);
    }
    assert_eq!(running.send(Method::PUT, "/metrics", None).await.status, 403);
    assert!(running.reviewer.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn without_an_answer_from_the_api_server_nobody_gets_in() {
    let running = RunningServer::start(|_| {}).await;
    *running.reviewer.broken.lock().unwrap() = true;
    assert_eq!(running.get("/metrics", None).await.status, 503);
    let got = running.get("/metrics", Some("may")).await;
    assert_eq!(got.status, 503);
    assert!(!got.text.contains("may"), "{}", got.text);
    // That it failed is not remembered.
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
async fn http_2_is_spoken_unless_switched_off() {
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
async fn the_self_signed_certificate_is_good_for_this_machine() {
    let running = RunningServer::start(|_| {}).await;
    let config = running.config(None);
    for name in ["localhost", "127.0.0.1"] {
        let stream = connect(running.address, &config, name).await.unwrap();
        assert_eq!(send(stream, Method::GET, "/healthz", None).await.status, 200);
    }
    assert!(connect(running.address, &config, "example.org").await.is_err());
    let other = CertificateResolver::new(ServingCertificate::SelfSigned).unwrap();
    let config = self::config(other.leaf(), None);
    assert!(running.connect(&config).await.is_err(), "another one was made for another server");
}

#[tokio::test]
async fn the_oldest_version_of_tls_is_the_one_asked_for() {
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

/// Writes a new pair and gives its certificate.
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

    // Only one of the two was written yet.
    let (new_file, new_key) = (folder.path().join("new.crt"), folder.path().join("new.key"));
    let new = write_pair(&new_file, &new_key);
    std::fs::rename(&new_file, &file).unwrap();
    let error = format!("{:#}", running.certificate.refresh().unwrap_err());
    assert!(error.contains("tls.crt") && error.contains("do not fit"), "{error}");
    assert!(running.connect(&config(old.clone(), None)).await.is_ok());

    std::fs::rename(&new_key, &key).unwrap();
    running.certificate.refresh().unwrap();
    assert!(!running.certificate.refresh().unwrap(), "nothing has changed since");
    assert!(running.connect(&config(old, None)).await.is_err());
    assert!(running.connect(&config(new.clone(), None)).await.is_ok());

    std::fs::remove_file(&key).unwrap();
    assert!(running.certificate.refresh().is_err());
    assert!(running.connect(&config(new, None)).await.is_ok());
}

#[test]
fn wrong_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (file, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let source = ServingCertificate::Files { certificate: file.clone(), key: key.clone() };
    let error = || format!("{:#}", CertificateResolver::new(source.clone()).unwrap_err());
    assert!(error().contains("cannot read") && error().contains("tls.crt"), "{}", error());
    write_pair(&file, &key);
    std::fs::write(&key, "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n").unwrap();
    assert!(error().contains("tls.key") && error().contains("no private key found"), "{}", error());
    assert!(!error().contains("c2VjcmV0"), "keys are not shown");
    std::fs::write(&file, "text").unwrap();
    assert!(error().contains("no certificate found; give certificates in PEM form"), "{}", error());
}

#[tokio::test]
async fn a_port_in_use_gives_one_clear_sentence() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let client = Arc::new(Reviewer::default()).client();
    let serving = ServingOptions { address, ..ServingOptions::new(client, Metrics::new("x")) };
    let error = Server::bind(serving).map(|_| ()).unwrap_err();
    let want = format!("cannot listen on {address}: address in use; choose another --secure-port");
    assert_eq!(format!("{error:#}"), want);
}

#[tokio::test]
async fn port_0_switches_the_server_off() {
    let client = Arc::new(Reviewer::default()).client();
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let serving = ServingOptions { address, ..ServingOptions::new(client, Metrics::new("x")) };
    assert!(Server::bind(serving).unwrap().is_none());
}

#[tokio::test]
async fn requests_under_way_are_answered_before_the_end() {
    let mut running = RunningServer::start(|_| {}).await;
    // An idle connection must not hold up the end.
    let idle = running.connect(&running.config(None)).await.unwrap();
    let (came, comes) = oneshot::channel();
    let go_on = Arc::new(Notify::new());
    *running.reviewer.held.lock().unwrap() = Some((came, Arc::clone(&go_on)));
    let stream = running.connect(&running.config(None)).await.unwrap();
    let request = tokio::spawn(send(stream, Method::GET, "/metrics", Some("Bearer may")));
    comes.await.unwrap();
    running.stop.take().unwrap().send(()).unwrap();
    // Once the server has let go of its socket, the same address can be taken again.
    while TcpListener::bind(running.address).await.is_err() {
        tokio::task::yield_now().await;
    }
    assert!(!running.task.is_finished());
    go_on.notify_one();
    assert_eq!(request.await.unwrap().status, 200);
    running.task.await.unwrap();
    drop(idle);
}

/// Keeps everything that is logged, of all crates and at all levels.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl tracing::field::Visit for Log {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        writeln!(self.0.lock().unwrap(), "{field}={value:?}").unwrap();
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        span.record(&mut self.clone());
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn tokens_are_never_logged() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let running = RunningServer::start(|_| {}).await;
    for broken in [false, true] {
        *running.reviewer.broken.lock().unwrap() = broken;
        let token = format!("c2VjcmV0-{broken}");
        let got = running.get("/metrics", Some(&token)).await;
        assert_eq!(got.status, if broken { 503 } else { 401 });
        assert!(!got.text.contains("c2VjcmV0"));
    }
    let log = log.0.lock().unwrap();
    assert!(log.contains("cannot ask the API server"), "the log is kept: {log}");
    assert!(!log.contains("c2VjcmV0"), "{log}");
}
