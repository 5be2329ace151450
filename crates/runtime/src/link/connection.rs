//! One HTTP/2 connection: carries bytes between a conversation and the server.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};

use super::conversation::{Conversation, Windows};
use super::head::Head;
use crate::connect::{CONNECTION_BYTES, PING_AFTER, PING_TIMEOUT, STREAM_BYTES};

#[cfg(test)]
mod tests;

/// Bytes that are read at once; a frame fits in.
pub(super) const BUFFER_BYTES: usize = 32 << 10;

/// Bytes that are read until those who wait for them have their turn, so that they do not pile up.
const READ_AT_ONCE: usize = 64 << 10;

/// A connection that runs by itself. It ends when nobody holds it and all its requests are answered.
pub(super) struct Connection(Arc<Mutex<Conversation>>);

impl Connection {
    /// Begins to talk.
    pub(super) fn start<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(server: T) -> Self {
        let windows = Windows { stream: STREAM_BYTES, connection: CONNECTION_BYTES };
        let conversation = Arc::new(Mutex::new(Conversation::new(windows)));
        tokio::spawn(run(server, Arc::clone(&conversation)));
        Self(conversation)
    }

    /// Whether requests are taken.
    pub(super) fn takes_requests(&self) -> bool {
        lock(&self.0).takes_requests()
    }

    /// Sends a request, which will be answered.
    pub(super) fn ask(&self, head: Vec<u8>, body: Bytes) -> Result<Answer> {
        let id = lock(&self.0).ask(head, body)?;
        Ok(Answer { conversation: Arc::clone(&self.0), id })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        lock(&self.0).leave();
    }
}

/// An answer. Who drops it before its end does not want the rest.
pub struct Answer {
    conversation: Arc<Mutex<Conversation>>,
    id: u32,
}

impl Answer {
    /// Waits for its head.
    pub(super) async fn head(self) -> Result<(Head, Self)> {
        let head = poll_fn(|context| lock(&self.conversation).poll_head(self.id, context)).await?;
        Ok((head, self))
    }

    /// What has come since the last time; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes>> {
        poll_fn(|context| lock(&self.conversation).poll_data(self.id, context)).await
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        lock(&self.conversation).forget(self.id);
    }
}

fn lock(conversation: &Mutex<Conversation>) -> MutexGuard<'_, Conversation> {
    conversation.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a connection until it ends or is dead; then its requests fail.
async fn run<T: AsyncRead + AsyncWrite + Unpin>(server: T, conversation: Arc<Mutex<Conversation>>) {
    let mut carrier = Carrier::new(server, Arc::clone(&conversation));
    let mut silence = pin!(sleep_until(carrier.heard + PING_AFTER));
    let mut is_asked = false;
    let why = loop {
        tokio::select! {
            biased;
            ended = poll_fn(|context| carrier.poll(context)) => match ended {
                Ok(()) => break "the connection was closed".to_owned(),
                Err(error) => break format!("the connection broke off: {error:#}"),
            },
            () = &mut silence => {
                let due = carrier.heard + PING_AFTER;
                if due > Instant::now() {
                    is_asked = false;
                    silence.as_mut().reset(due);
                } else if !is_asked {
                    is_asked = true;
                    lock(&conversation).ping();
                    silence.as_mut().reset(Instant::now() + PING_TIMEOUT);
                } else {
                    tracing::warn!("the API server went silent, connecting again");
                    break "the server went silent".to_owned();
                }
            }
        }
    };
    tracing::debug!("a connection to the API server ended: {why}");
    lock(&conversation).end(&why);
}

/// Carries bytes to and fro.
struct Carrier<T> {
    server: T,
    conversation: Arc<Mutex<Conversation>>,
    out: Vec<u8>,
    /// Bytes of it that are sent.
    sent: usize,
    /// Something was written that may not have left yet.
    unflushed: bool,
    buffer: Box<[u8]>,
    /// Bytes in the buffer: the beginning of a frame.
    filled: usize,
    /// When something was heard last.
    heard: Instant,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Carrier<T> {
    fn new(server: T, conversation: Arc<Mutex<Conversation>>) -> Self {
        let buffer = vec![0; BUFFER_BYTES].into();
        let (out, heard) = (Vec::new(), Instant::now());
        let (sent, filled, unflushed) = (0, 0, false);
        Self { server, conversation, out, sent, unflushed, buffer, filled, heard }
    }

    /// Goes on until there is nothing to be carried; ready when there will never be.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let mut read = 0;
        loop {
            let is_done = lock(&self.conversation).poll_out(context, &mut self.out);
            self.send(context)?;
            if is_done {
                return Poll::Ready(Ok(()));
            }
            if read > READ_AT_ONCE {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let mut space = ReadBuf::new(&mut self.buffer[self.filled..]);
            match Pin::new(&mut self.server).poll_read(context, &mut space)? {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) if space.filled().is_empty() => return Poll::Ready(Ok(())),
                Poll::Ready(()) => {
                    read += space.filled().len();
                    self.filled += space.filled().len();
                }
            }
            self.heard = Instant::now();
            let taken = lock(&self.conversation).hear(&self.buffer[..self.filled])?;
            self.buffer.copy_within(taken..self.filled, 0);
            self.filled -= taken;
        }
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
