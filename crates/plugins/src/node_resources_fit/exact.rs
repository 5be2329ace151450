//! Exact integer division of columns in floating point.
//!
//! Baseline x86-64 divides 64-bit integers one at a time and slowly, but doubles in pairs. The functions
//! here compile to vector instructions of that baseline, and agree with integer division for numbers
//! below [`EXACT_LIMIT`].
//!
//! Proof: let `n` and `d` be integers, `d` below 2⁴⁶, `n` at most 100 × `d`. Both are below 2⁵³, so
//! doubles hold them exactly. If `n / d` is not an integer, it is at least `1 / d` > 2⁻⁴⁶ below the next
//! integer, which is at most 100. Doubles below 128 are at most 2⁻⁴⁶ apart, so rounding the quotient
//! moves it by at most 2⁻⁴⁷: it never reaches that integer, and truncation gives the right result.

/// Exclusive upper bound of the numbers for which the results are exact.
pub(crate) const EXACT_LIMIT: u64 = 1 << 46;

/// Adding and subtracting 2⁵² rounds to an integer: one unit in the last place is one there.
const INTEGER_SHIFT: f64 = (1u64 << 52) as f64;

/// Returns `true` if all numbers lie between 0 and [`EXACT_LIMIT`], given the bitwise OR of all of them.
pub(crate) fn all_exact(bits: i64) -> bool {
    (bits as u64) < EXACT_LIMIT
}

/// Returns the bitwise OR of all numbers.
#[inline(always)]
pub(crate) fn combined_bits(column: &[i64]) -> i64 {
    column.iter().fold(0, |bits, amount| bits | amount)
}

/// Converts an integer between 0 and 2⁵².
#[inline(always)]
pub(crate) fn to_f64(amount: i64) -> f64 {
    f64::from_bits(INTEGER_SHIFT.to_bits() | amount as u64) - INTEGER_SHIFT
}

/// Rounds a number between 0 and 2⁵¹ down.
#[inline(always)]
pub(crate) fn floor(value: f64) -> f64 {
    let nearest = (value + INTEGER_SHIFT) - INTEGER_SHIFT;
    nearest - if nearest > value { 1.0 } else { 0.0 }
}

/// Converts an integral number between 0 and 2⁵¹.
#[inline(always)]
pub(crate) fn to_i64(value: f64) -> i64 {
    ((value + INTEGER_SHIFT).to_bits() ^ INTEGER_SHIFT.to_bits()) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn doubles_hold_small_integers_exactly(amount in 0i64..1 << 52) {
            prop_assert_eq!(to_f64(amount), amount as f64);
        }

        #[test]
        fn floor_removes_the_fraction(value in 0.0f64..1e15) {
            prop_assert_eq!(floor(value), value.trunc());
            prop_assert_eq!(to_i64(floor(value)), value as i64);
        }

        #[test]
        fn quotients_equal_those_of_integer_division(divisor in 1i64..1 << 46, part in 0i64..1 << 46) {
            let part = part.min(divisor);
            let quotient = to_i64(floor(100.0 * to_f64(part) / to_f64(divisor)));
            prop_assert_eq!(quotient, 100 * part / divisor);
        }

        #[test]
        fn quotients_next_to_integers_are_exact(
            divisor in (1i64 << 46) - 100_000..1 << 46,
            percent in 0i64..=100,
            offset in -1i64..=1,
        ) {
            let part = (divisor * percent / 100 + offset).clamp(0, divisor);
            let quotient = to_i64(floor(100.0 * to_f64(part) / to_f64(divisor)));
            prop_assert_eq!(quotient, 100 * part / divisor);
        }
    }

    #[test]
    fn large_and_negative_numbers_are_detected() {
        assert!(all_exact(combined_bits(&[0, 1, (1 << 46) - 1])));
        assert!(!all_exact(combined_bits(&[0, 1 << 46])));
        assert!(!all_exact(combined_bits(&[-1, 5])));
        assert!(all_exact(0) && !all_exact(-1) && !all_exact(i64::MAX));
    }
}
