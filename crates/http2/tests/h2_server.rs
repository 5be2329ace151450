//! The client against the server of the crate `h2`.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Method, Request as HttpRequest, Response, StatusCode};
use http2::{Connection, ConnectionOptions, Error, NeverIndexedFields, Request};
use tokio::io::{BufStream, DuplexStream, duplex};
use tokio::time::Duration;

/// Bytes on the way in each direction.
const TRANSPORT_BYTES: usize = 16 << 10;

/// Limit for the body of a response.
const LIMIT: usize = 4 << 20;

const OPTIONS: ConnectionOptions = ConnectionOptions {
    stream_receive_window: 512 << 10,
    connection_receive_window: 16 << 20,
    ping_interval: Duration::from_secs(10),
    ping_timeout: Duration::from_secs(5),
    busy_read_delay_max: Duration::from_millis(2),
    delivery_probe_interval: None,
};

/// Response of the server to a request.
#[derive(Clone, Copy, PartialEq)]
enum Behaviour {
    /// Answers with what it received.
    Echo,
    /// Answers, and sends GOAWAY.
    EchoAndLeave,
    /// Closes the connection.
    Break,
    /// Answers with more than [`LIMIT`] bytes.
    Flood,
}

/// Starts a server and returns a connection to it.
fn connect(behaviour: Behaviour) -> Connection {
    let (client, server) = duplex(TRANSPORT_BYTES);
    tokio::spawn(serve(server, behaviour));
    Connection::start(BufStream::new(client), OPTIONS)
}

async fn serve(transport: DuplexStream, behaviour: Behaviour) {
    let mut connection = h2::server::handshake(transport).await.unwrap();
    while let Some(Ok((request, responder))) = connection.accept().await {
        match behaviour {
            Behaviour::Break => return,
            Behaviour::EchoAndLeave => connection.graceful_shutdown(),
            Behaviour::Echo | Behaviour::Flood => {}
        }
        tokio::spawn(respond(request, responder, behaviour == Behaviour::Flood));
    }
}

/// Sends method, path, credentials, content type and body of the request back, with the content type
/// that was asked for.
async fn respond(
    request: HttpRequest<RecvStream>,
    mut responder: SendResponse<Bytes>,
    flood: bool,
) {
    let (head, mut body) = request.into_parts();
    let mut received = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        received.extend_from_slice(&data);
    }
    let header = |name| head.headers.get(name).map_or("none", |value| value.to_str().unwrap());
    let echo = format!(
        "{} {} {} {} {}",
        head.method,
        head.uri,
        header("authorization"),
        header("content-type"),
        String::from_utf8(received).unwrap()
    );
    let response = Response::builder()
        .status(StatusCode::CREATED)
        .header("content-type", header("accept"))
        .header("x-other", head.uri.path())
        .header("retry-after", "7");
    let mut stream = responder.send_response(response.body(()).unwrap(), false).unwrap();
    if flood {
        stream.send_data(vec![b'x'; LIMIT + 1].into(), true).unwrap();
    } else {
        // In two DATA frames.
        let (first, second) = echo.split_at(5);
        stream.send_data(first.to_owned().into(), false).unwrap();
        stream.send_data(second.to_owned().into(), true).unwrap();
    }
}

/// Posts a body with credentials and returns the response.
async fn post(
    connection: &Connection,
    number: usize,
    body: String,
) -> Result<Response<Bytes>, Error> {
    post_with(connection, "Bearer secret", number, body).await
}

async fn post_with(
    connection: &Connection,
    credentials: &str,
    number: usize,
    body: String,
) -> Result<Response<Bytes>, Error> {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", HeaderValue::from_str(credentials).unwrap());
    let request = Request {
        method: &Method::POST,
        authority: "api.example:6443",
        path_prefix: "/clusters/one",
        path: &format!("/api/v1/pods?timeout={number}s"),
        accept: "text/plain",
        content_type: Some("text/plain"),
        fields: &NeverIndexedFields::from(&headers),
        body: body.into(),
        status_only: false,
        deadline: None,
    };
    let (head, body) = connection.send(request)?.collect(LIMIT).await?;
    Ok(head.into_response(body))
}

fn echo(number: usize, body: &str) -> String {
    echo_with("Bearer secret", number, body)
}

fn echo_with(credentials: &str, number: usize, body: &str) -> String {
    format!(
        "POST https://api.example:6443/clusters/one/api/v1/pods?timeout={number}s {credentials} text/plain {body}"
    )
}

#[tokio::test]
async fn concurrent_requests_get_their_own_responses() {
    let connection = connect(Behaviour::Echo);
    let requests = (0..200).map(|number| post(&connection, number, format!("body {number}")));
    let responses = futures::future::join_all(requests).await;
    for (number, response) in responses.into_iter().enumerate() {
        let expected = echo(number, &format!("body {number}"));
        assert_eq!(response.unwrap().into_body(), expected.as_bytes());
    }
}

#[tokio::test]
async fn credentials_may_be_larger_than_a_frame() {
    // Tokens of OpenID Connect that name many groups have tens of kilobytes.
    for bytes in [16_000, 16_384, 100_000] {
        let connection = connect(Behaviour::Echo);
        let token = "t".repeat(bytes);
        for body in ["", "body"] {
            let response = post_with(&connection, &token, 1, body.to_owned()).await.unwrap();
            let echo = response.into_body();
            assert_eq!(echo, echo_with(&token, 1, body).as_bytes());
        }
    }
}

#[tokio::test]
async fn a_request_needs_no_body_and_its_response_can_be_streamed() {
    let connection = connect(Behaviour::Echo);
    let request = Request {
        method: &Method::PUT,
        authority: "api.example",
        path_prefix: "",
        path: "/",
        accept: "*/*",
        content_type: None,
        fields: &NeverIndexedFields::default(),
        body: Bytes::new(),
        status_only: false,
        deadline: None,
    };
    let (head, mut stream) = connection.send(request).unwrap().head().await.unwrap();
    assert_eq!(head.status, StatusCode::CREATED);
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        body.extend_from_slice(&data.unwrap());
    }
    assert_eq!(String::from_utf8(body).unwrap(), "PUT https://api.example/ none none ");
}

#[tokio::test]
async fn a_response_has_content_type_and_retry_after_only() {
    let connection = connect(Behaviour::Echo);
    for number in 0..3 {
        let response = post(&connection, number, String::new()).await.unwrap();
        assert_eq!(response.status(), StatusCode::CREATED);
        let headers = response.headers();
        assert_eq!(headers.len(), 2);
        assert_eq!(headers["content-type"], "text/plain");
        assert_eq!(headers["retry-after"], "7");
    }
}

#[tokio::test]
async fn bodies_may_be_larger_than_all_windows() {
    let connection = connect(Behaviour::Echo);
    let exchanges = (0..8).map(|number| {
        let body = number.to_string().repeat(300_000);
        let connection = &connection;
        async move { (post(connection, number, body.clone()).await, echo(number, &body)) }
    });
    for (response, expected) in futures::future::join_all(exchanges).await {
        assert!(response.unwrap().into_body() == expected.as_bytes());
    }
}

#[tokio::test]
async fn a_response_beyond_the_limit_is_an_error_and_the_connection_survives() {
    let connection = connect(Behaviour::Flood);
    for number in 0..2 {
        let error = post(&connection, number, String::new()).await.unwrap_err();
        assert_eq!(error.to_string(), format!("the response is larger than {LIMIT} bytes"));
    }
    assert!(connection.accepts_requests());
}

#[tokio::test]
async fn after_goaway_the_accepted_request_is_answered_and_no_other_accepted() {
    let connection = connect(Behaviour::EchoAndLeave);
    let response = post(&connection, 1, "body".to_owned()).await.unwrap();
    assert_eq!(response.into_body(), echo(1, "body").as_bytes());
    while connection.accepts_requests() {
        tokio::task::yield_now().await;
    }
    let error = post(&connection, 2, String::new()).await.unwrap_err();
    assert!(matches!(error, Error::NotAccepted), "{error}");
}

#[tokio::test]
async fn a_closed_connection_fails_its_requests() {
    let connection = connect(Behaviour::Break);
    let error = post(&connection, 1, String::new()).await.unwrap_err();
    assert!(matches!(error, Error::Closed | Error::ConnectionFailed(_)), "{error}");
    assert!(!connection.accepts_requests());
}
