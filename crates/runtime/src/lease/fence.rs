//! The fence: the time until which a leader may send writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Time limit of a write, for the server as well: after it the request is dead. Long for a healthy API
/// server, which answers a bind in milliseconds, and short compared with a lease of 15 s.
pub const REQUEST_TIMEOUT: Duration = Duration::from_millis(2500);

/// Allowance for delays between the check of the fence and sending: thread switches, a pause of the
/// process, clocks that run at slightly different speeds.
pub const SLACK: Duration = Duration::from_millis(500);

/// Time before the end of the lease at which the fence closes: one request timeout for the bytes to
/// arrive or die, one for the server to finish or drop the request, and the slack.
pub const MARGIN: Duration =
    Duration::from_millis(2 * REQUEST_TIMEOUT.as_millis() as u64 + SLACK.as_millis() as u64);

/// Time after the end of its lease in which a leader must notice it; upstream's value.
const WATCHDOG_TOLERANCE: Duration = Duration::from_secs(20);

/// Closed for good or not yet open.
const NEVER: u64 = 0;
/// Open without limit.
const ALWAYS: u64 = u64::MAX;

/// The lease has ended without being renewed or given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease has ended without being renewed or given up")]
pub struct LeaseOverrun;

/// Decides whether a write may be sent, so that it is dead before another replica can lead.
///
/// Clones share the state. A check takes two loads and a reading of the clock.
///
/// # Caveats
///
/// A proxy between this process and the API server that delays requests weakens the guarantee. So does a
/// machine that is suspended between the check and sending.
#[derive(Clone, Debug)]
pub struct Fence(Arc<FenceState>);

#[derive(Debug)]
struct FenceState {
    origin: Instant,
    /// Nanoseconds after the origin until which the fence is open, by the monotonic clock.
    until: AtomicU64,
    /// The same in nanoseconds since boot, by the clock that also runs while the machine is suspended.
    until_since_boot: AtomicU64,
}

impl Fence {
    /// Returns a fence for a process that does not lead: always closed.
    pub fn never() -> Self {
        Self::new(NEVER)
    }

    /// Returns a fence for a process without leader election: always open.
    pub fn always() -> Self {
        Self::new(ALWAYS)
    }

    fn new(until: u64) -> Self {
        let (until, until_since_boot) = (AtomicU64::new(until), AtomicU64::new(until));
        Self(Arc::new(FenceState { origin: Instant::now(), until, until_since_boot }))
    }

    /// Returns `true` if a write may be sent now.
    pub fn may_send(&self, now: Instant) -> bool {
        let state = &*self.0;
        let until = state.until.load(Ordering::Acquire);
        if until == ALWAYS {
            return true;
        }
        nanoseconds(now.saturating_duration_since(state.origin)) < until
            && nanoseconds(since_boot()) < state.until_since_boot.load(Ordering::Acquire)
    }

    /// Fails if this process leads although its lease ended more than 20 s ago, so that its renewal must be
    /// stuck. For the health check `leaderElection`.
    pub fn watchdog(&self, now: Instant) -> Result<(), LeaseOverrun> {
        let until = self.0.until.load(Ordering::Acquire);
        let elapsed = nanoseconds(now.saturating_duration_since(self.0.origin));
        if matches!(until, NEVER | ALWAYS)
            || elapsed <= until.saturating_add(nanoseconds(MARGIN + WATCHDOG_TOLERANCE))
        {
            return Ok(());
        }
        Err(LeaseOverrun)
    }

    /// Opens the fence for a lease whose renewal was started at this moment.
    pub(super) fn open(&self, start: Moment, lease_duration: Duration) {
        let state = &*self.0;
        let open = lease_duration.saturating_sub(MARGIN);
        let steady = start.steady.saturating_duration_since(state.origin);
        // Each limit alone is safe, so a reader between the two stores is safe too.
        state.until_since_boot.store(nanoseconds(start.since_boot + open), Ordering::Release);
        state.until.store(nanoseconds(steady + open), Ordering::Release);
    }

    /// Closes the fence for good.
    pub fn close(&self) {
        self.0.until.store(NEVER, Ordering::Release);
    }
}

/// A point in time by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) steady: Instant,
    since_boot: Duration,
}

impl Moment {
    pub(super) fn now() -> Self {
        Self { steady: Instant::now(), since_boot: since_boot() }
    }
}

/// Returns the time since boot. Unlike Linux' monotonic clock it runs while the machine is suspended, so
/// that a resumed leader does not take its lease for fresh.
#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns zero: on other systems only the monotonic clock counts.
#[cfg(not(target_os = "linux"))]
fn since_boot() -> Duration {
    Duration::ZERO
}

/// Converts to nanoseconds, up to 584 years.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(ALWAYS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    #[tokio::test(start_paused = true)]
    async fn the_fence_closes_two_requests_and_the_slack_before_the_lease_ends() {
        let fence = Fence::never();
        let start = Moment::now();
        assert!(!fence.may_send(start.steady), "not open yet");
        fence.open(start, LEASE);
        let last = start.steady + Duration::from_millis(9500);
        assert!(fence.may_send(start.steady));
        assert!(fence.may_send(last - Duration::from_nanos(1)));
        assert!(!fence.may_send(last));
        assert!(!fence.may_send(last + Duration::from_hours(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn clones_share_renewals_and_the_close() {
        let fence = Fence::never();
        let clone = fence.clone();
        let start = Moment::now();
        fence.open(start, LEASE);
        let late = start.steady + Duration::from_secs(12);
        assert!(!clone.may_send(late));
        tokio::time::advance(Duration::from_secs(11)).await;
        fence.open(Moment::now(), LEASE);
        assert!(clone.may_send(late));
        fence.close();
        assert!(!clone.may_send(late));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_shorter_than_the_margin_never_opens_the_fence() {
        let fence = Fence::never();
        fence.open(Moment::now(), MARGIN);
        assert!(!fence.may_send(Instant::now()));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test(start_paused = true)]
    async fn after_a_suspension_the_fence_is_closed() {
        let fence = Fence::never();
        let mut start = Moment::now();
        // During a suspension only the clock since boot runs.
        start.since_boot = start.since_boot.saturating_sub(Duration::from_mins(1));
        fence.open(start, LEASE);
        assert!(!fence.may_send(start.steady));
    }

    #[tokio::test(start_paused = true)]
    async fn the_watchdog_fails_20_s_after_a_lease_that_was_not_given_up() {
        let fence = Fence::never();
        let start = Moment::now();
        fence.open(start, LEASE);
        let end = start.steady + LEASE + Duration::from_secs(20);
        assert_eq!(fence.watchdog(end), Ok(()));
        assert!(fence.watchdog(end + Duration::from_nanos(1)).is_err());
        fence.close();
        assert_eq!(fence.watchdog(end + LEASE), Ok(()));
        assert_eq!(Fence::always().watchdog(end + LEASE), Ok(()));
    }

    #[test]
    fn always_is_open_and_never_is_not() {
        let far = Instant::now() + Duration::from_secs(1 << 30);
        assert!(Fence::always().may_send(far));
        assert!(Fence::always().may_send(Instant::now()));
        assert!(!Fence::never().may_send(far));
    }
}
