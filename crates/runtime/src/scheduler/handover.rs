//! Handover: the end of all writes, so that another replica may lead.
//!
//! ```text
//! no more decisions ──► binds end, at most BINDS_TIME_MAX ──► gate closed ──► settled, at most MARGIN ──► lease released
//! ```

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::Scheduler;
use crate::lease::{MARGIN, REQUEST_TIMEOUT, SLACK};

/// Time for binds in flight, including retries: one request and the read that resolves it. No replica
/// decides meanwhile.
const BINDS_TIME_MAX: Duration =
    Duration::from_millis(REQUEST_TIMEOUT.as_millis() as u64 + SLACK.as_millis() as u64);

/// Time for queued events, for which the next leader waits.
const EVENTS_TIME_MAX: Duration = Duration::from_millis(250);

/// Time between checks whether all writes have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Scheduler {
    /// Stops decisions and writes. When this returns, every write was answered or is too old to land.
    /// Takes at most `BINDS_TIME_MAX` twice, `MARGIN` and `EVENTS_TIME_MAX`.
    pub async fn stop_writing(&self) {
        // A stuck engine takes no input; the gate refuses its writes.
        let stopped = timeout(BINDS_TIME_MAX, self.lead(false)).await;
        if stopped.is_ok() {
            self.wait_until(BINDS_TIME_MAX, || self.is_quiet()).await;
        }
        self.gate.close();
        let settled = || self.is_quiet() && self.gate.is_settled(Instant::now());
        if !self.wait_until(MARGIN, settled).await {
            let binding = self.status.binds_in_flight.load(Ordering::Relaxed);
            tracing::warn!(
                "writes without an answer, {binding} of them binds; they were sent {} s ago or earlier and land no more",
                MARGIN.as_secs_f64()
            );
        }
        self.events.shut_down(EVENTS_TIME_MAX).await;
    }

    /// Returns `true` if no decision is made and no bind is in flight.
    fn is_quiet(&self) -> bool {
        // Read in this order: without decisions no new bind begins.
        let leading = self.status.leading.load(Ordering::Acquire);
        !leading && self.status.binds_in_flight.load(Ordering::Relaxed) == 0
    }

    /// Waits until a condition holds, at most for `limit`. Returns `true` if it holds.
    async fn wait_until(&self, limit: Duration, holds: impl Fn() -> bool) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            if holds() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}
