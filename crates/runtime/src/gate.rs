//! The gate before each request: it throttles requests, and lets writes pass only while this process
//! leads.

mod writes_in_flight;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::lease::Fence;

pub use writes_in_flight::InFlightWrite;
use writes_in_flight::WritesInFlight;

/// Throttle and fence of requests. Clones share the state.
#[derive(Clone, Debug)]
pub struct Gate {
    fence: Fence,
    throttle: Throttle,
    in_flight: Arc<WritesInFlight>,
}

/// The fence is closed, so no write may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease is not held any more")]
pub struct GateClosed;

impl Gate {
    /// Creates a gate that lets writes pass while the fence is open, and all requests at the rate of the
    /// throttle.
    pub fn new(fence: Fence, throttle: Throttle) -> Self {
        Self { fence, throttle, in_flight: Arc::default() }
    }

    /// Waits until a read may be sent.
    pub async fn read(&self) {
        self.throttle.wait().await;
    }

    /// Waits until a write may be sent. It must be sent at once, since the fence is checked now.
    pub async fn write(&self) -> Result<(), GateClosed> {
        self.throttle.wait().await;
        if self.fence.may_send(Instant::now()) { Ok(()) } else { Err(GateClosed) }
    }

    /// Like [`Gate::write`], for a write that [`Gate::is_settled`] counts until the result is dropped.
    /// Binds are counted by the driver instead, from the decision to the proof of their outcome.
    pub async fn begin_write(&self) -> Result<InFlightWrite, GateClosed> {
        self.throttle.wait().await;
        // Counted before the check, so that after the fence is closed the count misses no write.
        let write = WritesInFlight::begin(&self.in_flight);
        if self.fence.may_send(Instant::now()) { Ok(write) } else { Err(write.not_sent()) }
    }

    /// Closes the gate for writes, for good.
    pub fn close(&self) {
        self.fence.close();
    }

    /// Returns `true` if every write that began with [`Gate::begin_write`] was answered or is too old to
    /// land.
    pub fn is_settled(&self, now: Instant) -> bool {
        self.in_flight.is_settled(now)
    }
}

impl From<Fence> for Gate {
    fn from(fence: Fence) -> Self {
        Self::new(fence, Throttle::none())
    }
}

/// Rate limit of requests: a token bucket. Clones share the bucket.
///
/// A waiter has reserved its token; a waiter that is cancelled does not return it.
#[derive(Clone, Debug)]
pub struct Throttle(Option<Arc<Bucket>>);

#[derive(Debug)]
struct Bucket {
    /// Time between two tokens.
    period: Duration,
    /// Time in which an empty bucket fills up.
    fill: Duration,
    /// When the last reserved token was or will be available.
    last: Mutex<Option<Instant>>,
}

impl Throttle {
    /// Returns a throttle without a limit.
    pub fn none() -> Self {
        Self(None)
    }

    /// Creates a throttle of `per_second` requests per second, and `burst` at once after a pause. As in
    /// client-go, a rate that is not positive means no limit.
    pub fn new(per_second: f64, burst: u32) -> Self {
        // `Duration` cannot represent the period of an extremely small rate.
        let period = Duration::try_from_secs_f64(per_second.recip());
        let period = period.ok().filter(|_| per_second > 0.0);
        let Some(period) = period else { return Self::none() };
        let fill = period.saturating_mul(burst.max(1));
        Self(Some(Arc::new(Bucket { period, fill, last: Mutex::new(None) })))
    }

    /// Returns `true` if there is a limit.
    pub fn is_limited(&self) -> bool {
        self.0.is_some()
    }

    /// Returns a throttle with the same limits and a bucket of its own.
    #[must_use]
    pub fn with_same_limits(&self) -> Self {
        Self(self.0.as_ref().map(|bucket| {
            let Bucket { period, fill, .. } = **bucket;
            Arc::new(Bucket { period, fill, last: Mutex::new(None) })
        }))
    }

    /// Takes a token, waiting until there is one.
    pub async fn wait(&self) {
        let Some(bucket) = &self.0 else { return };
        let now = Instant::now();
        let at = bucket.take(now);
        // Usually a token is available and no timer is needed.
        if at > now {
            sleep_until(at).await;
        }
    }
}

impl Bucket {
    /// Reserves the next token. Returns when it is available.
    fn take(&self, now: Instant) -> Instant {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // A full bucket gains no tokens.
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
    async fn after_a_burst_requests_are_sent_at_the_rate() {
        let throttle = Throttle::new(10.0, 3);
        assert_eq!(times(&throttle, 6).await, [0, 0, 0, 100, 200, 300]);
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(
            times(&throttle.clone(), 5).await,
            [0, 0, 0, 100, 200],
            "the bucket fills up during a pause"
        );
        assert_eq!(times(&throttle.with_same_limits(), 4).await, [0, 0, 0, 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_waiters_share_the_rate() {
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
    async fn the_fence_is_checked_after_the_wait() {
        let fence = Fence::always();
        let gate = Gate::new(fence.clone(), Throttle::new(1.0, 1));
        assert_eq!(gate.write().await, Ok(()));
        let second = gate.write();
        fence.close();
        assert_eq!(second.await, Err(GateClosed));
        gate.read().await;
    }
}
