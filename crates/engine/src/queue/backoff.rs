//! Backoff of failed pods.

use super::QueueConfig;
use super::entry::{NEVER, QueuedPod};

/// Backoffs end at whole seconds, so that pods of the same second are ordered by priority.
pub(super) const ORDERING_WINDOW: i64 = 1_000_000_000;

impl QueueConfig {
    /// Returns the backoff after a number of failures, in nanoseconds.
    pub(super) fn backoff(&self, failures: u32) -> i64 {
        if failures == 0 {
            return 0;
        }
        let doublings = failures - 1;
        let limit = self.max_backoff.checked_shr(doublings).unwrap_or(0);
        if self.initial_backoff > limit {
            return self.max_backoff;
        }
        self.initial_backoff.checked_shl(doublings).unwrap_or(0)
    }

    /// Returns the end of the backoff of a pod that failed at its timestamp.
    pub(super) fn backoff_expiration(&self, info: &QueuedPod) -> i64 {
        let failures = match info.consecutive_errors {
            0 => info.unschedulable_count,
            errors => errors,
        };
        if self.max_backoff == 0 || failures == 0 {
            return NEVER;
        }
        window_of(info.timestamp.saturating_add(self.backoff(failures)))
    }
}

/// Returns `true` if the backoff is not over; its last window belongs to it.
pub(super) fn is_backing_off(expiration: i64, now: i64) -> bool {
    expiration >= window_of(now)
}

/// Returns the time at which a backoff that expires in this window is over.
pub(super) fn backoff_end(expiration: i64) -> i64 {
    expiration.saturating_add(ORDERING_WINDOW)
}

fn window_of(time: i64) -> i64 {
    time.div_euclid(ORDERING_WINDOW) * ORDERING_WINDOW
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: i64 = 1_000_000;

    #[test]
    fn backoff_doubles_up_to_the_limit() {
        let config = QueueConfig::default();
        let seconds = |failures| config.backoff(failures) / ORDERING_WINDOW;
        let table: Vec<i64> = (0..8).map(seconds).collect();
        assert_eq!(table, [0, 1, 2, 4, 8, 10, 10, 10]);
        for many in [63, 64, 65, 1000, u32::MAX] {
            assert_eq!(seconds(many), 10, "after {many} failures");
        }
    }

    #[test]
    fn backoff_limits_may_be_unusual() {
        let config = |initial, max| QueueConfig {
            initial_backoff: initial * ORDERING_WINDOW,
            max_backoff: max * ORDERING_WINDOW,
            ..QueueConfig::default()
        };
        assert_eq!(config(20, 10).backoff(1), 10 * ORDERING_WINDOW);
        assert_eq!(config(10, 10).backoff(1), 10 * ORDERING_WINDOW);
        assert_eq!(config(3, 100).backoff(6), 96 * ORDERING_WINDOW);
        assert_eq!(config(3, 100).backoff(7), 100 * ORDERING_WINDOW);
        assert_eq!(config(1, 0).backoff(1), 0);
        assert_eq!(config(0, 10).backoff(70), 0);
    }

    #[test]
    fn backoff_ends_on_whole_seconds_and_the_last_one_counts() {
        // (failed at, failures, expires at, first moment at which it is over), in milliseconds.
        let table = [
            (10_700, 1, 11_000, 12_000),
            (10_000, 1, 11_000, 12_000),
            (10_999, 1, 11_000, 12_000),
            (10_700, 2, 12_000, 13_000),
            (10_700, 5, 20_000, 21_000),
            (10_700, 9, 20_000, 21_000),
        ];
        let config = QueueConfig::default();
        for (failed, failures, expires, over) in table {
            let mut info = super::super::testing::queued(0);
            info.timestamp = failed * MILLISECOND;
            info.unschedulable_count = failures;
            let expiration = config.backoff_expiration(&info);
            assert_eq!(expiration, expires * MILLISECOND, "failed at {failed}");
            assert!(is_backing_off(expiration, over * MILLISECOND - 1), "failed at {failed}");
            assert!(!is_backing_off(expiration, over * MILLISECOND), "failed at {failed}");
            assert_eq!(backoff_end(expires * MILLISECOND), over * MILLISECOND);
        }
    }

    #[test]
    fn errors_in_a_row_outweigh_rejections() {
        let config = QueueConfig::default();
        let mut info = super::super::testing::queued(0);
        assert_eq!(config.backoff_expiration(&info), NEVER, "it never failed");
        info.unschedulable_count = 4;
        info.consecutive_errors = 1;
        assert_eq!(config.backoff_expiration(&info), ORDERING_WINDOW);
        info.consecutive_errors = 0;
        assert_eq!(config.backoff_expiration(&info), 8 * ORDERING_WINDOW);
        let off = QueueConfig { max_backoff: 0, ..config };
        assert_eq!(off.backoff_expiration(&info), NEVER);
    }
}
