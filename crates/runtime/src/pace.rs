//! Taking many small things together.
//!
//! To wake a thread costs more than most of what it is woken for. One that is woken often rests a
//! little before it waits again, so that it then finds several things to do; one that is woken rarely
//! never rests, and answers at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;

use crate::gong::Gong;

/// How long after it was woken the thread waits again that talks to the API server. When binds take
/// long, because so many are under way, a part of that time makes no difference: a quarter of those
/// under way are answered in it, and the server has still enough to do.
pub fn rest_of_io(bind_takes: Duration) -> Duration {
    (bind_takes / 4).clamp(Duration::from_millis(2), Duration::from_millis(100))
}

/// So many times woken within so many rests is often; a thread that rests each time still is.
const OFTEN: usize = 8;
const OFTEN_WITHIN: u32 = OFTEN as u32 * 3 / 2;

/// Has the only thread of a runtime rest, so long as `rest` says then, when it is woken often. The gong
/// is rung before.
pub fn paced(
    runtime: &mut Builder,
    rest: impl Fn() -> Duration + Send + Sync + 'static,
    gong: Arc<Gong>,
) -> &mut Builder {
    let pace = Arc::new(Mutex::new(Pace::default()));
    let woken = Arc::clone(&pace);
    let lock = |pace: &Mutex<Pace>, look: &dyn Fn(&mut Pace, Instant) -> Duration| {
        look(&mut pace.lock().unwrap_or_else(PoisonError::into_inner), Instant::now())
    };
    runtime
        .on_thread_park(move || {
            gong.ring();
            let rest = lock(&pace, &|pace, now| pace.rest(now, rest()));
            if !rest.is_zero() {
                std::thread::sleep(rest);
            }
        })
        .on_thread_unpark(move || {
            lock(&woken, &|pace, now| {
                pace.wake(now);
                Duration::ZERO
            });
        })
}

/// When a thread was woken last.
#[derive(Debug, Default)]
struct Pace {
    woken: [Option<Instant>; OFTEN],
    /// The place of the earliest, which the next one takes.
    next: usize,
}

impl Pace {
    fn wake(&mut self, now: Instant) {
        self.woken[self.next] = Some(now);
        self.next = (self.next + 1) % OFTEN;
    }

    /// How long to rest before waiting again; `rest` if woken often.
    fn rest(&self, now: Instant, rest: Duration) -> Duration {
        let latest = self.woken[(self.next + OFTEN - 1) % OFTEN];
        match (self.woken[self.next], latest) {
            (Some(earliest), Some(latest))
                if now.duration_since(earliest) < rest * OFTEN_WITHIN =>
            {
                rest.saturating_sub(now.duration_since(latest))
            }
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Duration = Duration::from_millis(4);

    /// How long each rest is when a thread is woken again and again after waiting so long.
    fn rests(wait: Duration) -> Vec<Duration> {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        let rest = |_| {
            pace.wake(now);
            let rest = pace.rest(now, REST);
            now += rest + wait;
            rest
        };
        (0..40).map(rest).collect()
    }

    #[test]
    fn who_is_woken_rarely_never_rests() {
        assert!(rests(REST * 2).iter().all(Duration::is_zero));
    }

    #[test]
    fn who_is_woken_often_rests_for_as_long_as_that_goes_on() {
        let rests = rests(Duration::from_micros(100));
        assert!(rests[..OFTEN - 1].iter().all(Duration::is_zero), "{rests:?}");
        assert!(rests[OFTEN..].iter().all(|rest| *rest == REST), "{rests:?}");
    }

    #[test]
    fn binds_that_take_long_allow_long_rests() {
        let ms = Duration::from_millis;
        let takes = [5, 40, 100, 200, 5000].map(ms);
        assert_eq!(takes.map(rest_of_io), [2, 10, 25, 50, 100].map(ms));
    }

    #[test]
    fn work_counts_as_rest() {
        let mut pace = Pace::default();
        let now = Instant::now();
        (0..OFTEN).for_each(|_| pace.wake(now));
        assert_eq!(pace.rest(now + REST / 4, REST), REST * 3 / 4);
        assert_eq!(pace.rest(now + REST * 2, REST), Duration::ZERO);
    }
}
