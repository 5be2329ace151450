//! Times in Kubernetes' text form, RFC 3339.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::fmt::temporal::{DateTimeParser, DateTimePrinter};

/// Length of the text before the fraction.
const SECONDS_END: usize = "2026-01-31T12:00:00".len();

/// Length of a point and the nine digits of nanoseconds.
const FRACTION_MAX: usize = ".000000001".len();

/// Parses a time into nanoseconds since the Unix epoch, saturated to 64 bits; returns `None` if it
/// is malformed.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let (seconds, rest) = text.split_at_checked(SECONDS_END)?;
    let zone = rest.find(['Z', '+', '-'])?;
    if !is_strict(seconds.as_bytes(), &rest.as_bytes()[zone..]) {
        return None;
    }
    // Jiff refuses digits below nanoseconds; Go drops them.
    let text = if zone > FRACTION_MAX && rest[..zone].bytes().skip(1).all(|b| b.is_ascii_digit()) {
        Cow::from(format!("{seconds}{}{}", &rest[..FRACTION_MAX], &rest[zone..]))
    } else {
        Cow::from(text)
    };
    let time = DateTimeParser::new().parse_timestamp(&*text).ok()?;
    Some(time.as_nanosecond().clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

/// Returns `true` unless jiff would accept a text here that is not RFC 3339: a space or `t` before
/// the time, a basic format without separators, a leap second, or an offset other than `Z` or
/// `+00:00`, including time zone annotations.
fn is_strict(seconds: &[u8], zone: &[u8]) -> bool {
    let separators = [4, 7, 10, 13, 16].map(|place| seconds[place]);
    separators == *b"--T::"
        && seconds[17] < b'6'
        && matches!(zone, b"Z" | [b'+' | b'-', _, _, b':', _, _])
}

/// Formats a time; one that jiff cannot represent (outside the years -9999 to 9999) yields a text
/// that [`parse`] refuses.
pub(crate) fn format(seconds: i64, nanoseconds: i64) -> String {
    let nanoseconds = i32::try_from(nanoseconds).ok();
    match nanoseconds.map(|nanoseconds| Timestamp::new(seconds, nanoseconds)) {
        Some(Ok(time)) => DateTimePrinter::new().timestamp_to_string(&time),
        _ => format!("{seconds} seconds after 1970"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[track_caller]
    fn check(text: &str, want: Option<i64>) {
        assert_eq!(parse(text), want, "{text:?}");
    }

    #[test]
    fn times_are_parsed() {
        check("1970-01-01T00:00:00Z", Some(0));
        check("1970-01-01T00:00:01.5Z", Some(SECOND + SECOND / 2));
        check("1970-01-01T02:00:00+02:00", Some(0));
        check("1969-12-31T23:59:59Z", Some(-SECOND));
        check("2000-02-29T00:00:00Z", Some(951_782_400 * SECOND));
        check("2000-03-01T00:00:00Z", Some(951_868_800 * SECOND));
        check("2026-01-31T12:34:56Z", Some(1_769_862_896 * SECOND));
        check("2026-01-31T12:34:56.000000001999-00:30", Some(1_769_864_696 * SECOND + 1));
        check("2026-01-02T03:04:05.123456Z", Some(1_767_323_045 * SECOND + 123_456_000));
        check("9999-12-30T21:59:59Z", Some(i64::MAX));
        check("0000-01-01T00:00:00Z", Some(i64::MIN));
    }

    #[test]
    fn malformed_times_are_refused() {
        for text in [
            "",
            "now",
            "2026-01-31",
            "2026-01-31T12:34:56",
            "2026-01-31 12:34:56Z",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:60Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+0200",
            "2026-01-01T00:00:00+26:00",
            "2026-01-01T00:00:00+02",
            "2026-01-01T00:00:00+02:00:00",
            "2026-01-01T00:00:00Z[UTC]",
            "2026-01-01T00:00:00+00:00[UTC]",
            "20260101T00:00:00Z",
            "2026-01-01T000000.5Z",
            "2026-01-01T00:00:00.00000000000x1Z",
            "2026-01-01T00:00:00ZZ",
            "2026-01-01t00:00:00z",
            "-026-01-01T00:00:00Z",
            "2026-01-01T00:00:0½Z",
        ] {
            check(text, None);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in ".{0,40}") {
            let _ = parse(&text);
        }

        #[test]
        fn formatted_times_parse_to_the_same_time(nanoseconds in -9_000_000_000_000_000_000_i64..9_000_000_000_000_000_000) {
            let (seconds, rest) = (nanoseconds.div_euclid(SECOND), nanoseconds.rem_euclid(SECOND));
            prop_assert_eq!(parse(&format(seconds, rest)), Some(nanoseconds));
            prop_assert_eq!(parse(&format(seconds, 0)), Some(seconds * SECOND));
        }

        #[test]
        fn arbitrary_numbers_never_panic(seconds: i64, nanoseconds: i64) {
            let _ = parse(&format(seconds, nanoseconds));
        }

        #[test]
        fn consecutive_days_are_24_hours_apart(year in 1700_i64..2200, month in 1_i64..=12, day in 1_i64..=28) {
            let at = |day: i64| parse(&format!("{year:04}-{month:02}-{day:02}T00:00:00Z")).unwrap();
            if day < 28 {
                prop_assert_eq!(at(day + 1) - at(day), 86_400 * SECOND);
            }
        }
    }
}
