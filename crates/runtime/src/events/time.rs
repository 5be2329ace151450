//! Times in the forms of Kubernetes.

use std::time::SystemTime;

use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::fmt::temporal::DateTimePrinter;

/// Formats times with microseconds (`MicroTime`). Remembers the last second, since most events share it.
#[derive(Default)]
pub(super) struct TimeFormatter {
    second: Option<u64>,
    /// `second` without a zone.
    formatted: String,
}

impl TimeFormatter {
    /// Formats a time such as `2023-11-14T22:13:20.000042Z`.
    pub(super) fn rfc3339_micros(&mut self, time: SystemTime) -> String {
        let nanoseconds = nanoseconds_since_epoch(time);
        let second = Some(nanoseconds / 1_000_000_000);
        if self.second != second {
            self.second = second;
            rfc3339_seconds(time).trim_end_matches('Z').clone_into(&mut self.formatted);
        }
        format!("{}.{:06}Z", self.formatted, nanoseconds % 1_000_000_000 / 1000)
    }
}

/// Returns the nanoseconds since the epoch; zero for earlier times.
pub(super) fn nanoseconds_since_epoch(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Formats a time such as `2023-11-14T22:13:20Z` (`Time`).
pub(crate) fn rfc3339_seconds(time: SystemTime) -> String {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(0));
    PRINTER.timestamp_to_string(&Timestamp::try_from(time).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_have_the_forms_of_kubernetes() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_000_042);
        assert_eq!(TimeFormatter::default().rfc3339_micros(time), "2023-11-14T22:13:20.000042Z");
        assert_eq!(rfc3339_seconds(time), "2023-11-14T22:13:20Z");
    }

    #[test]
    fn the_remembered_second_does_not_change_the_result() {
        let mut formatter = TimeFormatter::default();
        for micros in [42, 43, 999_999, 1_000_000, 61_000_001, 1_000_000, 86_400_000_000] {
            let since_epoch = Duration::from_micros(1_700_000_000_000_000 + micros);
            let time = SystemTime::UNIX_EPOCH + since_epoch;
            let expected = TimeFormatter::default().rfc3339_micros(time);
            assert_eq!(formatter.rfc3339_micros(time), expected);
        }
    }
}
