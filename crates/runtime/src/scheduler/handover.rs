//! Ending to write, so that another replica may lead.
//!
//! ```text
//! no more decisions ──► binds end, at most BINDS_TIME_MAX ──► gate closed ──► settled, at most MARGIN ──► lease given back
//! ```

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::Scheduler;
use crate::lease::{MARGIN, REQUEST_TIMEOUT, SLACK};

/// How long binds that are under way may take, tries after refusals included: one request, and the
/// read that says what came of it. No replica decides until then.
const BINDS_TIME_MAX: Duration =
    Duration::from_millis(REQUEST_TIMEOUT.as_millis() as u64 + SLACK.as_millis() as u64);

/// How long events that wait may take to be written; the next leader waits for that.
const EVENTS_TIME_MAX: Duration = Duration::from_millis(250);

/// How often it is looked whether all is done.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Scheduler {
    /// Ends to decide and to write. When this returns, nothing is sent any more, and whatever was
    /// sent is answered or too old to land. Takes at most [`BINDS_TIME_MAX`], [`MARGIN`] and
    /// [`EVENTS_TIME_MAX`].
    pub async fn stop_writing(&self) {
        // An engine that is stuck takes no input. What it might still want is stopped by the gate.
        let told = timeout(BINDS_TIME_MAX, self.lead(false)).await;
        if told.is_ok() {
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

    /// Whether no decision is made and no bind is under way.
    fn is_quiet(&self) -> bool {
        // In this order: once no decision is made, no new bind begins.
        let leading = self.status.leading.load(Ordering::Acquire);
        !leading && self.status.binds_in_flight.load(Ordering::Relaxed) == 0
    }

    /// Waits until a condition holds, at most so long. Whether it holds.
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
