//! Batching of wake-ups between threads: one wake per turn of the waking thread.
//!
//! In one turn of its event loop the I/O thread reads many responses of the API server. Waking the
//! engine's thread on the first of them would let it handle one input, park, and be woken again for
//! the next. Wakes issued by the I/O thread are therefore deferred until its turn ends.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::ThreadId;

use futures::task::AtomicWaker;

/// Defers the wakes that one thread issues until that thread flushes them at the end of its turn.
#[derive(Debug, Default)]
pub struct WakeBatcher {
    /// Thread whose wakes are deferred; while it is unset, no wake is deferred.
    deferring_thread: OnceLock<ThreadId>,
    /// A wake was deferred since the last flush.
    pending: AtomicBool,
    waker: AtomicWaker,
}

impl WakeBatcher {
    /// Defers the wakes of the calling thread from now on. It must call [`Self::flush`] at the end of
    /// each turn and before it exits, or a wake is lost.
    pub fn defer_wakes_of_this_thread(&self) {
        let _ = self.deferring_thread.set(std::thread::current().id());
    }

    /// Issues the deferred wake, if there is one.
    pub fn flush(&self) {
        if self.pending.swap(false, Ordering::AcqRel) {
            self.waker.wake();
        }
    }

    /// Runs a future whose wakes from the deferring thread are batched; wakes from any other thread
    /// take effect at once.
    pub async fn run<F: Future>(self: &Arc<Self>, future: F) -> F::Output {
        let waker = Waker::from(Arc::clone(self));
        let mut future = pin!(future);
        std::future::poll_fn(|context| self.poll(future.as_mut(), context, &waker)).await
    }

    fn poll<F: Future>(
        &self,
        future: Pin<&mut F>,
        context: &Context<'_>,
        waker: &Waker,
    ) -> Poll<F::Output> {
        // Registered before the poll: a wake in between would otherwise be lost.
        self.waker.register(context.waker());
        future.poll(&mut Context::from_waker(waker))
    }
}

impl Wake for WakeBatcher {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.deferring_thread.get() == Some(&std::thread::current().id()) {
            self.pending.store(true, Ordering::Release);
        } else {
            self.waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::*;

    /// Runs `worker` on a thread of its own with a sender of numbers. Returns the batches in which the
    /// woken thread received them.
    fn batches_received(
        worker: impl FnOnce(&WakeBatcher, &mpsc::Sender<u32>) + Send + 'static,
    ) -> Vec<Vec<u32>> {
        let batcher = Arc::new(WakeBatcher::default());
        let (sender, mut numbers) = mpsc::channel(16);
        let (report, reported) = channel();
        let running = Arc::clone(&batcher);
        let receiver = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(running.run(async {
                let mut batch = Vec::new();
                report.send(Vec::new()).unwrap();
                while numbers.recv_many(&mut batch, 16).await > 0 {
                    report.send(std::mem::take(&mut batch)).unwrap();
                }
            }));
        });
        // The receiving thread is parked or about to park.
        assert!(reported.recv().unwrap().is_empty());
        std::thread::spawn(move || {
            worker(&batcher, &sender);
            drop(sender);
            batcher.flush();
        })
        .join()
        .unwrap();
        let mut all = Vec::new();
        loop {
            match reported.recv_timeout(Duration::from_secs(30)) {
                Ok(batch) => all.push(batch),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("the thread was never woken, after {all:?}")
                }
            }
        }
        receiver.join().unwrap();
        all
    }

    #[test]
    fn no_wake_is_lost_whatever_the_length_of_a_turn() {
        for turn_length in 1..6 {
            let all = batches_received(move |batcher, sender| {
                batcher.defer_wakes_of_this_thread();
                for number in 0..12 {
                    sender.blocking_send(number).unwrap();
                    if number % turn_length == 0 {
                        batcher.flush();
                    }
                }
            });
            assert_eq!(all.concat(), (0..12).collect::<Vec<_>>());
        }
    }

    #[test]
    fn all_wakes_of_one_turn_wake_the_thread_once() {
        let batcher = Arc::new(WakeBatcher::default());
        batcher.defer_wakes_of_this_thread();
        let (waker, woken) = recording_waker();
        let mut future = pin!(batcher.run(std::future::pending::<()>()));
        let mut poll = || future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending();
        let inner = Waker::from(Arc::clone(&batcher));
        assert!(poll());
        inner.wake_by_ref();
        inner.wake_by_ref();
        assert!(!woken.load(Ordering::Relaxed));
        batcher.flush();
        assert!(woken.swap(false, Ordering::Relaxed));
        assert!(poll());
        batcher.flush();
        assert!(!woken.load(Ordering::Relaxed), "no wake was deferred");
        std::thread::spawn(|| inner.wake()).join().unwrap();
        assert!(woken.load(Ordering::Relaxed), "wakes of other threads take effect at once");
    }

    fn recording_waker() -> (Waker, Arc<AtomicBool>) {
        struct RecordingWaker(Arc<AtomicBool>);
        impl Wake for RecordingWaker {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let woken = Arc::<AtomicBool>::default();
        (Waker::from(Arc::new(RecordingWaker(Arc::clone(&woken)))), woken)
    }
}
