//! When a request may go out: not faster than the configuration allows, and a write only as long as
//! this process leads.

mod writes_in_flight;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::lease::Fence;

pub use writes_in_flight::InFlightWrite;
use writes_in_flight::WritesInFlight;

/// ReceivedRequest before each request. Clones share the state.
#[derive(Clone, Debug)]
pub struct Gate {
    fence: Fence,
    throttle: Throttle,
    in_flight: Arc<WritesInFlight>,
}

/// Writes may not be sent any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateClosed;

impl std::fmt::Display for GateClosed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the lease is not held any more")
    }
}

impl std::error::Error for GateClosed {}

impl Gate {
    /// Lets writes pass as long as the fence is open, and nothing faster than the throttle allows.
    pub fn new(fence: Fence, throttle: Throttle) -> Self {
        Self { fence, throttle, in_flight: Arc::default() }
    }

    /// Waits until something may be read.
    pub async fn read(&self) {
        self.throttle.wait().await;
    }

    /// Waits until something may be written. It must be sent at once, since the fence is asked now.
    pub async fn write(&self) -> Result<(), GateClosed> {
        self.throttle.wait().await;
        if self.fence.may_send(Instant::now()) { Ok(()) } else { Err(GateClosed) }
    }

    /// Like [`Gate::write`], for a write that [`Gate::is_settled`] accounts for until it is dropped.
    /// Binds are accounted for by the driver instead, from their decision to their proof.
    pub async fn begin_write(&self) -> Result<InFlightWrite, GateClosed> {
        self.throttle.wait().await;
        // Counted before the fence is asked: after it closed, the count misses no write.
        let write = WritesInFlight::begin(&self.in_flight);
        if self.fence.may_send(Instant::now()) { Ok(write) } else { Err(write.not_sent()) }
    }

    /// Lets no write pass any more, for good.
    pub fn close(&self) {
        self.fence.close();
    }

    /// Whether every write that began with [`Gate::begin_write`] was answered or is too old to land.
    pub fn is_settled(&self, now: Instant) -> bool {
        self.in_flight.is_settled(now)
    }
}

impl From<Fence> for Gate {
    fn from(fence: Fence) -> Self {
        Self::new(fence, Throttle::none())
    }
}

/// Limits requests per second: a bucket of tokens. Clones share the bucket.
///
/// Whoever waits has a place in line; one who stops waiting gives nothing back.
#[derive(Clone, Debug)]
pub struct Throttle(Option<Arc<Bucket>>);

#[derive(Debug)]
struct Bucket {
    /// Time in which one token comes.
    period: Duration,
    /// Time in which an empty bucket gets full.
    fill: Duration,
    /// When the last token that was taken came, or will come.
    last: Mutex<Option<Instant>>,
}

impl Throttle {
    /// No limit.
    pub fn none() -> Self {
        Self(None)
    }

    /// So many requests per second, and so many at once after a rest. As in upstream's clients, a
    /// rate that is not positive is no limit.
    pub fn new(per_second: f64, burst: u32) -> Self {
        // An absurdly small rate would be a time that does not exist.
        let period = Duration::try_from_secs_f64(per_second.recip());
        let period = period.ok().filter(|_| per_second > 0.0);
        let Some(period) = period else { return Self::none() };
        let fill = period.saturating_mul(burst.max(1));
        Self(Some(Arc::new(Bucket { period, fill, last: Mutex::new(None) })))
    }

    /// Whether there is a limit.
    pub fn is_limited(&self) -> bool {
        self.0.is_some()
    }

    /// A bucket of its own with the same limits.
    #[must_use]
    pub fn with_same_limits(&self) -> Self {
        Self(self.0.as_ref().map(|bucket| {
            let Bucket { period, fill, .. } = **bucket;
            Arc::new(Bucket { period, fill, last: Mutex::new(None) })
        }))
    }

    /// Takes a token; waits until there is one.
    pub async fn wait(&self) {
        let Some(bucket) = &self.0 else { return };
        let now = Instant::now();
        let at = bucket.take(now);
        // Mostly there are tokens, and no timer is needed.
        if at > now {
            sleep_until(at).await;
        }
    }
}

impl Bucket {
    /// When the token comes that is taken now.
    fn take(&self, now: Instant) -> Instant {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // Tokens that came before the bucket got full ran over.
        let full = now.checked_sub(self.fill).unwrap_or(now);
        let at = last.map_or(full, |last| last.max(full)) + self.period;
        *last = Some(at);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn times(throttle: &Throttle, count: usize) -> Vec<u128> {
        let begun = Instant::now();
        let mut times = Vec::new();
        for _ in 0..count {
            throttle.wait().await;
            times.push(begun.elapsed().as_millis());
        }
        times
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_burst_requests_come_at_the_rate() {
        let throttle = Throttle::new(10.0, 3);
        assert_eq!(times(&throttle, 6).await, [0, 0, 0, 100, 200, 300]);
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(times(&throttle.clone(), 5).await, [0, 0, 0, 100, 200], "a rest fills it again");
        assert_eq!(times(&throttle.with_same_limits(), 4).await, [0, 0, 0, 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_at_once_share_the_rate() {
        let throttle = Throttle::new(2.0, 1);
        let begun = Instant::now();
        futures::future::join_all((0..5).map(|_| throttle.wait())).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_that_is_not_positive_is_no_limit() {
        for rate in [-1.0, 0.0, f64::NAN, f64::INFINITY] {
            assert_eq!(times(&Throttle::new(rate, 0), 1000).await, vec![0; 1000], "{rate}");
        }
        assert_eq!(times(&Throttle::new(5.0, 0), 2).await, [0, 200], "one at a time at least");
    }

    #[tokio::test(start_paused = true)]
    async fn the_fence_is_asked_after_the_wait() {
        let fence = Fence::always();
        let gate = Gate::new(fence.clone(), Throttle::new(1.0, 1));
        assert_eq!(gate.write().await, Ok(()));
        let second = gate.write();
        fence.close();
        assert_eq!(second.await, Err(GateClosed));
        gate.read().await;
    }
}
