//! Against a server that speaks TLS and HTTP/2.

mod fenced;
mod rotation;
mod transports;

use std::sync::atomic::{AtomicUsize, Ordering};

use h2::RecvStream;
use h2::server::SendResponse;
use http::StatusCode;
use kube::config::AuthInfo;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::*;

/// What the server does with a request.
#[derive(Clone, Copy, PartialEq)]
enum ServerBehaviour {
    /// Sends back what it got.
    Echo,
    /// The same, and takes no more requests on this connection.
    EchoAndLeave,
    /// Breaks the connection off.
    Break,
    /// Sends more than anybody wants.
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

/// Of a server whose certificate vouches for itself.
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
    while let Some(Ok((request, answer))) = connection.accept().await {
        match behaviour {
            ServerBehaviour::Break => return,
            ServerBehaviour::EchoAndLeave => connection.graceful_shutdown(),
            ServerBehaviour::Echo | ServerBehaviour::Flood => {}
        }
        tokio::spawn(answer_to(request, answer, behaviour == ServerBehaviour::Flood));
    }
}

/// Method, path, credentials, form and body of the request, in the body of the answer, which has the
/// form that was asked for.
async fn answer_to(request: Request<RecvStream>, mut answer: SendResponse<Bytes>, flood: bool) {
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
    let mut stream = answer.send_response(response.body(()).unwrap(), false).unwrap();
    if flood {
        stream.send_data(vec![b'x'; RESPONSE_BYTES_MAX + 1].into(), true).unwrap();
    } else {
        // In two pieces.
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
async fn requests_at_once_share_a_connection_and_keep_their_answers() {
    let server = Server::start(&[ServerBehaviour::Echo]).await;
    let connection = server.connection();
    let answers = futures::future::join_all((0..200).map(|number| post(&connection, number))).await;
    for (number, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.unwrap(), echo(number));
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn without_a_body() {
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
async fn a_client_goes_over_the_link() {
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
async fn of_the_head_is_read_what_is_used() {
    let server = Server::start(&[ServerBehaviour::Echo]).await;
    let connection = server.connection();
    for number in 0..3 {
        let response = connection.send(ask(number, String::new())).await.unwrap();
        assert_eq!(response.status(), StatusCode::CREATED);
        let headers = response.headers();
        assert_eq!(headers.len(), 2);
        assert_eq!(headers["content-type"], "text/plain");
        assert_eq!(headers["retry-after"], "7");
    }
}

#[tokio::test]
async fn bodies_larger_than_the_server_has_room_for() {
    let server = Server::start(&[ServerBehaviour::Echo]).await;
    let connection = server.connection();
    let sent = (0..8).map(|number| {
        let body = number.to_string().repeat(300_000);
        let connection = connection.clone();
        async move { (body.clone(), connection.send(ask(number, body)).await) }
    });
    for (body, response) in futures::future::join_all(sent).await {
        let response = response.unwrap().into_body();
        assert!(
            response.ends_with(format!("secret text/plain {body}").as_bytes()),
            "{}",
            response.len()
        );
    }
}

#[tokio::test]
async fn what_is_no_path_is_not_sent() {
    let server = Server::start(&[ServerBehaviour::Echo]).await;
    for path in ["", "x", "/a b", "/a\r\nb: c", "/ä"] {
        let ask = ApiRequest { path: path.to_owned(), ..ask(1, String::new()) };
        let error = server.connection().send(ask).await.unwrap_err();
        assert_eq!(error.to_string(), format!("{path:?} is no path"));
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_server_that_leaves_is_connected_again() {
    let server = Server::start(&[ServerBehaviour::EchoAndLeave, ServerBehaviour::Echo]).await;
    let connection = server.connection();
    assert_eq!(post(&connection, 1).await.unwrap(), echo(1), "what it took it answers");
    // That the server leaves may come to be known only by the next request.
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
async fn an_answer_has_a_limit() {
    let server = Server::start(&[ServerBehaviour::Flood]).await;
    let error = post(&server.connection(), 1).await.unwrap_err();
    assert_eq!(error.to_string(), format!("the answer is larger than {RESPONSE_BYTES_MAX} bytes"));
}

#[tokio::test]
async fn the_name_of_the_server_is_checked() {
    let mut server = Server::start(&[ServerBehaviour::Echo]).await;
    server.config.tls_server_name = None;
    let error = post(&server.connection(), 1).await.unwrap_err();
    assert!(format!("{error:#}").contains("certificate"), "{error:#}");
}
