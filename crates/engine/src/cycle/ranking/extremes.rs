//! The smallest and largest raw score of the feasible nodes, maintained as single nodes change.

use crate::bitset::NodeSet;
use crate::framework::scorer::{EXCLUDED, Extremes};

/// Extremes, optionally with the number of nodes that have them, so that most changes need no new
/// search.
///
/// Counting pays only for scores that change node by node, so it starts when a node with an extreme
/// changes for the first time.
#[derive(Clone, Copy)]
pub(super) struct TrackedExtremes {
    pub(super) extremes: Extremes,
    /// Numbers of nodes that have the smallest and the largest raw score, once counted.
    holders: Option<(usize, usize)>,
    /// Set if the last node with an extreme may have changed; the extremes must be searched again.
    pub(super) uncertain: bool,
}

impl TrackedExtremes {
    pub(super) const EMPTY: Self =
        Self { extremes: Extremes::NONE, holders: None, uncertain: false };

    /// Returns the extremes of all feasible nodes, without counting.
    pub(super) fn over(raw: &[i64], feasible: &NodeSet) -> Self {
        // With the sign bit flipped, `EXCLUDED` is zero: it becomes the largest number when one is
        // subtracted for the minimum, and never wins the maximum against another score. Four
        // independent lanes keep the comparisons from waiting for each other.
        const LANES: usize = 4;
        let mut lanes = [(u64::MAX, 0); LANES];
        let take = |(min, max): &mut (u64, u64), raw: i64| {
            let unsigned = raw as u64 ^ 1 << 63;
            *min = unsigned.wrapping_sub(1).min(*min);
            *max = unsigned.max(*max);
        };
        for (raw, word) in raw.chunks(64).zip(feasible.words()) {
            if *word == u64::MAX {
                for raw in raw.chunks_exact(LANES) {
                    lanes.iter_mut().zip(raw).for_each(|(lane, raw)| take(lane, *raw));
                }
            } else {
                set_bits(*word).for_each(|bit| take(&mut lanes[bit % LANES], raw[bit]));
            }
        }
        let (min, max) = lanes
            .into_iter()
            .fold((u64::MAX, 0), |(min, max), lane| (min.min(lane.0), max.max(lane.1)));
        if max == 0 {
            return Self::EMPTY;
        }
        let signed = |unsigned: u64| (unsigned ^ 1 << 63) as i64;
        let extremes = Extremes { min: signed(min.wrapping_add(1)), max: signed(max) };
        Self { extremes, ..Self::EMPTY }
    }

    /// Returns the extremes of all feasible nodes with the numbers of nodes that have them.
    pub(super) fn counted(raw: &[i64], feasible: &NodeSet) -> Self {
        let mut tracked = Self::over(raw, feasible);
        let (mut at_min, mut at_max) = (0, 0);
        for node in feasible.iter() {
            at_min += usize::from(raw[node.at()] == tracked.extremes.min);
            at_max += usize::from(raw[node.at()] == tracked.extremes.max);
        }
        tracked.holders = Some((at_min, at_max));
        tracked
    }

    /// Adds the raw score of a feasible node.
    pub(super) fn add(&mut self, raw: i64) {
        if raw == EXCLUDED {
            return;
        }
        let Extremes { min, max } = &mut self.extremes;
        let (is_new_min, is_new_max) = (raw < *min, raw > *max);
        *min = raw.min(*min);
        *max = raw.max(*max);
        if let Some((at_min, at_max)) = &mut self.holders {
            *at_min = if is_new_min { 1 } else { *at_min + usize::from(raw == *min) };
            *at_max = if is_new_max { 1 } else { *at_max + usize::from(raw == *max) };
        }
    }

    /// Removes the raw score of a feasible node.
    pub(super) fn remove(&mut self, raw: i64) {
        let (was_min, was_max) = (raw == self.extremes.min, raw == self.extremes.max);
        if raw == EXCLUDED || !(was_min || was_max) {
            return;
        }
        let Some((at_min, at_max)) = &mut self.holders else {
            self.uncertain = true;
            return;
        };
        *at_min = at_min.saturating_sub(usize::from(was_min));
        *at_max = at_max.saturating_sub(usize::from(was_max));
        self.uncertain |= *at_min == 0 || *at_max == 0;
    }
}

fn set_bits(word: u64) -> impl Iterator<Item = usize> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let bit = rest.trailing_zeros() as usize;
        (rest != 0).then(|| {
            rest &= rest - 1;
            bit
        })
    })
}
