//! One HTTP/2 connection for many small requests.
//!
//! Binds and events are most of what is sent, some hundred bytes each, so that what lies between the
//! one who asks and the wire costs more than the request. Here it is little: a request is handed to
//! the connection, and what was asked meanwhile leaves with it in one write.

mod credential_store;
mod credentials;
mod dialer;
mod http1_fallback;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::{FutureExt as _, stream};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use rustls::pki_types::ServerName;
use tokio::io::BufStream;
use tokio::time::{Instant, timeout, timeout_at};

use crate::api_error::JSON;
use crate::connect::{
    CONNECT_TIMEOUT, CONNECTION_WINDOW_BYTES, PING_AFTER, PING_TIMEOUT, STREAM_WINDOW_BYTES,
    server_name,
};
use crate::lease::REQUEST_TIMEOUT;
use credential_store::CredentialStore;
use credentials::Credentials;
use dialer::Dialer;
use http1_fallback::Http1Fallback;
use http2::{Connection, NO_ANSWER, Options, OutgoingStream, RequestHead, ResponseStream};

/// Bytes of an answer, which may be a pod; etcd takes 1.5 MB, and JSON is at most a few times that.
pub(crate) const RESPONSE_BYTES_MAX: usize = 32 << 20;

/// Bytes that are encrypted together. With what goes around them they fit into 16 KiB: most allocators
/// have such blocks, and larger ones only of sizes that nothing else has.
const RECORD_BYTES: usize = 16_000;

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 32 << 10;

/// A request to a path.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    /// `GET`, say.
    pub method: Method,
    /// The path with its query.
    pub path: String,
    /// The forms in which the answer may come.
    pub accept: Cow<'static, str>,
    /// The body with its form.
    pub content: Option<(Cow<'static, str>, Bytes)>,
    /// If the answer is that it is done, nothing else is wanted of it: no header, no body.
    pub status_only: bool,
    /// How long all of it may take, if [`ApiConnection::send`] is to see to that.
    pub timeout: Option<Duration>,
}

impl ApiRequest {
    /// Whether it can be sent at all: names of objects are part of the path.
    pub fn validate(&self) -> Result<()> {
        let path = &self.path;
        let is_path = path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic());
        ensure!(is_path, "{path:?} is no path");
        Ok(())
    }

    /// When its answer is due.
    fn due(&self) -> Option<Instant> {
        self.timeout.map(|timeout| Instant::now() + timeout)
    }

    /// For a client.
    fn into_request(self) -> Result<Request<Body>> {
        let (form, body) = self.content.unzip();
        let mut request = Request::new(Body::from(body.unwrap_or_default()));
        *request.method_mut() = self.method;
        *request.uri_mut() = Uri::try_from(self.path)?;
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::try_from(&*self.accept)?);
        if let Some(form) = form {
            headers.insert(CONTENT_TYPE, HeaderValue::try_from(&*form)?);
        }
        Ok(request)
    }

    /// From a client. Nobody here sets other headers than these two.
    async fn from_request(request: Request<Body>) -> Result<Self> {
        let (head, body) = request.into_parts();
        let form = |name| match head.headers.get(name) {
            Some(form) => form.to_str().map(|form| Some(form.to_owned().into())),
            None => Ok(None),
        };
        let accept = form(ACCEPT)?.unwrap_or(JSON.into());
        let content_type = form(CONTENT_TYPE)?;
        let body = body.collect().await.map_err(|error| anyhow!(error))?.to_bytes();
        let content = match content_type {
            None if body.is_empty() => None,
            form => Some((form.unwrap_or(JSON.into()), body)),
        };
        let path = head.uri.path_and_query().map_or("/", PathAndQuery::as_str).to_owned();
        Ok(Self { method: head.method, path, accept, content, status_only: false, timeout: None })
    }
}

/// A connection that is made when it is needed. Clones share it.
#[derive(Clone)]
pub struct ApiConnection(Transport);

#[derive(Clone)]
enum Transport {
    Http2(Arc<Http2Transport>),
    /// A client that was handed in.
    Client(kube::Client),
}

impl ApiConnection {
    /// A connection that is not connected yet.
    pub fn new(config: &kube::Config) -> Result<Self> {
        Ok(Self(Transport::Http2(Arc::new(Http2Transport::new(config, false)?))))
    }

    /// The same for requests that must be dead at the end of their time: what is not known to have
    /// arrived by then never arrives. A proxy that buffers requests weakens this.
    pub fn fenced(config: &kube::Config) -> Result<Self> {
        Ok(Self(Transport::Http2(Arc::new(Http2Transport::new(config, true)?))))
    }

    /// A client whose requests all go over this connection.
    pub fn client(self, namespace: &str) -> kube::Client {
        if let Transport::Client(client) = self.0 {
            return client;
        }
        let service = tower::service_fn(move |request| {
            let connection = self.clone();
            async move {
                let answer = connection.open(ApiRequest::from_request(request).await?).await?;
                Ok::<_, tower::BoxError>(answer.map(ResponseBody::into_body))
            }
        });
        kube::Client::new(service, namespace)
    }

    /// Sends a request to a path and waits for the whole answer. After an error it may have been
    /// carried out all the same.
    // All that is needed while it waits is the answer: there are hundreds that wait.
    pub fn send(
        &self,
        ask: ApiRequest,
    ) -> impl Future<Output = Result<Response<Bytes>>> + Send + '_ {
        let sent = self.begin(ask);
        async {
            let answer = match sent? {
                PendingResponse::Started(answer) => answer,
                PendingResponse::Connecting(answer) => return answer.await,
            };
            let (head, body) = answer.whole(RESPONSE_BYTES_MAX).await?;
            let response = head.into_response(body);
            self.look_at(&response);
            Ok(response)
        }
    }

    fn begin(&self, ask: ApiRequest) -> Result<PendingResponse<'_>> {
        ask.validate()?;
        if let Transport::Http2(direct) = &self.0
            && let Some(ready) = direct.ready()
        {
            let due = ask.due();
            return Ok(PendingResponse::Started(direct.send(ask, due, ready)?));
        }
        Ok(PendingResponse::Connecting(self.open_whole(ask).boxed()))
    }

    /// Opens and waits for the whole answer, all in the time that the request has.
    async fn open_whole(&self, ask: ApiRequest) -> Result<Response<Bytes>> {
        let due = ask.due();
        let (head, body) = self.open(ask).await?.into_parts();
        // A connection of ours sees to the time by itself, and must: it knows what may still arrive.
        let due = due.filter(|_| matches!(body, ResponseBody::Client(_)));
        let body = until(due, body.whole(RESPONSE_BYTES_MAX)).await?;
        Ok(Response::from_parts(head, body))
    }

    /// Sends a request to a path and waits for the head of the answer.
    pub async fn open(&self, ask: ApiRequest) -> Result<Response<ResponseBody>> {
        ask.validate()?;
        let response = match &self.0 {
            Transport::Http2(direct) => {
                direct.open(ask).await.map_err(|error| direct.credential_store.explain(error))?
            }
            Transport::Client(client) => by_client(client, ask).await?,
        };
        self.look_at(&response);
        Ok(response)
    }

    /// Credentials that are not accepted may have been replaced meanwhile.
    fn look_at<B>(&self, response: &Response<B>) {
        if let Transport::Http2(direct) = &self.0
            && response.status() == StatusCode::UNAUTHORIZED
        {
            direct.credential_store.refused();
        }
    }
}

async fn by_client(client: &kube::Client, ask: ApiRequest) -> Result<Response<ResponseBody>> {
    let due = ask.due();
    let request = ask.into_request()?;
    let answer = async { Ok(Box::pin(client.send(request)).await?.map(ResponseBody::from)) };
    until(due, answer).await
}

async fn until<T>(due: Option<Instant>, work: impl Future<Output = Result<T>>) -> Result<T> {
    match due {
        Some(due) => timeout_at(due, work).await.unwrap_or_else(|_| Err(no_answer())),
        None => work.await,
    }
}

/// A request that was sent, or will be.
enum PendingResponse<'a> {
    Started(ResponseStream),
    Connecting(BoxFuture<'a, Result<Response<Bytes>>>),
}

/// The body of an answer, piece by piece as it comes.
pub enum ResponseBody {
    /// Of our own connection.
    Http2(ResponseStream),
    /// Of a client's.
    Client(Body),
}

impl ResponseBody {
    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        match self {
            Self::Http2(answer) => answer.next().await,
            Self::Client(body) => loop {
                match body.frame().await?.context("the stream broke off") {
                    Err(error) => return Some(Err(error)),
                    Ok(frame) => {
                        if let Ok(piece) = frame.into_data() {
                            return Some(Ok(piece));
                        }
                    }
                }
            },
        }
    }

    /// As a client takes it.
    fn into_body(self) -> impl hyper::body::Body<Data = Bytes, Error = tower::BoxError> {
        StreamBody::new(stream::unfold(self, |mut pieces| async {
            let piece = pieces.next().await?;
            Some((piece.map(Frame::data).map_err(tower::BoxError::from), pieces))
        }))
    }

    /// All of it, if it has at most so many bytes.
    pub async fn whole(mut self, limit: usize) -> Result<Bytes> {
        // Nearly all answers come in one piece, which need not be copied.
        let mut first = Bytes::new();
        let mut all = BytesMut::new();
        while let Some(piece) = self.next().await.transpose()? {
            if first.len().max(all.len()) + piece.len() > limit {
                bail!("the answer is larger than {limit} bytes");
            }
            if first.is_empty() {
                first = piece;
                continue;
            }
            if all.is_empty() {
                all.extend_from_slice(&first);
            }
            all.extend_from_slice(&piece);
        }
        Ok(if all.is_empty() { first } else { all.freeze() })
    }
}

impl From<Body> for ResponseBody {
    fn from(body: Body) -> Self {
        Self::Client(body)
    }
}

impl From<kube::Client> for ApiConnection {
    fn from(client: kube::Client) -> Self {
        Self(Transport::Client(client))
    }
}

struct Http2Transport {
    dial: Arc<Dialer>,
    authority: String,
    /// What stands before every path, without a slash at its end.
    prefix: String,
    name: ServerName<'static>,
    credential_store: CredentialStore,
    /// See [`ApiConnection::fenced`].
    fenced: bool,
    /// With the number of the credentials it was made with.
    connection: Mutex<Option<(u64, Arc<Connection>)>>,
    /// Held by the one who connects.
    connecting: tokio::sync::Mutex<()>,
    /// For servers without HTTP/2; set when that is known.
    fallback: OnceLock<Http1Fallback>,
}

/// How a request goes out.
enum ReadyTransport {
    /// With headers that say who we are, over a connection that takes requests.
    Connection(Bytes, Arc<Connection>),
    Client(kube::Client),
}

impl Http2Transport {
    fn new(config: &kube::Config, fenced: bool) -> Result<Self> {
        let uri = &config.cluster_url;
        let authority = uri.authority().context("the API server's address has no host")?;
        let fallback = OnceLock::new();
        // Servers without TLS need not speak HTTP/2.
        if uri.scheme_str() == Some("http") {
            fallback.get_or_init(Http1Fallback::default);
        }
        Ok(Self {
            dial: Arc::new(Dialer::new(config, fenced)?),
            authority: authority.to_string(),
            prefix: uri.path().trim_end_matches('/').to_owned(),
            name: server_name(config)?,
            credential_store: CredentialStore::new(config)?,
            fenced,
            connection: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            fallback,
        })
    }

    /// Sends a request over a connection that may have to be made first.
    async fn open(self: &Arc<Self>, ask: ApiRequest) -> Result<Response<ResponseBody>> {
        let due = ask.due();
        let this = Arc::clone(self);
        // By a task of its own, which goes on when this request has no time left, so that a later one
        // finds a connection.
        let ready = tokio::spawn(async move { this.get_ready().await });
        let ready = async { ready.await.context("connecting was interrupted")? };
        match until(due, ready).await? {
            ReadyTransport::Connection(headers, connection) => {
                let (head, answer) = self.send(ask, due, (headers, connection))?.head().await?;
                Ok(head.into_response(ResponseBody::Http2(answer)))
            }
            ReadyTransport::Client(client) => {
                by_client(&client, ApiRequest { timeout: left(due), ..ask }).await
            }
        }
    }

    /// Hands a request to a connection.
    fn send(
        &self,
        ask: ApiRequest,
        due: Option<Instant>,
        (headers, connection): (Bytes, Arc<Connection>),
    ) -> Result<ResponseStream> {
        let (form, body) = ask.content.unzip();
        let asked = RequestHead {
            method: &ask.method,
            authority: &self.authority,
            prefix: &self.prefix,
            path: &ask.path,
            accept: &ask.accept,
            content_type: form.as_deref(),
            more: &headers,
        };
        let mut head = Vec::with_capacity(256 + ask.path.len() + headers.len());
        asked.write(&mut head);
        connection.open_stream(OutgoingStream {
            head,
            body: body.unwrap_or_default(),
            status_only: ask.status_only,
            due,
        })
    }

    /// Headers that say who we are, and a connection that takes requests.
    fn ready(&self) -> Option<(Bytes, Arc<Connection>)> {
        let (generation, headers) = self.credential_store.fresh()?;
        Some((headers, self.living_connection(generation)?))
    }

    async fn get_ready(&self) -> Result<ReadyTransport> {
        let is_ready = |generation| {
            self.fallback.get().is_some() || self.living_connection(generation).is_some()
        };
        // Before a new connection there is a look in any case.
        let (generation, headers) = match self.credential_store.fresh() {
            Some((generation, headers)) if is_ready(generation) => (generation, headers),
            _ => self.credential_store.look().await?,
        };
        if self.fallback.get().is_none() {
            let connection = match self.living_connection(generation) {
                Some(connection) => Some(connection),
                None => self.new_connection().await?,
            };
            if let Some(connection) = connection {
                return Ok(ReadyTransport::Connection(headers, connection));
            }
        }
        let fallback = self.fallback.get_or_init(Http1Fallback::default);
        Ok(ReadyTransport::Client(
            fallback.client(&self.dial, &self.credential_store.credentials())?,
        ))
    }

    /// `None` if the server does not speak HTTP/2.
    async fn new_connection(&self) -> Result<Option<Arc<Connection>>> {
        let _turn = self.connecting.lock().await;
        let credentials = self.credential_store.credentials();
        // Another one may have connected meanwhile.
        if let Some(connection) = self.living_connection(credentials.generation) {
            return Ok(Some(connection));
        }
        let connected = timeout(CONNECT_TIMEOUT, self.connect(&credentials)).await;
        // That time ran out would be what is shown of it.
        let connected = connected
            .map_err(|_| anyhow!("the API server did not answer for {CONNECT_TIMEOUT:?}"))?;
        let Some(connection) = connected? else { return Ok(None) };
        let connection = Arc::new(connection);
        // One with older credentials goes on until all its requests are answered.
        *lock(&self.connection) = Some((credentials.generation, Arc::clone(&connection)));
        Ok(Some(connection))
    }

    /// The connection, if it was made with the credentials of this number.
    fn living_connection(&self, generation: u64) -> Option<Arc<Connection>> {
        let connection = lock(&self.connection);
        let (made_with, connection) = connection.as_ref()?;
        let is_good = *made_with == generation && connection.accepts_streams();
        is_good.then(|| Arc::clone(connection))
    }

    async fn connect(&self, credentials: &Credentials) -> Result<Option<Connection>> {
        let tcp = self.dial.connect().await?;
        let tcp = BufStream::with_capacity(BUFFER_BYTES, BUFFER_BYTES, tcp);
        let tls = credentials.tls.connect(self.name.clone(), tcp).await?;
        if tls.get_ref().1.alpn_protocol() != Some(b"h2") {
            http1_fallback::say("the API server does not speak HTTP/2");
            return Ok(None);
        }
        let options = Options {
            stream_window: STREAM_WINDOW_BYTES,
            connection_window: CONNECTION_WINDOW_BYTES,
            ping_after: PING_AFTER,
            ping_timeout: PING_TIMEOUT,
            fence_probe_interval: self.fenced.then(|| REQUEST_TIMEOUT / 4),
        };
        Ok(Some(Connection::start(tls, options)))
    }
}

/// The time until then.
fn left(due: Option<Instant>) -> Option<Duration> {
    due.map(|due| due.saturating_duration_since(Instant::now()))
}

fn no_answer() -> anyhow::Error {
    anyhow!(NO_ANSWER)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
