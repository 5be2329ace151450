//! Times as Kubernetes writes them: RFC 3339.

/// Days from the first of January of year zero.
const DAYS_TO_1970: i64 = 719_528;

/// Nanoseconds since the epoch, within 64 bits; `None` if the text is no time.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let (date, rest) = bytes.split_at_checked(10)?;
    let (clock, rest) = rest.strip_prefix(b"T")?.split_at_checked(8)?;
    if date[4] != b'-' || date[7] != b'-' || clock[2] != b':' || clock[5] != b':' {
        return None;
    }
    let (year, month, day) = (digits(&date[..4])?, digits(&date[5..7])?, digits(&date[8..])?);
    let (hour, minute) = (digits(&clock[..2])?, digits(&clock[3..5])?);
    let second = digits(&clock[6..])?;
    let in_range = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !in_range {
        return None;
    }
    let (nanoseconds, rest) = fraction(rest)?;
    let seconds = days_since_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
        - offset_seconds(rest)?;
    let total = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    Some(total.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
}

/// The text of a time; one before year zero or after 9999 gives a text that is no time.
pub(crate) fn format(seconds: i64, nanoseconds: i64) -> String {
    let (days, clock) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    let mut text = String::with_capacity("2026-01-31T12:00:00.000000001Z".len());
    for (number, width, then) in
        [(year, 4, '-'), (month, 2, '-'), (day, 2, 'T'), (hour, 2, ':'), (minute, 2, ':')]
    {
        push(&mut text, number, width);
        text.push(then);
    }
    push(&mut text, second, 2);
    if nanoseconds != 0 {
        text.push('.');
        push(&mut text, nanoseconds, 9);
    }
    text.push('Z');
    text
}

/// Year, month and day of a day since the epoch.
fn date(days: i64) -> (i64, i64, i64) {
    // Counted from the first of March, the day that leap years add is the last one of a year, and
    // months have 31, 30, 31, 30 and 31 days, over and over again. Centuries add up every 400
    // years.
    let days = days + DAYS_TO_1970 - 60;
    let (times_400_years, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    (400 * times_400_years + year, month, day)
}

/// Adds a number with so many digits. Each object has a time, so that `format!` is seen in the
/// profile of a start.
fn push(text: &mut String, number: i64, width: u32) {
    if !(0..10_i64.pow(width)).contains(&number) {
        text.push_str(&number.to_string());
        return;
    }
    for place in (0..width).rev() {
        text.push(char::from(b'0' + (number / 10_i64.pow(place) % 10) as u8));
    }
}

fn digits(bytes: &[u8]) -> Option<i64> {
    bytes.iter().try_fold(0, |number, byte| {
        byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'))
    })
}

/// Nanoseconds after the point, if there is one; digits beyond nanoseconds are dropped.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some(rest) = text.strip_prefix(b".") else { return Some((0, text)) };
    let end = rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
    if end == 0 {
        return None;
    }
    let shown = end.min(9);
    let nanoseconds = digits(&rest[..shown])? * 10_i64.pow(9 - shown as u32);
    Some((nanoseconds, &rest[end..]))
}

fn offset_seconds(text: &[u8]) -> Option<i64> {
    if text == b"Z" {
        return Some(0);
    }
    let (sign, rest) = match text.split_first()? {
        (b'+', rest) => (1, rest),
        (b'-', rest) => (-1, rest),
        _ => return None,
    };
    if rest.len() != 5 || rest[2] != b':' {
        return None;
    }
    let (hours, minutes) = (digits(&rest[..2])?, digits(&rest[3..])?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let leap_days = |year: i64| year / 4 - year / 100 + year / 400;
    // Leap days of all years before this one; year zero is one of them.
    let before = if year == 0 { 0 } else { leap_days(year - 1) + 1 };
    let months: i64 = (1..month).map(|month| days_in_month(year, month)).sum();
    year * 365 + before + months + day - 1 - DAYS_TO_1970
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
    fn times_are_read() {
        check("1970-01-01T00:00:00Z", Some(0));
        check("1970-01-01T00:00:01.5Z", Some(SECOND + SECOND / 2));
        check("1970-01-01T02:00:00+02:00", Some(0));
        check("1969-12-31T23:59:59Z", Some(-SECOND));
        check("2000-02-29T00:00:00Z", Some(951_782_400 * SECOND));
        check("2000-03-01T00:00:00Z", Some(951_868_800 * SECOND));
        check("2026-01-31T12:34:56Z", Some(1_769_862_896 * SECOND));
        check("2026-01-31T12:34:56.000000001999-00:30", Some(1_769_864_696 * SECOND + 1));
        check("9999-12-31T23:59:59Z", Some(i64::MAX));
        check("0000-01-01T00:00:00Z", Some(i64::MIN));
    }

    #[test]
    fn anything_else_is_refused() {
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
            "2026-01-01T00:00:00+24:00",
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
        fn no_text_panics(text in ".{0,40}") {
            let _ = parse(&text);
        }

        #[test]
        fn formatted_times_parse_to_the_same_time(nanoseconds in -9_000_000_000_000_000_000_i64..9_000_000_000_000_000_000) {
            let (seconds, rest) = (nanoseconds.div_euclid(SECOND), nanoseconds.rem_euclid(SECOND));
            prop_assert_eq!(parse(&format(seconds, rest)), Some(nanoseconds));
            prop_assert_eq!(parse(&format(seconds, 0)), Some(seconds * SECOND));
        }

        #[test]
        fn no_number_panics(seconds: i64, nanoseconds: i64) {
            let _ = parse(&format(seconds, nanoseconds));
        }

        #[test]
        fn later_days_are_later(year in 1700_i64..2200, month in 1_i64..=12, day in 1_i64..=28) {
            let at = |day: i64| parse(&format!("{year:04}-{month:02}-{day:02}T00:00:00Z")).unwrap();
            if day < 28 {
                prop_assert_eq!(at(day + 1) - at(day), 86_400 * SECOND);
            }
        }
    }
}
