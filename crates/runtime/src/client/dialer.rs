//! TCP connections to the API server, through a CONNECT tunnel if a proxy is configured.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Uri;
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::connect::{CONNECT_TIMEOUT, ConnectError};
#[cfg(target_os = "linux")]
use crate::lease::REQUEST_TIMEOUT;

#[cfg(test)]
mod tests;

/// Largest head of a proxy's response, in bytes.
const PROXY_RESPONSE_HEAD_BYTES_MAX: usize = 16 << 10;

/// Shortest time to connect to one of several addresses.
const ADDRESS_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// Why no TCP connection could be established.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The proxy has another scheme than `http`.
    #[error(
        "a proxy with the scheme {0}:// is not supported; use one with http://, which tunnels TLS all the same"
    )]
    ProxyScheme(String),
    /// The proxy's address has no host.
    #[error("the proxy's address has no host")]
    ProxyHost,
    /// The name lookup failed.
    #[error("cannot look up {host}")]
    LookUp {
        /// The host.
        host: String,
        /// The failure.
        source: io::Error,
    },
    /// The name lookup returned no address.
    #[error("the name {0} has no address")]
    NoAddress(String),
    /// The last address could not be connected to.
    #[error("cannot connect to {address}")]
    Connect {
        /// The address.
        address: SocketAddr,
        /// The failure.
        source: io::Error,
    },
    /// The last address did not answer in its share of the time.
    #[error("{address} did not answer for {share:?}")]
    AddressTimeout {
        /// The address.
        address: SocketAddr,
        /// Its share of the time.
        share: Duration,
    },
    /// No connection was established in time.
    #[error("the API server did not answer for {CONNECT_TIMEOUT:?}")]
    Timeout,
    /// A socket option could not be set.
    #[error("{option}")]
    SocketOption {
        /// The option.
        option: &'static str,
        /// The failure.
        source: io::Error,
    },
    /// The proxy made no tunnel.
    #[error("the proxy {host}:{port}")]
    Proxy {
        /// The proxy's host.
        host: String,
        /// The proxy's port.
        port: u16,
        /// The failure.
        source: ProxyError,
    },
}

/// Why a proxy made no tunnel.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The request could not be sent.
    #[error("cannot be sent a request")]
    Send(#[source] io::Error),
    /// The connection ended within the head of the response.
    #[error("closes the connection")]
    Closed(#[source] io::Error),
    /// The head of the response is too large.
    #[error("answers without an end")]
    ResponseHeadTooLarge,
    /// The response is not HTTP/1, or its status is not 2xx.
    #[error("refuses to connect to {target}: {status_line}")]
    Refused {
        /// Host and port of the API server.
        target: String,
        /// The first line of the response.
        status_line: String,
    },
}

/// Where and how to connect.
pub(super) struct Dialer {
    host: String,
    port: u16,
    proxy: Option<Proxy>,
    /// See [`super::ApiConnection::fenced`].
    fenced: bool,
}

impl Dialer {
    pub(super) fn new(config: &kube::Config, fenced: bool) -> Result<Self, super::ClientError> {
        let (host, port) = host_and_port(&config.cluster_url).ok_or(ConnectError::NoHost)?;
        let proxy = config.proxy_url.as_ref().map(Proxy::new).transpose()?;
        Ok(Self { host, port, proxy, fenced })
    }

    /// Connects to the API server, or through the proxy.
    pub(super) async fn connect(&self) -> Result<TcpStream, DialError> {
        let connected = timeout(CONNECT_TIMEOUT, self.connect_without_timeout()).await;
        connected.map_err(|_| DialError::Timeout)?
    }

    async fn connect_without_timeout(&self) -> Result<TcpStream, DialError> {
        let (host, port) = match &self.proxy {
            Some(proxy) => (&proxy.host, proxy.port),
            None => (&self.host, self.port),
        };
        let mut tcp = connect_to_any(host, port).await?;
        tcp.set_nodelay(true).map_err(socket_option("TCP_NODELAY"))?;
        if self.fenced {
            fence(&tcp)?;
        }
        if let Some(proxy) = &self.proxy {
            let tunnel = proxy.tunnel(&mut tcp, &self.host, self.port).await;
            let Proxy { host, port, .. } = proxy;
            tunnel.map_err(|source| DialError::Proxy {
                host: host.clone(),
                port: *port,
                source,
            })?;
        }
        Ok(tcp)
    }
}

/// Returns the host, without the brackets of IPv6, and the port of an address.
fn host_and_port(uri: &Uri) -> Option<(String, u16)> {
    let authority = uri.authority()?;
    let is_plain = uri.scheme_str() == Some("http");
    let port = authority.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
    Some((authority.host().trim_matches(['[', ']']).to_owned(), port))
}

/// Connects to the first address of a host that answers. Each address has a share of the time, so that
/// the others are tried after one that drops packets.
async fn connect_to_any(host: &str, port: u16) -> Result<TcpStream, DialError> {
    let addresses = lookup_host((host, port)).await;
    let look_up = |source| DialError::LookUp { host: host.to_owned(), source };
    let addresses: Vec<_> = addresses.map_err(look_up)?.collect();
    let share = (CONNECT_TIMEOUT / (addresses.len() as u32 + 1)).max(ADDRESS_TIMEOUT_MIN);
    let mut last_error = DialError::NoAddress(host.to_owned());
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(tcp)) => return Ok(tcp),
            Ok(Err(source)) => last_error = DialError::Connect { address, source },
            Err(_) => last_error = DialError::AddressTimeout { address, share },
        }
    }
    Err(last_error)
}

/// Makes the kernel discard what it has not delivered: when nothing is acknowledged for the time of a
/// request, and when the socket is closed, also by the end of this process. Without this it would
/// retransmit for minutes.
fn fence(tcp: &TcpStream) -> Result<(), DialError> {
    tcp.set_zero_linger().map_err(socket_option("SO_LINGER"))?;
    #[cfg(target_os = "linux")]
    rustix::net::sockopt::set_tcp_user_timeout(tcp, REQUEST_TIMEOUT.as_millis() as u32)
        .map_err(|error| socket_option("TCP_USER_TIMEOUT")(error.into()))?;
    Ok(())
}

fn socket_option(option: &'static str) -> impl Fn(io::Error) -> DialError {
    move |source| DialError::SocketOption { option, source }
}

/// A proxy that makes tunnels by CONNECT (RFC 9110, section 9.3.6).
struct Proxy {
    host: String,
    port: u16,
    /// The `Proxy-Authorization` line of requests, or nothing.
    authorization: String,
}

impl Proxy {
    fn new(uri: &Uri) -> Result<Self, DialError> {
        let scheme = uri.scheme_str().unwrap_or("http");
        if scheme != "http" {
            return Err(DialError::ProxyScheme(scheme.to_owned()));
        }
        let authority = uri.authority().ok_or(DialError::ProxyHost)?;
        let port = authority.port_u16().unwrap_or(80);
        let (user, _) = authority.as_str().rsplit_once('@').unwrap_or_default();
        let authorization = match user {
            "" => String::new(),
            user => {
                let user = percent_decode_str(user).collect::<Vec<u8>>();
                format!("Proxy-Authorization: Basic {}\r\n", BASE64_STANDARD.encode(user))
            }
        };
        Ok(Self { host: authority.host().trim_matches(['[', ']']).to_owned(), port, authorization })
    }

    async fn tunnel(&self, tcp: &mut TcpStream, host: &str, port: u16) -> Result<(), ProxyError> {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let target = format!("{host}:{port}");
        let Self { authorization, .. } = self;
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{authorization}\r\n");
        tcp.write_all(request.as_bytes()).await.map_err(ProxyError::Send)?;
        // Byte by byte: what follows the head is sent by the API server.
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() >= PROXY_RESPONSE_HEAD_BYTES_MAX {
                return Err(ProxyError::ResponseHeadTooLarge);
            }
            head.push(tcp.read_u8().await.map_err(ProxyError::Closed)?);
        }
        let head = String::from_utf8_lossy(&head);
        let status_line = head.lines().next().unwrap_or_default();
        let status = status_line.split(' ').nth(1).unwrap_or_default();
        if !status_line.starts_with("HTTP/1.") || !status.starts_with('2') {
            return Err(ProxyError::Refused { target, status_line: status_line.to_owned() });
        }
        Ok(())
    }
}
