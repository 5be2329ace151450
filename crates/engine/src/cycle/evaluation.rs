//! The feasible nodes of a class, kept up to date incrementally.

use crate::bitset::NodeSet;
use crate::framework::preparation::{Dependencies, Validity};
use crate::framework::profile::PluginPosition;
use crate::framework::{
    Class, Code, Filter, Freshness, NodeVerdict, Point, PreFilterResult, Preparation, Profile,
    Rejection,
};
use crate::index::NodeIdx;
use crate::state::State;

use super::candidates::Exclusion;
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

/// A rejection of the whole class by PreFilter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreFilterRejection {
    /// The plugin; `None` if several plugins together left no node.
    pub plugin: Option<PluginPosition>,
    /// Its rejection.
    pub rejection: Rejection,
}

/// Cached evaluation of a class: its filters, feasible nodes and scores.
pub struct Evaluation {
    /// The class.
    pub class: Class,
    /// Set if PreFilter rejected the class; there are no filters then.
    pub rejected: Option<PreFilterRejection>,
    /// PreFilter plugins that narrowed the nodes, and the remaining nodes.
    pub narrowed: Option<(Vec<PluginPosition>, NodeSet)>,
    /// PreFilter plugins that ran, in order.
    pub pre_filters_run: Vec<PluginPosition>,
    pub(crate) filters: Vec<PreparedFilter>,
    pub(crate) ranking: Option<Ranking>,
    /// The effect of other pods' nominations on the feasible nodes.
    pub(super) nomination_filter: NominationFilter,
    /// The effect of the nodes that the last decision excluded, if it excluded any.
    pub(super) exclusion: Exclusion,
    /// Diagnosis of the last attempt without feasible nodes.
    pub(super) failure: Option<CachedDiagnosis>,
    /// Set after the first decision.
    pub(crate) is_recurring: bool,
    feasible: NodeSet,
    feasible_count: usize,
    /// Incremented when the set of feasible nodes changes.
    feasible_version: u64,
    /// Incremented when the filters are prepared.
    rebuilds: u64,
    /// Incremented when nodes were affected other than by their own pods.
    global_changes: u64,
    /// `None` before the first preparation.
    validity: Option<Validity>,
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
            exclusion: Exclusion::default(),
            failure: None,
            is_recurring: false,
            feasible: NodeSet::default(),
            feasible_count: 0,
            feasible_version: 0,
            rebuilds: 0,
            global_changes: 0,
            validity: None,
            pod_changes_seen: 0,
        };
        evaluation.rebuild(profile, state);
        evaluation
    }

    /// Returns the nodes that pass all filters.
    pub fn feasible(&self) -> &NodeSet {
        &self.feasible
    }

    /// Returns the number of feasible nodes.
    pub fn feasible_count(&self) -> usize {
        self.feasible_count
    }

    /// Returns a version that changes whenever the feasible nodes do.
    pub(crate) fn feasible_version(&self) -> u64 {
        self.feasible_version
    }

    /// Returns the number of times the filters were prepared; verdicts of different preparations
    /// are not comparable.
    pub(super) fn rebuilds(&self) -> u64 {
        self.rebuilds
    }

    /// Returns the number of times nodes were affected other than by their own pods, rebuilds
    /// included.
    pub(super) fn global_changes(&self) -> u64 {
        self.global_changes
    }

    /// Returns `true` if what-if verdicts on a node may depend on pods of other nodes.
    pub(super) fn reads_other_nodes(&self) -> bool {
        self.filters.iter().any(|filter| filter.filter.reads_other_nodes())
    }

    /// Returns `true` if a filter may fail the attempt instead of rejecting a node.
    pub(crate) fn can_fail(&self) -> bool {
        self.filters.iter().any(|filter| filter.filter.can_fail())
    }

    /// Brings the evaluation up to date with the state.
    pub fn refresh(&mut self, profile: &Profile, state: &mut State) {
        let fresh = self.validity.as_ref().is_some_and(|validity| validity.holds(state));
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
        let mut validity = Validity::new(preparation.into_dependencies(), state);
        validity.limit(self.rejected.as_ref().and_then(|rejected| rejected.rejection.until));
        for filter in &mut self.filters {
            filter.passing.copy_from(state.nodes.present());
            filter.filter.filter(state, &mut filter.passing);
            validity.limit(filter.filter.valid_until());
        }
        self.intersect(state);
        self.validity = Some(validity);
        self.pod_changes_seen = state.nodes.pod_changes().end();
    }

    /// Returns the time at which verdicts change without an event, if there is one.
    pub(crate) fn valid_until(&self) -> Option<i64> {
        self.validity.as_ref().and_then(Validity::until)
    }

    /// Runs the PreFilter plugins in order. As upstream, an unresolvable rejection stops the run;
    /// after a resolvable one the remaining plugins still run.
    fn run_pre_filter(
        &mut self,
        profile: &Profile,
        preparation: &mut Preparation,
    ) -> Vec<(PluginPosition, Option<Box<dyn Filter>>)> {
        let mut filters = Vec::new();
        if let Some(reason) = &self.class.spec.too_large {
            // Attributed to a PreEnqueue plugin, so that node events cause no futile attempts.
            let plugin = profile.at(Point::PreEnqueue).first().copied();
            let rejection = Rejection::unresolvable(reason.to_string());
            self.rejected = Some(PreFilterRejection { plugin, rejection });
            return filters;
        }
        for plugin in profile.at(Point::PreFilter) {
            self.pre_filters_run.push(*plugin);
            match profile.prepare_filter(*plugin, &self.class, preparation) {
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

    /// Follows the changes since the last refresh. Returns `false` if the evaluation must be
    /// rebuilt.
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
            if let Some(validity) = &mut self.validity {
                validity.limit(filter.filter.valid_until());
            }
        }
        if changed_widely {
            self.global_changes += 1;
            self.intersect(state);
        } else {
            // Pods may also be on orphan slots, which the sets do not cover.
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

    /// Adds what the ranking depends on. The evaluation must be current.
    pub(crate) fn depend_on(&mut self, dependencies: Dependencies, state: &State) {
        if let Some(validity) = &mut self.validity {
            validity.extend(dependencies, state);
        }
    }

    /// Returns the position of the first filter that rejects a node and its verdict; `None` if the
    /// node is feasible.
    pub(crate) fn verdict(&mut self, state: &State, node: NodeIdx) -> Option<(usize, NodeVerdict)> {
        let position = self.filters.iter().position(|filter| !filter.passing.contains(node))?;
        let answer = self.filters[position].filter.check(state, node);
        debug_assert!(!answer.passes(), "the cached result differs from a fresh one");
        Some((position, answer))
    }

    /// Runs all filters on a node again, for a what-if.
    pub(crate) fn check(&mut self, state: &State, node: NodeIdx) -> Option<(usize, NodeVerdict)> {
        self.filters.iter_mut().enumerate().find_map(|(position, filter)| {
            let answer = filter.filter.check(state, node);
            (!answer.passes()).then_some((position, answer))
        })
    }

    /// Returns `true` if the verdict may mean different rejections on different nodes.
    pub(super) fn rejection_varies(&self, (position, answer): (usize, NodeVerdict)) -> bool {
        self.filters[position].filter.rejection_varies(answer)
    }

    /// Returns the plugin of a verdict and its rejection.
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

/// Prepares the filter of a plugin whose Filter is enabled without its PreFilter.
fn prepare_without_pre_filter(
    profile: &Profile,
    plugin: PluginPosition,
    class: &Class,
    preparation: &mut Preparation,
) -> Option<Box<dyn Filter>> {
    if let Some(text) = profile.plugins[plugin].filter_without_pre_filter() {
        return Some(Box::new(RejectAll(Rejection::error(text))));
    }
    match profile.prepare_filter(plugin, class, preparation) {
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
