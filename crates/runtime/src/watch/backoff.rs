//! Backoff after consecutive failures.

use std::time::Duration;

/// Backoff after the first failure.
pub(super) const BACKOFF_INITIAL: Duration = Duration::from_millis(200);

/// Longest backoff. A watch that lasted longer than this resets the backoff.
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Longest backoff while requests get no response at all. A refused connection costs the API server
/// nothing, and a scheduler that waited 30 s after the API server is back would decide on old state.
pub(super) const UNANSWERED_BACKOFF_MAX: Duration = Duration::from_secs(2);

/// Counts of consecutive failures.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FailureBackoff {
    /// Requests without a response since the last response.
    unanswered: u32,
    /// Responses that were errors since the last success.
    refused: u32,
}

impl FailureBackoff {
    /// Counts a failure; `answered` says whether the API server responded.
    pub(super) fn add(&mut self, answered: bool) {
        if answered {
            *self = Self { unanswered: 0, refused: self.refused.saturating_add(1) };
        } else {
            self.unanswered = self.unanswered.saturating_add(1);
        }
    }

    /// Returns the delay before the next request, or `None` if there is none.
    pub(super) fn wait(self) -> Option<Duration> {
        match self {
            Self { unanswered: 0, refused: 0 } => None,
            Self { unanswered: 0, refused } => Some(backoff(refused)),
            Self { unanswered, .. } => Some(backoff(unanswered).min(UNANSWERED_BACKOFF_MAX)),
        }
    }
}

/// Returns the delay after this number of failures, with jitter: half of it to all of it.
fn backoff(failures: u32) -> Duration {
    let wait = BACKOFF_INITIAL.saturating_mul(1 << failures.min(16).saturating_sub(1));
    wait.min(BACKOFF_MAX).mul_f64(0.5 + jitter())
}

/// Returns a random number from 0 to 0.5, so that clients which lost one server reconnect at different
/// times.
fn jitter() -> f64 {
    use std::hash::{BuildHasher as _, RandomState};
    (RandomState::new().hash_one(0) >> 32) as f64 / f64::from(u32::MAX) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_resets_the_backoff_of_unanswered_requests() {
        let mut failures = FailureBackoff::default();
        assert_eq!(failures.wait(), None);
        for _ in 0..1000 {
            failures.add(false);
            assert!(failures.wait() <= Some(UNANSWERED_BACKOFF_MAX), "{failures:?}");
        }
        failures.add(true);
        assert!(failures.wait() <= Some(BACKOFF_INITIAL), "{failures:?}");
    }

    #[test]
    fn backoffs_double_up_to_the_maximum() {
        for (failures, milliseconds) in
            [(1, 200), (2, 400), (5, 3200), (9, 30_000), (u32::MAX, 30_000)]
        {
            let whole = Duration::from_millis(milliseconds);
            let wait = backoff(failures);
            assert!(wait >= whole / 2 && wait <= whole, "{failures}: {wait:?}");
        }
    }
}
