//! Kubernetes quantities such as `500m`, `2` or `1Gi`, exact to 10⁻⁹.
//!
//! Upstream: apimachinery `pkg/api/resource/quantity.go`, v0.36.
//! Where upstream overflows 64 bits, it yields an arbitrary number (`10E` becomes zero). Here the
//! value saturates, so that a huge quantity is never taken for a small one.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// 10⁻⁹ parts of one unit.
const NANO: i128 = 1_000_000_000;
/// 10⁻⁹ parts of one thousandth.
const NANO_PER_MILLI: i128 = 1_000_000;

/// An exact quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    /// Value in 10⁻⁹ units, saturating instead of overflowing.
    nano: i128,
}

impl Quantity {
    /// The quantity zero.
    pub const ZERO: Self = Self { nano: 0 };

    /// Creates a quantity from thousandths.
    pub const fn from_milli(value: i64) -> Self {
        Self { nano: value as i128 * NANO_PER_MILLI }
    }

    /// Creates a quantity from whole units.
    pub const fn from_units(value: i64) -> Self {
        Self { nano: value as i128 * NANO }
    }

    /// Parses the text form, or returns `None` if it is malformed.
    ///
    /// Digits below 10⁻⁹ are rounded away from zero. Values with a binary suffix saturate at
    /// 2⁶³ − 1.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, number) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, rest) = split_digits(number);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let suffix = Suffix::parse(suffix)?;
        if whole.is_empty() && fraction.is_empty() && !suffix.allows_no_digits() {
            return None;
        }
        let nano = match suffix {
            Suffix::Decimal(exponent) => decimal(whole, fraction, exponent),
            Suffix::Binary(shift) => {
                binary(whole, fraction, shift).min(i128::from(i64::MAX) * NANO)
            }
        };
        Some(Self { nano: if negative { -nano } else { nano } })
    }

    /// Returns the value in whole units, rounded away from zero and saturated to 64 bits.
    pub fn value(self) -> i64 {
        self.rounded(NANO)
    }

    /// Returns the value in thousandths, rounded away from zero and saturated to 64 bits.
    pub fn milli_value(self) -> i64 {
        self.rounded(NANO_PER_MILLI)
    }

    /// Returns the saturating sum.
    pub fn plus(self, other: Self) -> Self {
        Self { nano: self.nano.saturating_add(other.nano) }
    }

    /// Returns `true` if the value is below zero.
    pub fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Returns `true` if the value in whole units fits in 64 bits.
    pub fn fits_i64(self) -> bool {
        self.nano.unsigned_abs() <= (i128::from(i64::MAX) * NANO).unsigned_abs()
    }

    fn rounded(self, unit: i128) -> i64 {
        let away = match self.nano % unit {
            0 => 0,
            remainder => remainder.signum(),
        };
        let value = self.nano / unit + away;
        value.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}

/// The suffix: the exponent of the multiplier.
#[derive(Clone, Copy)]
enum Suffix {
    /// Power of ten.
    Decimal(i32),
    /// Power of two.
    Binary(u32),
}

impl Suffix {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "" => Self::Decimal(0),
            "n" => Self::Decimal(-9),
            "u" => Self::Decimal(-6),
            "m" => Self::Decimal(-3),
            "k" => Self::Decimal(3),
            "M" => Self::Decimal(6),
            "G" => Self::Decimal(9),
            "T" => Self::Decimal(12),
            "P" => Self::Decimal(15),
            "E" => Self::Decimal(18),
            "Ki" => Self::Binary(10),
            "Mi" => Self::Binary(20),
            "Gi" => Self::Binary(30),
            "Ti" => Self::Binary(40),
            "Pi" => Self::Binary(50),
            "Ei" => Self::Binary(60),
            _ => {
                let exponent = text.strip_prefix(['e', 'E'])?;
                // Upstream truncates the exponent to 32 bits.
                Self::Decimal(exponent.parse::<i64>().ok()? as i32)
            }
        })
    }

    /// Returns `true` if upstream accepts this suffix without digits and reads zero. Only its fast
    /// path does, which the largest binary suffixes and the smallest exponents do not take.
    fn allows_no_digits(self) -> bool {
        match self {
            Self::Decimal(exponent) => exponent >= -9,
            Self::Binary(shift) => shift < 50,
        }
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// Returns `whole.fraction × 10^exponent` in 10⁻⁹ units, rounded up.
fn decimal(whole: &str, fraction: &str, exponent: i32) -> i128 {
    let digits = || whole.bytes().chain(fraction.bytes()).map(|b| i128::from(b - b'0'));
    let shift = i64::from(exponent) + 9 - fraction.len() as i64;
    if shift < 0 {
        let count = whole.len() + fraction.len();
        let kept = count.saturating_sub(shift.unsigned_abs() as usize);
        let rounds_up = digits().skip(kept).any(|digit| digit != 0);
        return number(digits().take(kept)).saturating_add(i128::from(rounds_up));
    }
    match number(digits()) {
        0 => 0,
        number => {
            let scale = u32::try_from(shift).ok().and_then(|shift| 10_i128.checked_pow(shift));
            scale.and_then(|scale| number.checked_mul(scale)).unwrap_or(i128::MAX)
        }
    }
}

/// Returns `whole.fraction × 2^shift` in 10⁻⁹ units, rounded up.
fn binary(whole: &str, fraction: &str, shift: u32) -> i128 {
    let unit = NANO << shift;
    let whole = number(whole.bytes().map(|b| i128::from(b - b'0'))).saturating_mul(unit);
    // Summed from the last digit to the first, so that the sum never exceeds one unit.
    let (mut sum, mut rounds_up) = (0, false);
    for digit in fraction.bytes().rev().map(|b| i128::from(b - b'0')) {
        sum += digit * unit;
        rounds_up |= sum % 10 != 0;
        sum /= 10;
    }
    whole.saturating_add(sum).saturating_add(i128::from(rounds_up))
}

fn number(digits: impl Iterator<Item = i128>) -> i128 {
    digits.fold(0_i128, |number, digit| number.saturating_mul(10).saturating_add(digit))
}

/// The unparsed text of a quantity. Kubernetes accepts a string or a number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawQuantity(pub Box<str>);

impl RawQuantity {
    /// Parses the text after trimming white space.
    pub fn parse(&self) -> Option<Quantity> {
        Quantity::parse(self.0.trim())
    }
}

impl<'de> Deserialize<'de> for RawQuantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyScalar;

        impl Visitor<'_> for AnyScalar {
            type Value = RawQuantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as 500m, 2, 1Gi")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RawQuantity, E> {
                Ok(RawQuantity(text.into()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<RawQuantity, E> {
                Ok(RawQuantity(number.to_string().into()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<RawQuantity, E> {
                Ok(RawQuantity(number.to_string().into()))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<RawQuantity, E> {
                Ok(RawQuantity(number.to_string().into()))
            }

            fn visit_unit<E: de::Error>(self) -> Result<RawQuantity, E> {
                Ok(RawQuantity("0".into()))
            }
        }

        deserializer.deserialize_any(AnyScalar)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, value: i64, milli: i64) {
        let quantity = Quantity::parse(text).unwrap_or_else(|| panic!("{text:?} is a quantity"));
        assert_eq!((quantity.value(), quantity.milli_value()), (value, milli), "{text:?}");
    }

    #[test]
    fn all_suffixes_are_parsed() {
        check("0", 0, 0);
        check("1", 1, 1000);
        check("+1", 1, 1000);
        check("500m", 1, 500);
        check("1500m", 2, 1500);
        check("250u", 1, 1);
        check("1n", 1, 1);
        check("1k", 1000, 1_000_000);
        check("1M", 1_000_000, 1_000_000_000);
        check("1G", 1_000_000_000, 1_000_000_000_000);
        check("1T", 1_000_000_000_000, 1_000_000_000_000_000);
        check("1P", 1_000_000_000_000_000, 1_000_000_000_000_000_000);
        check("1E", 1_000_000_000_000_000_000, i64::MAX);
        check("1Ki", 1024, 1_024_000);
        check("1Mi", 1 << 20, (1 << 20) * 1000);
        check("1Gi", 1 << 30, (1 << 30) * 1000);
        check("1Ti", 1 << 40, (1 << 40) * 1000);
        check("1Pi", 1 << 50, (1 << 50) * 1000);
        check("1Ei", 1 << 60, i64::MAX);
        check("1e3", 1000, 1_000_000);
        check("1E3", 1000, 1_000_000);
        check("1e+3", 1000, 1_000_000);
        check("12e-1", 2, 1200);
        check("1.5Gi", 1_610_612_736, 1_610_612_736_000);
        check("0.5Ki", 512, 512_000);
        check("0.001Ki", 2, 1024);
        check("1.Gi", 1 << 30, (1 << 30) * 1000);
        check(".5", 1, 500);
        check("00000.100", 1, 100);
    }

    #[test]
    fn fractions_are_rounded_away_from_zero() {
        check("0.1n", 1, 1);
        check("0.0000000001", 1, 1);
        check("1.0000000001", 2, 1001);
        check("-1", -1, -1000);
        check("-1.5", -2, -1500);
        check("-0.1m", -1, -1);
        check("0.0009765625Ki", 1, 1000);
        check("0.00097656250001Ki", 2, 1001);
    }

    #[test]
    fn amounts_beyond_64_bits_saturate() {
        check("9223372036854775807", i64::MAX, i64::MAX);
        check("9223372036854775808", i64::MAX, i64::MAX);
        check("-9223372036854775809", i64::MIN, i64::MIN);
        check("8Ei", i64::MAX, i64::MAX);
        check("100000000Ei", i64::MAX, i64::MAX);
        check("-100000000Ei", -i64::MAX, i64::MIN);
        check("10E", i64::MAX, i64::MAX);
        check("1e1000000000", i64::MAX, i64::MAX);
        check("0e1000000000", 0, 0);
        check("1e-1000000000", 1, 1);
        check(&"9".repeat(1000), i64::MAX, i64::MAX);
        check(&format!("0.{}1", "0".repeat(1000)), 1, 1);
        assert!(!Quantity::parse("10E").unwrap().fits_i64());
        assert!(Quantity::parse("8Ei").unwrap().fits_i64());
    }

    #[test]
    fn unusual_texts_that_upstream_accepts_are_accepted() {
        check(".", 0, 0);
        check("-", 0, 0);
        check("+", 0, 0);
        check("m", 0, 0);
        check("Gi", 0, 0);
        check("000", 0, 0);
        check("1e4294967296", 1, 1000);
        check("1e4294967299", 1000, 1_000_000);
    }

    #[test]
    fn malformed_texts_are_refused() {
        for text in [
            "",
            " 1",
            "1 ",
            "12Q",
            "1e",
            "1ee3",
            "1Kii",
            "1ki",
            "1mm",
            "--1",
            "1-",
            "0x10",
            "1,5",
            "1.2.3",
            "1e9223372036854775808",
            "Gi1",
            "1Mi3",
            "½",
            "1½",
            "one",
            ".Ei",
            ".e-10",
        ] {
            assert_eq!(Quantity::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn sums_are_rounded_once() {
        let sum = ["0.1m", "0.1m"]
            .iter()
            .fold(Quantity::ZERO, |sum, text| sum.plus(Quantity::parse(text).unwrap()));
        assert_eq!(sum.milli_value(), 1);
        let most = Quantity::parse("1e30").unwrap();
        assert_eq!(most.plus(most).value(), i64::MAX);
    }

    #[test]
    fn json_numbers_are_quantities_too() {
        let read = |json: &str| serde_json::from_str::<RawQuantity>(json).unwrap().parse();
        assert_eq!(read("2"), Some(Quantity::from_units(2)));
        assert_eq!(read("-2"), Some(Quantity::from_units(-2)));
        assert_eq!(read("0.1"), Some(Quantity::from_milli(100)));
        assert_eq!(read("1e3"), Some(Quantity::from_units(1000)));
        assert_eq!(read("null"), Some(Quantity::ZERO));
        assert_eq!(read("\" 1 \""), Some(Quantity::from_units(1)));
        assert!(serde_json::from_str::<RawQuantity>("true").is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "[-+]?[0-9.]{0,40}[eEinumkKMGTP]{0,3}[-+]?[0-9]{0,22}") {
            if let Some(quantity) = Quantity::parse(&text) {
                let _ = (quantity.value(), quantity.milli_value(), quantity.plus(quantity).value());
            }
        }

        #[test]
        fn whole_numbers_keep_their_value(number: i64) {
            prop_assert_eq!(Quantity::parse(&number.to_string()).unwrap().value(), number);
        }

        #[test]
        fn thousandths_keep_their_value(number: i64) {
            prop_assert_eq!(Quantity::parse(&format!("{number}m")).unwrap().milli_value(), number);
        }
    }
}
