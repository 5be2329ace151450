//! What is said on one HTTP/2 connection (RFC 9113), without the connection itself.
//!
//! ```text
//! ask ──► waits for its turn ──► head and body in `out` ──► head and data of the answer ──► end
//!              (streams the server takes at once)      (as far as the server has room)
//! ```

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use bytes::{Bytes, BytesMut};
use hashbrown::HashMap;
use tokio::time::Instant;

use super::header_block::{HuffmanCache, ResponseHead};
use delivery::Delivery;

mod delivery;
#[cfg(test)]
mod tests;

/// What a client begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes before each frame: length, kind, flags, stream.
const FRAME_HEADER_BYTES: usize = 9;

/// Bytes of a frame; neither side asks for more.
const FRAME_PAYLOAD_BYTES_MAX: usize = 16_384;

/// Bytes that may be sent before the server says otherwise.
const DEFAULT_WINDOW_BYTES: i64 = 65_535;

/// Requests that may be under way before the server says how many.
const DEFAULT_CONCURRENT_STREAMS: usize = 100;

/// Bytes of the head of an answer.
const RESPONSE_HEADER_BLOCK_BYTES_MAX: usize = 64 << 10;

/// Bytes that wait to be sent when a server that only asks is not answered any more.
const OUTPUT_BYTES_MAX: usize = 4 << 20;

/// Numbers of streams end here.
const STREAM_ID_MAX: u32 = i32::MAX as u32 - 2;

mod frame_type {
    pub(super) const DATA: u8 = 0;
    pub(super) const HEADERS: u8 = 1;
    pub(super) const RST_STREAM: u8 = 3;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const PUSH_PROMISE: u8 = 5;
    pub(super) const PING: u8 = 6;
    pub(super) const GOAWAY: u8 = 7;
    pub(super) const WINDOW_UPDATE: u8 = 8;
    pub(super) const CONTINUATION: u8 = 9;
}

mod flag {
    pub(super) const ACK: u8 = 0x1;
    pub(super) const END_STREAM: u8 = 0x1;
    pub(super) const END_HEADERS: u8 = 0x4;
    pub(super) const PADDED: u8 = 0x8;
    pub(super) const PRIORITY: u8 = 0x20;
}

mod setting {
    pub(super) const HEADER_TABLE_SIZE: u16 = 1;
    pub(super) const ENABLE_PUSH: u16 = 2;
    pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
}

/// A request will not be answered any more.
const CANCEL: u32 = 8;

/// What is said of a request that is overdue.
pub const NO_ANSWER: &str = "the API server did not answer";

/// The state of a connection.
pub(super) struct ConnectionState {
    /// To be sent.
    output: Vec<u8>,
    /// Is woken when there is something to be sent.
    writer: Option<Waker>,
    streams: HashMap<u32, Stream>,
    next_stream: u32,
    /// Streams whose turn has not come, in order.
    queued: VecDeque<u32>,
    /// Streams whose bodies the server has no room for, in order.
    blocked_on_window: VecDeque<u32>,
    /// When answers are due, the first one first; some of them are here already.
    deadlines: VecDeque<(Instant, u32)>,
    /// The time at which somebody looks for what is overdue.
    check_at: Option<Instant>,
    /// Streams that count for the server.
    open: usize,
    max_concurrent_streams: usize,
    /// Bytes that the server takes, on all streams and on a new one.
    send_window: i64,
    initial_send_window: i64,
    windows: WindowSizes,
    /// Bytes that were heard and that the server does not know yet to be taken.
    unacknowledged: u32,
    /// Bytes that the server may send.
    recv_window: i64,
    /// The head of an answer that goes on in the next frame.
    partial: Option<PartialHeaderBlock>,
    huffman_cache: HuffmanCache,
    delivery: Delivery,
    /// No more requests are taken: the server leaves, or nobody needs it any more.
    closing: bool,
    /// There is no connection any more.
    closed: bool,
}

/// What is asked.
#[derive(Debug, Default)]
pub struct OutgoingStream {
    /// The head, as it is sent.
    pub head: Vec<u8>,
    pub body: Bytes,
    /// If the answer is that it is done, nothing else is wanted of it.
    pub status_only: bool,
    /// When the answer must be here.
    pub due: Option<Instant>,
}

/// Bytes that the server may send ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowSizes {
    pub(super) stream: u32,
    pub(super) connection: u32,
}

struct PartialHeaderBlock {
    stream: u32,
    ends: bool,
    block: Vec<u8>,
}

#[derive(Default)]
struct Stream {
    /// The head of the request, until it is sent.
    request: Option<Vec<u8>>,
    /// What is not sent yet of its body.
    body: Bytes,
    /// Where all of it ends among the bytes of the connection; zero until it is sent.
    end: u64,
    send_window: i64,
    head: Option<ResponseHead>,
    has_response_head: bool,
    /// See [`OutgoingStream`].
    status_only: bool,
    /// What comes of the body is not wanted.
    discard_body: bool,
    data: BytesMut,
    /// Bytes of it that count as taken.
    released: u32,
    /// Bytes that were taken and that the server does not know of.
    unacknowledged: u32,
    /// Bytes that the server may send.
    recv_window: i64,
    state: State,
    reader: Option<Waker>,
}

#[derive(Default)]
enum State {
    #[default]
    Open,
    Ended,
    Failed(String),
}

impl Stream {
    fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    fn wait(&mut self, context: &Context<'_>) {
        match &mut self.reader {
            Some(reader) => reader.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
    }
}

impl ConnectionState {
    /// One that begins.
    pub(super) fn new(windows: WindowSizes) -> Self {
        let mut this = Self {
            output: PREFACE.to_vec(),
            writer: None,
            streams: HashMap::new(),
            next_stream: 1,
            queued: VecDeque::new(),
            blocked_on_window: VecDeque::new(),
            deadlines: VecDeque::new(),
            check_at: None,
            open: 0,
            max_concurrent_streams: DEFAULT_CONCURRENT_STREAMS,
            send_window: DEFAULT_WINDOW_BYTES,
            initial_send_window: DEFAULT_WINDOW_BYTES,
            windows,
            unacknowledged: 0,
            recv_window: windows.connection.into(),
            partial: None,
            huffman_cache: HuffmanCache::default(),
            delivery: Delivery::default(),
            closing: false,
            closed: false,
        };
        let mut settings = Vec::new();
        for (setting, value) in [
            (setting::HEADER_TABLE_SIZE, 0),
            (setting::ENABLE_PUSH, 0),
            (setting::INITIAL_WINDOW_SIZE, windows.stream),
        ] {
            settings.extend_from_slice(&setting.to_be_bytes());
            settings.extend_from_slice(&value.to_be_bytes());
        }
        this.frame(frame_type::SETTINGS, 0, 0, &settings);
        this.write_window_update(0, windows.connection.saturating_sub(DEFAULT_WINDOW_BYTES as u32));
        this
    }

    /// The same, whose requests are dead when they are overdue: without proof that the server has all
    /// of an overdue request, the connection is at its end.
    pub(super) fn fenced(mut self, probe_interval: Duration) -> Self {
        self.delivery.is_required = true;
        self.delivery.probe_interval = probe_interval;
        self
    }

    /// Whether requests are taken.
    pub(super) fn accepts_streams(&self) -> bool {
        !self.closed && !self.closing && self.next_stream < STREAM_ID_MAX
    }

    /// Puts a request in; the number of its stream.
    pub(super) fn open_stream(&mut self, asking: OutgoingStream) -> Result<u32> {
        let OutgoingStream { head, body, status_only, due } = asking;
        ensure!(self.accepts_streams(), "the connection is at its end");
        ensure!(
            head.len() <= FRAME_PAYLOAD_BYTES_MAX,
            "the head of a request has {} bytes",
            head.len()
        );
        let id = self.next_stream;
        self.next_stream += 2;
        let recv_window = self.windows.stream.into();
        let stream =
            Stream { request: Some(head), body, status_only, recv_window, ..Stream::default() };
        self.streams.insert(id, stream);
        self.queued.push_back(id);
        self.start_queued_streams();
        if let Some(due) = due {
            self.add_deadline(due, id);
        }
        Ok(id)
    }

    /// Notes when an answer is due.
    fn add_deadline(&mut self, due: Instant, id: u32) {
        while let Some((_, id)) = self.deadlines.front()
            && !self.streams.contains_key(id)
        {
            self.deadlines.pop_front();
        }
        // Nearly always it is the last one.
        let earlier = self.deadlines.iter().rev().position(|(other, _)| *other <= due);
        let place = self.deadlines.len() - earlier.unwrap_or(self.deadlines.len());
        self.deadlines.insert(place, (due, id));
        if self.check_at.is_none_or(|alarm| due < alarm) {
            self.wake_writer();
        }
    }

    /// When to look for what is overdue, if that is sooner than it was to be.
    pub(super) fn next_check(&mut self, now: Instant) -> Option<Instant> {
        let (mut at, _) = *self.deadlines.front()?;
        if self.delivery.is_required {
            at = at.min(now + self.delivery.probe_interval);
        }
        if self.check_at.is_some_and(|alarm| alarm <= at) {
            return None;
        }
        self.check_at = Some(at);
        self.check_at
    }

    /// Whether it is time to look for what is overdue. There may be no alarm for what was asked since
    /// the last look, and this process may have been stopped meanwhile.
    fn is_check_due(&self, now: Instant) -> bool {
        self.check_at.is_some_and(|alarm| alarm <= now)
            || self.deadlines.front().is_some_and(|(due, _)| *due <= now)
    }

    /// Gives up what is overdue and was not sent, if it is time to look.
    pub(super) fn cancel_unsent(&mut self, now: Instant) {
        if !self.is_check_due(now) {
            return;
        }
        let overdue = self.deadlines.iter().take_while(|(due, _)| *due <= now).map(|(_, id)| *id);
        let waits = |id: &u32| self.streams.get(id).is_some_and(|stream| stream.request.is_some());
        for id in overdue.filter(waits).collect::<Vec<_>>() {
            self.queued.retain(|waiting| *waiting != id);
            self.fail_stream(id, NO_ANSWER.to_owned());
        }
    }

    /// Gives up what is overdue, if it is time to look. [`Self::next_check`] says when that is again.
    /// After an error nothing may be sent any more, and what was sent must not be sent again.
    pub(super) fn expire_overdue(&mut self, now: Instant) -> Result<()> {
        if !self.is_check_due(now) {
            return Ok(());
        }
        self.cancel_unsent(now);
        self.check_at = None;
        while let Some((due, id)) = self.deadlines.front().copied() {
            let open = self.streams.get(&id).filter(|stream| stream.is_open());
            if open.is_some() && due > now {
                break;
            }
            self.deadlines.pop_front();
            let Some(stream) = open else { continue };
            ensure!(!self.delivery.is_unproven(stream.end), "an overdue request may still arrive");
            self.frame(frame_type::RST_STREAM, 0, id, &CANCEL.to_be_bytes());
            self.fail_stream(id, NO_ANSWER.to_owned());
        }
        if !self.deadlines.is_empty()
            && let Some(position) = self.delivery.next_probe()
        {
            self.frame(frame_type::PING, 0, 0, &position);
        }
        Ok(())
    }

    /// The head of the answer.
    pub(super) fn poll_head(
        &mut self,
        id: u32,
        context: &Context<'_>,
    ) -> Poll<Result<ResponseHead>> {
        let Some(stream) = self.streams.get_mut(&id) else { return Poll::Ready(Err(lost())) };
        if let Some(head) = stream.head.take() {
            return Poll::Ready(Ok(head));
        }
        match &stream.state {
            State::Failed(why) => Poll::Ready(Err(anyhow!("{why}"))),
            State::Ended => Poll::Ready(Err(anyhow!("an answer without a head"))),
            State::Open => {
                stream.wait(context);
                Poll::Pending
            }
        }
    }

    /// What has come of the body; `None` at its end.
    pub(super) fn poll_data(
        &mut self,
        id: u32,
        context: &Context<'_>,
    ) -> Poll<Option<Result<Bytes>>> {
        let Some(stream) = self.streams.get_mut(&id) else { return Poll::Ready(Some(Err(lost()))) };
        if !stream.data.is_empty() {
            // What is free of its buffer, or all of it once this is dropped, is used again.
            let data = stream.data.split().freeze();
            let released = std::mem::take(&mut stream.released);
            self.release_window(id, data.len() as u32 - released);
            return Poll::Ready(Some(Ok(data)));
        }
        match &stream.state {
            State::Failed(why) => Poll::Ready(Some(Err(anyhow!("{why}")))),
            State::Ended => Poll::Ready(None),
            State::Open => {
                stream.wait(context);
                Poll::Pending
            }
        }
    }

    /// The whole answer, once it is there, if it has at most so many bytes.
    pub(super) fn poll_whole(
        &mut self,
        id: u32,
        limit: usize,
        context: &Context<'_>,
    ) -> Poll<Result<(ResponseHead, Bytes)>> {
        let Some(stream) = self.streams.get_mut(&id) else { return Poll::Ready(Err(lost())) };
        if stream.data.len() > limit {
            return Poll::Ready(Err(anyhow!("the answer is larger than {limit} bytes")));
        }
        let length = stream.data.len() as u32;
        let news = length - std::mem::replace(&mut stream.released, length);
        match &stream.state {
            State::Failed(why) => return Poll::Ready(Err(anyhow!("{why}"))),
            State::Ended => {
                stream.released = 0;
                let head = stream.head.take();
                // To split off nothing is not for nothing.
                let data = if stream.data.is_empty() {
                    Bytes::new()
                } else {
                    stream.data.split().freeze()
                };
                self.release_window(id, news);
                let head = head.ok_or_else(|| anyhow!("an answer without a head"));
                return Poll::Ready(head.map(|head| (head, data)));
            }
            State::Open => stream.wait(context),
        }
        self.release_window(id, news);
        Poll::Pending
    }

    /// Bytes of a stream were taken.
    fn release_window(&mut self, id: u32, length: u32) {
        if length == 0 {
            return;
        }
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.unacknowledged += length;
            if stream.is_open() && stream.unacknowledged >= self.windows.stream / 2 {
                stream.recv_window += i64::from(stream.unacknowledged);
                let taken = std::mem::take(&mut stream.unacknowledged);
                self.write_window_update(id, taken);
            }
        }
        self.release_connection_window(length);
    }

    /// Nobody wants to know any more about a stream.
    pub(super) fn release(&mut self, id: u32) {
        let Some(stream) = self.streams.remove(&id) else { return };
        self.release_connection_window(stream.data.len() as u32 - stream.released);
        if stream.request.is_some() {
            self.queued.retain(|waiting| *waiting != id);
        } else if stream.is_open() {
            self.frame(frame_type::RST_STREAM, 0, id, &CANCEL.to_be_bytes());
            self.close_stream(id);
        }
        if self.closing {
            self.wake_writer();
        }
    }

    /// Asks the server whether it lives.
    pub(super) fn ping(&mut self) {
        self.frame(frame_type::PING, 0, 0, b"jindou\0\0");
    }

    /// Adds what is to be sent; whoever asks is woken when there is more. Whether all is said that
    /// will ever be.
    pub(super) fn poll_output(&mut self, context: &Context<'_>, out: &mut Vec<u8>) -> bool {
        self.writer = Some(context.waker().clone());
        if out.is_empty() {
            std::mem::swap(&mut self.output, out);
        } else {
            out.append(&mut self.output);
        }
        self.closing && self.streams.is_empty()
    }

    /// Takes no more requests, and is at its end when all are answered.
    pub(super) fn close(&mut self) {
        self.closing = true;
        self.wake_writer();
    }

    /// Takes over what was heard: all frames that are complete, and tells how many bytes they have.
    /// Then there may be more to be sent. After an error the connection is at its end.
    pub(super) fn receive(&mut self, heard: &[u8]) -> Result<usize> {
        // The one who hears is the one who sends.
        self.writer = None;
        let mut rest = heard;
        while let Some((head, _)) = rest.split_first_chunk::<FRAME_HEADER_BYTES>() {
            let [_, _, _, kind, flags, s0, s1, s2, s3] = *head;
            let Some((frame, after)) = rest.split_at_checked(frame_length(rest)?) else { break };
            let payload = &frame[FRAME_HEADER_BYTES..];
            let stream = u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]);
            self.receive_frame(kind, flags, stream, payload)?;
            rest = after;
        }
        ensure!(self.output.len() <= OUTPUT_BYTES_MAX, "the server asks more than it reads");
        Ok(heard.len() - rest.len())
    }

    /// There is no connection any more.
    pub(super) fn end(&mut self, why: &str) {
        self.closed = true;
        for stream in self.streams.values_mut().filter(|stream| stream.is_open()) {
            stream.state = State::Failed(why.to_owned());
            stream.wake();
        }
        self.queued.clear();
        self.blocked_on_window.clear();
        self.open = 0;
    }

    fn receive_frame(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) -> Result<()> {
        if let Some(partial) = &self.partial {
            let goes_on = kind == frame_type::CONTINUATION && id == partial.stream;
            ensure!(goes_on, "the head of an answer does not go on");
        }
        match kind {
            frame_type::DATA => self.receive_data(flags, id, payload),
            frame_type::HEADERS => {
                let mut block = strip_padding(flags, payload)?;
                if flags & flag::PRIORITY > 0 {
                    block = block.get(5..).context("a head is cut off")?;
                }
                let ends = flags & flag::END_STREAM > 0;
                if flags & flag::END_HEADERS > 0 {
                    return self.receive_headers(id, ends, block);
                }
                self.partial = Some(PartialHeaderBlock { stream: id, ends, block: block.to_vec() });
                Ok(())
            }
            frame_type::CONTINUATION => {
                let mut partial = self.partial.take().context("a head without a beginning")?;
                partial.block.extend_from_slice(payload);
                ensure!(
                    partial.block.len() <= RESPONSE_HEADER_BLOCK_BYTES_MAX,
                    "the head of an answer is too large"
                );
                if flags & flag::END_HEADERS > 0 {
                    return self.receive_headers(id, partial.ends, &partial.block);
                }
                self.partial = Some(partial);
                Ok(())
            }
            frame_type::RST_STREAM => {
                let code = payload.first_chunk().context("a reset without a reason")?;
                let why =
                    format!("the server reset the stream (code {})", u32::from_be_bytes(*code));
                self.fail_stream(id, why);
                Ok(())
            }
            frame_type::SETTINGS if flags & flag::ACK > 0 => Ok(()),
            frame_type::SETTINGS => self.receive_settings(payload),
            frame_type::PUSH_PROMISE => bail!("the server sends what nobody asked for"),
            frame_type::PING => {
                let Ok(payload) = <[u8; 8]>::try_from(payload) else {
                    bail!("a ping of {} bytes", payload.len())
                };
                if flags & flag::ACK == 0 {
                    self.frame(frame_type::PING, flag::ACK, 0, &payload);
                } else {
                    self.delivery.acknowledge(payload);
                }
                Ok(())
            }
            frame_type::GOAWAY => {
                let last = payload.first_chunk().context("the server leaves without a word")?;
                self.receive_goaway(u32::from_be_bytes(*last) & !(1 << 31));
                Ok(())
            }
            frame_type::WINDOW_UPDATE => {
                let more = payload.first_chunk().context("no room is given")?;
                let more = i64::from(u32::from_be_bytes(*more) & !(1 << 31));
                if id == 0 {
                    self.send_window += more;
                } else if let Some(stream) = self.streams.get_mut(&id) {
                    stream.send_window += more;
                }
                self.send_data();
                Ok(())
            }
            // Others mean nothing to us.
            _ => Ok(()),
        }
    }

    fn receive_data(&mut self, flags: u8, id: u32, payload: &[u8]) -> Result<()> {
        let length = payload.len() as u32;
        self.recv_window -= i64::from(length);
        ensure!(self.recv_window >= 0, "the server sends more than there is room for");
        let data = strip_padding(flags, payload)?;
        // What is not kept is taken at once.
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.is_open()) else {
            self.release_connection_window(length);
            return Ok(());
        };
        stream.recv_window -= i64::from(length);
        ensure!(stream.recv_window >= 0, "the server sends more than there is room for");
        let mut taken = length - data.len() as u32;
        if stream.discard_body {
            taken = length;
        } else {
            stream.data.extend_from_slice(data);
            stream.wake();
        }
        if flags & flag::END_STREAM > 0 {
            self.end_stream(id);
        }
        self.release_window(id, taken);
        Ok(())
    }

    fn receive_headers(&mut self, id: u32, ends: bool, block: &[u8]) -> Result<()> {
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.is_open()) else {
            return Ok(());
        };
        // What comes after the body is not read, and neither is what comes before the answer.
        if !stream.has_response_head {
            let head = ResponseHead::read(block, stream.status_only, &mut self.huffman_cache)?;
            if !head.status.is_informational() {
                self.delivery.prove(stream.end);
                stream.discard_body = stream.status_only && head.status.is_success();
                stream.head = Some(head);
                stream.has_response_head = true;
            }
        }
        if !stream.discard_body {
            stream.wake();
        }
        if ends {
            self.end_stream(id);
        }
        Ok(())
    }

    fn receive_settings(&mut self, payload: &[u8]) -> Result<()> {
        let (settings, rest) = payload.as_chunks::<6>();
        ensure!(rest.is_empty(), "a setting is cut off");
        for [n0, n1, v0, v1, v2, v3] in settings {
            let value = u32::from_be_bytes([*v0, *v1, *v2, *v3]);
            match u16::from_be_bytes([*n0, *n1]) {
                setting::MAX_CONCURRENT_STREAMS => self.max_concurrent_streams = value as usize,
                setting::INITIAL_WINDOW_SIZE => {
                    let change = i64::from(value) - self.initial_send_window;
                    self.initial_send_window = value.into();
                    let sent = self.streams.values_mut().filter(|stream| stream.request.is_none());
                    sent.for_each(|stream| stream.send_window += change);
                }
                _ => {}
            }
        }
        self.frame(frame_type::SETTINGS, flag::ACK, 0, &[]);
        self.send_data();
        self.start_queued_streams();
        Ok(())
    }

    /// The server takes nothing beyond a stream.
    fn receive_goaway(&mut self, last: u32) {
        const WHY: &str = "the server closes the connection";
        self.closing = true;
        for id in std::mem::take(&mut self.queued) {
            self.fail_stream(id, WHY.to_owned());
        }
        let beyond: Vec<u32> = self.streams.keys().copied().filter(|id| *id > last).collect();
        for id in beyond {
            self.fail_stream(id, WHY.to_owned());
        }
    }

    /// The answer is here.
    fn end_stream(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.state = State::Ended;
        stream.wake();
        if !stream.body.is_empty() {
            // The server did not want all of the request.
            self.frame(frame_type::RST_STREAM, 0, id, &CANCEL.to_be_bytes());
        }
        self.close_stream(id);
    }

    fn fail_stream(&mut self, id: u32, why: String) {
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.is_open()) else {
            return;
        };
        stream.state = State::Failed(why);
        stream.wake();
        if stream.request.is_none() {
            self.close_stream(id);
        }
    }

    /// A stream that was sent counts no more for the server.
    fn close_stream(&mut self, id: u32) {
        self.open = self.open.saturating_sub(1);
        self.blocked_on_window.retain(|blocked_on_window| *blocked_on_window != id);
        self.start_queued_streams();
    }

    /// Sends requests whose turn has come.
    fn start_queued_streams(&mut self) {
        while self.open < self.max_concurrent_streams
            && let Some(id) = self.queued.pop_front()
        {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            let Some(head) = stream.request.take() else { continue };
            stream.send_window = self.initial_send_window;
            let is_whole = stream.body.is_empty();
            self.open += 1;
            let flags = flag::END_HEADERS | if is_whole { flag::END_STREAM } else { 0 };
            self.frame(frame_type::HEADERS, flags, id, &head);
            if is_whole {
                self.mark_sent(id);
            } else {
                self.blocked_on_window.push_back(id);
                self.send_data();
            }
        }
    }

    /// Sends of bodies what the server has room for.
    fn send_data(&mut self) {
        for _ in 0..self.blocked_on_window.len() {
            let Some(id) = self.blocked_on_window.pop_front() else { return };
            while let Some(stream) = self.streams.get_mut(&id) {
                let room = stream
                    .send_window
                    .min(self.send_window)
                    .clamp(0, FRAME_PAYLOAD_BYTES_MAX as i64) as usize;
                let length = room.min(stream.body.len());
                if length == 0 {
                    self.blocked_on_window.push_back(id);
                    break;
                }
                let part = stream.body.split_to(length);
                stream.send_window -= length as i64;
                self.send_window -= length as i64;
                let is_last = stream.body.is_empty();
                let flags = if is_last { flag::END_STREAM } else { 0 };
                self.frame(frame_type::DATA, flags, id, &part);
                if is_last {
                    self.mark_sent(id);
                    break;
                }
            }
        }
    }

    /// All frames of a request are made.
    fn mark_sent(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.end = self.delivery.end_request();
        }
    }

    /// Bytes of any stream were taken.
    fn release_connection_window(&mut self, length: u32) {
        self.unacknowledged += length;
        if self.unacknowledged >= self.windows.connection / 2 {
            let taken = std::mem::take(&mut self.unacknowledged);
            self.recv_window += i64::from(taken);
            self.write_window_update(0, taken);
        }
    }

    /// Allows the server to send so many more bytes.
    fn write_window_update(&mut self, id: u32, bytes: u32) {
        if bytes > 0 {
            self.frame(frame_type::WINDOW_UPDATE, 0, id, &bytes.to_be_bytes());
        }
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let [_, l0, l1, l2] = (payload.len() as u32).to_be_bytes();
        let [s0, s1, s2, s3] = stream.to_be_bytes();
        self.output.extend_from_slice(&[l0, l1, l2, kind, flags, s0, s1, s2, s3]);
        self.output.extend_from_slice(payload);
        self.delivery.add_frame(FRAME_HEADER_BYTES + payload.len());
        self.wake_writer();
    }

    fn wake_writer(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }
}

/// Bytes of a frame by its beginning; those of its head as long as that is not complete.
pub(super) fn frame_length(begun: &[u8]) -> Result<usize> {
    let Some([l0, l1, l2, ..]) = begun.first_chunk::<FRAME_HEADER_BYTES>() else {
        return Ok(FRAME_HEADER_BYTES);
    };
    let length = u32::from_be_bytes([0, *l0, *l1, *l2]) as usize;
    ensure!(length <= FRAME_PAYLOAD_BYTES_MAX, "a frame of {length} bytes");
    Ok(FRAME_HEADER_BYTES + length)
}

fn lost() -> anyhow::Error {
    anyhow!("nothing is known of this stream")
}

/// A payload without what fills it up.
fn strip_padding(flags: u8, payload: &[u8]) -> Result<&[u8]> {
    if flags & flag::PADDED == 0 {
        return Ok(payload);
    }
    let (filling, rest) = payload.split_first().context("a frame is cut off")?;
    let length = rest.len().checked_sub(usize::from(*filling)).context("a frame is cut off")?;
    Ok(&rest[..length])
}
