//! Prepared scorers of a ranking, and the columns of those that normalise.

use crate::bitset::NodeSet;
use crate::framework::profile::PluginPosition;
use crate::framework::scorer::{Extremes, ScoreChanges, Scorer};
use crate::framework::{Class, Point, Preparation, Profile};
use crate::index::NodeIdx;
use crate::state::State;

use super::extremes::TrackedExtremes;

/// A scorer of one class with its weight.
pub(super) struct PreparedScorer {
    pub(super) plugin: PluginPosition,
    pub(super) weight: i64,
    pub(super) scorer: Box<dyn Scorer>,
    pub(super) reads_pods: bool,
    pub(super) skipped: bool,
    pub(super) contribution: Contribution,
}

/// How a scorer's results enter the totals.
pub(super) enum Contribution {
    /// By [`Scorer::constant`].
    Constant,
    /// By raw scores that are final; they are part of the ranking's base.
    Plain,
    /// By [`Scorer::score_buckets`]; holds the extremes with which the totals were computed.
    Bucketed(Extremes),
    /// By a column of raw scores that are normalised.
    Normalised(NormalisedColumn),
}

/// Raw scores by slot, with the extremes that normalising depends on.
pub(super) struct NormalisedColumn {
    pub(super) raw: Vec<i64>,
    pub(super) extremes: TrackedExtremes,
}

/// Changes of the state since the last refresh of a ranking.
pub(super) struct StateChanges<'a> {
    pub(super) state: &'a State,
    /// Nodes whose pods changed, orphan slots included.
    pub(super) pods: &'a [NodeIdx],
    pub(super) feasible_before: &'a NodeSet,
    pub(super) feasible: &'a NodeSet,
    pub(super) feasible_changed: bool,
}

impl StateChanges<'_> {
    fn nodes(&self) -> impl Iterator<Item = NodeIdx> {
        existing(self.state, self.pods)
    }
}

/// Returns the existing ones of some nodes. Orphan slots may be beyond the end of the columns.
pub(super) fn existing(state: &State, nodes: &[NodeIdx]) -> impl Iterator<Item = NodeIdx> {
    let present = state.nodes.present();
    nodes.iter().copied().filter(|node| present.contains(*node))
}

/// The parts of a ranking that must be computed again.
#[derive(Default)]
pub(super) struct Outdated {
    /// Set if the base of all nodes is outdated.
    pub(super) base: bool,
    /// Nodes whose base is outdated.
    pub(super) base_nodes: Vec<NodeIdx>,
    /// Set if the totals of all nodes are outdated.
    pub(super) totals: bool,
    /// Nodes whose total is outdated.
    pub(super) total_nodes: Vec<NodeIdx>,
}

/// Prepares the scorers of a profile for a class.
pub(super) fn prepare(
    profile: &Profile,
    class: &Class,
    preparation: &mut Preparation,
) -> Vec<PreparedScorer> {
    let plugins = profile.at(Point::Score).iter().zip(&profile.weights);
    let prepared = plugins.filter_map(|(plugin, weight)| {
        let scorer = profile.prepare_score(*plugin, class, preparation)?;
        let contribution = match (scorer.constant(), scorer.normalises()) {
            (Some(_), _) => Contribution::Constant,
            (None, false) => Contribution::Plain,
            (None, true) if scorer.score_buckets().is_some() => {
                Contribution::Bucketed(Extremes::NONE)
            }
            (None, true) => Contribution::Normalised(NormalisedColumn {
                raw: Vec::new(),
                extremes: TrackedExtremes::EMPTY,
            }),
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

impl PreparedScorer {
    /// Follows the changes of the state and adds what they make outdated. Returns `false` if the
    /// scorer must be prepared again.
    pub(super) fn refresh(&mut self, changes: &StateChanges, outdated: &mut Outdated) -> bool {
        let scorer = &mut *self.scorer;
        let score_changes =
            scorer.refresh(changes.state, changes.feasible, changes.feasible_changed);
        if score_changes == ScoreChanges::Stale {
            return false;
        }
        let skipped = scorer.skipped();
        outdated.totals |= skipped != self.skipped;
        let resumed = self.skipped && !skipped;
        self.skipped = skipped;
        match &mut self.contribution {
            Contribution::Constant => {}
            Contribution::Plain => match score_changes {
                ScoreChanges::All => outdated.base = true,
                ScoreChanges::Nodes(nodes) => outdated.base_nodes.extend(nodes),
                ScoreChanges::Nothing | ScoreChanges::Stale => {}
            },
            Contribution::Bucketed(extremes) => {
                if let Some(buckets) = scorer.score_buckets() {
                    outdated.totals |=
                        score_changes == ScoreChanges::All || buckets.extremes != *extremes;
                    *extremes = buckets.extremes;
                }
                if let ScoreChanges::Nodes(nodes) = score_changes {
                    outdated.total_nodes.extend(nodes);
                }
            }
            Contribution::Normalised(_) if skipped => {}
            Contribution::Normalised(column) if resumed || score_changes == ScoreChanges::All => {
                column.raw.resize(changes.state.nodes.slots(), 0);
                column.score_all(scorer, changes.state, changes.feasible);
                outdated.totals = true;
            }
            Contribution::Normalised(column) => {
                let before = column.extremes.extremes;
                column.follow(scorer, self.reads_pods, &score_changes, changes);
                outdated.totals |= column.extremes.extremes != before;
                if let ScoreChanges::Nodes(nodes) = score_changes {
                    outdated.total_nodes.extend(nodes);
                }
            }
        }
        true
    }

    /// Returns the bucket of each slot and the weighted final score of each bucket.
    pub(super) fn bucket_scores(&self) -> Option<(&[u32], Vec<i64>)> {
        let buckets = self
            .scorer
            .score_buckets()
            .filter(|_| matches!(self.contribution, Contribution::Bucketed(_)))?;
        let scores = buckets.raw.iter();
        let scores =
            scores.map(|raw| self.weight * self.scorer.final_score(*raw, buckets.extremes));
        Some((buckets.of_slot, scores.collect()))
    }
}

impl NormalisedColumn {
    /// Scores all nodes.
    pub(super) fn score_all(&mut self, scorer: &mut dyn Scorer, state: &State, feasible: &NodeSet) {
        scorer.score_all(state, &mut self.raw);
        self.extremes = TrackedExtremes::over(&self.raw, feasible);
    }

    /// Scores the nodes that changed.
    fn follow(
        &mut self,
        scorer: &mut dyn Scorer,
        reads_pods: bool,
        score_changes: &ScoreChanges,
        changes: &StateChanges,
    ) {
        let Self { raw, extremes } = self;
        let mut rescore = |node: NodeIdx| {
            let new = scorer.score(changes.state, node);
            let old = std::mem::replace(&mut raw[node.at()], new);
            if old != new && changes.feasible_before.contains(node) {
                // In this order an extreme that only grows stays certain.
                extremes.add(new);
                extremes.remove(old);
            }
        };
        if let ScoreChanges::Nodes(nodes) = score_changes {
            nodes.iter().copied().for_each(&mut rescore);
        }
        if reads_pods {
            changes.nodes().for_each(&mut rescore);
        }
        if changes.feasible_changed {
            for (node, entered) in difference(changes.feasible_before, changes.feasible) {
                if entered {
                    extremes.add(raw[node.at()]);
                } else {
                    extremes.remove(raw[node.at()]);
                }
            }
        }
        if extremes.uncertain {
            *extremes = TrackedExtremes::counted(raw, changes.feasible);
        }
    }
}

/// Returns the nodes that are in exactly one of the sets, with `true` if that is the new one.
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
