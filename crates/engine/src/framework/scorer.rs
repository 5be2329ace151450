//! Scorers: which of the feasible nodes a class prefers.

use crate::bitset::NodeSet;
use crate::index::NodeIdx;
use crate::state::State;

use super::rejection::Reason;

/// Smallest and largest raw score over the feasible nodes that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extremes {
    /// Smallest; `i64::MAX` when no node counts.
    pub min: i64,
    /// Largest; `i64::MIN` when no node counts.
    pub max: i64,
}

impl Extremes {
    /// Of no nodes.
    pub const NONE: Self = Self { min: i64::MAX, max: i64::MIN };

    /// Takes one more raw score in.
    pub fn take(&mut self, raw: i64) {
        self.min = raw.min(self.min);
        self.max = raw.max(self.max);
    }
}

/// Which raw scores changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScoreChanges {
    /// None but those of nodes whose pods changed (see [`Scorer::reads_pods`]).
    Nothing,
    /// Also these; a node may be listed twice.
    Nodes(Vec<NodeIdx>),
    /// All of them.
    All,
    /// The scorer cannot catch up and must be prepared anew.
    Stale,
}

/// Nodes in groups that score alike.
#[derive(Clone, Copy, Debug)]
pub struct ScoreBuckets<'a> {
    /// Group of each node slot.
    pub of_slot: &'a [u32],
    /// Raw score of each group.
    pub raw: &'a [i64],
    /// Extremes over the groups with feasible nodes.
    pub extremes: Extremes,
}

/// The highest score after normalising.
pub const SCORE_MAX: i64 = 100;

/// A scorer prepared for one class.
pub trait Scorer {
    /// Raw score of one node.
    fn score(&mut self, state: &State, node: NodeIdx) -> i64;

    /// Raw scores of all nodes that exist, by slot. Other slots may hold anything.
    fn score_all(&mut self, state: &State, raw: &mut [i64]) {
        for node in state.nodes.present().iter() {
            raw[node.at()] = self.score(state, node);
        }
    }

    /// Groups of nodes that score alike, for a scorer that normalises and keeps such groups: the raw
    /// scores of all nodes, in the least space. Up to date after [`Scorer::refresh`].
    fn score_buckets(&self) -> Option<ScoreBuckets<'_>> {
        None
    }

    /// The final score if it is the same for all nodes whatever their pods.
    fn constant(&self) -> Option<i64> {
        None
    }

    /// Whether the raw score of a node depends on the pods on it.
    fn reads_pods(&self) -> bool {
        false
    }

    /// Catches up with pods that came and went, and with the set of feasible nodes.
    ///
    /// Called before the first score and before each decision; `feasible_changed` tells whether
    /// the set differs from that of the last call.
    fn refresh(
        &mut self,
        _state: &State,
        _feasible: &NodeSet,
        _feasible_changed: bool,
    ) -> ScoreChanges {
        ScoreChanges::Nothing
    }

    /// Whether the plugin sits this decision out (upstream's `Skip` from PreScore).
    fn skipped(&self) -> bool {
        false
    }

    /// Why this class cannot be scored, whatever the nodes (upstream's error from PreScore).
    fn failure(&self) -> Option<Reason> {
        None
    }

    /// Whether [`Scorer::normalise`] is to be called. Otherwise raw scores are final.
    fn normalises(&self) -> bool {
        false
    }

    /// Final score of a raw one. [`EXCLUDED`] raw scores never get here: they become zero.
    fn normalise(&self, raw: i64, _extremes: Extremes) -> i64 {
        raw
    }

    /// Adds the weighted final score to the total of every slot that is feasible; others may get
    /// anything. The loop is here so that it is compiled with the scorer's own `normalise`.
    fn add_normalised(&self, raw: &[i64], extremes: Extremes, weight: i64, totals: &mut [i64]) {
        let Some(range @ 0..TABLED_RANGE) = extremes.max.checked_sub(extremes.min) else {
            for (total, raw) in totals.iter_mut().zip(raw).filter(|(_, raw)| **raw != EXCLUDED) {
                *total += weight * self.normalise(*raw, extremes);
            }
            return;
        };
        // Normalising divides. Do it once for each raw score that occurs, not for each node.
        let mut table = [0; TABLED_RANGE as usize];
        for (above, score) in (0..=range).zip(&mut table) {
            *score = weight * self.normalise(extremes.min + above, extremes);
        }
        if range == 0 && table[0] == 0 {
            return;
        }
        for (total, raw) in totals.iter_mut().zip(raw) {
            *total += table.get(raw.wrapping_sub(extremes.min) as usize).copied().unwrap_or(0);
        }
    }
}

/// Raw scores this close to each other are normalised by table. Building a larger one would cost
/// more than it saves on a thousand nodes.
const TABLED_RANGE: i64 = 1024;

/// Raw score of a node that counts for no extreme and gets zero in the end.
pub const EXCLUDED: i64 = i64::MIN;

/// Upstream's usual normalisation: the largest raw score becomes 100, in proportion.
pub fn proportional(raw: i64, extremes: Extremes) -> i64 {
    if extremes.max == 0 { raw } else { SCORE_MAX * raw / extremes.max }
}

/// The same, with the smallest raw score the best.
pub fn proportional_reversed(raw: i64, extremes: Extremes) -> i64 {
    if extremes.max == 0 { SCORE_MAX } else { SCORE_MAX - SCORE_MAX * raw / extremes.max }
}
