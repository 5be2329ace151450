//! Scorers: the preferences of a class among feasible nodes.

use crate::bitset::NodeSet;
use crate::index::NodeIdx;
use crate::state::State;

use super::rejection::Reason;

/// Smallest and largest raw score among the feasible nodes, [`EXCLUDED`] ones left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extremes {
    /// Smallest; `i64::MAX` if there is no node.
    pub min: i64,
    /// Largest; `i64::MIN` if there is no node.
    pub max: i64,
}

impl Extremes {
    /// Extremes of no nodes.
    pub const NONE: Self = Self { min: i64::MAX, max: i64::MIN };

    /// Includes a raw score.
    pub fn take(&mut self, raw: i64) {
        self.min = raw.min(self.min);
        self.max = raw.max(self.max);
    }
}

/// Raw scores that changed since the last refresh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScoreChanges {
    /// Only those of nodes whose pods changed (see [`Scorer::reads_pods`]).
    Nothing,
    /// Those of these nodes as well; a node may be listed twice.
    Nodes(Vec<NodeIdx>),
    /// All raw scores.
    All,
    /// The scorer cannot catch up and must be prepared again.
    Stale,
}

/// Nodes in buckets of equal raw scores.
#[derive(Clone, Copy, Debug)]
pub struct ScoreBuckets<'a> {
    /// Bucket of each node slot.
    pub of_slot: &'a [u32],
    /// Raw score of each bucket.
    pub raw: &'a [i64],
    /// Extremes of the buckets with feasible nodes.
    pub extremes: Extremes,
}

/// Highest score after normalising.
pub const SCORE_MAX: i64 = 100;

/// A scorer prepared for one class.
pub trait Scorer: Send {
    /// Returns the raw score of a node.
    fn score(&mut self, state: &State, node: NodeIdx) -> i64;

    /// Writes the raw scores of all existing nodes, by slot. Other slots are undefined.
    fn score_all(&mut self, state: &State, raw: &mut [i64]) {
        for node in state.nodes.present().iter() {
            raw[node.at()] = self.score(state, node);
        }
    }

    /// Returns buckets of nodes with equal raw scores, if the scorer normalises and maintains them;
    /// they take less space than a column. Current after [`Scorer::refresh`].
    fn score_buckets(&self) -> Option<ScoreBuckets<'_>> {
        None
    }

    /// Returns the final score if it is the same on all nodes.
    fn constant(&self) -> Option<i64> {
        None
    }

    /// Returns `true` if the raw score of a node depends on the pods there.
    fn reads_pods(&self) -> bool {
        false
    }

    /// Follows pods that were placed or removed, and the set of feasible nodes.
    ///
    /// Called before the first score and before each decision. `feasible_changed` is `true` if the
    /// set differs from that of the last call.
    fn refresh(
        &mut self,
        _state: &State,
        _feasible: &NodeSet,
        _feasible_changed: bool,
    ) -> ScoreChanges {
        ScoreChanges::Nothing
    }

    /// Returns `true` if the plugin does not score in this decision (upstream's `Skip` from
    /// PreScore).
    fn skipped(&self) -> bool {
        false
    }

    /// Returns the error that prevents scoring the class on any node (upstream's error from
    /// PreScore).
    fn failure(&self) -> Option<Reason> {
        None
    }

    /// Returns `true` if [`Scorer::normalise`] applies; otherwise raw scores are final.
    fn normalises(&self) -> bool {
        false
    }

    /// Returns the final score of a raw score. Not called for [`EXCLUDED`].
    fn normalise(&self, raw: i64, _extremes: Extremes) -> i64 {
        raw
    }

    /// Returns the final score of nodes whose raw score is [`EXCLUDED`].
    fn excluded_score(&self) -> i64 {
        0
    }

    /// Returns the final score of any raw score.
    fn final_score(&self, raw: i64, extremes: Extremes) -> i64 {
        if raw == EXCLUDED { self.excluded_score() } else { self.normalise(raw, extremes) }
    }

    /// Adds the weighted final scores to the totals of feasible slots; other slots are undefined.
    /// It is a trait method so that the loop is compiled together with the scorer's own
    /// `normalise`.
    fn add_normalised(&self, raw: &[i64], extremes: Extremes, weight: i64, totals: &mut [i64]) {
        let Some(range @ 0..TABLED_RANGE) = extremes.max.checked_sub(extremes.min) else {
            for (total, raw) in totals.iter_mut().zip(raw) {
                *total += weight * self.final_score(*raw, extremes);
            }
            return;
        };
        let excluded = weight * self.excluded_score();
        // `normalise` divides: do that once per distinct raw score instead of once per node.
        let mut table = [0; TABLED_RANGE as usize];
        for (above, score) in (0..=range).zip(&mut table) {
            *score = weight * self.normalise(extremes.min + above, extremes);
        }
        if range == 0 && table[0] == 0 && excluded == 0 {
            return;
        }
        for (total, raw) in totals.iter_mut().zip(raw) {
            *total +=
                table.get(raw.wrapping_sub(extremes.min) as usize).copied().unwrap_or(excluded);
        }
    }
}

/// Raw scores within this range are normalised by a table. A larger table would cost more to fill
/// than it saves on 1,000 nodes.
const TABLED_RANGE: i64 = 1024;

/// Raw score of a node that is left out of the extremes; its final score is
/// [`Scorer::excluded_score`].
pub const EXCLUDED: i64 = i64::MIN;

/// Upstream's default normalisation: scales the largest raw score to 100.
pub fn proportional(raw: i64, extremes: Extremes) -> i64 {
    if extremes.max == 0 { raw } else { SCORE_MAX * raw / extremes.max }
}

/// Upstream's reversed normalisation: the largest raw score becomes zero.
pub fn proportional_reversed(raw: i64, extremes: Extremes) -> i64 {
    if extremes.max == 0 { SCORE_MAX } else { SCORE_MAX - SCORE_MAX * raw / extremes.max }
}
