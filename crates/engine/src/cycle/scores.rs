//! Scores of a list of nodes, plugin by plugin: for explanations, for samples of nodes, and as the
//! plain form that [`Ranking`](super::ranking) must equal.

use crate::bitset::NodeSet;
use crate::framework::profile::PluginPosition;
use crate::framework::scorer::{EXCLUDED, Extremes, SCORE_MAX};
use crate::framework::{Class, Point, Preparation, Profile};
use crate::index::NodeIdx;
use crate::state::State;

use super::choose::heap_winner;

/// Final scores of a list of nodes.
#[derive(Clone, Debug, Default)]
pub struct Scores {
    /// Per plugin, its weighted score of each listed node.
    pub plugins: Vec<(PluginPosition, Vec<i64>)>,
    /// Total of each listed node.
    pub totals: Vec<i64>,
}

/// Upstream's error text of a failed scoring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoringError(pub String);

impl ScoringError {
    pub(crate) fn out_of_range(profile: &Profile, plugin: PluginPosition, score: i64) -> Self {
        let name = profile.plugin_name(plugin);
        Self(format!(
            "plugin {name:?} returns an invalid score {score}, it should in the range of [0, 100] after normalizing"
        ))
    }

    /// Returns the error of a plugin whose Score needs PreScore, if the profile does not enable
    /// that.
    pub(crate) fn without_pre_score(profile: &Profile, plugin: PluginPosition) -> Option<Self> {
        if profile.at(Point::PreScore).contains(&plugin) {
            return None;
        }
        let text = profile.plugins[plugin].score_without_pre_score()?;
        let name = profile.plugin_name(plugin);
        Some(Self(format!("running Score plugins: plugin {name:?} failed with: {text}")))
    }

    /// Returns the error of a plugin whose PreScore is enabled without its Score.
    pub(crate) fn by_pre_score_alone(
        profile: &Profile,
        class: &Class,
        preparation: &mut Preparation,
    ) -> Option<Self> {
        let scores = profile.at(Point::Score);
        let alone = profile.at(Point::PreScore).iter().filter(|plugin| !scores.contains(plugin));
        alone.into_iter().find_map(|plugin| {
            let scorer = profile.prepare_score(*plugin, class, preparation)?;
            Some(Self::while_preparing(profile, *plugin, &scorer.failure()?))
        })
    }

    pub(crate) fn while_preparing(profile: &Profile, plugin: PluginPosition, reason: &str) -> Self {
        Self(format!("running PreScore plugin {:?}: {reason}", profile.plugin_name(plugin)))
    }
}

impl Scores {
    /// Scores a list of feasible nodes from scratch.
    pub fn new(
        profile: &Profile,
        class: &Class,
        state: &mut State,
        nodes: &[NodeIdx],
    ) -> Result<Self, ScoringError> {
        let mut feasible = NodeSet::new(state.nodes.slots());
        for node in nodes {
            feasible.insert(*node);
        }
        let mut scores = Self { plugins: Vec::new(), totals: vec![0; nodes.len()] };
        if profile.at(Point::Score).is_empty() {
            scores.totals.fill(1);
        }
        let preparation = &mut Preparation::new(state);
        if let Some(failed) = ScoringError::by_pre_score_alone(profile, class, preparation) {
            return Err(failed);
        }
        for (plugin, weight) in profile.at(Point::Score).iter().zip(&profile.weights) {
            if let Some(failed) = ScoringError::without_pre_score(profile, *plugin) {
                return Err(failed);
            }
            let mut preparation = Preparation::new(state);
            let prepared = profile.prepare_score(*plugin, class, &mut preparation);
            let Some(mut scorer) = prepared else { continue };
            if let Some(reason) = scorer.failure() {
                return Err(ScoringError::while_preparing(profile, *plugin, &reason));
            }
            scorer.refresh(state, &feasible, true);
            if scorer.skipped() {
                continue;
            }
            let mut column: Vec<i64> = match scorer.constant() {
                Some(constant) => vec![constant; nodes.len()],
                None => nodes.iter().map(|node| scorer.score(state, *node)).collect(),
            };
            if scorer.constant().is_none() && scorer.normalises() {
                let counted = || column.iter().copied().filter(|raw| *raw != EXCLUDED);
                let min = counted().min().unwrap_or(i64::MAX);
                let max = counted().max().unwrap_or(i64::MIN);
                for raw in &mut column {
                    *raw = scorer.final_score(*raw, Extremes { min, max });
                }
            }
            if let Some(score) = column.iter().find(|score| !(0..=SCORE_MAX).contains(*score)) {
                return Err(ScoringError::out_of_range(profile, *plugin, *score));
            }
            for (total, score) in scores.totals.iter_mut().zip(&mut column) {
                *score *= weight;
                *total += *score;
            }
            scores.plugins.push((*plugin, column));
        }
        Ok(scores)
    }

    /// Returns the position of the node that upstream's heap would choose.
    pub fn winner(&self) -> Option<usize> {
        heap_winner(&self.totals)
    }
}

#[cfg(test)]
mod tests;
