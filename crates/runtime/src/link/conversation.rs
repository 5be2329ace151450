//! What is said on one HTTP/2 connection (RFC 9113), without the connection itself.
//!
//! ```text
//! ask ──► waits for its turn ──► head and body in `out` ──► head and data of the answer ──► end
//!              (streams the server takes at once)      (as far as the server has room)
//! ```

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use bytes::{Bytes, BytesMut};
use hashbrown::HashMap;
use tokio::time::Instant;

use super::head::{Head, Lately};
use arrival::{ASK_EVERY, Arrival};

mod arrival;
#[cfg(test)]
mod tests;

/// What a client begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes before each frame: length, kind, flags, stream.
const FRAME_HEAD: usize = 9;

/// Bytes of a frame; neither side asks for more.
const FRAME_MAX: usize = 16_384;

/// Bytes that may be sent before the server says otherwise.
const WINDOW_FIRST: i64 = 65_535;

/// Requests that may be under way before the server says how many.
const STREAMS_FIRST: usize = 100;

/// Bytes of the head of an answer.
const HEAD_MAX: usize = 64 << 10;

/// Bytes that wait to be sent when a server that only asks is not answered any more.
const OUT_MAX: usize = 4 << 20;

/// Numbers of streams end here.
const STREAM_LAST: u32 = i32::MAX as u32 - 2;

mod kind {
    pub(super) const DATA: u8 = 0;
    pub(super) const HEADERS: u8 = 1;
    pub(super) const RESET: u8 = 3;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const PUSH: u8 = 5;
    pub(super) const PING: u8 = 6;
    pub(super) const LEAVE: u8 = 7;
    pub(super) const WINDOW: u8 = 8;
    pub(super) const CONTINUATION: u8 = 9;
}

mod flag {
    pub(super) const ACKNOWLEDGED: u8 = 0x1;
    pub(super) const END: u8 = 0x1;
    pub(super) const HEAD_ENDS: u8 = 0x4;
    pub(super) const PADDED: u8 = 0x8;
    pub(super) const PRIORITY: u8 = 0x20;
}

mod setting {
    pub(super) const TABLE_BYTES: u16 = 1;
    pub(super) const PUSH: u16 = 2;
    pub(super) const STREAMS_MAX: u16 = 3;
    pub(super) const STREAM_BYTES: u16 = 4;
}

/// A request will not be answered any more.
const CANCEL: u32 = 8;

/// What is said of a request that is overdue.
pub(super) const NO_ANSWER: &str = "the API server did not answer";

/// The state of a connection.
pub(super) struct Conversation {
    /// To be sent.
    out: Vec<u8>,
    /// Is woken when there is something to be sent.
    sender: Option<Waker>,
    streams: HashMap<u32, Stream>,
    next_stream: u32,
    /// Streams whose turn has not come, in order.
    waiting: VecDeque<u32>,
    /// Streams whose bodies the server has no room for, in order.
    stuck: VecDeque<u32>,
    /// When answers are due, the first one first; some of them are here already.
    due: VecDeque<(Instant, u32)>,
    /// The time at which somebody looks for what is overdue.
    alarm: Option<Instant>,
    /// Streams that count for the server.
    open: usize,
    open_max: usize,
    /// Bytes that the server takes, on all streams and on a new one.
    room: i64,
    room_of_stream: i64,
    windows: Windows,
    /// Bytes that were heard and that the server does not know yet to be taken.
    taken: u32,
    /// Bytes that the server may send.
    expected: i64,
    /// The head of an answer that goes on in the next frame.
    partial: Option<Partial>,
    lately: Lately,
    arrival: Arrival,
    /// No more requests are taken: the server leaves, or nobody needs it any more.
    leaving: bool,
    /// There is no connection any more.
    ended: bool,
}

/// What is asked.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// The head, as it is sent.
    pub(super) head: Vec<u8>,
    pub(super) body: Bytes,
    /// If the answer is that it is done, nothing else is wanted of it.
    pub(super) brief: bool,
    /// When the answer must be here.
    pub(super) due: Option<Instant>,
}

/// Bytes that the server may send ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    pub(super) stream: u32,
    pub(super) connection: u32,
}

struct Partial {
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
    room: i64,
    head: Option<Head>,
    has_head: bool,
    /// See [`Asking`].
    brief: bool,
    /// What comes of the body is not wanted.
    unwanted: bool,
    data: BytesMut,
    /// Bytes of it that count as taken.
    counted: u32,
    /// Bytes that were taken and that the server does not know of.
    taken: u32,
    /// Bytes that the server may send.
    expected: i64,
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

impl Conversation {
    /// One that begins.
    pub(super) fn new(windows: Windows) -> Self {
        let mut this = Self {
            out: PREFACE.to_vec(),
            sender: None,
            streams: HashMap::new(),
            next_stream: 1,
            waiting: VecDeque::new(),
            stuck: VecDeque::new(),
            due: VecDeque::new(),
            alarm: None,
            open: 0,
            open_max: STREAMS_FIRST,
            room: WINDOW_FIRST,
            room_of_stream: WINDOW_FIRST,
            windows,
            taken: 0,
            expected: windows.connection.into(),
            partial: None,
            lately: Lately::default(),
            arrival: Arrival::default(),
            leaving: false,
            ended: false,
        };
        let mut settings = Vec::new();
        for (setting, value) in
            [(setting::TABLE_BYTES, 0), (setting::PUSH, 0), (setting::STREAM_BYTES, windows.stream)]
        {
            settings.extend_from_slice(&setting.to_be_bytes());
            settings.extend_from_slice(&value.to_be_bytes());
        }
        this.frame(kind::SETTINGS, 0, 0, &settings);
        this.allow(0, windows.connection.saturating_sub(WINDOW_FIRST as u32));
        this
    }

    /// The same, whose requests are dead when they are overdue: without proof that the server has all
    /// of an overdue request, the connection is at its end.
    pub(super) fn fenced(mut self) -> Self {
        self.arrival.needed = true;
        self
    }

    /// Whether requests are taken.
    pub(super) fn takes_requests(&self) -> bool {
        !self.ended && !self.leaving && self.next_stream < STREAM_LAST
    }

    /// Puts a request in; the number of its stream.
    pub(super) fn ask(&mut self, asking: Asking) -> Result<u32> {
        let Asking { head, body, brief, due } = asking;
        ensure!(self.takes_requests(), "the connection is at its end");
        ensure!(head.len() <= FRAME_MAX, "the head of a request has {} bytes", head.len());
        let id = self.next_stream;
        self.next_stream += 2;
        let expected = self.windows.stream.into();
        let stream = Stream { request: Some(head), body, brief, expected, ..Stream::default() };
        self.streams.insert(id, stream);
        self.waiting.push_back(id);
        self.send_requests();
        if let Some(due) = due {
            self.expect(due, id);
        }
        Ok(id)
    }

    /// Notes when an answer is due.
    fn expect(&mut self, due: Instant, id: u32) {
        while let Some((_, id)) = self.due.front()
            && !self.streams.contains_key(id)
        {
            self.due.pop_front();
        }
        // Nearly always it is the last one.
        let earlier = self.due.iter().rev().position(|(other, _)| *other <= due);
        let place = self.due.len() - earlier.unwrap_or(self.due.len());
        self.due.insert(place, (due, id));
        if self.alarm.is_none_or(|alarm| due < alarm) {
            self.wake_sender();
        }
    }

    /// When to look for what is overdue, if that is sooner than it was to be.
    pub(super) fn set_alarm(&mut self, now: Instant) -> Option<Instant> {
        let (mut at, _) = *self.due.front()?;
        if self.arrival.needed {
            at = at.min(now + ASK_EVERY);
        }
        if self.alarm.is_some_and(|alarm| alarm <= at) {
            return None;
        }
        self.alarm = Some(at);
        self.alarm
    }

    /// Whether it is time to look for what is overdue. There may be no alarm for what was asked since
    /// the last look, and this process may have been stopped meanwhile.
    fn is_time(&self, now: Instant) -> bool {
        self.alarm.is_some_and(|alarm| alarm <= now)
            || self.due.front().is_some_and(|(due, _)| *due <= now)
    }

    /// Gives up what is overdue and was not sent, if it is time to look.
    pub(super) fn withdraw(&mut self, now: Instant) {
        if !self.is_time(now) {
            return;
        }
        let overdue = self.due.iter().take_while(|(due, _)| *due <= now).map(|(_, id)| *id);
        let waits = |id: &u32| self.streams.get(id).is_some_and(|stream| stream.request.is_some());
        for id in overdue.filter(waits).collect::<Vec<_>>() {
            self.waiting.retain(|waiting| *waiting != id);
            self.fail(id, NO_ANSWER.to_owned());
        }
    }

    /// Gives up what is overdue, if it is time to look. [`Self::set_alarm`] says when that is again.
    /// After an error nothing may be sent any more, and what was sent must not be sent again.
    pub(super) fn give_up(&mut self, now: Instant) -> Result<()> {
        if !self.is_time(now) {
            return Ok(());
        }
        self.withdraw(now);
        self.alarm = None;
        while let Some((due, id)) = self.due.front().copied() {
            let open = self.streams.get(&id).filter(|stream| stream.is_open());
            if open.is_some() && due > now {
                break;
            }
            self.due.pop_front();
            let Some(stream) = open else { continue };
            ensure!(!self.arrival.is_missing(stream.end), "an overdue request may still arrive");
            self.frame(kind::RESET, 0, id, &CANCEL.to_be_bytes());
            self.fail(id, NO_ANSWER.to_owned());
        }
        if !self.due.is_empty()
            && let Some(position) = self.arrival.ask()
        {
            self.frame(kind::PING, 0, 0, &position);
        }
        Ok(())
    }

    /// The head of the answer.
    pub(super) fn poll_head(&mut self, id: u32, context: &Context<'_>) -> Poll<Result<Head>> {
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
            let counted = std::mem::take(&mut stream.counted);
            self.count(id, data.len() as u32 - counted);
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
    ) -> Poll<Result<(Head, Bytes)>> {
        let Some(stream) = self.streams.get_mut(&id) else { return Poll::Ready(Err(lost())) };
        if stream.data.len() > limit {
            return Poll::Ready(Err(anyhow!("the answer is larger than {limit} bytes")));
        }
        let length = stream.data.len() as u32;
        let news = length - std::mem::replace(&mut stream.counted, length);
        match &stream.state {
            State::Failed(why) => return Poll::Ready(Err(anyhow!("{why}"))),
            State::Ended => {
                stream.counted = 0;
                let head = stream.head.take();
                // To split off nothing is not for nothing.
                let data = if stream.data.is_empty() {
                    Bytes::new()
                } else {
                    stream.data.split().freeze()
                };
                self.count(id, news);
                let head = head.ok_or_else(|| anyhow!("an answer without a head"));
                return Poll::Ready(head.map(|head| (head, data)));
            }
            State::Open => stream.wait(context),
        }
        self.count(id, news);
        Poll::Pending
    }

    /// Bytes of a stream were taken.
    fn count(&mut self, id: u32, length: u32) {
        if length == 0 {
            return;
        }
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.taken += length;
            if stream.is_open() && stream.taken >= self.windows.stream / 2 {
                stream.expected += i64::from(stream.taken);
                let taken = std::mem::take(&mut stream.taken);
                self.allow(id, taken);
            }
        }
        self.take(length);
    }

    /// Nobody wants to know any more about a stream.
    pub(super) fn forget(&mut self, id: u32) {
        let Some(stream) = self.streams.remove(&id) else { return };
        self.take(stream.data.len() as u32 - stream.counted);
        if stream.request.is_some() {
            self.waiting.retain(|waiting| *waiting != id);
        } else if stream.is_open() {
            self.frame(kind::RESET, 0, id, &CANCEL.to_be_bytes());
            self.close(id);
        }
        if self.leaving {
            self.wake_sender();
        }
    }

    /// Asks the server whether it lives.
    pub(super) fn ping(&mut self) {
        self.frame(kind::PING, 0, 0, b"jindou\0\0");
    }

    /// Adds what is to be sent; whoever asks is woken when there is more. Whether all is said that
    /// will ever be.
    pub(super) fn poll_out(&mut self, context: &Context<'_>, out: &mut Vec<u8>) -> bool {
        self.sender = Some(context.waker().clone());
        if out.is_empty() {
            std::mem::swap(&mut self.out, out);
        } else {
            out.append(&mut self.out);
        }
        self.leaving && self.streams.is_empty()
    }

    /// Takes no more requests, and is at its end when all are answered.
    pub(super) fn leave(&mut self) {
        self.leaving = true;
        self.wake_sender();
    }

    /// Takes over what was heard: all frames that are complete, and tells how many bytes they have.
    /// Then there may be more to be sent. After an error the connection is at its end.
    pub(super) fn hear(&mut self, heard: &[u8]) -> Result<usize> {
        // The one who hears is the one who sends.
        self.sender = None;
        let mut rest = heard;
        while let Some((head, _)) = rest.split_first_chunk::<FRAME_HEAD>() {
            let [_, _, _, kind, flags, s0, s1, s2, s3] = *head;
            let Some((frame, after)) = rest.split_at_checked(frame_length(rest)?) else { break };
            let payload = &frame[FRAME_HEAD..];
            let stream = u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]);
            self.take_frame(kind, flags, stream, payload)?;
            rest = after;
        }
        ensure!(self.out.len() <= OUT_MAX, "the server asks more than it reads");
        Ok(heard.len() - rest.len())
    }

    /// There is no connection any more.
    pub(super) fn end(&mut self, why: &str) {
        self.ended = true;
        for stream in self.streams.values_mut().filter(|stream| stream.is_open()) {
            stream.state = State::Failed(why.to_owned());
            stream.wake();
        }
        self.waiting.clear();
        self.stuck.clear();
        self.open = 0;
    }

    fn take_frame(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) -> Result<()> {
        if let Some(partial) = &self.partial {
            let goes_on = kind == kind::CONTINUATION && id == partial.stream;
            ensure!(goes_on, "the head of an answer does not go on");
        }
        match kind {
            kind::DATA => self.take_data(flags, id, payload),
            kind::HEADERS => {
                let mut block = unpadded(flags, payload)?;
                if flags & flag::PRIORITY > 0 {
                    block = block.get(5..).context("a head is cut off")?;
                }
                let ends = flags & flag::END > 0;
                if flags & flag::HEAD_ENDS > 0 {
                    return self.take_head(id, ends, block);
                }
                self.partial = Some(Partial { stream: id, ends, block: block.to_vec() });
                Ok(())
            }
            kind::CONTINUATION => {
                let mut partial = self.partial.take().context("a head without a beginning")?;
                partial.block.extend_from_slice(payload);
                ensure!(partial.block.len() <= HEAD_MAX, "the head of an answer is too large");
                if flags & flag::HEAD_ENDS > 0 {
                    return self.take_head(id, partial.ends, &partial.block);
                }
                self.partial = Some(partial);
                Ok(())
            }
            kind::RESET => {
                let code = payload.first_chunk().context("a reset without a reason")?;
                let why =
                    format!("the server reset the stream (code {})", u32::from_be_bytes(*code));
                self.fail(id, why);
                Ok(())
            }
            kind::SETTINGS if flags & flag::ACKNOWLEDGED > 0 => Ok(()),
            kind::SETTINGS => self.take_settings(payload),
            kind::PUSH => bail!("the server sends what nobody asked for"),
            kind::PING => {
                let Ok(payload) = <[u8; 8]>::try_from(payload) else {
                    bail!("a ping of {} bytes", payload.len())
                };
                if flags & flag::ACKNOWLEDGED == 0 {
                    self.frame(kind::PING, flag::ACKNOWLEDGED, 0, &payload);
                } else {
                    self.arrival.acknowledged(payload);
                }
                Ok(())
            }
            kind::LEAVE => {
                let last = payload.first_chunk().context("the server leaves without a word")?;
                self.server_leaves(u32::from_be_bytes(*last) & !(1 << 31));
                Ok(())
            }
            kind::WINDOW => {
                let more = payload.first_chunk().context("no room is given")?;
                let more = i64::from(u32::from_be_bytes(*more) & !(1 << 31));
                if id == 0 {
                    self.room += more;
                } else if let Some(stream) = self.streams.get_mut(&id) {
                    stream.room += more;
                }
                self.send_bodies();
                Ok(())
            }
            // Others mean nothing to us.
            _ => Ok(()),
        }
    }

    fn take_data(&mut self, flags: u8, id: u32, payload: &[u8]) -> Result<()> {
        let length = payload.len() as u32;
        self.expected -= i64::from(length);
        ensure!(self.expected >= 0, "the server sends more than there is room for");
        let data = unpadded(flags, payload)?;
        // What is not kept is taken at once.
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.is_open()) else {
            self.take(length);
            return Ok(());
        };
        stream.expected -= i64::from(length);
        ensure!(stream.expected >= 0, "the server sends more than there is room for");
        let mut taken = length - data.len() as u32;
        if stream.unwanted {
            taken = length;
        } else {
            stream.data.extend_from_slice(data);
            stream.wake();
        }
        if flags & flag::END > 0 {
            self.finish(id);
        }
        self.count(id, taken);
        Ok(())
    }

    fn take_head(&mut self, id: u32, ends: bool, block: &[u8]) -> Result<()> {
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.is_open()) else {
            return Ok(());
        };
        // What comes after the body is not read, and neither is what comes before the answer.
        if !stream.has_head {
            let head = Head::read(block, stream.brief, &mut self.lately)?;
            if !head.status.is_informational() {
                self.arrival.answered(stream.end);
                stream.unwanted = stream.brief && head.status.is_success();
                stream.head = Some(head);
                stream.has_head = true;
            }
        }
        if !stream.unwanted {
            stream.wake();
        }
        if ends {
            self.finish(id);
        }
        Ok(())
    }

    fn take_settings(&mut self, payload: &[u8]) -> Result<()> {
        let (settings, rest) = payload.as_chunks::<6>();
        ensure!(rest.is_empty(), "a setting is cut off");
        for [n0, n1, v0, v1, v2, v3] in settings {
            let value = u32::from_be_bytes([*v0, *v1, *v2, *v3]);
            match u16::from_be_bytes([*n0, *n1]) {
                setting::STREAMS_MAX => self.open_max = value as usize,
                setting::STREAM_BYTES => {
                    let change = i64::from(value) - self.room_of_stream;
                    self.room_of_stream = value.into();
                    let sent = self.streams.values_mut().filter(|stream| stream.request.is_none());
                    sent.for_each(|stream| stream.room += change);
                }
                _ => {}
            }
        }
        self.frame(kind::SETTINGS, flag::ACKNOWLEDGED, 0, &[]);
        self.send_bodies();
        self.send_requests();
        Ok(())
    }

    /// The server takes nothing beyond a stream.
    fn server_leaves(&mut self, last: u32) {
        const WHY: &str = "the server closes the connection";
        self.leaving = true;
        for id in std::mem::take(&mut self.waiting) {
            self.fail(id, WHY.to_owned());
        }
        let beyond: Vec<u32> = self.streams.keys().copied().filter(|id| *id > last).collect();
        for id in beyond {
            self.fail(id, WHY.to_owned());
        }
    }

    /// The answer is here.
    fn finish(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.state = State::Ended;
        stream.wake();
        if !stream.body.is_empty() {
            // The server did not want all of the request.
            self.frame(kind::RESET, 0, id, &CANCEL.to_be_bytes());
        }
        self.close(id);
    }

    fn fail(&mut self, id: u32, why: String) {
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.is_open()) else {
            return;
        };
        stream.state = State::Failed(why);
        stream.wake();
        if stream.request.is_none() {
            self.close(id);
        }
    }

    /// A stream that was sent counts no more for the server.
    fn close(&mut self, id: u32) {
        self.open = self.open.saturating_sub(1);
        self.stuck.retain(|stuck| *stuck != id);
        self.send_requests();
    }

    /// Sends requests whose turn has come.
    fn send_requests(&mut self) {
        while self.open < self.open_max
            && let Some(id) = self.waiting.pop_front()
        {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            let Some(head) = stream.request.take() else { continue };
            stream.room = self.room_of_stream;
            let is_whole = stream.body.is_empty();
            self.open += 1;
            let flags = flag::HEAD_ENDS | if is_whole { flag::END } else { 0 };
            self.frame(kind::HEADERS, flags, id, &head);
            if is_whole {
                self.is_sent(id);
            } else {
                self.stuck.push_back(id);
                self.send_bodies();
            }
        }
    }

    /// Sends of bodies what the server has room for.
    fn send_bodies(&mut self) {
        for _ in 0..self.stuck.len() {
            let Some(id) = self.stuck.pop_front() else { return };
            while let Some(stream) = self.streams.get_mut(&id) {
                let room = stream.room.min(self.room).clamp(0, FRAME_MAX as i64) as usize;
                let length = room.min(stream.body.len());
                if length == 0 {
                    self.stuck.push_back(id);
                    break;
                }
                let part = stream.body.split_to(length);
                stream.room -= length as i64;
                self.room -= length as i64;
                let is_last = stream.body.is_empty();
                let flags = if is_last { flag::END } else { 0 };
                self.frame(kind::DATA, flags, id, &part);
                if is_last {
                    self.is_sent(id);
                    break;
                }
            }
        }
    }

    /// All frames of a request are made.
    fn is_sent(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.end = self.arrival.complete();
        }
    }

    /// Bytes of any stream were taken.
    fn take(&mut self, length: u32) {
        self.taken += length;
        if self.taken >= self.windows.connection / 2 {
            let taken = std::mem::take(&mut self.taken);
            self.expected += i64::from(taken);
            self.allow(0, taken);
        }
    }

    /// Allows the server to send so many more bytes.
    fn allow(&mut self, id: u32, bytes: u32) {
        if bytes > 0 {
            self.frame(kind::WINDOW, 0, id, &bytes.to_be_bytes());
        }
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let [_, l0, l1, l2] = (payload.len() as u32).to_be_bytes();
        let [s0, s1, s2, s3] = stream.to_be_bytes();
        self.out.extend_from_slice(&[l0, l1, l2, kind, flags, s0, s1, s2, s3]);
        self.out.extend_from_slice(payload);
        self.arrival.frame(FRAME_HEAD + payload.len());
        self.wake_sender();
    }

    fn wake_sender(&mut self) {
        if let Some(sender) = self.sender.take() {
            sender.wake();
        }
    }
}

/// Bytes of a frame by its beginning; those of its head as long as that is not complete.
pub(super) fn frame_length(begun: &[u8]) -> Result<usize> {
    let Some([l0, l1, l2, ..]) = begun.first_chunk::<FRAME_HEAD>() else { return Ok(FRAME_HEAD) };
    let length = u32::from_be_bytes([0, *l0, *l1, *l2]) as usize;
    ensure!(length <= FRAME_MAX, "a frame of {length} bytes");
    Ok(FRAME_HEAD + length)
}

fn lost() -> anyhow::Error {
    anyhow!("nothing is known of this stream")
}

/// A payload without what fills it up.
fn unpadded(flags: u8, payload: &[u8]) -> Result<&[u8]> {
    if flags & flag::PADDED == 0 {
        return Ok(payload);
    }
    let (filling, rest) = payload.split_first().context("a frame is cut off")?;
    let length = rest.len().checked_sub(usize::from(*filling)).context("a frame is cut off")?;
    Ok(&rest[..length])
}
