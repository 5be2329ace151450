//! What is overdue never arrives.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::sync::oneshot;

use super::*;

/// Far longer than anything here takes.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Bytes that the server has no room for while it does not read.
const MUCH: usize = 3 << 20;
const RECEIVE_BYTES: u32 = 16 << 10;

/// Settings with the largest window for streams, and as much for the connection.
const ROOM: &[u8] =
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
        tls.write_all(ROOM).await.unwrap();
        tls.flush().await.unwrap();
        // It reads no more until the request is overdue.
        resumed.await.unwrap();
        let mut heard = Vec::new();
        let end = timeout(TEST_TIMEOUT, tls.read_to_end(&mut heard)).await;
        (end.expect("the connection goes on"), heard)
    });
    let connection = ApiConnection::fenced(&config(port, &certificate)).unwrap();
    let filling = connection.clone();
    let filling = tokio::spawn(async move { filling.send(ask(1, "x".repeat(MUCH))).await });
    // When the first byte is on its way, the connection is there.
    let fenced = async {
        loop {
            if let Transport::Http2(direct) = &connection.0
                && direct.living_connection(0).is_some()
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
    let (end, heard) = server.await.unwrap();
    assert!(end.is_err(), "the kernel was told to drop what it had");
    assert!(heard.len() < MUCH, "{}", heard.len());
    let path = b"timeout=77s";
    assert!(!heard.windows(path.len()).any(|window| window == path), "it arrived");
    assert!(filling.await.unwrap().is_err());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_kernel_drops_what_is_not_acknowledged_in_time() {
    use crate::lease::REQUEST_TIMEOUT;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = config(port, &server_tls().1);
    let tcp = Dialer::new(&config, true).unwrap().connect().await.unwrap();
    let limit = rustix::net::sockopt::tcp_user_timeout(&tcp).unwrap();
    assert_eq!(u128::from(limit), REQUEST_TIMEOUT.as_millis());
    assert_eq!(rustix::net::sockopt::socket_linger(&tcp).unwrap(), Some(Duration::ZERO));
}
