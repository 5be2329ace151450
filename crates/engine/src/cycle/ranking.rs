//! The scores of a class over its feasible nodes, kept up to date.

use crate::bitset::NodeSet;
use crate::framework::profile::PluginPosition;
use crate::framework::scorer::{EXCLUDED, Extremes, SCORE_MAX, ScoreChanges, Scorer};
use crate::framework::{Class, Point, Preparation, Profile};
use crate::index::NodeIdx;
use crate::simd_dispatch;
use crate::state::{Areas, State};

use super::choose::TieBreak;
use super::node_picker::NodePicker;
use super::scores::ScoringError;

/// Columns that are used again: fresh memory would have to be fetched first.
#[derive(Default)]
pub(crate) struct ColumnPool(Vec<Vec<i64>>);

impl ColumnPool {
    /// A column of this length that holds anything.
    fn take(&mut self, slots: usize) -> Vec<i64> {
        let mut column = self.0.pop().unwrap_or_default();
        column.resize(slots, 0);
        column
    }
}

/// Scores of a class and the best node by them.
pub(crate) struct Ranking {
    scorers: Vec<PreparedScorer>,
    /// Sum of the scores that are the same everywhere.
    constant: i64,
    /// By slot, the weighted sum of scores that need no normalising.
    base: Vec<i64>,
    /// By slot, the total without what is the same everywhere.
    totals: Vec<i64>,
    feasible: NodeSet,
    /// Which version of the feasible nodes that is.
    feasible_seen: u64,
    pod_changes_seen: u64,
    node_picker: NodePicker,
    /// A plugin could not prepare, or gave a final score outside 0..=100.
    failed: Option<ScoringError>,
    /// Such a score.
    invalid: Option<(PluginPosition, i64)>,
    touched: Vec<NodeIdx>,
}

struct PreparedScorer {
    plugin: PluginPosition,
    weight: i64,
    scorer: Box<dyn Scorer>,
    reads_pods: bool,
    skipped: bool,
    contribution: Contribution,
}

/// How a scorer's results enter the total.
enum Contribution {
    Constant,
    Plain,
    /// By [`Scorer::score_buckets`]; the extremes that the totals were made with.
    Bucketed(Extremes),
    Normalised {
        raw: Vec<i64>,
        extremes: TrackedExtremes,
    },
}

/// Extremes that may know how many nodes hold them, so that most changes need no new search.
///
/// Counting is worth its price only for scores that change node by node: it is done when a node that
/// holds an extreme changes for the first time.
#[derive(Clone, Copy)]
struct TrackedExtremes {
    extremes: Extremes,
    /// How many nodes hold the smallest and the largest, once counted.
    holders: Option<(usize, usize)>,
    /// The last node that held an extreme may be gone.
    uncertain: bool,
}

impl TrackedExtremes {
    const EMPTY: Self = Self { extremes: Extremes::NONE, holders: None, uncertain: false };

    /// Over all feasible nodes, without counting.
    fn over(raw: &[i64], feasible: &NodeSet) -> Self {
        // Without its sign the sentinel is zero: the largest number once one is taken away, and no
        // maximum as long as anything else is there. Lanes do not wait for each other.
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

    /// The same, and how many nodes hold the extremes.
    fn counted(raw: &[i64], feasible: &NodeSet) -> Self {
        let mut tracked = Self::over(raw, feasible);
        let (mut at_min, mut at_max) = (0, 0);
        for node in feasible.iter() {
            at_min += usize::from(raw[node.at()] == tracked.extremes.min);
            at_max += usize::from(raw[node.at()] == tracked.extremes.max);
        }
        tracked.holders = Some((at_min, at_max));
        tracked
    }

    fn add(&mut self, raw: i64) {
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

    fn remove(&mut self, raw: i64) {
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

impl Ranking {
    /// Scores from scratch. Returns the areas that the scorers depend on, too.
    pub(crate) fn new(
        profile: &Profile,
        class: &Class,
        state: &mut State,
        (feasible, feasible_version): (&NodeSet, u64),
        column_pool: &mut ColumnPool,
    ) -> (Self, Areas) {
        let mut preparation = Preparation::new(state);
        let scorers = prepare(profile, class, &mut preparation);
        let pre_score_failed = ScoringError::by_pre_score_alone(profile, class, &mut preparation);
        let areas = preparation.areas;
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
                    *extremes =
                        scorer.scorer.score_buckets().map_or(Extremes::NONE, |g| g.extremes);
                }
                Contribution::Normalised { raw, extremes } if !scorer.skipped => {
                    *raw = column_pool.take(slots);
                    scorer.scorer.score_all(state, raw);
                    *extremes = TrackedExtremes::over(raw, feasible);
                }
                _ => {}
            }
        }
        ranking.add_up_base(state);
        ranking.add_up();
        (ranking, areas)
    }

    /// Catches up with the state; false when that is not possible.
    pub(crate) fn refresh(
        &mut self,
        state: &State,
        feasible: &NodeSet,
        feasible_version: u64,
    ) -> bool {
        let Some(changed) = state.nodes.pod_changes().since(self.pod_changes_seen) else {
            return false;
        };
        // Pods may also be on nodes that are not known; these have no place in the columns.
        let known = state.nodes.present();
        let changed = || changed.iter().copied().filter(|node| known.contains(*node));
        let feasible_changed = feasible_version != self.feasible_seen && *feasible != self.feasible;
        self.feasible_seen = feasible_version;
        let mut touched = std::mem::take(&mut self.touched);
        touched.clear();
        let mut base_touched = Vec::new();
        let mut base_is_stale = false;
        let mut totals_are_stale = false;
        for scorer in &mut self.scorers {
            let news = scorer.scorer.refresh(state, feasible, feasible_changed);
            if news == ScoreChanges::Stale {
                return false;
            }
            let skipped = scorer.scorer.skipped();
            totals_are_stale |= skipped != scorer.skipped;
            let resumed = scorer.skipped && !skipped;
            scorer.skipped = skipped;
            match &mut scorer.contribution {
                Contribution::Constant => {}
                Contribution::Plain => match news {
                    ScoreChanges::All => base_is_stale = true,
                    ScoreChanges::Nodes(nodes) => base_touched.extend(nodes),
                    ScoreChanges::Nothing | ScoreChanges::Stale => {}
                },
                Contribution::Bucketed(extremes) => {
                    if let Some(buckets) = scorer.scorer.score_buckets() {
                        totals_are_stale |=
                            news == ScoreChanges::All || buckets.extremes != *extremes;
                        *extremes = buckets.extremes;
                    }
                    if let ScoreChanges::Nodes(nodes) = news {
                        touched.extend(nodes);
                    }
                }
                Contribution::Normalised { raw, extremes } => {
                    if skipped {
                        continue;
                    }
                    let before = extremes.extremes;
                    if resumed || news == ScoreChanges::All {
                        raw.resize(state.nodes.slots(), 0);
                        scorer.scorer.score_all(state, raw);
                        *extremes = TrackedExtremes::over(raw, feasible);
                        totals_are_stale = true;
                        continue;
                    }
                    let mut rescore = |node: NodeIdx| {
                        let new = scorer.scorer.score(state, node);
                        let old = std::mem::replace(&mut raw[node.at()], new);
                        if old != new && self.feasible.contains(node) {
                            // In this order an extreme that only grows stays certain.
                            extremes.add(new);
                            extremes.remove(old);
                        }
                    };
                    if let ScoreChanges::Nodes(nodes) = news {
                        for node in &nodes {
                            rescore(*node);
                        }
                        touched.extend(nodes);
                    }
                    if scorer.reads_pods {
                        changed().for_each(&mut rescore);
                    }
                    if feasible_changed {
                        for (node, entered) in difference(&self.feasible, feasible) {
                            if entered {
                                extremes.add(raw[node.at()]);
                            } else {
                                extremes.remove(raw[node.at()]);
                            }
                        }
                    }
                    if extremes.uncertain {
                        *extremes = TrackedExtremes::counted(raw, feasible);
                    }
                    totals_are_stale |= extremes.extremes != before;
                }
            }
        }
        self.pod_changes_seen = state.nodes.pod_changes().end();
        if feasible_changed {
            // Totals are kept for all nodes, so these are known.
            self.node_picker.flip(&self.feasible, feasible);
            self.feasible.copy_from(feasible);
        }
        if base_is_stale {
            self.add_up_base(state);
            totals_are_stale = true;
        } else if self
            .scorers
            .iter()
            .any(|s| s.reads_pods && matches!(s.contribution, Contribution::Plain))
        {
            for node in changed() {
                self.base[node.at()] = self.base_of(state, node);
            }
        }
        for node in &base_touched {
            self.base[node.at()] = self.base_of(state, *node);
        }
        touched.extend(changed());
        touched.append(&mut base_touched);
        if totals_are_stale {
            self.add_up();
        } else {
            for node in &touched {
                let total = self.total_of(*node);
                self.totals[node.at()] = total;
                self.node_picker.touch(*node, total);
            }
        }
        self.touched = touched;
        true
    }

    /// Gives its columns up.
    pub(crate) fn recycle(self, column_pool: &mut ColumnPool) {
        column_pool.0.extend([self.base, self.totals]);
        for scorer in self.scorers {
            if let Contribution::Normalised { raw, .. } = scorer.contribution
                && !raw.is_empty()
            {
                column_pool.0.push(raw);
            }
        }
    }

    /// The best feasible node.
    pub(crate) fn choose(&mut self, tie: TieBreak) -> Option<NodeIdx> {
        self.node_picker.choose(&self.totals, &self.feasible, tie)
    }

    /// Total of a feasible node.
    pub(crate) fn total(&self, node: NodeIdx) -> i64 {
        self.totals[node.at()] + self.constant
    }

    /// Why the scores cannot be used.
    pub(crate) fn failure(&self, profile: &Profile) -> Option<ScoringError> {
        let out_of_range = || {
            self.invalid.map(|(plugin, score)| ScoringError::out_of_range(profile, plugin, score))
        };
        self.failed.clone().or_else(out_of_range)
    }

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
            if let Contribution::Normalised { raw, extremes } = &scorer.contribution {
                let extremes = extremes.extremes;
                scorer.scorer.add_normalised(raw, extremes, scorer.weight, &mut self.totals);
            }
        }
        self.node_picker.rebuild();
    }

    fn total_of(&self, node: NodeIdx) -> i64 {
        let mut total = self.base[node.at()];
        for scorer in self.scorers.iter().filter(|scorer| !scorer.skipped) {
            let (raw, extremes) = match &scorer.contribution {
                Contribution::Normalised { raw, extremes } => (raw[node.at()], extremes.extremes),
                Contribution::Bucketed(_) => match scorer.scorer.score_buckets() {
                    Some(buckets) => {
                        (buckets.raw[buckets.of_slot[node.at()] as usize], buckets.extremes)
                    }
                    None => continue,
                },
                Contribution::Constant | Contribution::Plain => continue,
            };
            if raw != EXCLUDED {
                total += scorer.weight * scorer.scorer.normalise(raw, extremes);
            }
        }
        total
    }
}

impl PreparedScorer {
    /// Group of each slot, and the weighted final score of each bucket.
    fn bucket_scores(&self) -> Option<(&[u32], Vec<i64>)> {
        let buckets = self
            .scorer
            .score_buckets()
            .filter(|_| matches!(self.contribution, Contribution::Bucketed(_)))?;
        let scores = buckets.raw.iter().map(|raw| match *raw {
            EXCLUDED => 0,
            raw => self.weight * self.scorer.normalise(raw, buckets.extremes),
        });
        Some((buckets.of_slot, scores.collect()))
    }
}

fn prepare(profile: &Profile, class: &Class, preparation: &mut Preparation) -> Vec<PreparedScorer> {
    let plugins = profile.at(Point::Score).iter().zip(&profile.weights);
    let prepared = plugins.filter_map(|(plugin, weight)| {
        let scorer = profile.plugins[*plugin].prepare_score(class, preparation)?;
        let contribution = match (scorer.constant(), scorer.normalises()) {
            (Some(_), _) => Contribution::Constant,
            (None, false) => Contribution::Plain,
            (None, true) if scorer.score_buckets().is_some() => {
                Contribution::Bucketed(Extremes::NONE)
            }
            (None, true) => {
                Contribution::Normalised { raw: Vec::new(), extremes: TrackedExtremes::EMPTY }
            }
        };
        let reads_pods = scorer.reads_pods();
        Some(PreparedScorer {
            plugin: *plugin,
            weight: *weight,
            scorer,
            reads_pods,
            skipped: false,
            contribution,
        })
    });
    prepared.collect()
}

/// Adds weighted scores to sums. True when some score, perhaps of a node that does not count, is out of range.
#[inline(always)]
fn add_weighted(sums: &mut [i64], raw: &[i64], weight: i64) -> bool {
    // The sign tells whether any score is below zero or above the maximum; no branch, no compare.
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

/// Nodes that are in one of the sets only, and whether that is the new one.
fn difference<'a>(
    old: &'a NodeSet,
    new: &'a NodeSet,
) -> impl Iterator<Item = (NodeIdx, bool)> + 'a {
    let words = old.words().iter().zip(new.words()).enumerate();
    words.flat_map(|(index, (old, new))| {
        let mut rest = old ^ new;
        std::iter::from_fn(move || {
            let bit = rest.trailing_zeros() as usize;
            (rest != 0).then(|| {
                rest &= rest - 1;
                (NodeIdx::from(index * 64 + bit), new >> bit & 1 == 1)
            })
        })
    })
}

#[cfg(test)]
mod tests;
