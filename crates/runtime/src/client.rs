//! Requests to the API server.
//!
//! ```text
//! ApiConnection ──► Http2Transport ──► http2::Connection         HTTP/2 over TLS
//!          │                └────────► Http1Fallback             a server without HTTP/2 or without TLS
//!          └──────► kube::Client                                 a client given by the caller
//! ```
//!
//! Credentials, including impersonation, are request headers that are encoded once per change
//! (`credential_store`). A proxy is a CONNECT tunnel below TLS (`dialer`). Both work alike with
//! HTTP/2 and HTTP/1.1.

mod credential_store;
mod credentials;
mod dialer;
mod error;
mod http1_fallback;
mod http2_transport;
mod request;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::{FutureExt as _, stream};
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use http2::ResponseStream;
use hyper::body::Frame;
use kube::client::Body;
use tokio::time::{Instant, timeout_at};

pub use credentials::CredentialsError;
pub use dialer::{DialError, ProxyError};
pub use error::ClientError;
use http2_transport::Http2Transport;
pub use request::ApiRequest;

/// Largest response body in bytes. It may be a pod: etcd stores at most 1.5 MB, and JSON is a few times
/// larger.
pub(crate) const RESPONSE_BYTES_MAX: usize = 32 << 20;

/// A connection to the API server that is established when it is needed. Clones share it.
#[derive(Clone)]
pub struct ApiConnection(Transport);

#[derive(Clone)]
enum Transport {
    Http2(Arc<Http2Transport>),
    /// A client given by the caller.
    Client(kube::Client),
}

impl ApiConnection {
    /// Returns a connection that is not established yet.
    pub fn new(config: &kube::Config) -> Result<Self, ClientError> {
        Ok(Self(Transport::Http2(Arc::new(Http2Transport::new(config, false)?))))
    }

    /// Returns a fenced connection: a request that has not provably arrived within its timeout never
    /// arrives. A proxy that buffers requests weakens this.
    pub fn fenced(config: &kube::Config) -> Result<Self, ClientError> {
        Ok(Self(Transport::Http2(Arc::new(Http2Transport::new(config, true)?))))
    }

    /// Returns a kube client whose requests all use this connection.
    pub fn client(self, namespace: &str) -> kube::Client {
        if let Transport::Client(client) = self.0 {
            return client;
        }
        let service = tower::service_fn(move |request| {
            let connection = self.clone();
            async move {
                let response = connection.open(ApiRequest::from_request(request).await?).await?;
                Ok::<_, tower::BoxError>(response.map(ResponseBody::into_body))
            }
        });
        kube::Client::new(service, namespace)
    }

    /// Sends a request and waits for the whole response. After an error, the request may have been
    /// carried out nevertheless.
    // The future holds nothing but the response: hundreds of binds wait at once.
    pub fn send(
        &self,
        request: ApiRequest,
    ) -> impl Future<Output = Result<Response<Bytes>, ClientError>> + Send + '_ {
        let pending = self.begin(request);
        async {
            let stream = match pending? {
                PendingResponse::Started(stream) => stream,
                PendingResponse::Connecting(response) => return response.await,
            };
            let (head, body) = stream.collect(RESPONSE_BYTES_MAX).await?;
            let response = head.into_response(body);
            self.check_credentials(&response);
            Ok(response)
        }
    }

    fn begin(&self, request: ApiRequest) -> Result<PendingResponse<'_>, ClientError> {
        request.validate()?;
        if let Transport::Http2(transport) = &self.0
            && let Some(ready) = transport.ready()
        {
            let deadline = request.deadline();
            return Ok(PendingResponse::Started(transport.send(request, deadline, &ready)?));
        }
        Ok(PendingResponse::Connecting(self.open_and_collect(request).boxed()))
    }

    /// Connects if necessary and waits for the whole response, within the request's timeout.
    async fn open_and_collect(&self, request: ApiRequest) -> Result<Response<Bytes>, ClientError> {
        let deadline = request.deadline();
        let (head, body) = self.open(request).await?.into_parts();
        // An HTTP/2 connection keeps the deadline itself, since it knows what may still arrive.
        let deadline = deadline.filter(|_| matches!(body, ResponseBody::Client(_)));
        let body = until(deadline, body.whole(RESPONSE_BYTES_MAX)).await?;
        Ok(Response::from_parts(head, body))
    }

    /// Sends a request and waits for the head of the response.
    pub async fn open(&self, request: ApiRequest) -> Result<Response<ResponseBody>, ClientError> {
        request.validate()?;
        let response = match &self.0 {
            Transport::Http2(transport) => transport.open(request).await?,
            Transport::Client(client) => send_by_client(client, request).await?,
        };
        self.check_credentials(&response);
        Ok(response)
    }

    /// After status 401 the credentials are loaded again: they may have been replaced.
    fn check_credentials<B>(&self, response: &Response<B>) {
        if let Transport::Http2(transport) = &self.0
            && response.status() == StatusCode::UNAUTHORIZED
        {
            transport.refuse_credentials();
        }
    }
}

impl From<kube::Client> for ApiConnection {
    fn from(client: kube::Client) -> Self {
        Self(Transport::Client(client))
    }
}

/// A response that is waited for.
enum PendingResponse<'a> {
    /// The request is handed to a connection.
    Started(ResponseStream),
    /// A connection must be established first.
    Connecting(BoxFuture<'a, Result<Response<Bytes>, ClientError>>),
}

async fn send_by_client(
    client: &kube::Client,
    request: ApiRequest,
) -> Result<Response<ResponseBody>, ClientError> {
    let deadline = request.deadline();
    let request = request.into_request()?;
    let response = async {
        let response = Box::pin(client.send(request)).await;
        Ok(response.map_err(ClientError::kube)?.map(ResponseBody::from))
    };
    until(deadline, response).await
}

async fn until<T>(
    deadline: Option<Instant>,
    work: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    match deadline {
        Some(at) => timeout_at(at, work).await.unwrap_or(Err(ClientError::NoResponse)),
        None => work.await,
    }
}

/// The body of a response, which is read as it arrives.
pub enum ResponseBody {
    /// From an HTTP/2 connection.
    Http2(ResponseStream),
    /// From a kube client.
    Client(Body),
}

impl ResponseBody {
    /// Returns the next part; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, ClientError>> {
        match self {
            Self::Http2(stream) => Some(stream.data().await?.map_err(ClientError::from)),
            Self::Client(body) => loop {
                match body.frame().await? {
                    Err(error) => return Some(Err(ClientError::ReadBody(Box::new(error)))),
                    Ok(frame) => {
                        if let Ok(data) = frame.into_data() {
                            return Some(Ok(data));
                        }
                    }
                }
            },
        }
    }

    /// Returns the body as kube's client expects it.
    fn into_body(self) -> impl hyper::body::Body<Data = Bytes, Error = tower::BoxError> {
        StreamBody::new(stream::unfold(self, |mut body| async {
            let data = body.next().await?;
            Some((data.map(Frame::data).map_err(tower::BoxError::from), body))
        }))
    }

    /// Reads the whole body, which may have `limit` bytes.
    pub async fn whole(mut self, limit: usize) -> Result<Bytes, ClientError> {
        // Nearly all bodies are one part, which need not be copied.
        let mut first = Bytes::new();
        let mut all = BytesMut::new();
        while let Some(data) = self.next().await.transpose()? {
            if first.len().max(all.len()) + data.len() > limit {
                return Err(ClientError::ResponseTooLarge(limit));
            }
            if first.is_empty() {
                first = data;
                continue;
            }
            if all.is_empty() {
                all.extend_from_slice(&first);
            }
            all.extend_from_slice(&data);
        }
        Ok(if all.is_empty() { first } else { all.freeze() })
    }
}

impl From<Body> for ResponseBody {
    fn from(body: Body) -> Self {
        Self::Client(body)
    }
}

/// Locks a mutex. A poisoned lock is used: its value is consistent between all statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
