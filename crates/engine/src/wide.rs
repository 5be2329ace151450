//! Loops over columns, compiled for the widest vectors of the processor at hand.
//!
//! One binary runs everywhere, so by default it uses what every processor of its kind has. A loop in
//! [`crate::wide!`] is compiled several times, for wider and wider vectors, and the best form that the
//! processor knows is taken when it runs. All forms do the same operations on each number, so they
//! agree to the last bit.

use fearless_simd::prelude::*;
use fearless_simd::{i64x8, mask64x8};

/// The vectors of a processor.
pub use fearless_simd::Simd as Vectors;
#[doc(hidden)]
pub use fearless_simd::{Level, dispatch};

/// Runs a call for the widest vectors of the processor, which it may name: `wide!(vectors => call)`.
/// The function that is called, and all that it calls, must be `#[inline(always)]`, or it stays as
/// narrow as the rest of the program.
#[macro_export]
macro_rules! wide {
    ($vectors:pat => $call:expr) => {
        $crate::wide::dispatch!($crate::wide::Level::new(), $vectors => $call)
    };
}

/// Numbers that are looked at together.
const LANES: usize = 8;

/// Which of 64 numbers are not negative; the first is the lowest bit.
#[inline(always)]
pub fn not_negative(vectors: impl Vectors, numbers: &[i64; 64]) -> u64 {
    let mut bits = 0;
    for (place, numbers) in numbers.chunks_exact(LANES).enumerate() {
        let negative = i64x8::from_slice(vectors, numbers).simd_lt(0);
        bits |= negative.to_bitmask() << (LANES * place);
    }
    !bits
}

/// How many bits are set.
#[inline(always)]
pub fn count(words: &[u64]) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}

/// How many bits are set in one of two only.
#[inline(always)]
pub fn differing(words: &[u64], others: &[u64]) -> usize {
    words.iter().zip(others).map(|(word, other)| (word ^ other).count_ones() as usize).sum()
}

/// The place of the bit that so many set ones are before; 63 if there are not so many.
#[inline(always)]
pub fn nth(word: u64, mut before: u32) -> u32 {
    let (mut rest, mut place) = (word, 0);
    for width in [32, 16, 8, 4, 2, 1] {
        let low = (rest & ((1 << width) - 1)).count_ones();
        let beyond = before >= low;
        before -= if beyond { low } else { 0 };
        place += if beyond { width } else { 0 };
        rest >>= if beyond { width } else { 0 };
    }
    place
}

/// Which of up to 64 numbers equal one; the first is the lowest bit.
#[inline(always)]
pub fn equal(vectors: impl Vectors, numbers: &[i64], wanted: i64) -> u64 {
    let mut bits = 0;
    let (vectored, rest) = numbers.as_chunks::<LANES>();
    for (place, numbers) in vectored.iter().enumerate() {
        let found = i64x8::from_slice(vectors, numbers).simd_eq(wanted);
        bits |= found.to_bitmask() << (LANES * place);
    }
    let first = vectored.len() * LANES;
    for (place, number) in rest.iter().enumerate() {
        bits |= u64::from(*number == wanted) << (first + place);
    }
    bits
}

/// The largest of up to 64 numbers, of those whose bits are set; `i64::MIN` of none.
#[inline(always)]
pub fn largest(vectors: impl Vectors, numbers: &[i64], counted: u64) -> i64 {
    let mut largest = i64x8::splat(vectors, i64::MIN);
    let (vectored, rest) = numbers.as_chunks::<LANES>();
    for (place, numbers) in vectored.iter().enumerate() {
        let counts = mask64x8::from_bitmask(vectors, counted >> (LANES * place));
        let numbers = i64x8::from_slice(vectors, numbers);
        largest = largest.max(counts.select(numbers, i64x8::splat(vectors, i64::MIN)));
    }
    let first = vectored.len() * LANES;
    let rest = rest.iter().enumerate();
    let rest = rest.filter(|(place, _)| counted >> (first + place) & 1 == 1);
    let of_rest = rest.map(|(_, number)| *number).max().unwrap_or(i64::MIN);
    largest.as_slice().iter().fold(of_rest, |largest, number| (*number).max(largest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_are_found_by_their_rank(word: u64, words: [u64; 9], others: [u64; 9]) {
            let set: Vec<u32> = (0..64).filter(|place| word >> place & 1 == 1).collect();
            for (before, place) in set.iter().enumerate() {
                prop_assert_eq!(wide!(_ => nth(word, before as u32)), *place);
            }
            let bits = |words: &[u64]| words.iter().map(|word| word.count_ones() as usize).sum::<usize>();
            let either = words.iter().zip(&others).map(|(word, other)| word ^ other);
            prop_assert_eq!(wide!(_ => count(&words)), bits(&words));
            let either = bits(&either.collect::<Vec<_>>());
            prop_assert_eq!(wide!(_ => differing(&words, &others)), either);
        }

        #[test]
        fn all_forms_agree_with_plain_loops(
            numbers in prop::collection::vec(prop_oneof![-3i64..3, any::<i64>()], 0..=64),
            counted in prop_oneof![any::<u64>(), Just(u64::MAX), Just(0)],
            wanted in -3i64..3,
        ) {
            let plain = |test: &dyn Fn(i64) -> bool| {
                let places = numbers.iter().enumerate();
                places.fold(0, |bits, (place, n)| bits | u64::from(test(*n)) << place)
            };
            let chosen = numbers.iter().enumerate();
            let chosen = chosen.filter(|(place, _)| counted >> place & 1 == 1).map(|(_, n)| *n);
            let maximum = chosen.max().unwrap_or(i64::MIN);
            prop_assert_eq!(wide!(vectors => equal(vectors, &numbers, wanted)), plain(&|n| n == wanted));
            prop_assert_eq!(wide!(vectors => largest(vectors, &numbers, counted)), maximum);
            if let Ok(all) = <&[i64; 64]>::try_from(&*numbers) {
                prop_assert_eq!(wide!(vectors => not_negative(vectors, all)), plain(&|n| n >= 0));
            }
        }
    }
}
