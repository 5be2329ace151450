//! Random numbers from a seed, which is printed so that a run can be repeated.

use std::ops::Range;
use std::time::Duration;

/// The generator SplitMix64.
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns an index into a list of this length; 0 for an empty one.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        (self.next() % (length.max(1) as u64)) as usize
    }

    /// Returns a time in a range, in whole milliseconds.
    pub(crate) fn time(&mut self, range: &Range<Duration>) -> Duration {
        let width = range.end.saturating_sub(range.start).as_millis().max(1) as u64;
        range.start + Duration::from_millis(self.next() % width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_within_their_range() {
        let range = Duration::from_secs(5)..Duration::from_secs(40);
        let times = |seed| {
            let mut draw = SplitMix::new(seed);
            (0..50).map(|_| draw.time(&range)).collect::<Vec<_>>()
        };
        assert_eq!(times(7), times(7));
        assert_ne!(times(7), times(8));
        assert!(times(7).iter().all(|time| range.contains(time)));
        assert_eq!(SplitMix::new(1).index(0), 0);
    }
}
