//! The TLS listener and its connections.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::counts::RequestCounts;
use super::{ServerIdentity, ServerState, routes};
use crate::actors::usage::Usage;
use crate::cluster::Cluster;
use crate::faults::{Faults, Reset};
use crate::limits::{
    CONNECTIONS_MAX, FIRST_REQUEST_TIMEOUT, HANDSHAKE_TIMEOUT, KEEP_ALIVE_INTERVAL,
    SHUTDOWN_GRACE_PERIOD, STREAMS_MAX,
};

/// Delay after a failed accept, such as for lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Minimum time between two warnings about failed accepts.
const ACCEPT_WARNING_INTERVAL: Duration = Duration::from_mins(1);

/// Flow-control windows of HTTP/2, in bytes, per stream and per connection.
const STREAM_BYTES: u32 = 1 << 20;
const CONNECTION_BYTES: u32 = 16 << 20;

/// Reason why the server cannot start.
#[derive(Debug, Error)]
pub enum ListenError {
    /// The address is in use or not local.
    #[error("cannot listen on {0}; choose another --port")]
    Bind(SocketAddr, #[source] std::io::Error),
    /// Certificate generation failed.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// TLS rejected the certificate.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
}

/// A server that is bound to its address.
pub struct Server {
    listener: TcpListener,
    shared: Arc<ServerState>,
    tls: TlsAcceptor,
    http: Builder<TokioExecutor>,
}

impl Server {
    /// Binds to an address. Port 0 selects a free port.
    pub async fn bind(
        cluster: Arc<Cluster>,
        identity: &ServerIdentity,
        address: SocketAddr,
        usage: Usage,
        faults: Arc<Faults>,
    ) -> Result<Self, ListenError> {
        let failed = |error| ListenError::Bind(address, error);
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let tls = TlsAcceptor::from(Arc::new(identity.tls()?));
        let token = identity.token.clone();
        let shutdown = CancellationToken::new();
        let counts = RequestCounts::default();
        let shared =
            Arc::new(ServerState { cluster, token, address, usage, faults, counts, shutdown });
        Ok(Self { listener, shared, tls, http: builder() })
    }

    /// Returns the bound address.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Accepts connections until `stop` is cancelled, then gives requests a grace period to
    /// finish.
    pub async fn run(self, stop: CancellationToken) {
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let graceful = GracefulShutdown::new();
        let mut warned = None;
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = accept(&self.listener, &slots, &mut warned) => accepted,
            };
            if let Some((stream, slot)) = accepted {
                tokio::spawn(serve(
                    Arc::clone(&self.shared),
                    self.tls.clone(),
                    self.http.clone(),
                    graceful.watcher(),
                    stream,
                    slot,
                ));
            }
        }
        drop(self.listener);
        self.shared.shutdown.cancel();
        if timeout(SHUTDOWN_GRACE_PERIOD, graceful.shutdown()).await.is_err() {
            debug!("closing connections that exceeded the shutdown grace period");
        }
    }
}

/// Returns the HTTP configuration.
fn builder() -> Builder<TokioExecutor> {
    let mut http = Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new());
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_BYTES)
        .initial_connection_window_size(CONNECTION_BYTES)
        .max_send_buf_size(STREAM_BYTES as usize);
    http
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
    warned: &mut Option<Instant>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, slot)),
        Err(error) => {
            // Without a file descriptor, every attempt fails.
            if warned.is_none_or(|at| at.elapsed() >= ACCEPT_WARNING_INTERVAL) {
                *warned = Some(Instant::now());
                warn!(%error, "cannot accept connections");
            }
            sleep(ACCEPT_RETRY_DELAY).await;
            None
        }
    }
}

async fn serve(
    shared: Arc<ServerState>,
    tls: TlsAcceptor,
    http: Builder<TokioExecutor>,
    watcher: hyper_util::server::graceful::Watcher,
    stream: TcpStream,
    _slot: OwnedSemaphorePermit,
) {
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await else { return };
    serve_connection(shared, http, watcher, stream, FIRST_REQUEST_TIMEOUT).await;
}

/// Serves a connection until it is closed. A connection without a request within the limit is closed,
/// since it occupies one of [`CONNECTIONS_MAX`] slots.
async fn serve_connection(
    shared: Arc<ServerState>,
    http: Builder<TokioExecutor>,
    watcher: hyper_util::server::graceful::Watcher,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    limit: Duration,
) {
    let (request_seen, first_request) = watch::channel(false);
    let first_request_timeout = first_request_timeout(first_request, limit);
    let closing = CancellationToken::new();
    let reset = closing.clone();
    let service = service_fn(move |request| {
        let (shared, reset) = (Arc::clone(&shared), reset.clone());
        request_seen.send_replace(true);
        async move {
            let answer = routes::answer(&shared, request).await;
            if answer.extensions().get::<Reset>().is_some() {
                reset.cancel();
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http.serve_connection(TokioIo::new(stream), service).into_owned();
    tokio::select! {
        ended = closing.run_until_cancelled(watcher.watch(connection)) => {
            if let Some(Err(error)) = ended {
                debug!(%error, "connection failed");
            }
        }
        () = first_request_timeout => debug!("closing idle connection: no request in time"),
    }
}

/// Returns if the first request does not arrive in time; otherwise it never returns.
async fn first_request_timeout(mut first_request: watch::Receiver<bool>, limit: Duration) {
    if timeout(limit, first_request.wait_for(|request_seen| *request_seen)).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    /// Returns the client's side of a connection, the task that serves it, and a guard that keeps it open.
    fn connection() -> (DuplexStream, impl Future<Output = ()>, GracefulShutdown) {
        let (client, server) = duplex(1 << 16);
        let shared = Arc::new(ServerState {
            cluster: Arc::new(Cluster::new()),
            token: "t".to_owned(),
            address: SocketAddr::from(([127, 0, 0, 1], 1)),
            usage: Usage::new(1.0),
            faults: Arc::new(Faults::default()),
            counts: RequestCounts::default(),
            shutdown: CancellationToken::new(),
        });
        let graceful = GracefulShutdown::new();
        let limit = Duration::from_millis(100);
        (client, serve_connection(shared, builder(), graceful.watcher(), server, limit), graceful)
    }

    #[tokio::test]
    async fn connections_that_send_no_request_are_closed() {
        // No bytes, an incomplete HTTP/2 preface, an incomplete HTTP/1 request.
        for beginning in [&b""[..], b"PRI * HTTP/2.0\r\n", b"GET /healthz HTTP/1.1\r\n"] {
            let (mut client, served, _open) = connection();
            client.write_all(beginning).await.unwrap();
            served.await;
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_connection_stays_open_while_a_response_is_sent() {
        let (mut client, served, _open) = connection();
        // Ten times the limit for the first request.
        let request = "GET /api/v1/pods?watch=true&timeoutSeconds=1 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer t\r\nconnection: close\r\n\r\n";
        client.write_all(request.as_bytes()).await.unwrap();
        served.await;
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.ends_with("0\r\n\r\n"), "the body is complete: {answer}");
    }
}
