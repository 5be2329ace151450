//! Connections of the server: their number, their time limits and their end.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, Request, StatusCode};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::pki_types::CertificateDer;
use rustls::version::{TLS12, TLS13};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::TlsMin;
use super::access::AccessControl;
use super::certificate::{CertificateError, CertificateResolver};
use super::ciphers::Ciphers;
use super::client_authorities::{AuthorityError, ClientAuthorities};
use super::cluster_authentication::ClusterAuthentication;
use super::routes::{PageResponse, Routes, failure, refuse, without_body};
use crate::api_error::Chain;

/// Maximum number of connections; probes and scrapers need about ten.
const CONNECTIONS_MAX: usize = 256;

/// Time limit of the handshake, and from there to the end of the first request's head.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time without a request after which a connection is closed; upstream's value.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Time limit of a response; reviews have their own.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time for requests in flight at shutdown; upstream's value.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// Time between reads of the files of certificates.
const CERTIFICATE_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Delay after `accept` failed, such as for lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Maximum length of all headers, in bytes; tokens are the longest, with a few kilobytes.
const HEADER_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of headers.
const HEADERS_MAX: usize = 100;

/// Maximum length of a request's body, in bytes. No page reads it.
const BODY_BYTES_MAX: u64 = 64 * 1024;

/// Maximum number of concurrent streams per HTTP/2 connection.
const STREAMS_MAX: u32 = 100;

/// Maximum number of streams reset before they were accepted; more is an attack.
const RESET_STREAMS_MAX: usize = 20;

/// Flow-control windows of streams and connections, in bytes.
const WINDOW_BYTES: u32 = 64 * 1024;

/// Maximum length of unsent data per stream, in bytes.
const SEND_BUFFER_BYTES_MAX: usize = 256 * 1024;

/// Why the certificates were not read again.
#[derive(Debug, thiserror::Error)]
enum RefreshError {
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error(transparent)]
    Authorities(#[from] AuthorityError),
}

/// Configures TLS.
pub(super) fn tls(
    certificate: &Arc<CertificateResolver>,
    client_ca: Option<&Arc<ClientAuthorities>>,
    tls_min: TlsMin,
    ciphers: &Ciphers,
    http2: bool,
) -> Result<TlsAcceptor, rustls::Error> {
    let versions = match tls_min {
        TlsMin::V1_2 => &[&TLS13, &TLS12][..],
        TlsMin::V1_3 => &[&TLS13],
    };
    let builder = rustls::ServerConfig::builder_with_provider(ciphers.provider())
        .with_protocol_versions(versions)?;
    let builder = match client_ca {
        Some(client_ca) => {
            builder.with_client_cert_verifier(Arc::<ClientAuthorities>::clone(client_ca))
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::<CertificateResolver>::clone(certificate));
    if http2 {
        config.alpn_protocols.push(b"h2".to_vec());
    }
    config.alpn_protocols.push(b"http/1.1".to_vec());
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// State shared by all connections.
pub(super) struct Connections {
    tls: TlsAcceptor,
    http: Builder<TokioExecutor>,
    access: AccessControl,
    routes: Routes,
    pub(super) certificate: Arc<CertificateResolver>,
    client_ca: Option<Arc<ClientAuthorities>>,
    /// New connections wait for the permit of an idle one.
    at_capacity: watch::Sender<bool>,
    shutdown: CancellationToken,
}

impl Connections {
    pub(super) fn new(
        tls: TlsAcceptor,
        http2: bool,
        access: AccessControl,
        routes: Routes,
        certificate: Arc<CertificateResolver>,
        client_ca: Option<Arc<ClientAuthorities>>,
    ) -> Self {
        let (at_capacity, shutdown) = (watch::Sender::new(false), CancellationToken::new());
        Self {
            tls,
            http: http(http2),
            access,
            routes,
            certificate,
            client_ca,
            at_capacity,
            shutdown,
        }
    }

    /// Returns the authorities of clients, if client certificates are requested.
    pub(super) fn client_ca(&self) -> Option<&Arc<ClientAuthorities>> {
        self.client_ca.as_ref()
    }

    /// Accepts connections until `shutdown` completes, then closes them within [`SHUTDOWN_GRACE`].
    pub(super) async fn run(
        self,
        listener: TcpListener,
        cluster: Option<ClusterAuthentication>,
        shutdown: impl Future<Output = ()>,
    ) {
        let shared = Arc::new(self);
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut shutdown = pin!(shutdown);
        let mut tasks = JoinSet::new();
        let mut refresh = JoinSet::new();
        refresh.spawn(Arc::clone(&shared).refresh());
        if let (Some(cluster), Some(client_ca)) = (cluster, &shared.client_ca) {
            refresh.spawn(cluster.follow(Arc::clone(client_ca)));
        }
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(_) = tasks.join_next() => {}
                accepted = shared.accept(&listener, &permits) => {
                    if let Some((stream, permit)) = accepted {
                        tasks.spawn(Arc::clone(&shared).handle(stream, permit));
                    }
                }
            }
        }
        drop(listener);
        refresh.abort_all();
        shared.shutdown.cancel();
        let ended =
            timeout(SHUTDOWN_GRACE, async { while tasks.join_next().await.is_some() {} }).await;
        if ended.is_err() {
            info!(connections = tasks.len(), "closing connections that did not end in time");
            tasks.shutdown().await;
        }
    }

    /// Accepts a connection once there is a permit for it; others wait in the system's backlog.
    async fn accept(
        &self,
        listener: &TcpListener,
        permits: &Arc<Semaphore>,
    ) -> Option<(TcpStream, OwnedSemaphorePermit)> {
        let permit = if let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
            permit
        } else {
            self.at_capacity.send_replace(true);
            Arc::clone(permits).acquire_owned().await.ok()?
        };
        self.at_capacity.send_if_modified(std::mem::take);
        match listener.accept().await {
            Ok((stream, _)) => Some((stream, permit)),
            Err(error) => {
                warn!(%error, "cannot take a connection");
                sleep(ACCEPT_RETRY_DELAY).await;
                None
            }
        }
    }

    /// Reads certificates again when their files change. Does not return.
    async fn refresh(self: Arc<Self>) {
        let mut ticks = interval(CERTIFICATE_CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failed = false;
        loop {
            ticks.tick().await;
            let shared = Arc::clone(&self);
            let Ok(result) = tokio::task::spawn_blocking(move || shared.refresh_now()).await else {
                return;
            };
            match &result {
                Ok(true) => info!("certificates of the HTTPS server were read again"),
                Err(error) if !failed => {
                    warn!(error = %Chain(error), "cannot read certificates again; the old ones stay");
                }
                _ => {}
            }
            failed = result.is_err();
        }
    }

    fn refresh_now(&self) -> Result<bool, RefreshError> {
        let own = self.certificate.refresh();
        let clients = self.client_ca.as_ref().map_or(Ok(false), |client_ca| client_ca.refresh());
        Ok(own? | clients?)
    }

    async fn handle(self: Arc<Self>, stream: TcpStream, _permit: OwnedSemaphorePermit) {
        // Responses are small and written at once, so delaying them gains nothing.
        let _ = stream.set_nodelay(true);
        let hello = timeout(HANDSHAKE_TIMEOUT, self.tls.accept(stream));
        let Some(hello) = self.shutdown.run_until_cancelled(hello).await else { return };
        let stream = match hello {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return debug!(%error, "no TLS handshake"),
            Err(_) => return debug!("no TLS handshake in time"),
        };
        let certificates: Arc<[CertificateDer<'static>]> =
            match stream.get_ref().1.peer_certificates() {
                Some(certificates) => {
                    certificates.iter().map(|one| one.clone().into_owned()).collect()
                }
                None => Arc::default(),
            };
        let activity = Activity::new();
        let service = service_fn(|request| {
            let busy = activity.start();
            let (shared, certificates) = (Arc::clone(&self), Arc::clone(&certificates));
            async move {
                let answer = shared.answer(request, &certificates).await;
                drop(busy);
                Ok::<_, Infallible>(answer)
            }
        });
        let mut connection = pin!(self.http.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            _ = &mut connection => return,
            () = self.shutdown.cancelled() => {}
            () = activity.idle(self.at_capacity.subscribe()) => {}
        }
        // Requests in flight are answered, new ones are not accepted.
        connection.as_mut().graceful_shutdown();
        let _ = timeout(SHUTDOWN_GRACE, connection).await;
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        certificates: &[CertificateDer<'static>],
    ) -> PageResponse {
        let head = *request.method() == Method::HEAD;
        let answer = match timeout(RESPONSE_TIMEOUT, self.answer_now(request, certificates)).await {
            Ok(answer) => answer,
            Err(_) => failure(StatusCode::GATEWAY_TIMEOUT, "Timeout", "the answer took too long"),
        };
        if head { without_body(answer) } else { answer }
    }

    async fn answer_now(
        &self,
        request: Request<Incoming>,
        certificates: &[CertificateDer<'static>],
    ) -> PageResponse {
        let (request, body) = request.into_parts();
        if body.size_hint().lower() > BODY_BYTES_MAX {
            let text = format!("the body is longer than {BODY_BYTES_MAX} bytes");
            return failure(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", &text);
        }
        let path = request.uri.path();
        let served = self.routes.serves(&request.method, path);
        if let Err(refusal) = self.access.check(&request, certificates, served).await {
            return refuse(refusal);
        }
        self.routes.answer(&request.method, path, request.uri.query().unwrap_or_default())
    }
}

fn http(http2: bool) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HANDSHAKE_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEADER_BYTES_MAX as u32)
        .max_concurrent_streams(STREAMS_MAX)
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        .max_local_error_reset_streams(RESET_STREAMS_MAX)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES_MAX);
    if http2 { builder } else { builder.http1_only() }
}

/// Activity of a connection. A client that reads a response slowly counts as idle.
struct Activity {
    state: Mutex<ActivityState>,
    changed: Notify,
}

#[derive(Clone, Copy, PartialEq)]
struct ActivityState {
    /// Number of requests in flight.
    requests: usize,
    /// End of the last request, or start of the connection.
    since: Instant,
    /// There was a request.
    served: bool,
}

/// A request in flight.
struct RequestGuard(Arc<Activity>);

impl Activity {
    fn new() -> Arc<Self> {
        let state = ActivityState { requests: 0, since: Instant::now(), served: false };
        Arc::new(Self { state: Mutex::new(state), changed: Notify::new() })
    }

    fn start(self: &Arc<Self>) -> RequestGuard {
        self.change(|state| {
            state.requests += 1;
            state.served = true;
        });
        RequestGuard(Arc::clone(self))
    }

    fn change(&self, change: impl FnOnce(&mut ActivityState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
    }

    fn state(&self) -> ActivityState {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once the connection was idle for too long: at once after its first request if others wait
    /// for its permit.
    async fn idle(&self, mut at_capacity: watch::Receiver<bool>) {
        loop {
            let state = self.state();
            if state.requests > 0 {
                self.changed.notified().await;
                continue;
            }
            let limit = match (state.served, *at_capacity.borrow_and_update()) {
                (false, _) => HANDSHAKE_TIMEOUT,
                (true, false) => IDLE_TIMEOUT,
                (true, true) => Duration::ZERO,
            };
            tokio::select! {
                () = self.changed.notified() => {}
                Ok(()) = at_capacity.changed() => {}
                () = sleep_until(state.since + limit) => {
                    if self.state() == state {
                        return;
                    }
                }
            }
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.requests -= 1;
            state.since = Instant::now();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_ends_after_the_handshake_timeout() {
        let (_at_capacity, receiver) = watch::channel(true);
        let (activity, start) = (Activity::new(), Instant::now());
        activity.idle(receiver).await;
        assert_eq!(start.elapsed(), HANDSHAKE_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn the_idle_time_runs_from_the_end_of_the_last_request() {
        let (_at_capacity, receiver) = watch::channel(false);
        let (activity, start) = (Activity::new(), Instant::now());
        let first = activity.start();
        let second = activity.start();
        tokio::spawn(async move {
            sleep(Duration::from_secs(25)).await;
            drop(first);
            sleep(Duration::from_secs(975)).await;
            drop(second);
        });
        activity.idle(receiver).await;
        assert_eq!(start.elapsed(), Duration::from_secs(1000) + IDLE_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_ends_when_others_wait() {
        let (at_capacity, receiver) = watch::channel(false);
        let (activity, start) = (Activity::new(), Instant::now());
        drop(activity.start());
        tokio::spawn(async move {
            sleep(Duration::from_secs(7)).await;
            at_capacity.send_replace(true);
            std::future::pending::<()>().await;
        });
        activity.idle(receiver).await;
        assert_eq!(start.elapsed(), Duration::from_secs(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_connection_does_not_end_when_others_wait() {
        let (_at_capacity, receiver) = watch::channel(true);
        let (activity, start) = (Activity::new(), Instant::now());
        let busy = activity.start();
        tokio::spawn(async move {
            sleep(Duration::from_secs(25)).await;
            drop(busy);
        });
        activity.idle(receiver).await;
        assert_eq!(start.elapsed(), Duration::from_secs(25));
    }
}
