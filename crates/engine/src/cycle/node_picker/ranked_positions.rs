//! A set of positions that translates between position and rank.

use crate::bitset::NodeSet;
use crate::simd;

/// Words that interpolation tries before a binary search for a rank.
const RANK_GUESSES_MAX: usize = 4;

/// Set of positions in the visiting order. The *rank* of a position is the number of members before
/// it, computed from prefix sums over the words of the set.
pub(super) struct RankedPositions {
    positions: NodeSet,
    /// Number of positions, members or not.
    len: usize,
    /// Number of members.
    count: usize,
    /// Number of members before each word of `positions`.
    prefix: Vec<u32>,
    prefix_is_current: bool,
}

impl RankedPositions {
    /// Creates a set of positions below `len`; [`Self::refresh`] completes it.
    pub(super) fn new(positions: NodeSet, len: usize) -> Self {
        Self { positions, len, count: 0, prefix: Vec::new(), prefix_is_current: false }
    }

    /// Returns the set.
    #[inline(always)]
    pub(super) fn positions(&self) -> &NodeSet {
        &self.positions
    }

    /// Returns the set, mutably; counts and ranks are valid again after [`Self::refresh`].
    #[inline(always)]
    pub(super) fn positions_mut(&mut self) -> &mut NodeSet {
        self.prefix_is_current = false;
        &mut self.positions
    }

    /// Returns the number of members.
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Computes the prefix sums if the set changed.
    #[inline(always)]
    pub(super) fn refresh(&mut self) {
        if self.prefix_is_current {
            return;
        }
        self.prefix.clear();
        let mut count = 0;
        for word in self.positions.words() {
            self.prefix.push(count);
            count += word.count_ones();
        }
        self.count = count as usize;
        self.prefix_is_current = true;
    }

    /// Returns the number of members before a position.
    #[inline(always)]
    pub(super) fn rank_of(&self, position: usize) -> usize {
        if self.count == self.len {
            return position;
        }
        let Some(word) = self.positions.words().get(position / 64) else { return 0 };
        let lower = word & ((1 << (position % 64)) - 1);
        self.prefix[position / 64] as usize + lower.count_ones() as usize
    }

    /// Returns the position of the member with a rank.
    #[inline(always)]
    pub(super) fn position_of(&self, rank: usize) -> usize {
        if self.count == self.len {
            return rank;
        }
        let word = self.word_of(rank as u32);
        let rank_in_word = rank as u32 - self.prefix[word];
        word * 64 + simd::nth_set_bit(self.positions.words()[word], rank_in_word) as usize
    }

    /// Returns the index of the word that holds the member with a rank.
    #[inline(always)]
    fn word_of(&self, rank: u32) -> usize {
        let prefix = |word: usize| self.prefix.get(word).copied().unwrap_or(u32::MAX);
        // Members are usually spread evenly: interpolate, then correct by a few words.
        let mut word = rank as usize * self.prefix.len() / self.count.max(1);
        for _ in 0..RANK_GUESSES_MAX {
            if prefix(word) > rank {
                word = word.saturating_sub(1);
            } else if prefix(word + 1) <= rank {
                word += 1;
            } else {
                return word;
            }
        }
        self.prefix.partition_point(|prefix| *prefix <= rank) - 1
    }
}
