//! The HTTP/2 connection to the API server, established when it is needed.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use api::kinds::KINDS;
use http::Response;
use http2::{Connection, ConnectionOptions, NeverIndexedFields, Request, ResponseStream};
use rustls::pki_types::ServerName;
use tokio::io::BufStream;
use tokio::time::{Instant, timeout};

use super::credential_store::CredentialStore;
use super::credentials::{ALPN_HTTP2, Credentials};
use super::dialer::Dialer;
use super::http1_fallback::{self, Http1Fallback};
use super::{ApiRequest, ClientError, ResponseBody, lock, send_by_client, until};
use crate::connect::{CONNECT_TIMEOUT, ConnectError, server_name};
use crate::lease::REQUEST_TIMEOUT;

/// Buffer between socket and TLS in each direction, in bytes.
const BUFFER_BYTES: usize = 32 << 10;

/// Receive window of a stream. A long list is read in steps of at most this size.
const STREAM_WINDOW_BYTES: u32 = 512 << 10;

/// Receive window of a connection: enough for 32 streams at once.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

// Watches share a connection, whose reads must not be delayed.
const _: () = assert!(KINDS.len() < ConnectionOptions::BUSY_STREAMS);

/// Longest delay of reads on a connection with many requests in flight.
const BUSY_READ_DELAY_MAX: Duration = Duration::from_millis(50);

/// Silence of the server after which it is sent a PING.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// Time for the acknowledgement, after which the connection is closed.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// HTTP/2 over TLS, with HTTP/1.1 for servers that lack either.
pub(super) struct Http2Transport {
    dialer: Arc<Dialer>,
    authority: String,
    /// Path of the cluster's address, without a slash at its end.
    path_prefix: String,
    server_name: ServerName<'static>,
    credential_store: CredentialStore,
    /// See [`super::ApiConnection::fenced`].
    fenced: bool,
    /// With the generation of the credentials of its TLS handshake.
    connection: Mutex<Option<(u64, Arc<Connection>)>>,
    /// Held by the task that connects.
    connecting: tokio::sync::Mutex<()>,
    /// Set when the server is known to lack HTTP/2.
    fallback: OnceLock<Http1Fallback>,
}

/// Encoded credentials, and a connection that accepts requests.
pub(super) type ReadyConnection = (NeverIndexedFields, Arc<Connection>);

/// The transport of a request.
enum ReadyTransport {
    Http2(ReadyConnection),
    Http1(kube::Client),
}

impl Http2Transport {
    pub(super) fn new(config: &kube::Config, fenced: bool) -> Result<Self, ClientError> {
        let uri = &config.cluster_url;
        let authority = uri.authority().ok_or(ConnectError::NoHost)?;
        let fallback = OnceLock::new();
        if uri.scheme_str() == Some("http") {
            // Servers without TLS need not support HTTP/2.
            http1_fallback::log_once("the API server's address is http://");
            fallback.get_or_init(Http1Fallback::default);
        }
        Ok(Self {
            dialer: Arc::new(Dialer::new(config, fenced)?),
            authority: authority.to_string(),
            path_prefix: uri.path().trim_end_matches('/').to_owned(),
            server_name: server_name(config)?,
            credential_store: CredentialStore::new(config)?,
            fenced,
            connection: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            fallback,
        })
    }

    /// Sends a request over a connection that may have to be established first.
    pub(super) async fn open(
        self: &Arc<Self>,
        request: ApiRequest,
    ) -> Result<Response<ResponseBody>, ClientError> {
        let opened = self.connect_and_send(request).await;
        opened.map_err(|error| self.credential_store.explain(error))
    }

    async fn connect_and_send(
        self: &Arc<Self>,
        request: ApiRequest,
    ) -> Result<Response<ResponseBody>, ClientError> {
        let deadline = request.deadline();
        let this = Arc::clone(self);
        // In a task of its own, which continues past the deadline: the next request finds a connection.
        let ready = tokio::spawn(async move { this.get_ready().await });
        let ready = async { ready.await.map_err(ClientError::ConnectTask)? };
        match until(deadline, ready).await? {
            ReadyTransport::Http2(ready) => {
                let (head, stream) = self.send(request, deadline, &ready)?.head().await?;
                Ok(head.into_response(ResponseBody::Http2(stream)))
            }
            ReadyTransport::Http1(client) => {
                let timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
                send_by_client(&client, ApiRequest { timeout, ..request }).await
            }
        }
    }

    /// Hands a request to a connection.
    pub(super) fn send(
        &self,
        request: ApiRequest,
        deadline: Option<Instant>,
        (fields, connection): &ReadyConnection,
    ) -> Result<ResponseStream, ClientError> {
        let (content_type, body) = request.content.unzip();
        let stream = connection.send(Request {
            method: &request.method,
            authority: &self.authority,
            path_prefix: &self.path_prefix,
            path: &request.path,
            accept: &request.accept,
            content_type: content_type.as_deref(),
            fields,
            body: body.unwrap_or_default(),
            status_only: request.status_only,
            deadline,
        })?;
        Ok(stream)
    }

    /// Returns credentials and connection if neither has to be renewed.
    pub(super) fn ready(&self) -> Option<ReadyConnection> {
        let (generation, fields) = self.credential_store.fresh()?;
        Some((fields, self.live_connection(generation)?))
    }

    /// Notes that the API server answered 401.
    pub(super) fn refuse_credentials(&self) {
        self.credential_store.refused();
    }

    async fn get_ready(&self) -> Result<ReadyTransport, ClientError> {
        let is_ready = |generation| {
            self.fallback.get().is_some() || self.live_connection(generation).is_some()
        };
        // A new connection always uses credentials that were just checked.
        let (generation, fields) = match self.credential_store.fresh() {
            Some((generation, fields)) if is_ready(generation) => (generation, fields),
            _ => self.credential_store.refresh().await?,
        };
        if self.fallback.get().is_none() {
            let connection = match self.live_connection(generation) {
                Some(connection) => Some(connection),
                None => self.new_connection().await?,
            };
            if let Some(connection) = connection {
                return Ok(ReadyTransport::Http2((fields, connection)));
            }
        }
        let fallback = self.fallback.get_or_init(Http1Fallback::default);
        let client = fallback.client(&self.dialer, &self.credential_store.credentials())?;
        Ok(ReadyTransport::Http1(client))
    }

    /// Establishes a connection; `None` if the server does not support HTTP/2.
    async fn new_connection(&self) -> Result<Option<Arc<Connection>>, ClientError> {
        let _turn = self.connecting.lock().await;
        let credentials = self.credential_store.credentials();
        // Another task may have connected while this one waited.
        if let Some(connection) = self.live_connection(credentials.generation) {
            return Ok(Some(connection));
        }
        let connected = timeout(CONNECT_TIMEOUT, self.connect(&credentials)).await;
        let connected = connected.map_err(|_| ClientError::ConnectTimeout)?;
        let Some(connection) = connected? else { return Ok(None) };
        let connection = Arc::new(connection);
        // The previous connection ends when its requests are answered.
        *lock(&self.connection) = Some((credentials.generation, Arc::clone(&connection)));
        Ok(Some(connection))
    }

    /// Returns the connection if it accepts requests and has credentials of this generation.
    pub(super) fn live_connection(&self, generation: u64) -> Option<Arc<Connection>> {
        let connection = lock(&self.connection);
        let (made_with, connection) = connection.as_ref()?;
        let is_live = *made_with == generation && connection.accepts_requests();
        is_live.then(|| Arc::clone(connection))
    }

    async fn connect(&self, credentials: &Credentials) -> Result<Option<Connection>, ClientError> {
        let tcp = self.dialer.connect().await?;
        let tcp = BufStream::with_capacity(BUFFER_BYTES, BUFFER_BYTES, tcp);
        let tls = credentials.tls.connect(self.server_name.clone(), tcp).await;
        let tls = tls.map_err(ClientError::TlsHandshake)?;
        if tls.get_ref().1.alpn_protocol() != Some(ALPN_HTTP2) {
            http1_fallback::log_once("the API server does not support HTTP/2");
            return Ok(None);
        }
        let options = ConnectionOptions {
            stream_receive_window: STREAM_WINDOW_BYTES,
            connection_receive_window: CONNECTION_WINDOW_BYTES,
            ping_interval: PING_INTERVAL,
            ping_timeout: PING_TIMEOUT,
            busy_read_delay_max: BUSY_READ_DELAY_MAX,
            // The PING and its acknowledgement have three quarters of a request's time.
            delivery_probe_interval: self.fenced.then(|| REQUEST_TIMEOUT / 4),
        };
        Ok(Some(Connection::start(tls, options)))
    }
}
