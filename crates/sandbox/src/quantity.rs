//! Quantities such as `500m`, `1.5Gi` and `1e3`, exact to the nano unit.

use std::fmt;

const NANO: i128 = 1_000_000_000;

/// A quantity and the format in which it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantity {
    nanos: i128,
    form: QuantityFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuantityFormat {
    Decimal,
    Binary,
    Exponent,
}

const BINARY: &[(&str, u32)] = &[("Ki", 1), ("Mi", 2), ("Gi", 3), ("Ti", 4), ("Pi", 5), ("Ei", 6)];
const DECIMAL: &[(&str, i32)] = &[
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

impl Quantity {
    /// Zero.
    pub(crate) const ZERO: Self = Self { nanos: 0, form: QuantityFormat::Decimal };

    /// Parses a quantity.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (sign, digits) = match text.as_bytes().first()? {
            b'-' => (-1, &text[1..]),
            b'+' => (1, &text[1..]),
            _ => (1, text),
        };
        let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
        let (number, suffix) = digits.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (form, factor, exponent) = unit(suffix)?;
        // As upstream, values are capped at `i64::MAX` and digits beyond the precision are rounded up.
        if whole.trim_start_matches('0').len() > 19 {
            return Some(Self { nanos: sign * i128::from(i64::MAX) * NANO, form });
        }
        let kept = &fraction[..fraction.len().min(12)];
        let rest = fraction[kept.len()..].bytes().any(|digit| digit != b'0');
        let mantissa = format!("{whole}{kept}").parse::<i128>().ok()?;
        let scale = exponent + 9 - kept.len() as i32;
        let mut nanos = mantissa.checked_mul(factor)?;
        let mut inexact = rest;
        if scale >= 0 {
            nanos = nanos.saturating_mul(10_i128.saturating_pow(scale.unsigned_abs()));
        } else {
            let divisor = 10_i128.saturating_pow(scale.unsigned_abs());
            inexact |= nanos % divisor != 0;
            nanos /= divisor;
        }
        nanos += i128::from(inexact);
        let limit = i128::from(i64::MAX) * NANO;
        Some(Self { nanos: sign * nanos.min(limit), form })
    }

    /// Creates a quantity from thousandths.
    pub(crate) fn from_milli(milli: i64) -> Self {
        Self { nanos: i128::from(milli) * (NANO / 1000), form: QuantityFormat::Decimal }
    }

    /// Returns the quantity in thousandths, rounded up.
    pub(crate) fn milli(self) -> i64 {
        self.in_units_of(NANO / 1000)
    }

    /// Returns the quantity in whole units, rounded up.
    pub(crate) fn whole(self) -> i64 {
        self.in_units_of(NANO)
    }

    fn in_units_of(self, unit: i128) -> i64 {
        let up = i128::from(self.nanos > 0 && self.nanos % unit != 0);
        i64::try_from(self.nanos / unit + up).unwrap_or(i64::MAX)
    }

    /// Returns the sum, in the format of the first operand that is not zero.
    pub(crate) fn plus(self, other: Self) -> Self {
        let form = if self.nanos == 0 { other.form } else { self.form };
        Self { nanos: self.nanos.saturating_add(other.nanos), form }
    }

    /// Returns `true` if the quantity is negative.
    pub(crate) fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Returns `true` if the quantity is an integer.
    pub(crate) fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.nanos.cmp(&other.nanos))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nanos, form } = *self;
        if nanos == 0 {
            return f.write_str("0");
        }
        // Binary suffixes are used for integers of at least 1024.
        if form == QuantityFormat::Binary && nanos % NANO == 0 && (nanos / NANO).abs() >= 1024 {
            let (mut amount, mut suffix) = (nanos / NANO, "");
            for (next, _) in BINARY {
                if amount % 1024 != 0 {
                    break;
                }
                amount /= 1024;
                suffix = next;
            }
            return write!(f, "{amount}{suffix}");
        }
        let (mut amount, mut exponent) = (nanos, -9);
        while amount % 1000 == 0 && exponent < 18 {
            amount /= 1000;
            exponent += 3;
        }
        if form == QuantityFormat::Exponent && exponent != 0 {
            return write!(f, "{amount}e{exponent}");
        }
        let suffix =
            DECIMAL.iter().find(|(_, of)| *of == exponent).map_or("", |(suffix, _)| suffix);
        write!(f, "{amount}{suffix}")
    }
}

fn unit(suffix: &str) -> Option<(QuantityFormat, i128, i32)> {
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((QuantityFormat::Binary, 1024_i128.pow(*power), 0));
    }
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((QuantityFormat::Decimal, 1, *exponent));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((QuantityFormat::Exponent, 1, exponent.clamp(-30, 20)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_formatted_canonically() {
        for (text, shown) in [
            ("1", "1"),
            ("0", "0"),
            ("0Gi", "0"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("1024", "1024"),
            ("1000Ki", "1000Ki"),
            ("0.1m", "100u"),
            ("1e3", "1e3"),
            ("9E", "9E"),
            ("-250m", "-250m"),
            ("123456789Ki", "123456789Ki"),
            ("1000000", "1M"),
            ("100k", "100k"),
            ("0.5Ki", "512"),
            (".5", "500m"),
        ] {
            assert_eq!(
                Quantity::parse(text).map(|q| q.to_string()).as_deref(),
                Some(shown),
                "{text}"
            );
        }
    }

    #[test]
    fn malformed_quantities_are_rejected() {
        for text in ["", "x", "1x", "1.2.3", "1ki", "1 Gi", "-", "1e", ".", "1KiB", "+-1"] {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
    }

    #[test]
    fn huge_quantities_are_capped() {
        let max = Quantity::parse("99999999999999999999E").unwrap();
        assert_eq!((max.whole(), max.milli()), (i64::MAX, i64::MAX));
        assert!(Quantity::parse("9223372036854775807Ei").is_some());
    }

    #[test]
    fn milli_and_whole_round_up() {
        let tiny = Quantity::parse("1n").unwrap();
        assert_eq!((tiny.milli(), tiny.whole()), (1, 1));
    }
}
