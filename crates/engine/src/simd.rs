//! Loops over columns, compiled for the widest vector registers of the processor at hand.
//!
//! One binary runs everywhere, so by default the compiler uses only the instructions that every
//! processor of the architecture has. A loop in [`crate::simd_dispatch!`] is compiled once for each
//! vector width, and the widest form that the processor supports is selected at run time. All forms
//! do the same operations on each number, so their results are equal to the last bit.

use fearless_simd::prelude::*;
use fearless_simd::{i64x8, mask64x8};

/// A vector instruction set.
pub use fearless_simd::Simd;
#[doc(hidden)]
pub use fearless_simd::{Level, dispatch};

/// Runs a call with the widest vectors of the processor: `simd_dispatch!(simd => call)`, where the
/// call may pass `simd` on.
///
/// The called function and everything it calls must be `#[inline(always)]`; otherwise they are
/// compiled for the baseline instruction set only.
#[macro_export]
macro_rules! simd_dispatch {
    ($simd:pat => $call:expr) => {
        $crate::simd::dispatch!($crate::simd::Level::new(), $simd => $call)
    };
}

/// Numbers per vector.
const LANES: usize = 8;

/// Returns the mask of numbers that are not negative; the first number is the lowest bit.
#[inline(always)]
pub fn non_negative_mask(simd: impl Simd, numbers: &[i64; 64]) -> u64 {
    let mut bits = 0;
    for (index, numbers) in numbers.chunks_exact(LANES).enumerate() {
        let negative = i64x8::from_slice(simd, numbers).simd_lt(0);
        bits |= negative.to_bitmask() << (LANES * index);
    }
    !bits
}

/// Returns the number of set bits.
#[inline(always)]
pub fn count_ones(words: &[u64]) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}

/// Returns the number of bits that differ between two slices.
#[inline(always)]
pub fn count_differing(words: &[u64], others: &[u64]) -> usize {
    words.iter().zip(others).map(|(word, other)| (word ^ other).count_ones() as usize).sum()
}

/// Returns the position of the set bit with `rank` set bits below it; 63 if there is no such bit.
#[inline(always)]
pub fn nth_set_bit(word: u64, mut rank: u32) -> u32 {
    let (mut remaining, mut position) = (word, 0);
    for width in [32, 16, 8, 4, 2, 1] {
        let low = (remaining & ((1 << width) - 1)).count_ones();
        let in_upper_half = rank >= low;
        rank -= if in_upper_half { low } else { 0 };
        position += if in_upper_half { width } else { 0 };
        remaining >>= if in_upper_half { width } else { 0 };
    }
    position
}

/// Returns the mask of up to 64 numbers that equal `wanted`; the first number is the lowest bit.
#[inline(always)]
pub fn equal_mask(simd: impl Simd, numbers: &[i64], wanted: i64) -> u64 {
    let mut bits = 0;
    let (vectors, tail) = numbers.as_chunks::<LANES>();
    for (index, numbers) in vectors.iter().enumerate() {
        let found = i64x8::from_slice(simd, numbers).simd_eq(wanted);
        bits |= found.to_bitmask() << (LANES * index);
    }
    let first = vectors.len() * LANES;
    for (index, number) in tail.iter().enumerate() {
        bits |= u64::from(*number == wanted) << (first + index);
    }
    bits
}

/// Returns the largest of up to 64 numbers among those whose bits are set in `selected`;
/// `i64::MIN` if none is.
#[inline(always)]
pub fn max_selected(simd: impl Simd, numbers: &[i64], selected: u64) -> i64 {
    let mut largest = i64x8::splat(simd, i64::MIN);
    let (vectors, tail) = numbers.as_chunks::<LANES>();
    for (index, numbers) in vectors.iter().enumerate() {
        let selected = mask64x8::from_bitmask(simd, selected >> (LANES * index));
        let numbers = i64x8::from_slice(simd, numbers);
        largest = largest.max(selected.select(numbers, i64x8::splat(simd, i64::MIN)));
    }
    let first = vectors.len() * LANES;
    let tail = tail.iter().enumerate();
    let tail = tail.filter(|(index, _)| selected >> (first + index) & 1 == 1);
    let of_tail = tail.map(|(_, number)| *number).max().unwrap_or(i64::MIN);
    largest.as_slice().iter().fold(of_tail, |largest, number| (*number).max(largest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_are_found_by_their_rank(word: u64, words: [u64; 9], others: [u64; 9]) {
            let set: Vec<u32> = (0..64).filter(|position| word >> position & 1 == 1).collect();
            for (rank, position) in set.iter().enumerate() {
                prop_assert_eq!(simd_dispatch!(_ => nth_set_bit(word, rank as u32)), *position);
            }
            let bits = |words: &[u64]| words.iter().map(|word| word.count_ones() as usize).sum::<usize>();
            let differences = words.iter().zip(&others).map(|(word, other)| word ^ other);
            prop_assert_eq!(simd_dispatch!(_ => count_ones(&words)), bits(&words));
            let differing = bits(&differences.collect::<Vec<_>>());
            prop_assert_eq!(simd_dispatch!(_ => count_differing(&words, &others)), differing);
        }

        #[test]
        fn all_forms_agree_with_plain_loops(
            numbers in prop::collection::vec(prop_oneof![-3i64..3, any::<i64>()], 0..=64),
            selected in prop_oneof![any::<u64>(), Just(u64::MAX), Just(0)],
            wanted in -3i64..3,
        ) {
            let plain = |test: &dyn Fn(i64) -> bool| {
                let indexed = numbers.iter().enumerate();
                indexed.fold(0, |bits, (index, n)| bits | u64::from(test(*n)) << index)
            };
            let chosen = numbers.iter().enumerate();
            let chosen = chosen.filter(|(index, _)| selected >> index & 1 == 1).map(|(_, n)| *n);
            let maximum = chosen.max().unwrap_or(i64::MIN);
            prop_assert_eq!(
                simd_dispatch!(simd => equal_mask(simd, &numbers, wanted)),
                plain(&|n| n == wanted)
            );
            prop_assert_eq!(simd_dispatch!(simd => max_selected(simd, &numbers, selected)), maximum);
            if let Ok(all) = <&[i64; 64]>::try_from(&*numbers) {
                prop_assert_eq!(
                    simd_dispatch!(simd => non_negative_mask(simd, all)),
                    plain(&|n| n >= 0)
                );
            }
        }
    }
}
