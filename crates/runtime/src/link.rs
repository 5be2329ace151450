//! One HTTP/2 connection for many small requests.
//!
//! Binds and events are most of what is sent, some hundred bytes each, so that what lies between the
//! one who asks and the wire costs more than the request. Here it is little: a request is handed to
//! the connection, and what was asked meanwhile leaves with it in one write.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use bytes::{Bytes, BytesMut};
use h2::client::{Connection, SendRequest};
use h2::{Ping, PingPong, RecvStream};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::BodyExt as _;
use kube::client::{Body, ConfigExt as _};
use rustls::pki_types::ServerName;
use tokio::io::BufStream;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::{Layer as _, ServiceExt as _};

use crate::connect::{
    CONNECT_TIMEOUT, CONNECTION_BYTES, PING_AFTER, PING_TIMEOUT, STREAM_BYTES, client, server_name,
};

#[cfg(test)]
mod tests;

/// Bytes of an answer, which may be a pod; etcd takes 1.5 MB, and JSON is at most a few times that.
pub(crate) const ANSWER_BYTES_MAX: usize = 32 << 20;

/// Bytes that are read and written at once.
const BUFFER_BYTES: usize = 32 << 10;

/// How long headers that say who we are may be used: tokens are replaced from time to time.
const IDENTITY_MAX: Duration = Duration::from_secs(5);

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
        let way = match config.cluster_url.scheme_str() {
            Some("http") => Way::Client(client(config)?),
            _ => Way::Direct(Arc::new(Direct::new(config)?)),
        };
        Ok(Self(way))
    }

    /// Sends a request to a path and waits for the whole answer. After an error it may have been
    /// carried out all the same.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>> {
        let (head, body) = self.open(request).await?.into_parts();
        Ok(Response::from_parts(head, body.whole(ANSWER_BYTES_MAX).await?))
    }

    /// Sends a request to a path and waits for the head of the answer.
    pub async fn open(&self, request: Request<Bytes>) -> Result<Response<Pieces>> {
        match &self.0 {
            Way::Direct(direct) => Ok(direct.open(request).await?.map(Pieces::Direct)),
            Way::Client(client) => {
                Ok(client.send(request.map(Body::from)).await?.map(Pieces::from))
            }
        }
    }
}

/// A request to a path, with the forms in which the answer may come, and the body with its form.
pub(crate) fn request(
    method: Method,
    path: String,
    accept: &'static str,
    content: Option<(&'static str, Bytes)>,
) -> Result<Request<Bytes>> {
    let (form, body) = content.unzip();
    // The builder of `http` moves the request with each step.
    let mut request = Request::new(body.unwrap_or_default());
    *request.method_mut() = method;
    *request.uri_mut() = Uri::from_maybe_shared(Bytes::from(path))?;
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    if let Some(form) = form {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(form));
    }
    Ok(request)
}

/// The body of an answer, piece by piece as it comes.
pub enum Pieces {
    /// Of our own connection.
    Direct(RecvStream),
    /// Of a client's.
    Client(Body),
}

impl Pieces {
    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        match self {
            Self::Direct(stream) => {
                let piece = stream.data().await?.and_then(|piece| {
                    // The server may send as much again.
                    stream.flow_control().release_capacity(piece.len())?;
                    Ok(piece)
                });
                Some(piece.context("the stream broke off"))
            }
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
    authority: Authority,
    /// What stands before every path, without a slash at its end.
    prefix: String,
    tls: TlsConnector,
    name: ServerName<'static>,
    identity: Identity,
    sender: Mutex<Option<SendRequest<Bytes>>>,
    /// Held by the one who connects.
    connecting: tokio::sync::Mutex<()>,
}

impl Direct {
    fn new(config: &kube::Config) -> Result<Self> {
        let uri = &config.cluster_url;
        let authority = uri.authority().context("the API server's address has no host")?;
        let mut tls =
            config.rustls_client_config().context("cannot set up TLS for the API server")?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            // In an address, an IPv6 host has brackets.
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(443),
            authority: authority.clone(),
            prefix: uri.path().trim_end_matches('/').to_owned(),
            tls: TlsConnector::from(Arc::new(tls)),
            name: server_name(config)?,
            identity: Identity::new(config)?,
            sender: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        })
    }

    async fn open(&self, request: Request<Bytes>) -> Result<Response<RecvStream>> {
        let (mut head, body) = request.into_parts();
        head.uri = self.uri(&head.uri)?;
        self.identity.add_to(&mut head.headers).await?;
        let mut sender = self.sender().await?;
        let is_whole = body.is_empty();
        let (answer, mut stream) = sender.send_request(Request::from_parts(head, ()), is_whole)?;
        if !is_whole {
            stream.send_data(body, true)?;
        }
        Ok(answer.await?)
    }

    fn uri(&self, path: &Uri) -> Result<Uri> {
        let path = path.path_and_query().context("a request has no path")?;
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(Scheme::HTTPS);
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(if self.prefix.is_empty() {
            path.clone()
        } else {
            PathAndQuery::from_maybe_shared(format!("{}{path}", self.prefix))?
        });
        Ok(Uri::from_parts(parts)?)
    }

    /// Where requests are put in; connects if need be.
    async fn sender(&self) -> Result<SendRequest<Bytes>> {
        match self.living_sender().await {
            Some(sender) => Ok(sender),
            // Apart, so that requests are not as large as what it takes to connect.
            None => Box::pin(self.new_sender()).await,
        }
    }

    async fn new_sender(&self) -> Result<SendRequest<Bytes>> {
        let _turn = self.connecting.lock().await;
        // Another one may have connected meanwhile.
        if let Some(sender) = self.living_sender().await {
            return Ok(sender);
        }
        let connected = timeout(CONNECT_TIMEOUT, self.connect()).await;
        let sender = connected.context("connecting took too long")??;
        *lock(&self.sender) = Some(sender.clone());
        Ok(sender)
    }

    /// The one of a connection that takes requests.
    async fn living_sender(&self) -> Option<SendRequest<Bytes>> {
        let sender = lock(&self.sender).clone()?;
        sender.ready().await.ok()
    }

    async fn connect(&self) -> Result<SendRequest<Bytes>> {
        let tcp = TcpStream::connect((self.host.as_str(), self.port)).await?;
        tcp.set_nodelay(true)?;
        let tcp = BufStream::with_capacity(BUFFER_BYTES, BUFFER_BYTES, tcp);
        let tls = self.tls.connect(self.name.clone(), tcp).await?;
        let (sender, mut connection) = h2::client::Builder::new()
            .initial_window_size(STREAM_BYTES)
            .initial_connection_window_size(CONNECTION_BYTES)
            .handshake(tls)
            .await?;
        let pings = connection.ping_pong().context("the connection cannot be watched")?;
        tokio::spawn(run(connection, pings));
        Ok(sender.ready().await?)
    }
}

/// Runs a connection until it ends or is dead; then its requests fail.
async fn run(connection: Connection<TlsStream<BufStream<TcpStream>>, Bytes>, mut pings: PingPong) {
    let silence = async {
        loop {
            sleep(PING_AFTER).await;
            match timeout(PING_TIMEOUT, pings.ping(Ping::opaque())).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) | Err(_) => return,
            }
        }
    };
    tokio::select! {
        ended = connection => match ended {
            Ok(()) => tracing::debug!("the API server closed a connection"),
            Err(error) => tracing::debug!("a connection to the API server ended: {error}"),
        },
        () = silence => tracing::warn!("the API server went silent, connecting again"),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Headers that say who we are.
struct Identity {
    /// Answers a request with its own headers, after the layers of `kube` were through with it.
    echo: tower::util::BoxCloneSyncService<Request<Body>, Response<Body>, tower::BoxError>,
    last: Mutex<Option<(Instant, HeaderMap)>>,
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

    async fn add_to(&self, headers: &mut HeaderMap) -> Result<()> {
        let is_old = |last: &Option<(Instant, _)>| {
            last.as_ref().is_none_or(|(since, _)| since.elapsed() >= IDENTITY_MAX)
        };
        if is_old(&lock(&self.last)) {
            Box::pin(self.ask()).await?;
        }
        if let Some((_, known)) = &*lock(&self.last) {
            for (name, value) in known {
                headers.insert(name, value.clone());
            }
        }
        Ok(())
    }

    async fn ask(&self) -> Result<()> {
        let echoed = self.echo.clone().oneshot(Request::new(Body::empty())).await;
        let echoed = echoed.map_err(|error| anyhow!("no credentials: {error}"))?;
        *lock(&self.last) = Some((Instant::now(), echoed.into_parts().0.headers));
        Ok(())
    }
}
