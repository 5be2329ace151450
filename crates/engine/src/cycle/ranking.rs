//! The scores of a class on its feasible nodes, kept up to date incrementally.

mod extremes;
mod prepared_scorer;

use crate::bitset::NodeSet;
use crate::framework::preparation::Dependencies;
use crate::framework::profile::PluginPosition;
use crate::framework::scorer::{Extremes, SCORE_MAX};
use crate::framework::{Class, Point, Preparation, Profile};
use crate::index::NodeIdx;
use crate::simd_dispatch;
use crate::state::State;

use super::choose::TieBreak;
use super::node_picker::NodePicker;
use super::scores::ScoringError;

use prepared_scorer::{Contribution, Outdated, PreparedScorer, StateChanges, existing, prepare};

/// Columns for reuse, because the first write to fresh memory costs page faults.
#[derive(Default)]
pub(crate) struct ColumnPool(Vec<Vec<i64>>);

impl ColumnPool {
    /// Returns a column of this length with undefined content.
    fn take(&mut self, slots: usize) -> Vec<i64> {
        let mut column = self.0.pop().unwrap_or_default();
        column.resize(slots, 0);
        column
    }
}

/// Scores of a class on all nodes, and the best feasible node.
pub(crate) struct Ranking {
    scorers: Vec<PreparedScorer>,
    /// Sum of the scores that are equal on all nodes.
    constant: i64,
    /// Weighted sums of the scores that need no normalising, by slot.
    base: Vec<i64>,
    /// Total scores without `constant`, by slot.
    totals: Vec<i64>,
    feasible: NodeSet,
    /// Version of `feasible`.
    feasible_seen: u64,
    pod_changes_seen: u64,
    node_picker: NodePicker,
    /// Error of a plugin in PreScore.
    failed: Option<ScoringError>,
    /// A plugin whose final score is outside 0..=100, and that score.
    invalid: Option<(PluginPosition, i64)>,
    /// Empty between refreshes; kept for its memory.
    touched: Vec<NodeIdx>,
}

impl Ranking {
    /// Scores all nodes from scratch. Also returns what the scorers depend on.
    pub(crate) fn new(
        profile: &Profile,
        class: &Class,
        state: &mut State,
        (feasible, feasible_version): (&NodeSet, u64),
        column_pool: &mut ColumnPool,
    ) -> (Self, Dependencies) {
        let mut preparation = Preparation::new(state);
        let scorers = prepare(profile, class, &mut preparation);
        let pre_score_failed = ScoringError::by_pre_score_alone(profile, class, &mut preparation);
        let dependencies = preparation.into_dependencies();
        let slots = state.nodes.slots();
        let mut ranking = Self {
            scorers,
            constant: 0,
            base: column_pool.take(slots),
            totals: column_pool.take(slots),
            feasible: feasible.clone(),
            feasible_seen: feasible_version,
            pod_changes_seen: state.nodes.pod_changes().end(),
            node_picker: NodePicker::new(state.nodes.visit_order(), feasible),
            failed: profile
                .at(Point::Score)
                .iter()
                .find_map(|plugin| ScoringError::without_pre_score(profile, *plugin))
                .or(pre_score_failed),
            invalid: None,
            touched: Vec::new(),
        };
        for scorer in &mut ranking.scorers {
            if let Some(reason) = scorer.scorer.failure() {
                let failed = ScoringError::while_preparing(profile, scorer.plugin, &reason);
                ranking.failed.get_or_insert(failed);
            }
            scorer.scorer.refresh(state, feasible, true);
            scorer.skipped = scorer.scorer.skipped();
            match &mut scorer.contribution {
                Contribution::Bucketed(extremes) => {
                    *extremes = scorer
                        .scorer
                        .score_buckets()
                        .map_or(Extremes::NONE, |buckets| buckets.extremes);
                }
                Contribution::Normalised(column) if !scorer.skipped => {
                    column.raw = column_pool.take(slots);
                    column.score_all(&mut *scorer.scorer, state, feasible);
                }
                _ => {}
            }
        }
        ranking.add_up_base(state);
        ranking.add_up();
        (ranking, dependencies)
    }

    /// Follows the changes of the state since the last refresh. Returns `false` if the ranking must
    /// be rebuilt.
    pub(crate) fn refresh(
        &mut self,
        state: &State,
        feasible: &NodeSet,
        feasible_version: u64,
    ) -> bool {
        let Some(changed) = state.nodes.pod_changes().since(self.pod_changes_seen) else {
            return false;
        };
        let feasible_changed = feasible_version != self.feasible_seen && *feasible != self.feasible;
        self.feasible_seen = feasible_version;
        let mut touched = std::mem::take(&mut self.touched);
        touched.clear();
        let mut outdated = Outdated { total_nodes: touched, ..Outdated::default() };
        let changes = StateChanges {
            state,
            pods: changed,
            feasible_before: &self.feasible,
            feasible,
            feasible_changed,
        };
        for scorer in &mut self.scorers {
            if !scorer.refresh(&changes, &mut outdated) {
                return false;
            }
        }
        self.pod_changes_seen = state.nodes.pod_changes().end();
        if feasible_changed {
            // Totals cover all nodes, so those of newly feasible nodes are current.
            self.node_picker.flip(&self.feasible, feasible);
            self.feasible.copy_from(feasible);
        }
        self.refresh_base(state, changed, &mut outdated);
        outdated.total_nodes.extend(existing(state, changed));
        outdated.total_nodes.append(&mut outdated.base_nodes);
        self.refresh_totals(outdated);
        true
    }

    fn refresh_base(&mut self, state: &State, changed: &[NodeIdx], outdated: &mut Outdated) {
        if outdated.base {
            self.add_up_base(state);
            outdated.totals = true;
        } else if self
            .scorers
            .iter()
            .any(|s| s.reads_pods && matches!(s.contribution, Contribution::Plain))
        {
            for node in existing(state, changed) {
                self.base[node.at()] = self.base_of(state, node);
            }
        }
        for node in &outdated.base_nodes {
            self.base[node.at()] = self.base_of(state, *node);
        }
    }

    fn refresh_totals(&mut self, outdated: Outdated) {
        if outdated.totals {
            self.add_up();
        } else {
            for node in &outdated.total_nodes {
                let total = self.total_of(*node);
                self.totals[node.at()] = total;
                self.node_picker.touch(*node, total);
            }
        }
        self.touched = outdated.total_nodes;
    }

    /// Returns the columns to the pool.
    pub(crate) fn recycle(self, column_pool: &mut ColumnPool) {
        column_pool.0.extend([self.base, self.totals]);
        for scorer in self.scorers {
            if let Contribution::Normalised(column) = scorer.contribution
                && !column.raw.is_empty()
            {
                column_pool.0.push(column.raw);
            }
        }
    }

    /// Returns the best feasible node.
    pub(crate) fn choose(&mut self, tie: TieBreak) -> Option<NodeIdx> {
        self.node_picker.choose(&self.totals, &self.feasible, tie)
    }

    /// Returns the total score of a feasible node.
    pub(crate) fn total(&self, node: NodeIdx) -> i64 {
        self.totals[node.at()] + self.constant
    }

    /// Returns the error that makes the scores invalid, if any.
    pub(crate) fn failure(&self, profile: &Profile) -> Option<ScoringError> {
        let out_of_range = || {
            self.invalid.map(|(plugin, score)| ScoringError::out_of_range(profile, plugin, score))
        };
        self.failed.clone().or_else(out_of_range)
    }

    /// Computes the base of all nodes. The totals serve as scratch column and must be computed next.
    fn add_up_base(&mut self, state: &State) {
        self.base.fill(0);
        let mut raw = std::mem::take(&mut self.totals);
        for scorer in &mut self.scorers {
            if !matches!(scorer.contribution, Contribution::Plain) || scorer.skipped {
                continue;
            }
            scorer.scorer.score_all(state, &mut raw);
            let Self { base, .. } = self;
            if simd_dispatch!(_ => add_weighted(base, &raw, scorer.weight)) {
                for node in self.feasible.iter() {
                    note_invalid(&mut self.invalid, scorer.plugin, raw[node.at()]);
                }
            }
        }
        self.totals = raw;
    }

    /// Computes the base of one node.
    fn base_of(&mut self, state: &State, node: NodeIdx) -> i64 {
        let mut base = 0;
        for scorer in &mut self.scorers {
            if matches!(scorer.contribution, Contribution::Plain) && !scorer.skipped {
                let raw = scorer.scorer.score(state, node);
                note_invalid(&mut self.invalid, scorer.plugin, raw);
                base += scorer.weight * raw;
            }
        }
        base
    }

    /// Computes the totals of all nodes.
    fn add_up(&mut self) {
        self.constant = 0;
        for scorer in self.scorers.iter().filter(|scorer| !scorer.skipped) {
            if matches!(scorer.contribution, Contribution::Constant) {
                self.constant += scorer.weight * scorer.scorer.constant().unwrap_or(0);
            }
        }
        let active = || self.scorers.iter().filter(|scorer| !scorer.skipped);
        let mut bucketed = active().filter_map(PreparedScorer::bucket_scores);
        match bucketed.next() {
            None => self.totals.copy_from_slice(&self.base),
            Some((of_slot, scores)) => {
                let bases = self.base.iter().zip(of_slot);
                for (total, (base, bucket)) in self.totals.iter_mut().zip(bases) {
                    *total = base.wrapping_add(scores[*bucket as usize]);
                }
            }
        }
        for (of_slot, scores) in bucketed {
            for (total, bucket) in self.totals.iter_mut().zip(of_slot) {
                *total = total.wrapping_add(scores[*bucket as usize]);
            }
        }
        for scorer in active() {
            if let Contribution::Normalised(column) = &scorer.contribution {
                let (raw, extremes) = (&column.raw, column.extremes.extremes);
                scorer.scorer.add_normalised(raw, extremes, scorer.weight, &mut self.totals);
            }
        }
        self.node_picker.rebuild();
    }

    /// Computes the total of one node.
    fn total_of(&self, node: NodeIdx) -> i64 {
        let mut total = self.base[node.at()];
        for scorer in self.scorers.iter().filter(|scorer| !scorer.skipped) {
            let (raw, extremes) = match &scorer.contribution {
                Contribution::Normalised(column) => {
                    (column.raw[node.at()], column.extremes.extremes)
                }
                Contribution::Bucketed(_) => match scorer.scorer.score_buckets() {
                    Some(buckets) => {
                        (buckets.raw[buckets.of_slot[node.at()] as usize], buckets.extremes)
                    }
                    None => continue,
                },
                Contribution::Constant | Contribution::Plain => continue,
            };
            total += scorer.weight * scorer.scorer.final_score(raw, extremes);
        }
        total
    }
}

/// Adds weighted scores to sums. Returns `true` if a score, possibly of an infeasible node, is out of
/// range.
#[inline(always)]
fn add_weighted(sums: &mut [i64], raw: &[i64], weight: i64) -> bool {
    // Its sign bit is set if any score is below zero or above the maximum, without a branch.
    let mut out_of_range = 0;
    if weight == 1 {
        for (sum, raw) in sums.iter_mut().zip(raw) {
            out_of_range |= *raw | SCORE_MAX.wrapping_sub(*raw);
            *sum = sum.wrapping_add(*raw);
        }
    } else {
        for (sum, raw) in sums.iter_mut().zip(raw) {
            out_of_range |= *raw | SCORE_MAX.wrapping_sub(*raw);
            *sum = sum.wrapping_add(weight.wrapping_mul(*raw));
        }
    }
    out_of_range < 0
}

fn note_invalid(invalid: &mut Option<(PluginPosition, i64)>, plugin: PluginPosition, score: i64) {
    if !(0..=SCORE_MAX).contains(&score) && invalid.is_none() {
        *invalid = Some((plugin, score));
    }
}

#[cfg(test)]
mod tests;
