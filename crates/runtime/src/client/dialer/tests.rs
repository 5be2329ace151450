//! Proxies.

use tokio::net::TcpListener;

use super::*;
use crate::api_error::Chain;

/// Returns the head of the request to a proxy that responds with these bytes, and the connection.
async fn through(proxy: &str, response: &'static str) -> (String, Result<TcpStream, DialError>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(tcp.read_u8().await.unwrap());
        }
        tcp.write_all(response.as_bytes()).await.unwrap();
        String::from_utf8(head).unwrap()
    });
    let mut config = kube::Config::new("https://api.example:6443/prefix".parse().unwrap());
    config.proxy_url = Some(format!("{proxy}127.0.0.1:{port}").parse().unwrap());
    let connected = Dialer::new(&config, true).unwrap().connect().await;
    (server.await.unwrap(), connected)
}

#[tokio::test]
async fn a_proxy_makes_a_tunnel() {
    let (head, tcp) = through("http://", "HTTP/1.1 200 OK\r\nVia: x\r\n\r\nfirst bytes").await;
    assert_eq!(head, "CONNECT api.example:6443 HTTP/1.1\r\nHost: api.example:6443\r\n\r\n");
    let mut first = [0; 11];
    tcp.unwrap().read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"first bytes", "the API server sent them");
    let (head, tcp) =
        through("http://me:pa%40ss@", "HTTP/1.0 200 Connection established\r\n\r\n").await;
    assert!(tcp.is_ok());
    let authorization =
        format!("Proxy-Authorization: Basic {}", BASE64_STANDARD.encode("me:pa@ss"));
    assert!(head.contains(&authorization), "{head}");
}

#[tokio::test]
async fn errors_of_a_proxy_name_it_and_the_cause() {
    for (response, why) in [
        ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407 Proxy Authentication Required"),
        ("SSH-2.0-OpenSSH\r\n\r\n", "SSH-2.0"),
        ("", "closes the connection"),
    ] {
        let error = Chain(&through("http://", response).await.1.unwrap_err()).to_string();
        assert!(error.starts_with("the proxy 127.0.0.1:") && error.contains(why), "{error}");
    }
    for scheme in ["https", "socks5"] {
        let mut config = kube::Config::new("https://api.example".parse().unwrap());
        config.proxy_url = Some(format!("{scheme}://proxy:1").parse().unwrap());
        let error = Dialer::new(&config, false).err().unwrap().to_string();
        assert!(error.contains(&format!("{scheme}:// is not supported")), "{error}");
    }
}

#[tokio::test]
async fn the_default_port_follows_from_the_scheme() {
    for (address, expected) in [
        ("https://a", ("a", 443)),
        ("http://a", ("a", 80)),
        ("https://[::1]:6443/x", ("::1", 6443)),
    ] {
        let (host, port) = host_and_port(&address.parse().unwrap()).unwrap();
        assert_eq!((&*host, port), expected);
    }
}
