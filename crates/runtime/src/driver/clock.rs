//! The engine's clock: wall-clock time at the start of the process, monotonic from then on.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// Nanoseconds since the epoch that never go back, even if the wall clock is set back.
#[derive(Clone, Copy, Debug)]
pub struct EngineClock {
    started: Instant,
    pub(super) epoch: i64,
}

impl EngineClock {
    /// Returns a clock that starts at the present wall-clock time.
    pub fn start() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), epoch: since.as_nanos() as i64 }
    }

    /// Returns the present time in nanoseconds since the epoch.
    pub fn now(&self) -> i64 {
        self.time(Instant::now())
    }

    /// Converts an instant to engine time.
    pub(super) fn time(&self, instant: Instant) -> i64 {
        let since = instant.saturating_duration_since(self.started);
        self.epoch.saturating_add(since.as_nanos() as i64)
    }

    /// Converts engine time to an instant; earlier times become the start of the clock.
    pub(crate) fn instant(&self, time: i64) -> Instant {
        let since = time.saturating_sub(self.epoch).max(0);
        self.started.checked_add(Duration::from_nanos(since as u64)).unwrap_or(self.started)
    }
}
