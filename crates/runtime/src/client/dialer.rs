//! TCP connections to the API server, through a proxy if there is one.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Uri;
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::connect::CONNECT_TIMEOUT;
#[cfg(target_os = "linux")]
use crate::lease::REQUEST_TIMEOUT;

#[cfg(test)]
mod tests;

/// Bytes of the head of a proxy's answer.
const PROXY_RESPONSE_HEAD_BYTES_MAX: usize = 16 << 10;

/// Where to connect to, and how.
pub(super) struct Dialer {
    host: String,
    port: u16,
    proxy: Option<Proxy>,
    /// Whether nothing may arrive after the time of a request, see [`super::ApiConnection::fenced`].
    fenced: bool,
}

impl Dialer {
    pub(super) fn new(config: &kube::Config, fenced: bool) -> Result<Self> {
        let uri = &config.cluster_url;
        let (host, port) = host_and_port(uri).context("the API server's address has no host")?;
        let proxy = config.proxy_url.as_ref().map(Proxy::new).transpose()?;
        Ok(Self { host, port, proxy, fenced })
    }

    /// Connects to the API server, or by a tunnel of the proxy.
    pub(super) async fn connect(&self) -> Result<TcpStream> {
        let connected = timeout(CONNECT_TIMEOUT, self.connect_slowly()).await;
        // `root_cause` would show the timeout alone.
        connected.map_err(|_| anyhow!("the API server did not answer for {CONNECT_TIMEOUT:?}"))?
    }

    async fn connect_slowly(&self) -> Result<TcpStream> {
        let (host, port) = match &self.proxy {
            Some(proxy) => (&proxy.host, proxy.port),
            None => (&self.host, self.port),
        };
        let mut tcp = reach(host, port).await?;
        tcp.set_nodelay(true)?;
        if self.fenced {
            fence(&tcp)?;
        }
        if let Some(proxy) = &self.proxy {
            let tunnel = proxy.tunnel(&mut tcp, &self.host, self.port).await;
            tunnel.with_context(|| format!("the proxy {}:{}", proxy.host, proxy.port))?;
        }
        Ok(tcp)
    }
}

/// The host of an address, without the brackets of IPv6, and its port.
fn host_and_port(uri: &Uri) -> Option<(String, u16)> {
    let authority = uri.authority()?;
    let plain = uri.scheme_str() == Some("http");
    let port = authority.port_u16().unwrap_or(if plain { 80 } else { 443 });
    Some((authority.host().trim_matches(['[', ']']).to_owned(), port))
}

/// Connects to the first address of a host that answers. Each address has a share of the time, so that
/// the others are tried after one that drops packets.
async fn reach(host: &str, port: u16) -> Result<TcpStream> {
    let addresses: Vec<_> = lookup_host((host, port)).await?.collect();
    let share = CONNECT_TIMEOUT / (addresses.len() as u32 + 1);
    let mut last = anyhow!("the name {host} has no address");
    for address in addresses {
        match timeout(share.max(Duration::from_secs(1)), TcpStream::connect(address)).await {
            Ok(Ok(tcp)) => return Ok(tcp),
            Ok(Err(error)) => last = error.into(),
            Err(_) => last = anyhow!("{address} did not answer for {share:?}"),
        }
    }
    Err(last)
}

/// Has the kernel drop what it has not delivered: after the time of a request without any
/// acknowledgement, and whenever the socket is closed, also by the end of this process. Otherwise it
/// would go on sending the same bytes for minutes.
fn fence(tcp: &TcpStream) -> Result<()> {
    tcp.set_zero_linger().context("SO_LINGER")?;
    #[cfg(target_os = "linux")]
    rustix::net::sockopt::set_tcp_user_timeout(tcp, REQUEST_TIMEOUT.as_millis() as u32)
        .context("TCP_USER_TIMEOUT")?;
    Ok(())
}

/// A proxy that makes tunnels by CONNECT (RFC 9110, 9.3.6).
struct Proxy {
    host: String,
    port: u16,
    /// Its `Proxy-Authorization` header, with the end of the line.
    authorization: String,
}

impl Proxy {
    fn new(uri: &Uri) -> Result<Self> {
        let scheme = uri.scheme_str().unwrap_or("http");
        ensure!(
            scheme == "http",
            "a proxy with the scheme {scheme}:// is not supported; use one with http://, which tunnels TLS all the same"
        );
        let authority = uri.authority().context("the proxy's address has no host")?;
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

    async fn tunnel(&self, tcp: &mut TcpStream, host: &str, port: u16) -> Result<()> {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let Self { authorization, .. } = self;
        let request =
            format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{authorization}\r\n");
        tcp.write_all(request.as_bytes()).await?;
        // Byte by byte, since what comes after the head belongs to the API server.
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            ensure!(head.len() < PROXY_RESPONSE_HEAD_BYTES_MAX, "answers without an end");
            head.push(tcp.read_u8().await.context("closes the connection")?);
        }
        let head = String::from_utf8_lossy(&head);
        let line = head.lines().next().unwrap_or_default();
        let status = line.split(' ').nth(1).unwrap_or_default();
        if !line.starts_with("HTTP/1.") || !status.starts_with('2') {
            bail!("refuses to connect to {host}:{port}: {line}");
        }
        Ok(())
    }
}
