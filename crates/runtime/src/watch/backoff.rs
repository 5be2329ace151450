//! Waits after failures in a row.

use std::time::Duration;

/// After the first, and the longest. What lasted longer than that was no failure.
pub(super) const BACKOFF_FIRST: Duration = Duration::from_millis(200);
pub(super) const BACKOFF_LAST: Duration = Duration::from_secs(30);

/// How long to wait after so many failures.
pub(super) fn backoff(failures: u32) -> Duration {
    let wait = BACKOFF_FIRST.saturating_mul(1 << failures.min(16).saturating_sub(1));
    wait.min(BACKOFF_LAST).mul_f64(0.5 + jitter())
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
