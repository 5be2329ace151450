//! Waits after failures in a row.

use std::time::Duration;

/// After the first, and the longest. What lasted longer than that was no failure.
pub(super) const BACKOFF_INITIAL: Duration = Duration::from_millis(200);
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// The longest wait while no answer comes at all. A refused connection costs the API server nothing, and
/// a replica that waits for half a minute after the API server is back decides on old state until then.
pub(super) const UNANSWERED_BACKOFF_MAX: Duration = Duration::from_secs(2);

/// FailureBackoff in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FailureBackoff {
    /// Requests without an answer since the last answer.
    unanswered: u32,
    /// Answers that were no success since the last one that was.
    refused: u32,
}

impl FailureBackoff {
    /// Counts a failure; whether the API server answered is known by then.
    pub(super) fn add(&mut self, answered: bool) {
        if answered {
            *self = Self { unanswered: 0, refused: self.refused.saturating_add(1) };
        } else {
            self.unanswered = self.unanswered.saturating_add(1);
        }
    }

    /// How long to wait before the next request, if at all.
    pub(super) fn wait(self) -> Option<Duration> {
        match self {
            Self { unanswered: 0, refused: 0 } => None,
            Self { unanswered: 0, refused } => Some(backoff(refused)),
            Self { unanswered, .. } => Some(backoff(unanswered).min(UNANSWERED_BACKOFF_MAX)),
        }
    }
}

/// How long to wait after this number of failures.
fn backoff(failures: u32) -> Duration {
    let wait = BACKOFF_INITIAL.saturating_mul(1 << failures.min(16).saturating_sub(1));
    wait.min(BACKOFF_MAX).mul_f64(0.5 + jitter())
}

/// From 0 to 0.5. Clients that lost one server must not come back all at once.
fn jitter() -> f64 {
    use std::hash::{BuildHasher as _, RandomState};
    (RandomState::new().hash_one(0) >> 32) as f64 / f64::from(u32::MAX) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_the_failures_before_it() {
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
    fn waits_double_up_to_the_last() {
        for (failures, milliseconds) in
            [(1, 200), (2, 400), (5, 3200), (9, 30_000), (u32::MAX, 30_000)]
        {
            let whole = Duration::from_millis(milliseconds);
            let wait = backoff(failures);
            assert!(wait >= whole / 2 && wait <= whole, "{failures}: {wait:?}");
        }
    }
}
