//! A scripted API server for tests in virtual time.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _, stream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// A request that the server received.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) at: Instant,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) content_type: String,
    pub(crate) accept: String,
    pub(crate) body: Value,
}

impl ReceivedRequest {
    /// Returns the value of a query parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        let mut pairs = form_urlencoded::parse(self.query.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }
}

/// A part of a response's body.
#[derive(Clone, Debug)]
pub(crate) enum BodyPart {
    Data(Vec<u8>),
    Wait(Duration),
    /// The connection breaks.
    Break,
    /// The body never continues.
    Hang,
}

/// A reply of the server.
#[derive(Clone)]
pub(crate) struct Reply {
    head: ResponseHead,
    delay: Duration,
    status: StatusCode,
    headers: Vec<(&'static str, String)>,
    parts: Vec<BodyPart>,
    /// Parts that follow `parts`.
    more: Arc<Mutex<Option<BoxStream<'static, BodyPart>>>>,
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {} after {:?}: {:?}", self.head, self.status, self.delay, self.parts)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ResponseHead {
    /// The response is sent.
    Sent,
    /// The connection breaks before a response.
    Breaks,
    /// No response is ever sent.
    Never,
}

impl Reply {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::stream(status, vec![BodyPart::Data(body.to_string().into_bytes())])
    }

    pub(crate) fn stream(status: u16, parts: Vec<BodyPart>) -> Self {
        let status = StatusCode::from_u16(status).unwrap();
        Self {
            head: ResponseHead::Sent,
            delay: Duration::ZERO,
            status,
            headers: Vec::new(),
            parts,
            more: Arc::default(),
        }
    }

    /// Replies with a body that a stream continues.
    pub(crate) fn endless(
        status: u16,
        parts: Vec<BodyPart>,
        more: impl Stream<Item = BodyPart> + Send + 'static,
    ) -> Self {
        let more = Arc::new(Mutex::new(Some(more.boxed())));
        Self { more, ..Self::stream(status, parts) }
    }

    /// Replies with a Kubernetes `Status`.
    pub(crate) fn failure(status: u16, message: &str) -> Self {
        let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": status});
        Self::json(status, &body)
    }

    /// Breaks the connection before a response.
    pub(crate) fn broken() -> Self {
        Self { head: ResponseHead::Breaks, ..Self::stream(200, Vec::new()) }
    }

    pub(crate) fn never() -> Self {
        Self { head: ResponseHead::Never, ..Self::stream(200, Vec::new()) }
    }

    pub(crate) fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl std::fmt::Display) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }
}

/// The server. Its handler is called when a request arrives.
#[derive(Clone)]
pub(crate) struct FakeApiServer {
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    answer: Arc<dyn Fn(&ReceivedRequest) -> Reply + Send + Sync>,
}

impl FakeApiServer {
    pub(crate) fn new(answer: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static) -> Self {
        Self { received: Arc::default(), answer: Arc::new(answer) }
    }

    /// Returns all requests so far.
    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        lock(&self.received).clone()
    }

    /// Returns the requests of a method so far.
    pub(crate) fn requests_by(&self, method: &Method) -> Vec<ReceivedRequest> {
        self.requests().into_iter().filter(|request| request.method == method).collect()
    }

    pub(crate) fn client(&self) -> kube::Client {
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let fake = fake.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let header = |name| {
                    let value = parts.headers.get(name).map(|value| value.to_str().unwrap());
                    value.unwrap_or("").to_owned()
                };
                let (content_type, accept) = (header("content-type"), header("accept"));
                let received = ReceivedRequest {
                    at: Instant::now(),
                    method: parts.method,
                    path: parts.uri.path().to_owned(),
                    query: parts.uri.query().unwrap_or("").to_owned(),
                    content_type,
                    accept,
                    body: serde_json::from_slice(&body).unwrap_or(Value::Null),
                };
                lock(&fake.received).push(received.clone());
                let reply = (fake.answer)(&received);
                sleep(reply.delay).await;
                match reply.head {
                    ResponseHead::Sent => {}
                    ResponseHead::Never => std::future::pending().await,
                    ResponseHead::Breaks => return Err(tower::BoxError::from("connection reset")),
                }
                let mut response = Response::builder().status(reply.status);
                for (name, value) in reply.headers {
                    response = response.header(name, value);
                }
                let more = lock(&reply.more).take();
                Ok(response.body(body_of(reply.parts, more))?)
            }
        });
        kube::Client::new(service, "default")
    }
}

fn body_of(
    parts: Vec<BodyPart>,
    more: Option<BoxStream<'static, BodyPart>>,
) -> impl hyper::body::Body<Data = Bytes, Error = std::io::Error> + Send + 'static {
    let more = more.unwrap_or_else(|| stream::empty().boxed());
    let frames = stream::iter(parts).chain(more).filter_map(|part| async {
        match part {
            BodyPart::Data(bytes) => Some(Ok(Frame::data(Bytes::from(bytes)))),
            BodyPart::Wait(time) => {
                sleep(time).await;
                None
            }
            BodyPart::Break => Some(Err(std::io::Error::other("connection reset"))),
            BodyPart::Hang => {
                let never: Infallible = std::future::pending().await;
                match never {}
            }
        }
    });
    StreamBody::new(frames.boxed())
}

/// Locks a mutex, even if it is poisoned.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs a future in virtual time, for property tests.
pub(crate) fn in_virtual_time<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(work)
}

/// Returns the seconds since an instant, in virtual time.
pub(crate) fn seconds_since(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64()
}
