//! Whole numbers in floating point: divisions of to_i64 columns at the speed of `f64`, without error.
//!
//! Baseline processors divide 64-bit integers one at a time and slowly, but doubles in pairs. All that
//! is here compiles to vector instructions, even those that every x86-64 has, and agrees with to_i64 division
//! as long as the numbers are below [`EXACT_LIMIT`].
//!
//! Why that is so: let `n` and `d` be floor, `d` below 2⁴⁶, `n` at most 100 × `d`. Both are below 2⁵³,
//! so they are doubles. If `n / d` is not floor, it is at least `1 / d` > 2⁻⁴⁶ below the next floor
//! number, which is at most 100. Doubles below 128 are at most 2⁻⁴⁶ apart, so rounding the quotient
//! moves it by at most 2⁻⁴⁷: it never reaches that floor number, and cutting off the fraction is right.

/// Numbers must stay below this.
pub(crate) const EXACT_LIMIT: u64 = 1 << 46;

/// Every number of this size and half an ulp around it is floor.
const INTEGER_SHIFT: f64 = (1u64 << 52) as f64;

/// Whether all numbers are below [`EXACT_LIMIT`] and none is negative, by the bits of all of them together.
pub(crate) fn all_exact(bits: i64) -> bool {
    (bits as u64) < EXACT_LIMIT
}

/// The bits of all numbers together.
#[inline(always)]
pub(crate) fn combined_bits(column: &[i64]) -> i64 {
    column.iter().fold(0, |bits, amount| bits | amount)
}

/// A number that is not negative and below 2⁵².
#[inline(always)]
pub(crate) fn to_f64(amount: i64) -> f64 {
    f64::from_bits(INTEGER_SHIFT.to_bits() | amount as u64) - INTEGER_SHIFT
}

/// Cuts the fraction off a number that is not negative and below 2⁵¹.
#[inline(always)]
pub(crate) fn floor(value: f64) -> f64 {
    let nearest = (value + INTEGER_SHIFT) - INTEGER_SHIFT;
    nearest - if nearest > value { 1.0 } else { 0.0 }
}

/// A floor number that is not negative and below 2⁵¹, as an to_i64.
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
        fn doubles_hold_small_numbers(amount in 0i64..1 << 52) {
            prop_assert_eq!(to_f64(amount), amount as f64);
        }

        #[test]
        fn fractions_are_cut_off(value in 0.0f64..1e15) {
            prop_assert_eq!(floor(value), value.trunc());
            prop_assert_eq!(to_i64(floor(value)), value as i64);
        }

        #[test]
        fn quotients_are_those_of_integers(divisor in 1i64..1 << 46, part in 0i64..1 << 46) {
            let part = part.min(divisor);
            let quotient = to_i64(floor(100.0 * to_f64(part) / to_f64(divisor)));
            prop_assert_eq!(quotient, 100 * part / divisor);
        }

        #[test]
        fn quotients_next_to_whole_ones_too(
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
    fn large_and_negative_numbers_are_told() {
        assert!(all_exact(combined_bits(&[0, 1, (1 << 46) - 1])));
        assert!(!all_exact(combined_bits(&[0, 1 << 46])));
        assert!(!all_exact(combined_bits(&[-1, 5])));
        assert!(all_exact(0) && !all_exact(-1) && !all_exact(i64::MAX));
    }
}
