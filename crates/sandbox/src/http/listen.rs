//! Connections: how they are taken and how they end.

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
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::counts::RequestCounts;
use super::{ServerIdentity, ServerState, routes};
use crate::actors::usage::Usage;
use crate::cluster::Cluster;
use crate::faults::{Faults, Reset};
use crate::limits::{
    CONNECTIONS_MAX, GRACE_TIME, HANDSHAKE_TIME, PING_EVERY, SILENCE_TIME, STREAMS_MAX,
};

/// Wait after a failure to accept, such as no file descriptors left.
const ACCEPT_RETRY_TIME: Duration = Duration::from_millis(100);

/// Bytes that a client may send ahead, by stream and by connection.
const STREAM_BYTES: u32 = 1 << 20;
const CONNECTION_BYTES: u32 = 16 << 20;

/// Why the server cannot start.
#[derive(Debug, Error)]
pub enum ListenError {
    /// The address is taken or not ours.
    #[error("cannot listen on {0}; choose another --port")]
    Bind(SocketAddr, #[source] std::io::Error),
    /// No certificate could be made.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// The certificate cannot be used.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
}

/// A server that is ready to take connections.
pub struct Server {
    listener: TcpListener,
    shared: Arc<ServerState>,
    tls: TlsAcceptor,
    http: Builder<TokioExecutor>,
}

impl Server {
    /// Takes an address. Port 0 means any that is free.
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
        let ending = CancellationToken::new();
        let counts = RequestCounts::default();
        let shared =
            Arc::new(ServerState { cluster, token, address, usage, faults, counts, ending });
        Ok(Self { listener, shared, tls, http: builder() })
    }

    /// Where it is reached.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Takes connections until told to stop, then lets requests end in a bounded time.
    pub async fn run(self, stop: CancellationToken) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let graceful = GracefulShutdown::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = accept(&self.listener, &places) => accepted,
            };
            if let Some((stream, place)) = accepted {
                tokio::spawn(serve(
                    Arc::clone(&self.shared),
                    self.tls.clone(),
                    self.http.clone(),
                    graceful.watcher(),
                    stream,
                    place,
                ));
            }
        }
        drop(self.listener);
        self.shared.ending.cancel();
        if timeout(GRACE_TIME, graceful.shutdown()).await.is_err() {
            debug!("closing connections that did not end in time");
        }
    }
}

/// How HTTP is spoken.
fn builder() -> Builder<TokioExecutor> {
    let mut http = Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new());
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_BYTES)
        .initial_connection_window_size(CONNECTION_BYTES)
        .max_send_buf_size(STREAM_BYTES as usize);
    http
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(error) => {
            debug!(%error, "cannot accept a connection");
            sleep(ACCEPT_RETRY_TIME).await;
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
    _place: OwnedSemaphorePermit,
) {
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = timeout(HANDSHAKE_TIME, tls.accept(stream)).await else { return };
    talk(shared, http, watcher, stream, SILENCE_TIME).await;
}

/// Answers the requests of a connection until it ends. One that sends no request in time is closed: it
/// holds a place that others may need.
async fn talk(
    shared: Arc<ServerState>,
    http: Builder<TokioExecutor>,
    watcher: hyper_util::server::graceful::Watcher,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    silence: Duration,
) {
    let (spoke, spoken) = watch::channel(false);
    let silent = silent(spoken, silence);
    let closing = CancellationToken::new();
    let reset = closing.clone();
    let service = service_fn(move |request| {
        let (shared, reset) = (Arc::clone(&shared), reset.clone());
        spoke.send_replace(true);
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
                debug!(%error, "a connection ended");
            }
        }
        () = silent => debug!("closing a connection that sent no request"),
    }
}

/// Returns when the first request has not come in time.
async fn silent(mut spoken: watch::Receiver<bool>, limit: Duration) {
    if timeout(limit, spoken.wait_for(|spoke| *spoke)).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    /// The client's side of a connection, and the server's until its end; the third keeps it open.
    fn connection() -> (DuplexStream, impl Future<Output = ()>, GracefulShutdown) {
        let (client, server) = duplex(1 << 16);
        let shared = Arc::new(ServerState {
            cluster: Arc::new(Cluster::new()),
            token: "t".to_owned(),
            address: SocketAddr::from(([127, 0, 0, 1], 1)),
            usage: Usage::new(1.0),
            faults: Arc::new(Faults::default()),
            counts: RequestCounts::default(),
            ending: CancellationToken::new(),
        });
        let graceful = GracefulShutdown::new();
        let limit = Duration::from_millis(100);
        (client, talk(shared, builder(), graceful.watcher(), server, limit), graceful)
    }

    #[tokio::test]
    async fn connections_that_send_no_request_are_closed() {
        // Nothing at all, a beginning of HTTP/2, a beginning of HTTP/1.
        for beginning in [&b""[..], b"PRI * HTTP/2.0\r\n", b"GET /healthz HTTP/1.1\r\n"] {
            let (mut client, talk, _open) = connection();
            client.write_all(beginning).await.unwrap();
            talk.await;
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_connection_stays_as_long_as_an_answer_takes() {
        let (mut client, talk, _open) = connection();
        // Ten times as long as a connection may be silent.
        let request = "GET /api/v1/pods?watch=true&timeoutSeconds=1 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer t\r\nconnection: close\r\n\r\n";
        client.write_all(request.as_bytes()).await.unwrap();
        talk.await;
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.ends_with("0\r\n\r\n"), "the body came to its end: {answer}");
    }
}
