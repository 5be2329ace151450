//! The server under test, and the API server that answers its reviews.

use http::header::{AUTHORIZATION, HOST};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;

/// An API server that answers reviews, and records them.
#[derive(Default)]
pub(super) struct Reviewer {
    pub(super) received: Mutex<Vec<Value>>,
    pub(super) broken: Mutex<bool>,
    /// If set, the next review signals its arrival and waits for the notification.
    pub(super) held: Mutex<Option<(oneshot::Sender<()>, Arc<Notify>)>>,
}

impl Reviewer {
    pub(super) fn client(self: &Arc<Self>) -> kube::Client {
        let reviewer = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let reviewer = Arc::clone(&reviewer);
            async move {
                let (parts, body) = request.into_parts();
                assert_eq!(parts.method, Method::POST);
                let body = body.collect().await?.to_bytes();
                let mut review: Value = serde_json::from_slice(&body)?;
                reviewer.received.lock().unwrap().push(review.clone());
                let held = reviewer.held.lock().unwrap().take();
                if let Some((arrived, proceed)) = held {
                    arrived.send(()).unwrap();
                    proceed.notified().await;
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

    pub(super) fn reviews(&self, kind: &str) -> Vec<Value> {
        let received = self.received.lock().unwrap();
        received.iter().filter(|review| review["kind"] == kind).cloned().collect()
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

/// The server under test.
pub(super) struct RunningServer {
    pub(super) address: SocketAddr,
    pub(super) certificate: Arc<CertificateResolver>,
    pub(super) reviewer: Arc<Reviewer>,
    pub(super) stop: Option<oneshot::Sender<()>>,
    pub(super) task: JoinHandle<()>,
}

impl RunningServer {
    pub(super) async fn start(change: impl FnOnce(&mut ServingOptions)) -> Self {
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

    pub(super) async fn get(&self, path: &str, token: Option<&str>) -> ReceivedResponse {
        let authorization = token.map(|token| format!("Bearer {token}"));
        self.send(Method::GET, path, authorization.as_deref()).await
    }

    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        authorization: Option<&str>,
    ) -> ReceivedResponse {
        send(self.connect(&self.config(None)).await.unwrap(), method, path, authorization).await
    }

    /// Returns the configuration of a client that trusts the server's certificate.
    pub(super) fn config(
        &self,
        client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    ) -> ClientConfig {
        config(self.certificate.leaf(), client)
    }

    pub(super) async fn connect(
        &self,
        config: &ClientConfig,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        connect(self.address, config, "localhost").await
    }
}

pub(super) fn config(
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

pub(super) async fn connect(
    address: SocketAddr,
    config: &ClientConfig,
    name: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(Arc::new(config.clone())).connect(name, stream).await
}

pub(super) struct ReceivedResponse {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl ReceivedResponse {
    pub(super) fn message(&self) -> String {
        let status: Value = serde_json::from_str(&self.text).unwrap();
        assert_eq!(status["kind"], "Status");
        assert_eq!(status["code"], self.status);
        status["message"].as_str().unwrap().to_owned()
    }
}

pub(super) async fn send(
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
