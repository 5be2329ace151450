//! The task that moves bytes between a [`ConnectionState`] and its transport.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::connection::lock;
use crate::connection_state::ConnectionState;
use crate::frame::frame_length;
use crate::{ConnectionOptions, Error};

#[cfg(test)]
mod tests;

/// Bytes after which a poll stops reading, so that the readers of responses run in between.
const READ_BYTES_PER_POLL_MAX: usize = 64 << 10;

/// Runs a connection to its end and fails the streams that are still open then.
pub(crate) async fn run<T: AsyncBufRead + AsyncWrite + Unpin>(
    transport: T,
    state: Arc<Mutex<ConnectionState>>,
    options: ConnectionOptions,
) {
    let mut driver = Driver::new(transport, Arc::clone(&state), &options);
    let error = drive(&mut driver, options).await;
    tracing::debug!("a connection ended: {error}");
    // The transport is dropped before the requests fail, so that no byte of theirs is sent later.
    drop(driver);
    lock(&state).end(&error);
}

/// Moves bytes, sends PINGs and checks deadlines. Returns why the connection ended.
async fn drive<T: AsyncBufRead + AsyncWrite + Unpin>(
    driver: &mut Driver<T>,
    options: ConnectionOptions,
) -> Error {
    let mut ping_timer = pin!(sleep_until(driver.last_read + options.ping_interval));
    let mut is_pinged = false;
    let mut check_timer = pin!(sleep_until(driver.last_read));
    let mut check_is_set = false;
    loop {
        tokio::select! {
            biased;
            event = poll_fn(|context| driver.poll(context)) => match event {
                Ok(DriverEvent::CheckAt(at)) => {
                    check_timer.as_mut().reset(at);
                    check_is_set = true;
                }
                Ok(DriverEvent::Closed) => return Error::Closed,
                Err(error) => return Error::ConnectionFailed(Box::new(error)),
            },
            // The next poll of the driver checks deadlines.
            () = &mut check_timer, if check_is_set => check_is_set = false,
            () = &mut ping_timer => {
                let ping_at = driver.last_read + options.ping_interval;
                if ping_at > Instant::now() {
                    is_pinged = false;
                    ping_timer.as_mut().reset(ping_at);
                } else if !is_pinged {
                    is_pinged = true;
                    lock(&driver.state).ping();
                    ping_timer.as_mut().reset(Instant::now() + options.ping_timeout);
                } else {
                    tracing::warn!(
                        "the server sent nothing for {:?} and did not acknowledge a PING; closing the connection",
                        options.ping_interval + options.ping_timeout
                    );
                    return Error::PingTimeout;
                }
            }
        }
    }
}

/// Why [`Driver::poll`] returns.
enum DriverEvent {
    /// Deadlines must be checked at this time.
    CheckAt(Instant),
    /// The server closed the connection, or it is no longer needed.
    Closed,
}

/// Moves bytes in both directions.
struct Driver<T> {
    transport: T,
    state: Arc<Mutex<ConnectionState>>,
    output: Vec<u8>,
    /// Bytes of `output` that are written.
    written: usize,
    /// The transport was written to and not flushed since.
    unflushed: bool,
    /// A frame of which only the first bytes have arrived.
    partial_frame: Vec<u8>,
    last_read: Instant,
    busy_read_delay_max: Duration,
    /// Ends the current delay of reads on a busy connection.
    read_timer: Pin<Box<Sleep>>,
    is_read_delayed: bool,
    /// When a busy connection was read, and how many of its responses had ended by then.
    busy_read: (Instant, u64),
}

impl<T: AsyncBufRead + AsyncWrite + Unpin> Driver<T> {
    fn new(transport: T, state: Arc<Mutex<ConnectionState>>, options: &ConnectionOptions) -> Self {
        let now = Instant::now();
        Self {
            transport,
            state,
            output: Vec::new(),
            written: 0,
            unflushed: false,
            partial_frame: Vec::new(),
            last_read: now,
            busy_read_delay_max: options.busy_read_delay_max,
            read_timer: Box::pin(sleep_until(now)),
            is_read_delayed: false,
            busy_read: (now, 0),
        }
    }

    /// Reads and writes as much as the transport allows.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<DriverEvent, Error>> {
        // After a pause of the process, requests past their deadline must not be sent, but responses
        // that have arrived count.
        let now = Instant::now();
        {
            let mut state = lock(&self.state);
            state.cancel_unsent(now);
            self.is_read_delayed &= !state.is_check_due(now);
        }
        // A response can start queued requests. Everything is read first, so that these leave together.
        let is_closed = self.read(context)?;
        let (is_done, check_at) = {
            let mut state = lock(&self.state);
            // After an error, the bytes in `output` are dropped with the connection.
            state.expire_overdue(now)?;
            (state.poll_output(context, &mut self.output), state.next_check(now))
        };
        self.write(context)?;
        if is_done || is_closed {
            return Poll::Ready(Ok(DriverEvent::Closed));
        }
        check_at.map_or(Poll::Pending, |at| Poll::Ready(Ok(DriverEvent::CheckAt(at))))
    }

    /// Reads what has arrived, unless reads are delayed. Returns `true` at the end of the transport.
    fn read(&mut self, context: &mut Context<'_>) -> Result<bool, Error> {
        if self.is_read_delayed && self.read_timer.as_mut().poll(context).is_pending() {
            return Ok(false);
        }
        self.is_read_delayed = false;
        let mut read = 0;
        while read <= READ_BYTES_PER_POLL_MAX {
            let mut transport = Pin::new(&mut self.transport);
            let bytes = match transport.as_mut().poll_fill_buf(context)? {
                Poll::Pending => {
                    if read > 0 {
                        self.delay_next_read(context);
                    }
                    return Ok(false);
                }
                Poll::Ready([]) => return Ok(true),
                Poll::Ready(bytes) => bytes,
            };
            let count = bytes.len();
            receive(&mut lock(&self.state), &mut self.partial_frame, bytes)?;
            transport.consume(count);
            read += count;
            self.last_read = Instant::now();
        }
        context.waker().wake_by_ref();
        Ok(false)
    }

    /// Delays the next read if the connection is busy.
    fn delay_next_read(&mut self, context: &mut Context<'_>) {
        let (open, ended) = {
            let state = lock(&self.state);
            (state.open_streams(), state.ended_streams())
        };
        let (before, ended_before) =
            std::mem::replace(&mut self.busy_read, (self.last_read, ended));
        if open < ConnectionOptions::BUSY_STREAMS {
            return;
        }
        let responses = (ended - ended_before).max(1);
        let per_response = self.last_read.duration_since(before).div_f64(responses as f64);
        let delay = per_response.mul_f64(open as f64 / 4.0).min(self.busy_read_delay_max);
        self.read_timer.as_mut().reset(self.last_read + delay);
        self.is_read_delayed = self.read_timer.as_mut().poll(context).is_pending();
    }

    /// Writes as much as the transport accepts, and flushes it.
    fn write(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        let mut transport = Pin::new(&mut self.transport);
        while self.written < self.output.len() {
            match transport.as_mut().poll_write(context, &self.output[self.written..])? {
                Poll::Pending => break,
                Poll::Ready(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Poll::Ready(count) => self.written += count,
            }
            self.unflushed = true;
        }
        if self.written == self.output.len() {
            self.output.clear();
            self.written = 0;
        }
        if self.unflushed && transport.poll_flush(context)?.is_ready() {
            self.unflushed = false;
        }
        Ok(())
    }
}

/// Passes received bytes to the state. Only frames that arrive in pieces are copied, into
/// `partial_frame`.
fn receive(
    state: &mut ConnectionState,
    partial_frame: &mut Vec<u8>,
    mut bytes: &[u8],
) -> Result<(), Error> {
    while !partial_frame.is_empty() {
        let missing = frame_length(partial_frame)?.saturating_sub(partial_frame.len());
        let Some((more, rest)) = bytes.split_at_checked(missing) else {
            partial_frame.extend_from_slice(bytes);
            return Ok(());
        };
        partial_frame.extend_from_slice(more);
        bytes = rest;
        if state.receive(partial_frame)? > 0 {
            partial_frame.clear();
        }
    }
    let received = state.receive(bytes)?;
    partial_frame.extend_from_slice(&bytes[received..]);
    Ok(())
}
