//! The feasible nodes of a class, kept up to date.

use crate::bitset::NodeSet;
use crate::framework::profile::PluginPosition;
use crate::framework::{
    Class, Code, Filter, Freshness, NodeVerdict, Point, PreFilterResult, Preparation, Profile,
    Rejection,
};
use crate::index::NodeIdx;
use crate::state::{Areas, State, Versions};

use super::diagnosis_cache::CachedDiagnosis;
use super::nomination_filter::NominationFilter;
use super::ranking::Ranking;

/// A prepared filter and the nodes that pass it.
pub(crate) struct PreparedFilter {
    pub(crate) plugin: PluginPosition,
    name: Box<str>,
    pub(crate) filter: Box<dyn Filter>,
    passing: NodeSet,
    reads_pods: bool,
}

/// PreFilter turned the whole class down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreFilterRejection {
    /// The plugin; `None` when several plugins left no node between them.
    pub plugin: Option<PluginPosition>,
    /// Its rejection.
    pub rejection: Rejection,
}

/// What is known of a class: its filters, its feasible nodes, its scores.
pub struct Evaluation {
    /// The class.
    pub class: Class,
    /// Set when PreFilter turned the class down; then there are no filters.
    pub rejected: Option<PreFilterRejection>,
    /// PreFilter plugins that narrowed the nodes, and to which.
    pub narrowed: Option<(Vec<PluginPosition>, NodeSet)>,
    /// PreFilter plugins that were asked, in order.
    pub pre_filters_run: Vec<PluginPosition>,
    pub(crate) filters: Vec<PreparedFilter>,
    pub(crate) ranking: Option<Ranking>,
    /// What pods nominated for nodes mean to the class.
    pub(super) nomination_filter: NominationFilter,
    /// Why no node takes its pods, if that was so when it was last asked.
    pub(super) failure: Option<CachedDiagnosis>,
    /// A decision was made by it.
    pub(crate) is_recurring: bool,
    feasible: NodeSet,
    feasible_count: usize,
    /// Counts changes of the set of feasible nodes.
    feasible_version: u64,
    /// Counts how often the filters were prepared.
    rebuilds: u64,
    /// Counts how often nodes were affected other than by their own pods.
    global_changes: u64,
    areas: Areas,
    versions: Versions,
    pod_changes_seen: u64,
}

impl Evaluation {
    /// Evaluates a class from scratch.
    pub fn new(profile: &Profile, class: Class, state: &mut State) -> Self {
        let mut evaluation = Self {
            class,
            rejected: None,
            narrowed: None,
            pre_filters_run: Vec::new(),
            filters: Vec::new(),
            ranking: None,
            nomination_filter: NominationFilter::default(),
            failure: None,
            is_recurring: false,
            feasible: NodeSet::default(),
            feasible_count: 0,
            feasible_version: 0,
            rebuilds: 0,
            global_changes: 0,
            areas: Areas::NODES,
            versions: Versions::default(),
            pod_changes_seen: 0,
        };
        evaluation.rebuild(profile, state);
        evaluation
    }

    /// The nodes that pass all filters.
    pub fn feasible(&self) -> &NodeSet {
        &self.feasible
    }

    /// How many there are.
    pub fn feasible_count(&self) -> usize {
        self.feasible_count
    }

    /// Changes whenever the feasible nodes do.
    pub(crate) fn feasible_version(&self) -> u64 {
        self.feasible_version
    }

    /// How often the filters were prepared: answers of earlier ones mean nothing to later ones.
    pub(super) fn rebuilds(&self) -> u64 {
        self.rebuilds
    }

    /// How often nodes were affected other than by their own pods, rebuilding included.
    pub(super) fn global_changes(&self) -> u64 {
        self.global_changes
    }

    /// Whether what-if answers for a node may depend on pods on other nodes.
    pub(super) fn reads_other_nodes(&self) -> bool {
        self.filters.iter().any(|filter| filter.filter.reads_other_nodes())
    }

    /// Whether a node may fail the attempt instead of being turned down.
    pub(crate) fn can_fail(&self) -> bool {
        self.filters.iter().any(|filter| filter.filter.can_fail())
    }

    /// Catches up with the state.
    pub fn refresh(&mut self, profile: &Profile, state: &mut State) {
        let fresh = state.versions().agree(&self.versions, self.areas);
        if !fresh || !self.catch_up(state) {
            self.rebuild(profile, state);
        }
    }

    fn rebuild(&mut self, profile: &Profile, state: &mut State) {
        state.nodes.refresh_order();
        self.rejected = None;
        self.narrowed = None;
        self.ranking = None;
        self.failure = None;
        self.rebuilds += 1;
        self.global_changes += 1;
        self.pre_filters_run.clear();
        self.filters.clear();
        let mut preparation = Preparation::new(state);
        let mut prepared = self.run_pre_filter(profile, &mut preparation);
        if self.rejected.is_none() {
            for plugin in profile.at(Point::Filter) {
                let filter = match prepared.iter().position(|(asked, _)| asked == plugin) {
                    Some(found) => prepared.swap_remove(found).1,
                    None if self.pre_filters_run.contains(plugin) => None,
                    None => {
                        prepare_without_pre_filter(profile, *plugin, &self.class, &mut preparation)
                    }
                };
                let Some(filter) = filter else { continue };
                let reads_pods = filter.reads_pods();
                let passing = NodeSet::default();
                let name = profile.plugin_name(*plugin).into();
                let plugin = *plugin;
                self.filters.push(PreparedFilter { plugin, name, filter, passing, reads_pods });
            }
        }
        self.areas = preparation.areas;
        for filter in &mut self.filters {
            filter.passing.copy_from(state.nodes.present());
            filter.filter.filter(state, &mut filter.passing);
        }
        self.intersect(state);
        self.versions = state.versions();
        self.pod_changes_seen = state.nodes.pod_changes().end();
    }

    /// Asks the PreFilter plugins in order, as upstream does: an unresolvable rejection ends it at
    /// once, another one is remembered while the rest are asked.
    fn run_pre_filter(
        &mut self,
        profile: &Profile,
        preparation: &mut Preparation,
    ) -> Vec<(PluginPosition, Option<Box<dyn Filter>>)> {
        let mut filters = Vec::new();
        if let Some(reason) = &self.class.spec.too_large {
            // Attributed to a PreEnqueue plugin, so that events of nodes do not cause attempts in vain.
            let plugin = profile.at(Point::PreEnqueue).first().copied();
            let rejection = Rejection::unresolvable(reason.to_string());
            self.rejected = Some(PreFilterRejection { plugin, rejection });
            return filters;
        }
        for plugin in profile.at(Point::PreFilter) {
            self.pre_filters_run.push(*plugin);
            match profile.plugins[*plugin].prepare_filter(&self.class, preparation) {
                PreFilterResult::Skip => {}
                PreFilterResult::Filter(filter) => filters.push((*plugin, Some(filter))),
                PreFilterResult::Reject(rejection) => {
                    let last = rejection.code != Code::Unschedulable;
                    self.rejected = Some(PreFilterRejection { plugin: Some(*plugin), rejection });
                    if last {
                        return filters;
                    }
                }
                PreFilterResult::Narrow(nodes, filter) => {
                    filters.push((*plugin, filter));
                    let (plugins, left) = self.narrowed.get_or_insert_with(|| {
                        (Vec::new(), preparation.state.nodes.present().clone())
                    });
                    plugins.push(*plugin);
                    left.intersect(&nodes);
                    if plugins.len() > 1 && left.is_empty() {
                        let mut names: Vec<_> =
                            plugins.iter().map(|p| profile.plugin_name(*p)).collect();
                        names.sort_unstable();
                        let text = format!(
                            "node(s) didn't satisfy plugin(s) [{}] simultaneously",
                            names.join(" ")
                        );
                        let rejection = Rejection::unresolvable(text);
                        self.rejected = Some(PreFilterRejection { plugin: None, rejection });
                        return filters;
                    }
                }
            }
        }
        filters
    }

    /// Follows the changes since the last time; false when that is not possible.
    fn catch_up(&mut self, state: &State) -> bool {
        let Some(changed) = state.nodes.pod_changes().since(self.pod_changes_seen) else {
            return false;
        };
        let mut changed_widely = false;
        for filter in &mut self.filters {
            match filter.filter.refresh(state, &mut filter.passing) {
                Freshness::Same => {}
                Freshness::Changed => changed_widely = true,
                Freshness::Stale => return false,
            }
            if !filter.reads_pods {
                continue;
            }
            for node in changed {
                if state.nodes.present().contains(*node) {
                    filter.passing.set(*node, filter.filter.check(state, *node).passes());
                }
            }
        }
        if changed_widely {
            self.global_changes += 1;
            self.intersect(state);
        } else {
            // Pods may also be on nodes that are not known; these have no place in the sets.
            for node in changed.iter().filter(|node| state.nodes.present().contains(**node)) {
                let passes = self.rejected.is_none()
                    && self.narrowed.as_ref().is_none_or(|(_, nodes)| nodes.contains(*node))
                    && self.filters.iter().all(|filter| filter.passing.contains(*node));
                if passes != self.feasible.contains(*node) {
                    self.feasible.set(*node, passes);
                    self.feasible_version += 1;
                    self.feasible_count =
                        if passes { self.feasible_count + 1 } else { self.feasible_count - 1 };
                }
            }
        }
        self.pod_changes_seen = state.nodes.pod_changes().end();
        true
    }

    fn intersect(&mut self, state: &State) {
        self.feasible.copy_from(state.nodes.present());
        if self.rejected.is_some() {
            self.feasible.clear();
        }
        if let Some((_, nodes)) = &self.narrowed {
            self.feasible.intersect(nodes);
        }
        for filter in &self.filters {
            self.feasible.intersect(&filter.passing);
        }
        self.feasible_count = self.feasible.count();
        self.feasible_version += 1;
    }

    /// Adds areas that the ranking depends on; they are as of now.
    pub(crate) fn depend_on(&mut self, areas: Areas, state: &State) {
        self.areas = self.areas.with(areas);
        self.versions = state.versions();
    }

    /// The first plugin that turns a node down, with its answer; `None` when the node is feasible.
    pub(crate) fn verdict(&mut self, state: &State, node: NodeIdx) -> Option<(usize, NodeVerdict)> {
        let position = self.filters.iter().position(|filter| !filter.passing.contains(node))?;
        let answer = self.filters[position].filter.check(state, node);
        debug_assert!(!answer.passes(), "the kept result differs from a fresh one");
        Some((position, answer))
    }

    /// Runs all filters on one node anew, for what-if.
    pub(crate) fn check(&mut self, state: &State, node: NodeIdx) -> Option<(usize, NodeVerdict)> {
        self.filters.iter_mut().enumerate().find_map(|(position, filter)| {
            let answer = filter.filter.check(state, node);
            (!answer.passes()).then_some((position, answer))
        })
    }

    /// Whether an answer of one of the filters may mean another rejection on another node.
    pub(super) fn rejection_varies(&self, (position, answer): (usize, NodeVerdict)) -> bool {
        self.filters[position].filter.rejection_varies(answer)
    }

    /// What an answer of one of the filters means.
    pub(crate) fn rejection(
        &self,
        state: &State,
        node: NodeIdx,
        (position, answer): (usize, NodeVerdict),
    ) -> (PluginPosition, Rejection) {
        let filter = &self.filters[position];
        let mut rejection = filter.filter.rejection(state, node, answer);
        if rejection.code == Code::Error {
            let text = format!("running {:?} filter plugin: {}", filter.name, rejection.message());
            rejection.reasons = vec![text.into()];
        }
        (filter.plugin, rejection)
    }
}

/// Plugins that are asked to filter but not to pre-filter have only their filter.
fn prepare_without_pre_filter(
    profile: &Profile,
    plugin: PluginPosition,
    class: &Class,
    preparation: &mut Preparation,
) -> Option<Box<dyn Filter>> {
    if let Some(text) = profile.plugins[plugin].filter_without_pre_filter() {
        return Some(Box::new(RejectAll(Rejection::error(text))));
    }
    match profile.plugins[plugin].prepare_filter(class, preparation) {
        PreFilterResult::Filter(filter) | PreFilterResult::Narrow(_, Some(filter)) => Some(filter),
        PreFilterResult::Reject(rejection) => Some(Box::new(RejectAll(rejection))),
        PreFilterResult::Skip | PreFilterResult::Narrow(_, None) => None,
    }
}

struct RejectAll(Rejection);

impl Filter for RejectAll {
    fn check(&mut self, _state: &State, _node: NodeIdx) -> NodeVerdict {
        NodeVerdict(1)
    }

    fn rejection(&self, _state: &State, _node: NodeIdx, _answer: NodeVerdict) -> Rejection {
        self.0.clone()
    }

    fn can_fail(&self) -> bool {
        self.0.code == Code::Error
    }
}

#[cfg(test)]
mod tests;
