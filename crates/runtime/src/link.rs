//! One HTTP/2 connection for many small requests.
//!
//! Binds and events are most of what is sent, some hundred bytes each, so that what lies between the
//! one who asks and the wire costs more than the request. Here it is little: a request is handed to
//! the connection, and what was asked meanwhile leaves with it in one write.

mod connection;
mod conversation;
mod head;
mod huffman;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::{FutureExt as _, stream};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use kube::client::{Body, ConfigExt as _};
use rustls::pki_types::ServerName;
use tokio::io::BufStream;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tower::{Layer as _, ServiceExt as _};

use crate::answer::JSON;
use crate::connect::{CONNECT_TIMEOUT, server_name};
#[cfg(target_os = "linux")]
use crate::lease::REQUEST_TIMEOUT;
use connection::{Answer, BUFFER_BYTES, Connection};
use conversation::{Asking, NO_ANSWER};
use head::{Asked, write_secret};

/// Bytes of an answer, which may be a pod; etcd takes 1.5 MB, and JSON is at most a few times that.
pub(crate) const ANSWER_BYTES_MAX: usize = 32 << 20;

/// How long headers that say who we are may be used: tokens are replaced from time to time.
const IDENTITY_MAX: Duration = Duration::from_secs(5);

/// Bytes that are encrypted together. With what goes around them they fit into 16 KiB: most allocators
/// have such blocks, and larger ones only of sizes that nothing else has.
const RECORD_BYTES: usize = 16_000;

/// A request to a path.
#[derive(Clone, Debug)]
pub struct Ask {
    /// `GET`, say.
    pub method: Method,
    /// The path with its query.
    pub path: String,
    /// The forms in which the answer may come.
    pub accept: Cow<'static, str>,
    /// The body with its form.
    pub content: Option<(Cow<'static, str>, Bytes)>,
    /// If the answer is that it is done, nothing else is wanted of it: no header, no body.
    pub brief: bool,
    /// How long all of it may take, if [`Link::send`] is to see to that.
    pub within: Option<Duration>,
}

impl Ask {
    /// Whether it can be sent at all: names of objects are part of the path.
    pub fn check(&self) -> Result<()> {
        let path = &self.path;
        let is_path = path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic());
        ensure!(is_path, "{path:?} is no path");
        Ok(())
    }

    /// When its answer is due.
    fn due(&self) -> Option<Instant> {
        self.within.map(|within| Instant::now() + within)
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
        Ok(Self { method: head.method, path, accept, content, brief: false, within: None })
    }
}

/// A connection that is made when it is needed. Clones share it.
#[derive(Clone)]
pub struct Link(Way);

#[derive(Clone)]
enum Way {
    Direct(Arc<Direct>),
    /// For servers without TLS, which need not speak HTTP/2.
    Client(kube::Client),
}

impl Link {
    /// A link that is not connected yet.
    pub fn new(config: &kube::Config) -> Result<Self> {
        Self::of(config, false)
    }

    /// The same for requests that must be dead at the end of their time: what is not known to have
    /// arrived by then never arrives. A proxy that buffers requests weakens this.
    pub fn fenced(config: &kube::Config) -> Result<Self> {
        Self::of(config, true)
    }

    fn of(config: &kube::Config, fenced: bool) -> Result<Self> {
        let way = match config.cluster_url.scheme_str() {
            Some("http") => Way::Client(kube::Client::try_from(config.clone())?),
            _ => Way::Direct(Arc::new(Direct::new(config, fenced)?)),
        };
        Ok(Self(way))
    }

    /// A client whose requests all go over this link.
    pub fn client(self, namespace: &str) -> kube::Client {
        if let Way::Client(client) = self.0 {
            return client;
        }
        let service = tower::service_fn(move |request| {
            let link = self.clone();
            async move {
                let answer = link.open(Ask::from_request(request).await?).await?;
                Ok::<_, tower::BoxError>(answer.map(Pieces::into_body))
            }
        });
        kube::Client::new(service, namespace)
    }

    /// Sends a request to a path and waits for the whole answer. After an error it may have been
    /// carried out all the same.
    // All that is needed while it waits is the answer: there are hundreds that wait.
    pub fn send(&self, ask: Ask) -> impl Future<Output = Result<Response<Bytes>>> + Send + '_ {
        let sent = self.begin(ask);
        async {
            let answer = match sent? {
                Sent::Now(answer) => answer,
                Sent::Later(answer) => answer.await?,
                Sent::ByClient(answer) => return answer.await,
            };
            let (head, body) = answer.whole(ANSWER_BYTES_MAX).await?;
            Ok(head.into_response(body))
        }
    }

    fn begin(&self, ask: Ask) -> Result<Sent<'_>> {
        ask.check()?;
        let Way::Direct(direct) = &self.0 else {
            return Ok(Sent::ByClient(self.send_by_client(ask).boxed()));
        };
        let due = ask.due();
        match direct.ready() {
            Some(ready) => Ok(Sent::Now(direct.ask(ask, due, ready)?)),
            None => Ok(Sent::Later(direct.connect_and_ask(ask, due).boxed())),
        }
    }

    async fn send_by_client(&self, ask: Ask) -> Result<Response<Bytes>> {
        let within = ask.within;
        let answer = async {
            let (head, body) = self.open(ask).await?.into_parts();
            Ok(Response::from_parts(head, body.whole(ANSWER_BYTES_MAX).await?))
        };
        match within {
            Some(within) => timeout(within, answer).await.unwrap_or_else(|_| Err(no_answer())),
            None => answer.await,
        }
    }

    /// Sends a request to a path and waits for the head of the answer.
    pub async fn open(&self, ask: Ask) -> Result<Response<Pieces>> {
        ask.check()?;
        match &self.0 {
            Way::Direct(direct) => direct.open(ask).await,
            Way::Client(client) => {
                Ok(Box::pin(client.send(ask.into_request()?)).await?.map(Pieces::from))
            }
        }
    }
}

/// A request that was sent, or will be.
enum Sent<'a> {
    Now(Answer),
    Later(BoxFuture<'a, Result<Answer>>),
    ByClient(BoxFuture<'a, Result<Response<Bytes>>>),
}

/// The body of an answer, piece by piece as it comes.
pub enum Pieces {
    /// Of our own connection.
    Direct(Answer),
    /// Of a client's.
    Client(Body),
}

impl Pieces {
    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        match self {
            Self::Direct(answer) => answer.next().await,
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

impl From<Body> for Pieces {
    fn from(body: Body) -> Self {
        Self::Client(body)
    }
}

impl From<kube::Client> for Link {
    fn from(client: kube::Client) -> Self {
        Self(Way::Client(client))
    }
}

struct Direct {
    host: String,
    port: u16,
    authority: String,
    /// What stands before every path, without a slash at its end.
    prefix: String,
    tls: TlsConnector,
    name: ServerName<'static>,
    identity: Identity,
    /// See [`Link::fenced`].
    fenced: bool,
    connection: Mutex<Option<Arc<Connection>>>,
    /// Held by the one who connects.
    connecting: tokio::sync::Mutex<()>,
}

impl Direct {
    fn new(config: &kube::Config, fenced: bool) -> Result<Self> {
        let uri = &config.cluster_url;
        let authority = uri.authority().context("the API server's address has no host")?;
        let mut tls =
            config.rustls_client_config().context("cannot set up TLS for the API server")?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        tls.max_fragment_size = Some(RECORD_BYTES);
        Ok(Self {
            // In an address, an IPv6 host has brackets.
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(443),
            authority: authority.to_string(),
            prefix: uri.path().trim_end_matches('/').to_owned(),
            tls: TlsConnector::from(Arc::new(tls)),
            name: server_name(config)?,
            identity: Identity::new(config)?,
            fenced,
            connection: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        })
    }

    async fn open(&self, ask: Ask) -> Result<Response<Pieces>> {
        let due = ask.due();
        let (head, answer) = self.connect_and_ask(ask, due).await?.head().await?;
        Ok(head.into_response(Pieces::Direct(answer)))
    }

    /// Has a request sent over a connection that may have to be made first.
    async fn connect_and_ask(&self, ask: Ask, due: Option<Instant>) -> Result<Answer> {
        let ready = self.get_ready_until(due).await?;
        self.ask(ask, due, ready)
    }

    async fn get_ready_until(&self, due: Option<Instant>) -> Result<(Bytes, Arc<Connection>)> {
        match due {
            Some(due) => timeout_at(due, self.get_ready()).await.map_err(|_| no_answer())?,
            None => self.get_ready().await,
        }
    }

    /// Hands a request to a connection.
    fn ask(
        &self,
        ask: Ask,
        due: Option<Instant>,
        (identity, connection): (Bytes, Arc<Connection>),
    ) -> Result<Answer> {
        let (form, body) = ask.content.unzip();
        let asked = Asked {
            method: &ask.method,
            authority: &self.authority,
            prefix: &self.prefix,
            path: &ask.path,
            accept: &ask.accept,
            content_type: form.as_deref(),
            more: &identity,
        };
        let mut head = Vec::with_capacity(256 + ask.path.len() + identity.len());
        asked.write(&mut head);
        connection.ask(Asking { head, body: body.unwrap_or_default(), brief: ask.brief, due })
    }

    /// Headers that say who we are, and a connection that takes requests.
    fn ready(&self) -> Option<(Bytes, Arc<Connection>)> {
        Some((self.identity.fresh()?, self.living_connection()?))
    }

    async fn get_ready(&self) -> Result<(Bytes, Arc<Connection>)> {
        let identity = match self.identity.fresh() {
            Some(headers) => headers,
            None => self.identity.ask().await?,
        };
        let connection = match self.living_connection() {
            Some(connection) => connection,
            None => self.new_connection().await?,
        };
        Ok((identity, connection))
    }

    async fn new_connection(&self) -> Result<Arc<Connection>> {
        let _turn = self.connecting.lock().await;
        // Another one may have connected meanwhile.
        if let Some(connection) = self.living_connection() {
            return Ok(connection);
        }
        let connected = timeout(CONNECT_TIMEOUT, self.connect()).await;
        // That time ran out would be what is shown of it.
        let connected = connected
            .map_err(|_| anyhow!("the API server did not answer for {CONNECT_TIMEOUT:?}"))?;
        let connection = Arc::new(connected?);
        *lock(&self.connection) = Some(Arc::clone(&connection));
        Ok(connection)
    }

    fn living_connection(&self) -> Option<Arc<Connection>> {
        lock(&self.connection).clone().filter(|connection| connection.takes_requests())
    }

    async fn connect(&self) -> Result<Connection> {
        let tcp = TcpStream::connect((self.host.as_str(), self.port)).await?;
        tcp.set_nodelay(true)?;
        if self.fenced {
            fence(&tcp)?;
        }
        let tcp = BufStream::with_capacity(BUFFER_BYTES, BUFFER_BYTES, tcp);
        let tls = self.tls.connect(self.name.clone(), tcp).await?;
        let spoken = tls.get_ref().1.alpn_protocol();
        ensure!(spoken == Some(b"h2"), "the API server does not speak HTTP/2");
        Ok(if self.fenced { Connection::start_fenced(tls) } else { Connection::start(tls) })
    }
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

fn no_answer() -> anyhow::Error {
    anyhow!(NO_ANSWER)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Headers that say who we are.
struct Identity {
    /// Answers a request with its own headers, after the layers of `kube` were through with it.
    echo: tower::util::BoxCloneSyncService<Request<Body>, Response<Body>, tower::BoxError>,
    /// As they were last written, and when.
    last: Mutex<Option<(Instant, Bytes)>>,
}

impl Identity {
    fn new(config: &kube::Config) -> Result<Self> {
        let echo = tower::service_fn(|request: Request<Body>| async {
            let mut response = Response::new(Body::empty());
            *response.headers_mut() = request.into_parts().0.headers;
            Ok::<_, tower::BoxError>(response)
        });
        let layers = config.auth_layer().context("cannot set up the credentials")?;
        let echo = tower::util::option_layer(layers).layer(echo);
        let echo = tower::util::BoxCloneSyncService::new(echo);
        Ok(Self { echo, last: Mutex::default() })
    }

    /// The headers, unless it is time to ask again.
    fn fresh(&self) -> Option<Bytes> {
        let last = lock(&self.last);
        let (since, headers) = last.as_ref()?;
        (since.elapsed() < IDENTITY_MAX).then(|| headers.clone())
    }

    async fn ask(&self) -> Result<Bytes> {
        let echoed = self.echo.clone().oneshot(Request::new(Body::empty())).await;
        let echoed = echoed.map_err(|error| anyhow!("no credentials: {error}"))?;
        let mut written = Vec::new();
        for (name, value) in echoed.headers() {
            write_secret(name, value, &mut written);
        }
        let written = Bytes::from(written);
        *lock(&self.last) = Some((Instant::now(), written.clone()));
        Ok(written)
    }
}
