//! Fenced connections: an overdue request never arrives.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::sync::oneshot;

use super::*;

/// Far longer than any step of these tests takes.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Bytes of a body that the sockets cannot buffer.
const LARGE_BODY_BYTES: usize = 3 << 20;
const RECEIVE_BYTES: u32 = 16 << 10;

/// SETTINGS with the largest window for streams, and a WINDOW_UPDATE with as much for the connection.
const LARGE_WINDOWS: &[u8] =
    b"\0\0\x06\x04\0\0\0\0\0\0\x04\x7f\xff\xff\xff\0\0\x04\x08\0\0\0\0\0\x7f\xff\0\0";

#[tokio::test]
async fn nothing_of_an_overdue_request_arrives_when_the_server_reads_again() {
    let (tls, certificate) = server_tls();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(RECEIVE_BYTES).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (resume, resumed) = oneshot::channel();
    let server = tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let mut tls = TlsAcceptor::from(Arc::new(tls)).accept(tcp).await.unwrap();
        tls.write_all(LARGE_WINDOWS).await.unwrap();
        tls.flush().await.unwrap();
        // It reads nothing until the request is overdue.
        resumed.await.unwrap();
        let mut received = Vec::new();
        let end = timeout(TEST_TIMEOUT, tls.read_to_end(&mut received)).await;
        (end.expect("the connection stays open"), received)
    });
    let connection = ApiConnection::fenced(&config(port, &certificate)).unwrap();
    let filling = connection.clone();
    let filling =
        tokio::spawn(async move { filling.send(ask(1, "x".repeat(LARGE_BODY_BYTES))).await });
    let fenced = async {
        loop {
            if let Transport::Http2(transport) = &connection.0
                && transport.live_connection(0).is_some()
            {
                break;
            }
            tokio::task::yield_now().await;
        }
        let overdue =
            ApiRequest { timeout: Some(Duration::from_millis(300)), ..ask(77, String::new()) };
        connection.send(overdue).await
    };
    let error = timeout(TEST_TIMEOUT, fenced).await.unwrap().unwrap_err().to_string();
    assert_eq!(error, "the connection broke off: an overdue request may still arrive");
    resume.send(()).unwrap();
    let (end, received) = server.await.unwrap();
    assert!(end.is_err(), "the kernel discards what it holds");
    assert!(received.len() < LARGE_BODY_BYTES, "{}", received.len());
    let path = b"timeout=77s";
    assert!(!received.windows(path.len()).any(|window| window == path), "it arrived");
    assert!(filling.await.unwrap().is_err());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_kernel_discards_what_is_not_acknowledged_in_time() {
    use crate::lease::REQUEST_TIMEOUT;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = config(port, &server_tls().1);
    let tcp = dialer::Dialer::new(&config, true).unwrap().connect().await.unwrap();
    let limit = rustix::net::sockopt::tcp_user_timeout(&tcp).unwrap();
    assert_eq!(u128::from(limit), REQUEST_TIMEOUT.as_millis());
    assert_eq!(rustix::net::sockopt::socket_linger(&tcp).unwrap(), Some(Duration::ZERO));
}
