//! The handles of a connection and of its responses.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::time::Instant;

use crate::connection_state::{ConnectionState, OutgoingStream};
use crate::hpack::encode_request;
use crate::{Error, NeverIndexedFields, ResponseHead, driver};

/// Capacity for the fields of a header block, beside path and [`NeverIndexedFields`].
const HEADER_BLOCK_BYTES: usize = 256;

/// Windows and times of a connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionOptions {
    /// Receive window of a stream (`SETTINGS_INITIAL_WINDOW_SIZE`), in bytes.
    pub stream_receive_window: u32,
    /// Receive window of the connection, in bytes; at least 65,535.
    pub connection_receive_window: u32,
    /// Idle time after which a PING is sent.
    pub ping_interval: Duration,
    /// Idle time after that PING until the connection is closed.
    pub ping_timeout: Duration,
    /// Longest time that a busy connection, with [`Self::BUSY_STREAMS`] open streams or more, waits after
    /// a read before it reads again. It waits for a quarter of the responses, at the rate of the last
    /// ones, so that the server has enough requests left and each wake-up handles many responses. A
    /// response on a connection with fewer open streams is never delayed.
    pub busy_read_delay_max: Duration,
    /// Makes the connection *fenced*: a request that passed its deadline must not reach the server
    /// later. The value is the time between two PINGs that probe for delivery.
    ///
    /// The server handles frames in order, so that the acknowledgement of a PING, or any later
    /// response, proves that a request was received. When a request passes its deadline without this
    /// proof, the connection is dropped with all its unsent bytes. The transport must then discard what
    /// the kernel still holds (`SO_LINGER` 0 on a TCP socket).
    pub delivery_probe_interval: Option<Duration>,
}

impl ConnectionOptions {
    /// Number of open streams from which a connection is busy. More than a process has watches, so that
    /// watch events are never delayed.
    pub const BUSY_STREAMS: usize = 32;
}

/// A request. Its header block is encoded by [`Connection::send`].
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// `:method`.
    pub method: &'a Method,
    /// `:authority`.
    pub authority: &'a str,
    /// First part of `:path`.
    pub path_prefix: &'a str,
    /// Second part of `:path`, with the query. Both parts must be visible ASCII.
    pub path: &'a str,
    /// `accept`.
    pub accept: &'a str,
    /// `content-type`.
    pub content_type: Option<&'a str>,
    /// Further fields.
    pub fields: &'a NeverIndexedFields,
    /// The body.
    pub body: Bytes,
    /// If the response is successful (2xx), its fields and its body are discarded.
    pub status_only: bool,
    /// When the complete response must have arrived.
    pub deadline: Option<Instant>,
}

/// An HTTP/2 connection. Its task ends when this handle is dropped and all responses are read or
/// dropped.
#[derive(Debug)]
pub struct Connection(Arc<Mutex<ConnectionState>>);

impl Connection {
    /// Starts a connection on a transport whose server was chosen by ALPN `h2`. Must be called within a
    /// tokio runtime.
    pub fn start<T>(transport: T, options: ConnectionOptions) -> Self
    where
        T: AsyncBufRead + AsyncWrite + Unpin + Send + 'static,
    {
        let state = Arc::new(Mutex::new(ConnectionState::new(&options)));
        tokio::spawn(driver::run(transport, Arc::clone(&state), options));
        Self(state)
    }

    /// Returns `true` if [`Self::send`] accepts requests.
    pub fn accepts_requests(&self) -> bool {
        lock(&self.0).accepts_streams()
    }

    /// Sends a request as soon as `SETTINGS_MAX_CONCURRENT_STREAMS` of the server allows it.
    pub fn send(&self, request: Request<'_>) -> Result<ResponseStream, Error> {
        let capacity = HEADER_BLOCK_BYTES + request.path.len() + request.fields.len();
        let mut header_block = Vec::with_capacity(capacity);
        encode_request(&request, &mut header_block);
        let Request { body, status_only, deadline, .. } = request;
        self.open_stream(OutgoingStream { header_block, body, status_only, deadline })
    }

    pub(crate) fn open_stream(&self, outgoing: OutgoingStream) -> Result<ResponseStream, Error> {
        let id = lock(&self.0).open_stream(outgoing)?;
        Ok(ResponseStream { state: Arc::clone(&self.0), id })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        lock(&self.0).close();
    }
}

/// A response. Dropping it before its end sends RST_STREAM.
#[derive(Debug)]
pub struct ResponseStream {
    state: Arc<Mutex<ConnectionState>>,
    id: u32,
}

impl ResponseStream {
    /// Waits for the head.
    pub async fn head(self) -> Result<(ResponseHead, Self), Error> {
        let head = poll_fn(|context| lock(&self.state).poll_head(self.id, context)).await?;
        Ok((head, self))
    }

    /// Waits for the head and the whole body, which may have `limit` bytes.
    pub async fn collect(self, limit: usize) -> Result<(ResponseHead, Bytes), Error> {
        poll_fn(|context| lock(&self.state).poll_collect(self.id, limit, context)).await
    }

    /// Waits for the next part of the body; `None` at its end.
    pub async fn data(&mut self) -> Option<Result<Bytes, Error>> {
        poll_fn(|context| lock(&self.state).poll_data(self.id, context)).await
    }
}

impl Drop for ResponseStream {
    fn drop(&mut self) {
        lock(&self.state).release(self.id);
    }
}

/// Locks the state. A poisoned lock is used: the state is consistent after every method.
pub(crate) fn lock(state: &Mutex<ConnectionState>) -> MutexGuard<'_, ConnectionState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
