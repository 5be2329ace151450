//! One HTTP/2 connection: carries bytes between a state and the server.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::time::{Instant, sleep_until};

use crate::connection_state::{ConnectionState, OutgoingStream, WindowSizes, frame_length};
use crate::header_block::ResponseHead;

#[cfg(test)]
mod tests;

/// Bytes that are read until those who wait for them have their turn, so that they do not pile up.
const READ_BYTES_PER_POLL_MAX: usize = 64 << 10;

/// Limits of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes that the server may send ahead on one stream.
    pub stream_window: u32,
    /// Bytes that the server may send ahead on all streams together.
    pub connection_window: u32,
    /// How long the server may be silent before it is sent a PING.
    pub ping_after: Duration,
    /// How long it may be silent after the PING.
    pub ping_timeout: Duration,
    /// How often a fenced connection probes for the delivery of requests.
    pub fence_probe_interval: Option<Duration>,
}

/// A connection that runs by itself. It ends when nobody holds it and all its requests are answered.
pub struct Connection(Arc<Mutex<ConnectionState>>);

impl Connection {
    /// Begins to talk. With a probe interval, the connection ends when a request is overdue of which it
    /// is not known whether it arrived. Then the server must be dropped in a way that nothing more
    /// arrives.
    pub fn start<T>(server: T, options: Options) -> Self
    where
        T: AsyncBufRead + AsyncWrite + Unpin + Send + 'static,
    {
        let windows =
            WindowSizes { stream: options.stream_window, connection: options.connection_window };
        let state = ConnectionState::new(windows);
        let state = match options.fence_probe_interval {
            Some(interval) => state.fenced(interval),
            None => state,
        };
        let state = Arc::new(Mutex::new(state));
        tokio::spawn(run(server, Arc::clone(&state), options));
        Self(state)
    }

    /// Whether requests are taken.
    pub fn accepts_streams(&self) -> bool {
        lock(&self.0).accepts_streams()
    }

    /// Sends a request, which will be answered.
    pub fn open_stream(&self, asking: OutgoingStream) -> Result<ResponseStream> {
        let id = lock(&self.0).open_stream(asking)?;
        Ok(ResponseStream { state: Arc::clone(&self.0), id })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        lock(&self.0).close();
    }
}

/// An answer. Who drops it before its end does not want the rest.
pub struct ResponseStream {
    state: Arc<Mutex<ConnectionState>>,
    id: u32,
}

impl ResponseStream {
    /// Waits for its head.
    pub async fn head(self) -> Result<(ResponseHead, Self)> {
        let head = poll_fn(|context| lock(&self.state).poll_head(self.id, context)).await?;
        Ok((head, self))
    }

    /// Waits for all of it, if it has at most so many bytes.
    pub async fn whole(self, limit: usize) -> Result<(ResponseHead, Bytes)> {
        poll_fn(|context| lock(&self.state).poll_whole(self.id, limit, context)).await
    }

    /// What has come since the last time; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        poll_fn(|context| lock(&self.state).poll_data(self.id, context)).await
    }
}

impl Drop for ResponseStream {
    fn drop(&mut self) {
        lock(&self.state).release(self.id);
    }
}

fn lock(state: &Mutex<ConnectionState>) -> MutexGuard<'_, ConnectionState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a connection until it ends or is dead; then its requests fail.
async fn run<T: AsyncBufRead + AsyncWrite + Unpin>(
    server: T,
    state: Arc<Mutex<ConnectionState>>,
    options: Options,
) {
    let mut task = ConnectionTask::new(server, Arc::clone(&state));
    let mut silence = pin!(sleep_until(task.heard + options.ping_after));
    let mut is_asked = false;
    let mut alarm = pin!(sleep_until(task.heard));
    let mut alarm_is_set = false;
    let why = loop {
        tokio::select! {
            biased;
            news = poll_fn(|context| task.poll(context)) => match news {
                Ok(TaskEvent::Deadline(at)) => {
                    alarm.as_mut().reset(at);
                    alarm_is_set = true;
                }
                Ok(TaskEvent::Closed) => break "the connection was closed".to_owned(),
                Err(error) => break format!("the connection broke off: {error:#}"),
            },
            () = &mut alarm, if alarm_is_set => {
                alarm_is_set = false;
            }
            () = &mut silence => {
                let due = task.heard + options.ping_after;
                if due > Instant::now() {
                    is_asked = false;
                    silence.as_mut().reset(due);
                } else if !is_asked {
                    is_asked = true;
                    lock(&state).ping();
                    silence.as_mut().reset(Instant::now() + options.ping_timeout);
                } else {
                    tracing::warn!("the API server went silent, connecting again");
                    break "the server went silent".to_owned();
                }
            }
        }
    };
    tracing::debug!("a connection to the API server ended: {why}");
    // Before its requests fail, so that nothing of them is sent after that.
    drop(task);
    lock(&state).end(&why);
}

/// Why carrying bytes was interrupted.
enum TaskEvent {
    /// Something is due then.
    Deadline(Instant),
    /// There is nothing to be carried any more.
    Closed,
}

/// Carries bytes to and fro.
struct ConnectionTask<T> {
    server: T,
    state: Arc<Mutex<ConnectionState>>,
    out: Vec<u8>,
    /// Bytes of it that are sent.
    sent: usize,
    /// Something was written that may not have left yet.
    unflushed: bool,
    /// The beginning of a frame.
    begun: Vec<u8>,
    /// When something was heard last.
    heard: Instant,
}

impl<T: AsyncBufRead + AsyncWrite + Unpin> ConnectionTask<T> {
    fn new(server: T, state: Arc<Mutex<ConnectionState>>) -> Self {
        let (out, begun, heard) = (Vec::new(), Vec::new(), Instant::now());
        Self { server, state, out, sent: 0, unflushed: false, begun, heard }
    }

    /// Goes on until there is nothing to be carried, or there is news.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<TaskEvent>> {
        // After a long sleep, what is overdue must not be sent any more, but answers that are here count.
        let now = Instant::now();
        lock(&self.state).cancel_unsent(now);
        // An answer may have the next request sent. All that has come is read first, so that these
        // requests leave together.
        let is_closed = self.read(context)?;
        let (is_done, alarm) = {
            let mut state = lock(&self.state);
            // What is left in `out` is dropped with the connection.
            state.expire_overdue(now)?;
            (state.poll_output(context, &mut self.out), state.next_check(now))
        };
        self.send(context)?;
        if is_done || is_closed {
            return Poll::Ready(Ok(TaskEvent::Closed));
        }
        alarm.map_or(Poll::Pending, |alarm| Poll::Ready(Ok(TaskEvent::Deadline(alarm))))
    }

    /// Reads what has come. Whether that was all.
    fn read(&mut self, context: &mut Context<'_>) -> Result<bool> {
        let mut read = 0;
        while read <= READ_BYTES_PER_POLL_MAX {
            let mut server = Pin::new(&mut self.server);
            let heard = match server.as_mut().poll_fill_buf(context)? {
                Poll::Pending => return Ok(false),
                Poll::Ready([]) => return Ok(true),
                Poll::Ready(heard) => heard,
            };
            let count = heard.len();
            receive(&mut lock(&self.state), &mut self.begun, heard)?;
            server.consume(count);
            read += count;
            self.heard = Instant::now();
        }
        context.waker().wake_by_ref();
        Ok(false)
    }

    /// Sends as much as the server takes.
    fn send(&mut self, context: &mut Context<'_>) -> Result<()> {
        let mut server = Pin::new(&mut self.server);
        while self.sent < self.out.len() {
            match server.as_mut().poll_write(context, &self.out[self.sent..])? {
                Poll::Pending => break,
                Poll::Ready(0) => bail!("the server takes nothing any more"),
                Poll::Ready(count) => self.sent += count,
            }
            self.unflushed = true;
        }
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
        if self.unflushed
            && server.poll_flush(context).map(|done| done.context("cannot send"))?.is_ready()
        {
            self.unflushed = false;
        }
        Ok(())
    }
}

/// Has a state receive what came after the beginning of a frame, of which only frames that came in
/// pieces are copied.
fn receive(state: &mut ConnectionState, begun: &mut Vec<u8>, mut heard: &[u8]) -> Result<()> {
    while !begun.is_empty() {
        let missing = frame_length(begun)?.saturating_sub(begun.len());
        let Some((more, rest)) = heard.split_at_checked(missing) else {
            begun.extend_from_slice(heard);
            return Ok(());
        };
        begun.extend_from_slice(more);
        heard = rest;
        if state.receive(begun)? > 0 {
            begun.clear();
        }
    }
    let taken = state.receive(heard)?;
    begun.extend_from_slice(&heard[taken..]);
    Ok(())
}
