//! Servers without HTTP/2 or without TLS, proxies and impersonation.

use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};

use super::*;

/// Counts requests and answers with what was received.
async fn respond_http1(
    request: Request<Incoming>,
    asked: Arc<AtomicUsize>,
    status: StatusCode,
) -> Result<Response<Full<Bytes>>> {
    asked.fetch_add(1, Ordering::Relaxed);
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let header = |name| head.headers.get(name).map_or("none", |value| value.to_str().unwrap());
    let mut echo = format!(
        "{} {} {} {} {}",
        head.method,
        head.uri.path_and_query().unwrap(),
        header("authorization"),
        header("content-type"),
        str::from_utf8(&body)?
    );
    if let Some(user) = head.headers.get("impersonate-user") {
        echo += &[" as ", user.to_str()?].concat();
    }
    Ok(Response::builder().status(status).body(Full::from(echo))?)
}

/// Starts a server with TLS that supports HTTP/1.1 only. Returns its configuration and request count.
async fn http1_server(protocols: &[&[u8]], status: StatusCode) -> (kube::Config, Arc<AtomicUsize>) {
    let (mut tls, certificate) = server_tls();
    tls.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let (acceptor, asked) = (acceptor.clone(), Arc::clone(&counted));
            tokio::spawn(async move {
                let tls = acceptor.accept(tcp).await.unwrap();
                let answer =
                    service_fn(|request| respond_http1(request, Arc::clone(&asked), status));
                let server = hyper::server::conn::http1::Builder::new();
                let _ = server.serve_connection(TokioIo::new(tls), answer).await;
            });
        }
    });
    (config(port, &certificate), asked)
}

#[tokio::test]
async fn a_server_with_tls_and_without_http_2_is_sent_http_1() {
    for protocols in [&[b"http/1.1".as_slice()][..], &[]] {
        let (config, asked) = http1_server(protocols, StatusCode::CREATED).await;
        let connection = ApiConnection::fenced(&config).unwrap();
        let answers =
            futures::future::join_all((0..20).map(|number| post(&connection, number))).await;
        for (number, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer.unwrap(), echo(number));
        }
        let client = connection.client("ns");
        let request = Request::get("/version").body(Body::empty()).unwrap();
        let response = client.send(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(&body[..], b"GET /clusters/one/version Bearer secret none ");
        assert_eq!(asked.load(Ordering::Relaxed), 21);
    }
}

#[tokio::test]
async fn a_server_without_tls_is_sent_http_1() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let answer =
                service_fn(|request| respond_http1(request, Arc::default(), StatusCode::CREATED));
            let server = hyper::server::conn::http1::Builder::new();
            tokio::spawn(server.serve_connection(TokioIo::new(tcp), answer));
        }
    });
    let mut config = config(port, &server_tls().1);
    config.cluster_url = format!("http://127.0.0.1:{port}/clusters/one").parse().unwrap();
    let connection = ApiConnection::fenced(&config).unwrap();
    for number in 0..3 {
        assert_eq!(post(&connection, number).await.unwrap(), echo(number));
    }
}

#[tokio::test]
async fn with_http_1_nothing_is_sent_twice() {
    for status in [429, 503, 504] {
        let status = StatusCode::from_u16(status).unwrap();
        let (config, asked) = http1_server(&[], status).await;
        let connection = ApiConnection::new(&config).unwrap();
        let ask = ApiRequest { timeout: Some(Duration::from_mins(1)), ..ask(1, String::new()) };
        assert_eq!(connection.send(ask).await.unwrap().status(), status);
        assert_eq!(asked.load(Ordering::Relaxed), 1, "{status}");
    }
}

#[tokio::test]
async fn connecting_continues_after_the_timeout_of_the_request_that_started_it() {
    let (tls, certificate) = server_tls();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (proceed, waits) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        // There is no second connection.
        drop(listener);
        waits.await.unwrap();
        let tls = TlsAcceptor::from(Arc::new(tls)).accept(tcp).await.unwrap();
        serve(tls, ServerBehaviour::Echo).await;
    });
    let connection = ApiConnection::fenced(&config(port, &certificate)).unwrap();
    let hasty = ApiRequest { timeout: Some(Duration::from_millis(50)), ..ask(1, String::new()) };
    assert_eq!(
        connection.send(hasty).await.unwrap_err().to_string(),
        ClientError::NoResponse.to_string()
    );
    proceed.send(()).unwrap();
    assert_eq!(post(&connection, 2).await.unwrap(), echo(2));
}

/// Answers CONNECT requests, carries the bytes of the tunnels, and counts them.
async fn start_proxy(target: http::uri::Authority) -> (http::Uri, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let tunnels = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tunnels);
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
            let target = target.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(client.read_u8().await.unwrap());
                }
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                let mut server = TcpStream::connect(target.as_str()).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (format!("http://127.0.0.1:{port}").parse().unwrap(), tunnels)
}

#[tokio::test]
async fn http_2_uses_one_tunnel_of_the_proxy() {
    let mut server = Server::start(&[ServerBehaviour::Echo]).await;
    let target = server.config.cluster_url.authority().unwrap().clone();
    let (address, tunnels) = start_proxy(target).await;
    server.config.proxy_url = Some(address);
    let connection = server.connection();
    for number in 0..3 {
        assert_eq!(post(&connection, number).await.unwrap(), echo(number));
    }
    assert_eq!(server.connections(), 1);
    assert_eq!(tunnels.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn http_1_uses_the_proxy_and_impersonation() {
    let (mut config, requests) = http1_server(&[b"http/1.1"], StatusCode::CREATED).await;
    let target = config.cluster_url.authority().unwrap().clone();
    let (address, tunnels) = start_proxy(target).await;
    config.proxy_url = Some(address);
    config.auth_info.impersonate = Some("someone".to_owned());
    let echoed = post(&ApiConnection::new(&config).unwrap(), 1).await.unwrap();
    assert_eq!(echoed, echo(1) + " as someone");
    assert_eq!(requests.load(Ordering::Relaxed), 1);
    let tunnels = tunnels.load(Ordering::Relaxed);
    assert_eq!(tunnels, 2, "the first finds out that the server lacks HTTP/2");
}

#[tokio::test]
async fn impersonation_and_user_agent_are_sent() {
    let mut server = Server::start(&[ServerBehaviour::Echo]).await;
    server.config.auth_info.impersonate = Some("someone".to_owned());
    server.config.auth_info.impersonate_groups = Some(vec!["one".to_owned(), "two".to_owned()]);
    let agent = (http::header::USER_AGENT, HeaderValue::from_static("jindou/1"));
    server.config.headers.push(agent);
    let echoed = post(&server.connection(), 1).await.unwrap();
    assert_eq!(echoed, echo(1) + " as someone of one, two by jindou/1");
}
