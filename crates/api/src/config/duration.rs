//! Durations in Go's syntax, such as `1m30s`.

use std::fmt;

use serde::{Serialize, Serializer};

/// A signed duration in nanoseconds, formatted in Go's syntax.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Duration(i64);

impl Duration {
    /// The zero duration.
    pub const ZERO: Self = Self(0);

    /// Creates a duration of whole seconds.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// Returns the number of nanoseconds.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Converts to the standard library's type; a negative duration becomes zero.
    pub fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }

    /// Parses Go's syntax: an optional sign, followed by numbers with units from `ns` to `h`.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse(text).ok_or_else(|| {
            let found = super::problem::quoted(text);
            format!("{found} is not a duration; write a number with a unit, such as \"10s\", \"1m30s\" or \"100ms\"")
        })
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanos {
            0 => return f.write_str("0s"),
            1..1_000 => return write!(f, "{nanos}ns"),
            1_000..1_000_000 => return write_decimal(f, nanos, 1_000, "µs"),
            1_000_000..1_000_000_000 => return write_decimal(f, nanos, 1_000_000, "ms"),
            _ => {}
        }
        let minutes = nanos / 60_000_000_000;
        if minutes >= 60 {
            write!(f, "{}h", minutes / 60)?;
        }
        if minutes > 0 {
            write!(f, "{}m", minutes % 60)?;
        }
        write_decimal(f, nanos % 60_000_000_000, 1_000_000_000, "s")
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn write_decimal(f: &mut fmt::Formatter<'_>, nanos: u64, unit: u64, name: &str) -> fmt::Result {
    let (whole, rest) = (nanos / unit, nanos % unit);
    if rest == 0 {
        return write!(f, "{whole}{name}");
    }
    let digits = unit.ilog10() as usize;
    let rest = format!("{rest:0digits$}");
    write!(f, "{whole}.{}{name}", rest.trim_end_matches('0'))
}

fn parse(text: &str) -> Option<Duration> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (nanos, after) = parse_part(rest)?;
        total = total.checked_add(nanos)?;
        if total > 1 << 63 {
            return None;
        }
        rest = after;
    }
    if negative {
        return Some(Duration(0i64.checked_sub_unsigned(total)?));
    }
    i64::try_from(total).ok().map(Duration)
}

/// Parses one number with its unit. As upstream, it rounds the fraction through a 64-bit float.
fn parse_part(text: &str) -> Option<(u64, &str)> {
    let (whole, rest) = split_digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let unit: u64 = match &rest[..end] {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(unit)?;
    let (digits, scale) = leading_fraction(fraction);
    nanos = nanos.checked_add((digits as f64 * (unit as f64 / scale)) as u64)?;
    Some((nanos, &rest[end..]))
}

/// Returns the digits of a fraction that fit in 64 bits, and their divisor.
fn leading_fraction(fraction: &str) -> (u64, f64) {
    let mut digits: u64 = 0;
    let mut scale = 1.0;
    for digit in fraction.bytes() {
        let Some(next) = digits.checked_mul(10).map(|tens| tens + u64::from(digit - b'0')) else {
            break;
        };
        if next > 1 << 63 {
            break;
        }
        digits = next;
        scale *= 10.0;
    }
    (digits, scale)
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written_as_go_does() {
        let rows = [
            ("0", Some("0s")),
            ("15s", Some("15s")),
            ("1m30s", Some("1m30s")),
            ("100ms", Some("100ms")),
            ("1h", Some("1h0m0s")),
            ("600s", Some("10m0s")),
            ("1.5s", Some("1.5s")),
            (".5m", Some("30s")),
            ("-2s", Some("-2s")),
            ("1500us", Some("1.5ms")),
            ("3µs", Some("3µs")),
            ("0.3333333333333333333h", Some("20m0s")),
            ("9223372036854775807ns", Some("2562047h47m16.854775807s")),
            ("9223372036854775808ns", None),
            ("99999999999999999999h", None),
            ("", None),
            ("-", None),
            ("5", None),
            ("5 s", None),
            ("s", None),
            (".s", None),
            ("1x", None),
            ("1s2", None),
            ("１s", None),
        ];
        for (text, want) in rows {
            let got = Duration::parse(text).ok().map(|duration| duration.to_string());
            assert_eq!(got.as_deref(), want, "{text}");
        }
    }
}
