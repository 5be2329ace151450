//! Coalescing of wake-ups: a thread that is woken often delays its next wait.
//!
//! Waking a thread costs more than most of the work it is woken for. A thread that is woken often
//! sleeps briefly before it waits for I/O again, so that it then finds several events at once; a
//! thread that is woken rarely never sleeps and answers at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;

use crate::wake_batch::WakeBatcher;

/// Returns how long after a wake-up the I/O thread waits for I/O again: a quarter of the mean bind
/// latency, from 2 to 100 ms.
///
/// Bind latency is high when many binds are in flight. During a quarter of it a quarter of them are
/// answered, so the API server still has enough requests to work on.
pub fn io_park_delay(bind_latency: Duration) -> Duration {
    (bind_latency / 4).clamp(Duration::from_millis(2), Duration::from_millis(100))
}

/// A thread is busy if it was woken this often within [`BUSY_PERIOD_DELAYS`] park delays. The period
/// is half as long again as the wake-ups need when each is followed by a delay, so that a thread
/// which is delayed each time stays busy.
const BUSY_WAKEUPS: usize = 8;
const BUSY_PERIOD_DELAYS: u32 = BUSY_WAKEUPS as u32 * 3 / 2;

/// Has the only thread of a runtime sleep for `delay` before it parks if it is busy. The batcher is
/// flushed first.
pub fn coalesce_wakeups(
    runtime: &mut Builder,
    delay: impl Fn() -> Duration + Send + Sync + 'static,
    batcher: Arc<WakeBatcher>,
) -> &mut Builder {
    let history = Arc::new(Mutex::new(WakeupHistory::default()));
    let woken = Arc::clone(&history);
    let lock = |history: &Mutex<WakeupHistory>,
                access: &dyn Fn(&mut WakeupHistory, Instant) -> Duration| {
        access(&mut history.lock().unwrap_or_else(PoisonError::into_inner), Instant::now())
    };
    runtime
        .on_thread_park(move || {
            batcher.flush();
            let delay = lock(&history, &|history, now| history.park_delay(now, delay()));
            if !delay.is_zero() {
                std::thread::sleep(delay);
            }
        })
        .on_thread_unpark(move || {
            lock(&woken, &|history, now| {
                history.record(now);
                Duration::ZERO
            });
        })
}

/// The times of a thread's latest wake-ups, as a ring buffer.
#[derive(Debug, Default)]
struct WakeupHistory {
    woken: [Option<Instant>; BUSY_WAKEUPS],
    /// Index of the earliest wake-up, which the next one overwrites.
    next: usize,
}

impl WakeupHistory {
    fn record(&mut self, now: Instant) {
        self.woken[self.next] = Some(now);
        self.next = (self.next + 1) % BUSY_WAKEUPS;
    }

    /// Returns how long to sleep before parking: for a busy thread what is left of `delay` since its
    /// latest wake-up, otherwise zero.
    fn park_delay(&self, now: Instant, delay: Duration) -> Duration {
        let latest = self.woken[(self.next + BUSY_WAKEUPS - 1) % BUSY_WAKEUPS];
        match (self.woken[self.next], latest) {
            (Some(earliest), Some(latest))
                if now.duration_since(earliest) < delay * BUSY_PERIOD_DELAYS =>
            {
                delay.saturating_sub(now.duration_since(latest))
            }
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(4);

    /// Returns the delays of a thread that is woken after each `wait` in the parked state.
    fn delays(wait: Duration) -> Vec<Duration> {
        let (mut history, mut now) = (WakeupHistory::default(), Instant::now());
        let delay = |_| {
            history.record(now);
            let delay = history.park_delay(now, DELAY);
            now += delay + wait;
            delay
        };
        (0..40).map(delay).collect()
    }

    #[test]
    fn a_thread_that_is_woken_rarely_is_never_delayed() {
        assert!(delays(DELAY * 2).iter().all(Duration::is_zero));
    }

    #[test]
    fn a_busy_thread_is_delayed_for_as_long_as_it_stays_busy() {
        let delays = delays(Duration::from_micros(100));
        assert!(delays[..BUSY_WAKEUPS - 1].iter().all(Duration::is_zero), "{delays:?}");
        assert!(delays[BUSY_WAKEUPS..].iter().all(|delay| *delay == DELAY), "{delays:?}");
    }

    #[test]
    fn slow_binds_allow_long_delays() {
        let ms = Duration::from_millis;
        let latencies = [5, 40, 100, 200, 5000].map(ms);
        assert_eq!(latencies.map(io_park_delay), [2, 10, 25, 50, 100].map(ms));
    }

    #[test]
    fn time_spent_on_work_counts_as_delay() {
        let mut history = WakeupHistory::default();
        let now = Instant::now();
        (0..BUSY_WAKEUPS).for_each(|_| history.record(now));
        assert_eq!(history.park_delay(now + DELAY / 4, DELAY), DELAY * 3 / 4);
        assert_eq!(history.park_delay(now + DELAY * 2, DELAY), Duration::ZERO);
    }
}
