//! One HTTP/2 connection: carries bytes between a conversation and the server.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::time::{Instant, sleep_until};

use super::conversation::{Asking, Conversation, Windows, frame_length};
use super::head::Head;
use crate::connect::{CONNECTION_BYTES, PING_AFTER, PING_TIMEOUT, STREAM_BYTES};

#[cfg(test)]
mod tests;

/// Bytes that are read at once.
pub(super) const BUFFER_BYTES: usize = 32 << 10;

/// Bytes that are read until those who wait for them have their turn, so that they do not pile up.
const READ_AT_ONCE: usize = 64 << 10;

const WINDOWS: Windows = Windows { stream: STREAM_BYTES, connection: CONNECTION_BYTES };

/// A connection that runs by itself. It ends when nobody holds it and all its requests are answered.
pub(super) struct Connection(Arc<Mutex<Conversation>>);

impl Connection {
    /// Begins to talk.
    pub(super) fn start<T: AsyncBufRead + AsyncWrite + Unpin + Send + 'static>(server: T) -> Self {
        Self::run(server, Conversation::new(WINDOWS))
    }

    /// Begins to talk; the connection ends when a request is overdue of which it is not known whether
    /// it arrived. Then the server must be dropped in a way that nothing more arrives.
    pub(super) fn start_fenced<T>(server: T) -> Self
    where
        T: AsyncBufRead + AsyncWrite + Unpin + Send + 'static,
    {
        Self::run(server, Conversation::new(WINDOWS).fenced())
    }

    fn run<T>(server: T, conversation: Conversation) -> Self
    where
        T: AsyncBufRead + AsyncWrite + Unpin + Send + 'static,
    {
        let conversation = Arc::new(Mutex::new(conversation));
        tokio::spawn(run(server, Arc::clone(&conversation)));
        Self(conversation)
    }

    /// Whether requests are taken.
    pub(super) fn takes_requests(&self) -> bool {
        lock(&self.0).takes_requests()
    }

    /// Sends a request, which will be answered.
    pub(super) fn ask(&self, asking: Asking) -> Result<Answer> {
        let id = lock(&self.0).ask(asking)?;
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

    /// Waits for all of it, if it has at most so many bytes.
    pub(super) async fn whole(self, limit: usize) -> Result<(Head, Bytes)> {
        poll_fn(|context| lock(&self.conversation).poll_whole(self.id, limit, context)).await
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
async fn run<T: AsyncBufRead + AsyncWrite + Unpin>(
    server: T,
    conversation: Arc<Mutex<Conversation>>,
) {
    let mut carrier = Carrier::new(server, Arc::clone(&conversation));
    let mut silence = pin!(sleep_until(carrier.heard + PING_AFTER));
    let mut is_asked = false;
    let mut alarm = pin!(sleep_until(carrier.heard));
    let mut alarm_is_set = false;
    let why = loop {
        tokio::select! {
            biased;
            news = poll_fn(|context| carrier.poll(context)) => match news {
                Ok(News::Alarm(at)) => {
                    alarm.as_mut().reset(at);
                    alarm_is_set = true;
                }
                Ok(News::Closed) => break "the connection was closed".to_owned(),
                Err(error) => break format!("the connection broke off: {error:#}"),
            },
            () = &mut alarm, if alarm_is_set => {
                alarm_is_set = false;
            }
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
    // Before its requests fail, so that nothing of them is sent after that.
    drop(carrier);
    lock(&conversation).end(&why);
}

/// Why carrying bytes was interrupted.
enum News {
    /// Something is due then.
    Alarm(Instant),
    /// There is nothing to be carried any more.
    Closed,
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
    /// The beginning of a frame.
    begun: Vec<u8>,
    /// When something was heard last.
    heard: Instant,
}

impl<T: AsyncBufRead + AsyncWrite + Unpin> Carrier<T> {
    fn new(server: T, conversation: Arc<Mutex<Conversation>>) -> Self {
        let (out, begun, heard) = (Vec::new(), Vec::new(), Instant::now());
        Self { server, conversation, out, sent: 0, unflushed: false, begun, heard }
    }

    /// Goes on until there is nothing to be carried, or there is news.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<News>> {
        // After a long sleep, what is overdue must not be sent any more, but answers that are here count.
        let now = Instant::now();
        lock(&self.conversation).withdraw(now);
        // An answer may have the next request sent. All that has come is read first, so that these
        // requests leave together.
        let is_closed = self.read(context)?;
        let (is_done, alarm) = {
            let mut conversation = lock(&self.conversation);
            // What is left in `out` is dropped with the connection.
            conversation.give_up(now)?;
            (conversation.poll_out(context, &mut self.out), conversation.set_alarm(now))
        };
        self.send(context)?;
        if is_done || is_closed {
            return Poll::Ready(Ok(News::Closed));
        }
        alarm.map_or(Poll::Pending, |alarm| Poll::Ready(Ok(News::Alarm(alarm))))
    }

    /// Reads what has come. Whether that was all.
    fn read(&mut self, context: &mut Context<'_>) -> Result<bool> {
        let mut read = 0;
        while read <= READ_AT_ONCE {
            let mut server = Pin::new(&mut self.server);
            let heard = match server.as_mut().poll_fill_buf(context)? {
                Poll::Pending => return Ok(false),
                Poll::Ready([]) => return Ok(true),
                Poll::Ready(heard) => heard,
            };
            let count = heard.len();
            hear(&mut lock(&self.conversation), &mut self.begun, heard)?;
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

/// Has a conversation hear what came after the beginning of a frame, of which only frames that came in
/// pieces are copied.
fn hear(conversation: &mut Conversation, begun: &mut Vec<u8>, mut heard: &[u8]) -> Result<()> {
    while !begun.is_empty() {
        let missing = frame_length(begun)?.saturating_sub(begun.len());
        let Some((more, rest)) = heard.split_at_checked(missing) else {
            begun.extend_from_slice(heard);
            return Ok(());
        };
        begun.extend_from_slice(more);
        heard = rest;
        if conversation.hear(begun)? > 0 {
            begun.clear();
        }
    }
    let taken = conversation.hear(heard)?;
    begun.extend_from_slice(&heard[taken..]);
    Ok(())
}
