//! Waking a thread once for all that another one had for it in one turn.
//!
//! The thread that talks to the API server reads many answers in a turn, and the engine would be woken
//! by the first of them: it would find one thing to do, and the others too late. So wakes that come
//! from that thread wait until it has nothing more to do.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::ThreadId;

use futures::task::AtomicWaker;

/// Struck by the thread that works, rung at the end of its turn.
#[derive(Debug, Default)]
pub struct Gong {
    /// Whose wakes wait; before it is known, none do.
    worker: OnceLock<ThreadId>,
    struck: AtomicBool,
    sleeper: AtomicWaker,
}

impl Gong {
    /// This thread is the one that works. It must ring at the end of each turn, and when it ends.
    pub fn strike_here(&self) {
        let _ = self.worker.set(std::thread::current().id());
    }

    /// The turn ends.
    pub fn ring(&self) {
        if self.struck.swap(false, Ordering::AcqRel) {
            self.sleeper.wake();
        }
    }

    /// Runs something that sleeps until the gong is rung, or until somebody else wakes it.
    pub async fn wakes<F: Future>(self: &Arc<Self>, sleeper: F) -> F::Output {
        let waker = Waker::from(Arc::clone(self));
        let mut sleeper = pin!(sleeper);
        std::future::poll_fn(|context| self.poll(sleeper.as_mut(), context, &waker)).await
    }

    fn poll<F: Future>(
        &self,
        sleeper: Pin<&mut F>,
        context: &Context<'_>,
        waker: &Waker,
    ) -> Poll<F::Output> {
        // First, or a wake could come in between and be lost.
        self.sleeper.register(context.waker());
        sleeper.poll(&mut Context::from_waker(waker))
    }
}

impl Wake for Gong {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.worker.get() == Some(&std::thread::current().id()) {
            self.struck.store(true, Ordering::Release);
        } else {
            self.sleeper.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::*;

    /// Runs `worker` on a thread with a sender of numbers; how the sleeper heard them, as they came
    /// together.
    fn heard(worker: impl FnOnce(&Gong, &mpsc::Sender<u32>) + Send + 'static) -> Vec<Vec<u32>> {
        let gong = Arc::new(Gong::default());
        let (sender, mut numbers) = mpsc::channel(16);
        let (told, heard) = channel();
        let sleeping = Arc::clone(&gong);
        let sleeper = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(sleeping.wakes(async {
                let mut together = Vec::new();
                told.send(Vec::new()).unwrap();
                while numbers.recv_many(&mut together, 16).await > 0 {
                    told.send(std::mem::take(&mut together)).unwrap();
                }
            }));
        });
        // It is about to sleep, or does so already.
        assert!(heard.recv().unwrap().is_empty());
        std::thread::spawn(move || {
            worker(&gong, &sender);
            drop(sender);
            gong.ring();
        })
        .join()
        .unwrap();
        let mut all = Vec::new();
        loop {
            match heard.recv_timeout(Duration::from_secs(30)) {
                Ok(together) => all.push(together),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it sleeps for ever, after {all:?}"),
            }
        }
        sleeper.join().unwrap();
        all
    }

    #[test]
    fn nothing_is_lost_however_turns_fall() {
        for turns in 1..6 {
            let all = heard(move |gong, sender| {
                gong.strike_here();
                for number in 0..12 {
                    sender.blocking_send(number).unwrap();
                    if number % turns == 0 {
                        gong.ring();
                    }
                }
            });
            assert_eq!(all.concat(), (0..12).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_comes_in_one_turn_wakes_once() {
        let gong = Arc::new(Gong::default());
        gong.strike_here();
        let (waker, woken) = noted();
        let mut sleeper = pin!(gong.wakes(std::future::pending::<()>()));
        let mut sleep = || sleeper.as_mut().poll(&mut Context::from_waker(&waker)).is_pending();
        let inner = Waker::from(Arc::clone(&gong));
        assert!(sleep());
        inner.wake_by_ref();
        inner.wake_by_ref();
        assert!(!woken.load(Ordering::Relaxed));
        gong.ring();
        assert!(woken.swap(false, Ordering::Relaxed));
        assert!(sleep());
        gong.ring();
        assert!(!woken.load(Ordering::Relaxed), "nothing came");
        std::thread::spawn(|| inner.wake()).join().unwrap();
        assert!(woken.load(Ordering::Relaxed), "others wake at once");
    }

    fn noted() -> (Waker, Arc<AtomicBool>) {
        struct Noted(Arc<AtomicBool>);
        impl Wake for Noted {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let woken = Arc::<AtomicBool>::default();
        (Waker::from(Arc::new(Noted(Arc::clone(&woken)))), woken)
    }
}
