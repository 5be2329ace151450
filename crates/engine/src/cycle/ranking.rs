//! The scores of a class over its feasible nodes, kept up to date.

use crate::bitset::NodeSet;
use crate::framework::profile::PluginPosition;
use crate::framework::scorer::{EXCLUDED, Extremes, SCORE_MAX, Scorer, Touched};
use crate::framework::{Class, Point, Preparation, Profile};
use crate::index::NodeIdx;
use crate::state::{Areas, State};

use super::best::Best;
use super::scores::ScoringFailed;

/// Scores of a class and the best node by them.
pub(crate) struct Ranking {
    scorers: Vec<PreparedScorer>,
    /// Sum of the scores that are the same everywhere.
    constant: i64,
    /// By slot, the weighted sum of scores that need no normalising.
    base: Vec<i64>,
    /// By slot, the total.
    totals: Vec<i64>,
    feasible: NodeSet,
    usage_seen: u64,
    best: Best,
    /// A plugin could not prepare, or gave a final score outside 0..=100.
    failed: Option<ScoringFailed>,
    /// Such a score.
    invalid: Option<(PluginPosition, i64)>,
    touched: Vec<NodeIdx>,
}

struct PreparedScorer {
    plugin: PluginPosition,
    weight: i64,
    scorer: Box<dyn Scorer>,
    reads_usage: bool,
    skipped: bool,
    part: Part,
}

/// How a scorer's results enter the total.
enum Part {
    Constant,
    Plain,
    Normalised { raw: Vec<i64>, extremes: Tracked },
}

/// Extremes that know how many nodes hold them, so that most changes need no new search.
#[derive(Clone, Copy)]
struct Tracked {
    extremes: Extremes,
    at_min: usize,
    at_max: usize,
}

impl Tracked {
    const EMPTY: Self =
        Self { extremes: Extremes { min: i64::MAX, max: i64::MIN }, at_min: 0, at_max: 0 };

    fn over(raw: &[i64], feasible: &NodeSet) -> Self {
        let mut tracked = Self::EMPTY;
        for node in feasible.iter() {
            tracked.add(raw[node.at()]);
        }
        tracked
    }

    fn add(&mut self, raw: i64) {
        if raw == EXCLUDED {
            return;
        }
        let Extremes { min, max } = &mut self.extremes;
        if raw < *min {
            (*min, self.at_min) = (raw, 0);
        }
        if raw > *max {
            (*max, self.at_max) = (raw, 0);
        }
        self.at_min += usize::from(raw == *min);
        self.at_max += usize::from(raw == *max);
    }

    fn remove(&mut self, raw: i64) {
        if raw != EXCLUDED {
            self.at_min = self.at_min.saturating_sub(usize::from(raw == self.extremes.min));
            self.at_max = self.at_max.saturating_sub(usize::from(raw == self.extremes.max));
        }
    }

    fn is_certain(&self) -> bool {
        self.at_min > 0 && self.at_max > 0
    }
}

impl Ranking {
    /// Scores from scratch. Returns the areas that the scorers depend on, too.
    pub(crate) fn new(
        profile: &Profile,
        class: &Class,
        state: &mut State,
        feasible: &NodeSet,
    ) -> (Self, Areas) {
        let mut preparation = Preparation::new(state);
        let scorers = prepare(profile, class, &mut preparation);
        let areas = preparation.areas;
        let slots = state.nodes.slots();
        let mut ranking = Self {
            scorers,
            constant: 0,
            base: vec![0; slots],
            totals: vec![0; slots],
            feasible: feasible.clone(),
            usage_seen: state.nodes.usage_changes().end(),
            best: Best::new(slots, state.nodes.order()),
            failed: profile
                .at(Point::Score)
                .iter()
                .find_map(|plugin| ScoringFailed::without_pre_score(profile, *plugin)),
            invalid: None,
            touched: Vec::new(),
        };
        for node in feasible.iter() {
            ranking.best.set_feasible(node, true);
        }
        for scorer in &mut ranking.scorers {
            if let Some(reason) = scorer.scorer.failure() {
                let failed = ScoringFailed::while_preparing(profile, scorer.plugin, &reason);
                ranking.failed.get_or_insert(failed);
            }
            scorer.scorer.refresh(state, feasible, true);
            scorer.skipped = scorer.scorer.skipped();
            if let Part::Normalised { raw, extremes } = &mut scorer.part {
                raw.resize(slots, 0);
                scorer.scorer.score_all(state, raw);
                *extremes = Tracked::over(raw, feasible);
            }
        }
        ranking.add_up_base(state);
        ranking.add_up();
        (ranking, areas)
    }

    /// Catches up with the state; false when that is not possible.
    pub(crate) fn refresh(&mut self, state: &State, feasible: &NodeSet) -> bool {
        let Some(changed) = state.nodes.usage_changes().since(self.usage_seen) else {
            return false;
        };
        let feasible_changed = *feasible != self.feasible;
        let mut touched = std::mem::take(&mut self.touched);
        touched.clear();
        let mut base_is_stale = false;
        let mut totals_are_stale = false;
        for scorer in &mut self.scorers {
            let news = scorer.scorer.refresh(state, feasible, feasible_changed);
            if news == Touched::Stale {
                return false;
            }
            let skipped = scorer.scorer.skipped();
            totals_are_stale |= skipped != scorer.skipped;
            let resumed = scorer.skipped && !skipped;
            scorer.skipped = skipped;
            match &mut scorer.part {
                Part::Constant => {}
                Part::Plain => match news {
                    Touched::All => base_is_stale = true,
                    Touched::Nodes(nodes) => touched.extend(nodes),
                    Touched::Nothing | Touched::Stale => {}
                },
                Part::Normalised { raw, extremes } => {
                    if skipped {
                        continue;
                    }
                    let before = extremes.extremes;
                    if resumed || news == Touched::All {
                        scorer.scorer.score_all(state, raw);
                        *extremes = Tracked::over(raw, feasible);
                        totals_are_stale = true;
                        continue;
                    }
                    let mut rescore = |node: NodeIdx| {
                        let new = scorer.scorer.score(state, node);
                        let old = std::mem::replace(&mut raw[node.at()], new);
                        if old != new && self.feasible.contains(node) {
                            extremes.remove(old);
                            extremes.add(new);
                        }
                    };
                    if let Touched::Nodes(nodes) = news {
                        nodes.iter().for_each(|node| rescore(*node));
                        touched.extend(nodes);
                    }
                    if scorer.reads_usage {
                        changed.iter().for_each(|node| rescore(*node));
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
                    if !extremes.is_certain() {
                        *extremes = Tracked::over(raw, feasible);
                    }
                    totals_are_stale |= extremes.extremes != before;
                }
            }
        }
        self.usage_seen = state.nodes.usage_changes().end();
        if feasible_changed {
            for (node, entered) in difference(&self.feasible, feasible) {
                self.best.set_feasible(node, entered);
                touched.push(node);
            }
            self.feasible.copy_from(feasible);
        }
        if base_is_stale {
            self.add_up_base(state);
            totals_are_stale = true;
        } else if self.scorers.iter().any(|s| s.reads_usage && matches!(s.part, Part::Plain)) {
            for node in changed {
                self.base[node.at()] = self.base_of(state, *node);
            }
        }
        for node in &touched {
            self.base[node.at()] = self.base_of(state, *node);
        }
        touched.extend_from_slice(changed);
        if totals_are_stale {
            self.add_up();
        } else {
            for node in &touched {
                self.totals[node.at()] = self.total_of(*node);
                self.best.update(*node, &self.totals, &self.feasible);
            }
        }
        self.touched = touched;
        true
    }

    /// The best feasible node.
    pub(crate) fn choose(&mut self, start: usize) -> Option<NodeIdx> {
        self.best.choose(&self.totals, &self.feasible, start)
    }

    /// Total of a feasible node.
    pub(crate) fn total(&self, node: NodeIdx) -> i64 {
        self.totals[node.at()]
    }

    /// Why the scores cannot be used.
    pub(crate) fn failure(&self, profile: &Profile) -> Option<ScoringFailed> {
        let out_of_range = || {
            self.invalid.map(|(plugin, score)| ScoringFailed::out_of_range(profile, plugin, score))
        };
        self.failed.clone().or_else(out_of_range)
    }

    fn add_up_base(&mut self, state: &State) {
        self.base.fill(0);
        let mut raw = std::mem::take(&mut self.totals);
        for scorer in &mut self.scorers {
            if !matches!(scorer.part, Part::Plain) || scorer.skipped {
                continue;
            }
            scorer.scorer.score_all(state, &mut raw);
            for (base, raw) in self.base.iter_mut().zip(&raw) {
                *base = base.wrapping_add(scorer.weight.wrapping_mul(*raw));
            }
            for node in self.feasible.iter() {
                note_invalid(&mut self.invalid, scorer.plugin, raw[node.at()]);
            }
        }
        self.totals = raw;
    }

    fn base_of(&mut self, state: &State, node: NodeIdx) -> i64 {
        if !state.nodes.present().contains(node) {
            return 0;
        }
        let mut base = 0;
        for scorer in &mut self.scorers {
            if matches!(scorer.part, Part::Plain) && !scorer.skipped {
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
            if matches!(scorer.part, Part::Constant) {
                self.constant += scorer.weight * scorer.scorer.constant().unwrap_or(0);
            }
        }
        for (total, base) in self.totals.iter_mut().zip(&self.base) {
            *total = base.wrapping_add(self.constant);
        }
        for scorer in self.scorers.iter().filter(|scorer| !scorer.skipped) {
            if let Part::Normalised { raw, extremes } = &scorer.part {
                let extremes = extremes.extremes;
                scorer.scorer.add_normalised(raw, extremes, scorer.weight, &mut self.totals);
            }
        }
        self.best.rebuild(&self.totals, &self.feasible);
    }

    fn total_of(&self, node: NodeIdx) -> i64 {
        let mut total = self.base[node.at()] + self.constant;
        for scorer in self.scorers.iter().filter(|scorer| !scorer.skipped) {
            if let Part::Normalised { raw, extremes } = &scorer.part
                && raw[node.at()] != EXCLUDED
            {
                let score = scorer.scorer.normalise(raw[node.at()], extremes.extremes);
                total += scorer.weight * score;
            }
        }
        total
    }
}

fn prepare(profile: &Profile, class: &Class, preparation: &mut Preparation) -> Vec<PreparedScorer> {
    let plugins = profile.at(Point::Score).iter().zip(&profile.weights);
    let prepared = plugins.filter_map(|(plugin, weight)| {
        let scorer = profile.plugins[*plugin].prepare_score(class, preparation)?;
        let part = match (scorer.constant(), scorer.normalises()) {
            (Some(_), _) => Part::Constant,
            (None, false) => Part::Plain,
            (None, true) => Part::Normalised { raw: Vec::new(), extremes: Tracked::EMPTY },
        };
        let reads_usage = scorer.reads_usage();
        Some(PreparedScorer {
            plugin: *plugin,
            weight: *weight,
            scorer,
            reads_usage,
            skipped: false,
            part,
        })
    });
    prepared.collect()
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
