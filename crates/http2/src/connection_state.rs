//! The protocol of one connection (RFC 9113) as a state machine without I/O.
//!
//! ```text
//! open_stream ──► queued ──► HEADERS, DATA in `output` ──► HEADERS, DATA received ──► END_STREAM
//!       (MAX_CONCURRENT_STREAMS)    (send windows)             (receive windows)
//! ```

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hashbrown::HashMap;
use tokio::time::Instant;

use crate::flow_control::{DEFAULT_WINDOW_BYTES, ReceiveWindow};
use crate::frame::{CANCEL, PREFACE, frame_type, setting};
use crate::hpack::HuffmanCache;
use crate::stream::{Stream, StreamState};
use crate::{ConnectionOptions, Error, ResponseHead};
use delivery::Delivery;

mod deadlines;
mod delivery;
mod receive;
mod send;
#[cfg(test)]
mod tests;

/// Concurrent streams until the server's SETTINGS arrive.
const DEFAULT_CONCURRENT_STREAMS: usize = 100;

/// Largest stream identifier that is used; the protocol ends at 2^31 - 1.
const STREAM_ID_MAX: u32 = i32::MAX as u32 - 2;

/// Maximum size of the header block of a request, which servers written in Go accept by default.
const HEADER_BLOCK_BYTES_MAX: usize = 1 << 20;

/// Payload of PINGs that keep the connection alive. As a number it is larger than any position that
/// [`Delivery`] probes for.
const KEEP_ALIVE_PAYLOAD: &[u8; 8] = b"liveness";

/// The state of a connection.
pub(crate) struct ConnectionState {
    /// Frames to be written.
    output: Vec<u8>,
    /// Task to be woken when there is output.
    writer: Option<Waker>,
    streams: HashMap<u32, Stream>,
    next_stream_id: u32,
    /// Streams that are not started yet, in order.
    queued: VecDeque<u32>,
    /// Streams whose bodies wait for a larger send window, in order.
    blocked_on_window: VecDeque<u32>,
    /// Deadlines of streams in ascending order; some of these streams have ended already.
    deadlines: VecDeque<(Instant, u32)>,
    /// When the driver checks deadlines next.
    check_at: Option<Instant>,
    /// Streams that count against `max_concurrent_streams`.
    active_streams: usize,
    /// Streams that no longer count, since the start of the connection.
    ended_streams: u64,
    /// `SETTINGS_MAX_CONCURRENT_STREAMS` of the server.
    max_concurrent_streams: usize,
    /// Bytes of DATA that the server accepts on all streams.
    send_window: i64,
    /// `SETTINGS_INITIAL_WINDOW_SIZE` of the server.
    initial_send_window: i64,
    receive_window: ReceiveWindow,
    /// Size of the receive window of new streams.
    stream_receive_window: u32,
    /// A header block whose CONTINUATION frames have not all arrived.
    partial_header_block: Option<PartialHeaderBlock>,
    huffman_cache: HuffmanCache,
    delivery: Delivery,
    /// No more requests are accepted, because of GOAWAY or because the handle was dropped.
    closing: bool,
    /// The transport is gone.
    closed: bool,
}

/// A request to be sent.
#[derive(Debug, Default)]
pub(crate) struct OutgoingStream {
    pub(crate) header_block: Vec<u8>,
    pub(crate) body: Bytes,
    /// See [`crate::Request::status_only`].
    pub(crate) status_only: bool,
    /// See [`crate::Request::deadline`].
    pub(crate) deadline: Option<Instant>,
}

struct PartialHeaderBlock {
    stream_id: u32,
    end_stream: bool,
    block: Vec<u8>,
}

impl std::fmt::Debug for ConnectionState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The output and the streams hold credentials.
        f.debug_struct("ConnectionState")
            .field("streams", &self.streams.len())
            .field("closing", &self.closing)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

impl ConnectionState {
    /// Returns a connection whose output is the client's preface.
    pub(crate) fn new(options: &ConnectionOptions) -> Self {
        let mut this = Self {
            output: PREFACE.to_vec(),
            writer: None,
            streams: HashMap::new(),
            next_stream_id: 1,
            queued: VecDeque::new(),
            blocked_on_window: VecDeque::new(),
            deadlines: VecDeque::new(),
            check_at: None,
            active_streams: 0,
            ended_streams: 0,
            max_concurrent_streams: DEFAULT_CONCURRENT_STREAMS,
            send_window: DEFAULT_WINDOW_BYTES.into(),
            initial_send_window: DEFAULT_WINDOW_BYTES.into(),
            receive_window: ReceiveWindow::new(options.connection_receive_window),
            stream_receive_window: options.stream_receive_window,
            partial_header_block: None,
            huffman_cache: HuffmanCache::default(),
            delivery: Delivery::new(options.delivery_probe_interval),
            closing: false,
            closed: false,
        };
        this.write_settings(&[
            (setting::HEADER_TABLE_SIZE, 0),
            (setting::ENABLE_PUSH, 0),
            (setting::INITIAL_WINDOW_SIZE, options.stream_receive_window),
        ]);
        let increment = options.connection_receive_window.saturating_sub(DEFAULT_WINDOW_BYTES);
        if increment > 0 {
            this.write_window_update(0, increment);
        }
        this
    }

    /// Returns `true` if [`Self::open_stream`] accepts requests.
    pub(crate) fn accepts_streams(&self) -> bool {
        !self.closed && !self.closing && self.next_stream_id < STREAM_ID_MAX
    }

    /// Returns the number of streams whose requests were sent and whose responses have not ended.
    pub(crate) fn open_streams(&self) -> usize {
        self.active_streams
    }

    /// Returns the number of streams that have ended since the start of the connection.
    pub(crate) fn ended_streams(&self) -> u64 {
        self.ended_streams
    }

    /// Queues a request and returns its stream identifier.
    pub(crate) fn open_stream(&mut self, outgoing: OutgoingStream) -> Result<u32, Error> {
        let OutgoingStream { header_block, body, status_only, deadline } = outgoing;
        if !self.accepts_streams() {
            return Err(Error::NotAccepted);
        }
        if header_block.len() > HEADER_BLOCK_BYTES_MAX {
            return Err(Error::RequestHeadTooLarge(header_block.len()));
        }
        let id = self.next_stream_id;
        self.next_stream_id += 2;
        let stream = Stream {
            unsent_header_block: Some(header_block),
            unsent_body: body,
            status_only,
            receive_window: ReceiveWindow::new(self.stream_receive_window),
            ..Stream::default()
        };
        self.streams.insert(id, stream);
        self.queued.push_back(id);
        self.start_queued_streams();
        if let Some(deadline) = deadline {
            self.add_deadline(deadline, id);
        }
        Ok(id)
    }

    /// Returns the head of a response.
    pub(crate) fn poll_head(
        &mut self,
        id: u32,
        context: &Context<'_>,
    ) -> Poll<Result<ResponseHead, Error>> {
        let Some(stream) = self.streams.get_mut(&id) else { return released() };
        if let Some(head) = stream.response_head.take() {
            return Poll::Ready(Ok(head));
        }
        match &stream.state {
            StreamState::Failed(error) => Poll::Ready(Err(error.clone())),
            StreamState::Ended => Poll::Ready(Err(Error::MissingResponseHead)),
            StreamState::Open => {
                stream.register_reader(context);
                Poll::Pending
            }
        }
    }

    /// Returns the part of a body that has arrived; `None` at its end.
    pub(crate) fn poll_data(
        &mut self,
        id: u32,
        context: &Context<'_>,
    ) -> Poll<Option<Result<Bytes, Error>>> {
        let Some(stream) = self.streams.get_mut(&id) else { return released().map(Some) };
        if !stream.data.is_empty() {
            let data = stream.take_data();
            let counted = std::mem::take(&mut stream.data_consumed);
            self.consume(id, data.len() as u32 - counted);
            return Poll::Ready(Some(Ok(data)));
        }
        match &stream.state {
            StreamState::Failed(error) => Poll::Ready(Some(Err(error.clone()))),
            StreamState::Ended => Poll::Ready(None),
            StreamState::Open => {
                stream.register_reader(context);
                Poll::Pending
            }
        }
    }

    /// Returns a whole response once it has arrived. Its data counts as consumed as it arrives, so that
    /// it may be larger than the receive window.
    pub(crate) fn poll_collect(
        &mut self,
        id: u32,
        limit: usize,
        context: &Context<'_>,
    ) -> Poll<Result<(ResponseHead, Bytes), Error>> {
        let Some(stream) = self.streams.get_mut(&id) else { return released() };
        if stream.data.len() > limit {
            return Poll::Ready(Err(Error::ResponseTooLarge(limit)));
        }
        let length = stream.data.len() as u32;
        let arrived = length - std::mem::replace(&mut stream.data_consumed, length);
        let result = match &stream.state {
            StreamState::Failed(error) => Poll::Ready(Err(error.clone())),
            StreamState::Ended => {
                stream.data_consumed = 0;
                let head = stream.response_head.take().ok_or(Error::MissingResponseHead);
                let data = stream.take_data();
                Poll::Ready(head.map(|head| (head, data)))
            }
            StreamState::Open => {
                stream.register_reader(context);
                Poll::Pending
            }
        };
        self.consume(id, arrived);
        result
    }

    /// Drops a stream whose response is no longer read.
    pub(crate) fn release(&mut self, id: u32) {
        let Some(stream) = self.streams.remove(&id) else { return };
        self.consume_on_connection(stream.data.len() as u32 - stream.data_consumed);
        if !stream.is_started() {
            self.queued.retain(|queued| *queued != id);
        } else if stream.is_open() {
            self.write_frame(frame_type::RST_STREAM, 0, id, &CANCEL.to_be_bytes());
            self.deactivate_stream(id);
        }
        if self.closing {
            self.wake_writer();
        }
    }

    /// Sends a PING to find out whether the server still answers.
    pub(crate) fn ping(&mut self) {
        self.write_frame(frame_type::PING, 0, 0, KEEP_ALIVE_PAYLOAD);
    }

    /// Appends the output to `out` and registers the task to be woken for more. Returns `true` if there
    /// will never be more.
    pub(crate) fn poll_output(&mut self, context: &Context<'_>, out: &mut Vec<u8>) -> bool {
        self.writer = Some(context.waker().clone());
        if out.is_empty() {
            std::mem::swap(&mut self.output, out);
        } else {
            out.append(&mut self.output);
        }
        self.closing && self.streams.is_empty()
    }

    /// Accepts no more requests; the connection ends when all streams are released.
    pub(crate) fn close(&mut self) {
        self.closing = true;
        self.wake_writer();
    }

    /// Fails all open streams, since the transport is gone.
    pub(crate) fn end(&mut self, error: &Error) {
        self.closed = true;
        for stream in self.streams.values_mut().filter(|stream| stream.is_open()) {
            stream.fail(error.clone());
        }
        self.queued.clear();
        self.blocked_on_window.clear();
        self.active_streams = 0;
    }

    /// Ends a stream at END_STREAM.
    fn end_stream(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.state = StreamState::Ended;
        stream.wake_reader();
        if !stream.unsent_body.is_empty() {
            // The server responded before it had read the whole request.
            self.write_frame(frame_type::RST_STREAM, 0, id, &CANCEL.to_be_bytes());
        }
        self.deactivate_stream(id);
    }

    fn fail_stream(&mut self, id: u32, error: Error) {
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.is_open()) else {
            return;
        };
        stream.fail(error);
        if stream.is_started() {
            self.deactivate_stream(id);
        }
    }

    /// Removes a started stream from those that count against `SETTINGS_MAX_CONCURRENT_STREAMS`.
    fn deactivate_stream(&mut self, id: u32) {
        self.active_streams = self.active_streams.saturating_sub(1);
        self.ended_streams += 1;
        self.blocked_on_window.retain(|blocked| *blocked != id);
        self.start_queued_streams();
    }

    /// Counts data of a stream as consumed.
    fn consume(&mut self, id: u32, bytes: u32) {
        if bytes == 0 {
            return;
        }
        // A stream that ended needs no window.
        if let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.is_open())
            && let Some(increment) = stream.receive_window.consume(bytes)
        {
            self.write_window_update(id, increment);
        }
        self.consume_on_connection(bytes);
    }

    fn consume_on_connection(&mut self, bytes: u32) {
        if let Some(increment) = self.receive_window.consume(bytes) {
            self.write_window_update(0, increment);
        }
    }

    fn wake_writer(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }
}

/// The result of polling a stream after its release, which [`crate::ResponseStream`] rules out.
fn released<T>() -> Poll<Result<T, Error>> {
    Poll::Ready(Err(Error::Closed))
}
