//! The client against a server with TLS and HTTP/2.

mod fenced;
mod rotation;
mod transports;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderValue, Method, Request, StatusCode};
use kube::config::AuthInfo;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::*;

/// Response of the server to a request.
#[derive(Clone, Copy, PartialEq)]
enum ServerBehaviour {
    /// Answers with what it received.
    Echo,
    /// Answers, and sends GOAWAY.
    EchoAndLeave,
    /// Closes the connection.
    Break,
    /// Answers with more than `RESPONSE_BYTES_MAX` bytes.
    Flood,
}

struct Server {
    config: kube::Config,
    connections: Arc<AtomicUsize>,
}

impl Server {
    async fn start(behaviours: &'static [ServerBehaviour]) -> Self {
        let (tls, certificate) = server_tls();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            let acceptor = TlsAcceptor::from(Arc::new(tls));
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let number = counted.fetch_add(1, Ordering::Relaxed);
                let behaviour = behaviours[number.min(behaviours.len() - 1)];
                let acceptor = acceptor.clone();
                tokio::spawn(
                    async move { serve(acceptor.accept(tcp).await.unwrap(), behaviour).await },
                );
            }
        });
        Self { config: config(port, &certificate), connections }
    }

    fn connection(&self) -> ApiConnection {
        ApiConnection::new(&self.config).unwrap()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// Returns TLS settings with a self-signed certificate, and the certificate.
fn server_tls() -> (rustls::ServerConfig, CertificateDer<'static>) {
    let certified = rcgen::generate_simple_self_signed(vec!["api.example".to_owned()]).unwrap();
    let certificate = certified.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let mut tls = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    (tls, certificate)
}

fn config(port: u16, certificate: &CertificateDer<'_>) -> kube::Config {
    let uri = format!("https://127.0.0.1:{port}/clusters/one/").parse().unwrap();
    let mut config = kube::Config::new(uri);
    config.root_cert = Some(vec![certificate.to_vec()]);
    config.tls_server_name = Some("api.example".to_owned());
    config.auth_info = AuthInfo { token: Some("secret".to_owned().into()), ..AuthInfo::default() };
    config
}

async fn serve(tls: tokio_rustls::server::TlsStream<TcpStream>, behaviour: ServerBehaviour) {
    let mut connection = h2::server::handshake(tls).await.unwrap();
    while let Some(Ok((request, responder))) = connection.accept().await {
        match behaviour {
            ServerBehaviour::Break => return,
            ServerBehaviour::EchoAndLeave => connection.graceful_shutdown(),
            ServerBehaviour::Echo | ServerBehaviour::Flood => {}
        }
        tokio::spawn(respond(request, responder, behaviour == ServerBehaviour::Flood));
    }
}

/// Answers with method, path, credentials, content type and body of the request, and the content type
/// that was asked for.
async fn respond(request: Request<RecvStream>, mut responder: SendResponse<Bytes>, flood: bool) {
    let (head, mut body) = request.into_parts();
    let mut whole = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece.unwrap();
        body.flow_control().release_capacity(piece.len()).unwrap();
        whole.extend_from_slice(&piece);
    }
    let header = |name| head.headers.get(name).map_or("none", |value| value.to_str().unwrap());
    let mut echo = format!(
        "{} {} {} {} {}",
        head.method,
        head.uri.path_and_query().unwrap(),
        header("authorization"),
        header("content-type"),
        String::from_utf8(whole).unwrap()
    );
    let all = |name| {
        let values = head.headers.get_all(name).iter().map(|value| value.to_str().unwrap());
        values.collect::<Vec<_>>().join(", ")
    };
    for (name, before) in
        [("impersonate-user", "as"), ("impersonate-group", "of"), ("user-agent", "by")]
    {
        if head.headers.contains_key(name) {
            echo += &[" ", before, " ", &all(name)].concat();
        }
    }
    let response = Response::builder()
        .status(StatusCode::CREATED)
        .header("content-type", header("accept"))
        .header("x-other", head.uri.path())
        .header("retry-after", "7");
    let mut stream = responder.send_response(response.body(()).unwrap(), false).unwrap();
    if flood {
        stream.send_data(vec![b'x'; RESPONSE_BYTES_MAX + 1].into(), true).unwrap();
    } else {
        // In two DATA frames.
        let (first, second) = echo.split_at(5);
        stream.send_data(first.to_owned().into(), false).unwrap();
        stream.send_data(second.to_owned().into(), true).unwrap();
    }
}

fn ask(number: usize, body: String) -> ApiRequest {
    ApiRequest {
        method: Method::POST,
        path: format!("/api/v1/pods?timeout={number}s"),
        accept: "text/plain".into(),
        content: Some(("text/plain".into(), body.into())),
        status_only: false,
        timeout: None,
    }
}

async fn post(connection: &ApiConnection, number: usize) -> Result<String> {
    let response = connection.send(ask(number, format!("body {number}"))).await?;
    Ok(String::from_utf8(response.into_body().to_vec())?)
}

fn echo(number: usize) -> String {
    format!(
        "POST /clusters/one/api/v1/pods?timeout={number}s Bearer secret text/plain body {number}"
    )
}

#[tokio::test]
async fn concurrent_requests_share_a_connection_and_get_their_own_responses() {
    let server = Server::start(&[ServerBehaviour::Echo]).await;
    let connection = server.connection();
    let answers = futures::future::join_all((0..200).map(|number| post(&connection, number))).await;
    for (number, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.unwrap(), echo(number));
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_request_needs_no_body() {
    let server = Server::start(&[ServerBehaviour::Echo]).await;
    let ask = ApiRequest {
        method: Method::PUT,
        path: "/".to_owned(),
        accept: "*/*".into(),
        content: None,
        status_only: false,
        timeout: None,
    };
    let response = server.connection().send(ask).await.unwrap();
    assert_eq!(&response.body()[..], b"PUT /clusters/one/ Bearer secret none ");
}

#[tokio::test]
async fn requests_of_a_kube_client_use_the_connection() {
    let server = Server::start(&[ServerBehaviour::Echo]).await;
    let client = server.connection().client("ns");
    assert_eq!(client.default_namespace(), "ns");
    let patch = Request::patch("/api/v1/pods/a?dryRun=All")
        .header("content-type", "application/merge-patch+json")
        .header("accept", "application/yaml");
    let plain = Request::get("/version");
    let table = [
        (
            patch.body(Body::from(b"{}".to_vec())),
            "PATCH /clusters/one/api/v1/pods/a?dryRun=All Bearer secret application/merge-patch+json {}",
            "application/yaml",
        ),
        (
            plain.body(Body::empty()),
            "GET /clusters/one/version Bearer secret none ",
            "application/json",
        ),
    ];
    for (request, echo, form) in table {
        let response = client.send(request.unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::CREATED);
        assert_eq!(response.headers()["content-type"], form);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(String::from_utf8(body.to_vec()).unwrap(), echo);
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_request_with_an_invalid_path_is_not_sent() {
    let server = Server::start(&[ServerBehaviour::Echo]).await;
    for path in ["", "x", "/a b", "/a\r\nb: c", "/ä"] {
        let ask = ApiRequest { path: path.to_owned(), ..ask(1, String::new()) };
        let error = server.connection().send(ask).await.unwrap_err();
        assert_eq!(error.to_string(), format!("{path:?} is no path"));
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn after_goaway_a_new_connection_is_established() {
    let server = Server::start(&[ServerBehaviour::EchoAndLeave, ServerBehaviour::Echo]).await;
    let connection = server.connection();
    assert_eq!(post(&connection, 1).await.unwrap(), echo(1), "the accepted request is answered");
    // GOAWAY may arrive only after the next request is sent.
    let second = post(&connection, 2).await;
    assert!(second.is_err() || second.unwrap() == echo(2));
    assert_eq!(post(&connection, 3).await.unwrap(), echo(3));
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_request_is_never_sent_twice() {
    let server = Server::start(&[ServerBehaviour::Break, ServerBehaviour::Echo]).await;
    let connection = server.connection();
    assert!(post(&connection, 1).await.is_err(), "it may have been carried out");
    assert_eq!(post(&connection, 2).await.unwrap(), echo(2));
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_response_has_a_size_limit() {
    let server = Server::start(&[ServerBehaviour::Flood]).await;
    let error = post(&server.connection(), 1).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the response is larger than {RESPONSE_BYTES_MAX} bytes")
    );
}

#[tokio::test]
async fn the_certificate_must_have_the_name_of_the_server() {
    let mut server = Server::start(&[ServerBehaviour::Echo]).await;
    server.config.tls_server_name = None;
    let error = post(&server.connection(), 1).await.unwrap_err();
    assert!(format!("{error:#}").contains("certificate"), "{error:#}");
}
