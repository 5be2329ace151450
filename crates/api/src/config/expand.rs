//! The expansion of a profile: the plugins of each extension point, in order, with their weights.
//!
//! The rules are those of `NewFramework` and `expandMultiPointPlugins` in
//! `pkg/scheduler/framework/runtime/framework.go`, except that all errors are reported.

use std::collections::{BTreeMap, BTreeSet};

use super::configuration::{Configuration, Profile};
use super::defaults::in_tree_plugins;
use super::fields::nearest;
use super::point::ExtensionPoint;
use super::problem::{ConfigProblem, index};
use super::v1::{PluginSet, Plugins};

/// The maximum score of a plugin before its weight is applied.
const SCORE_MAX: i64 = 100;

/// The plugins of a profile at each extension point, after expansion of `multiPoint`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ExpandedProfile {
    points: [Vec<String>; ExtensionPoint::ALL.len()],
    score_weights: BTreeMap<String, i64>,
    placement_score_weights: BTreeMap<String, i64>,
}

impl ExpandedProfile {
    /// Returns the plugins of an extension point in the order of their calls.
    pub fn at(&self, point: ExtensionPoint) -> &[String] {
        &self.points[point as usize]
    }

    /// Returns the weight of a plugin at one of the two points that use weights.
    pub fn weight(&self, point: ExtensionPoint, plugin: &str) -> Option<i64> {
        match point {
            ExtensionPoint::Score => self.score_weights.get(plugin).copied(),
            ExtensionPoint::PlacementScore => self.placement_score_weights.get(plugin).copied(),
            _ => None,
        }
    }

    /// Returns every plugin of the profile, in the order of first appearance.
    pub fn plugins(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        self.points.iter().flatten().map(String::as_str).filter(|name| seen.insert(*name)).collect()
    }
}

/// Expands a profile; the paths of problems are relative to it.
pub fn expand(
    profile: &Profile,
    implements: &dyn Fn(&str, ExtensionPoint) -> bool,
    is_known: &dyn Fn(&str) -> bool,
) -> Result<ExpandedProfile, Vec<ConfigProblem>> {
    let plugins = &profile.plugins;
    let mut problems = Vec::new();
    check_explicit(plugins, implements, is_known, &mut problems);
    check_multi_point(plugins, implements, is_known, &mut problems);
    let mut expanded = ExpandedProfile::default();
    for point in ExtensionPoint::ALL {
        let implements = |name: &str| is_known(name) && implements(name, point);
        expanded.points[point as usize] =
            expand_point(plugins.at(point), &plugins.multi_point, &implements);
    }
    check_counts(profile, &expanded, &mut problems);
    for point in [ExtensionPoint::Score, ExtensionPoint::PlacementScore] {
        let implements = |name: &str| is_known(name) && implements(name, point);
        let weights = weights(plugins.at(point), &plugins.multi_point, &implements);
        let Some(weights) = weights else {
            let kind = if point == ExtensionPoint::Score { "score" } else { "placement score" };
            let message = format!(
                "{kind} plugins: total score of Score plugins could overflow; lower the weights"
            );
            problems.push(ConfigProblem { path: format!("plugins.{}", point.key()), message });
            continue;
        };
        match point {
            ExtensionPoint::Score => expanded.score_weights = weights,
            _ => expanded.placement_score_weights = weights,
        }
    }
    if problems.is_empty() { Ok(expanded) } else { Err(problems) }
}

/// Expands every profile, and checks that all have the same queue sort.
pub fn expand_all(
    config: &Configuration,
    implements: &dyn Fn(&str, ExtensionPoint) -> bool,
    is_known: &dyn Fn(&str) -> bool,
) -> Result<Vec<ExpandedProfile>, Vec<ConfigProblem>> {
    let mut problems = Vec::new();
    let mut all: Vec<ExpandedProfile> = Vec::new();
    for (position, profile) in config.profiles.iter().enumerate() {
        let path = index("profiles", position);
        match expand(profile, implements, is_known) {
            Ok(expanded) => all.push(expanded),
            Err(found) => problems.extend(found.into_iter().map(|problem| ConfigProblem {
                path: format!("{path}.{}", problem.path),
                message: problem.message,
            })),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    check_queue_sort(config, &all, &mut problems);
    if problems.is_empty() { Ok(all) } else { Err(problems) }
}

/// Checks that the queue sort plugin and its arguments are the same in all profiles, because they
/// share one queue.
fn check_queue_sort(
    config: &Configuration,
    all: &[ExpandedProfile],
    problems: &mut Vec<ConfigProblem>,
) {
    let sorter = |expanded: &ExpandedProfile| {
        expanded.at(ExtensionPoint::QueueSort).first().cloned().unwrap_or_default()
    };
    let Some((first, reference)) = all.first().map(sorter).zip(config.profiles.first()) else {
        return;
    };
    for (position, (expanded, profile)) in all.iter().zip(&config.profiles).enumerate() {
        let found = sorter(expanded);
        let name = &profile.scheduler_name;
        let (field, message) = if found != first {
            let both = format!("{found:?}, first: {first:?}");
            (
                "plugins.queueSort",
                format!("different queue sort plugins for profile {name:?}: {both}"),
            )
        } else if profile.args(&first) != reference.args(&first) {
            ("pluginConfig", format!("different queue sort plugin args for profile {name:?}"))
        } else {
            continue;
        };
        problems.push(ConfigProblem { path: format!("profiles[{position}].{field}"), message });
    }
}

fn check_explicit(
    plugins: &Plugins,
    implements: &dyn Fn(&str, ExtensionPoint) -> bool,
    is_known: &dyn Fn(&str) -> bool,
    problems: &mut Vec<ConfigProblem>,
) {
    for point in ExtensionPoint::ALL {
        let type_name = point.type_name();
        let mut seen = BTreeSet::new();
        for (position, plugin) in plugins.at(point).enabled.iter().enumerate() {
            let name = plugin.name.as_str();
            let message = if !is_known(name) {
                missing(type_name, name)
            } else if !implements(name, point) {
                format!("plugin {name:?} does not extend {type_name} plugin")
            } else if !seen.insert(name) {
                format!("plugin {name:?} already registered as {type_name:?}")
            } else {
                continue;
            };
            problems.push(ConfigProblem {
                path: format!("plugins.{}.enabled[{position}]", point.key()),
                message,
            });
        }
    }
}

/// Checks the plugins of `multiPoint`. Positions in the merged list differ from those in the file,
/// so the path of these problems has no index.
fn check_multi_point(
    plugins: &Plugins,
    implements: &dyn Fn(&str, ExtensionPoint) -> bool,
    is_known: &dyn Fn(&str) -> bool,
    problems: &mut Vec<ConfigProblem>,
) {
    let mut seen = BTreeSet::new();
    for plugin in &plugins.multi_point.enabled {
        let name = plugin.name.as_str();
        let first = seen.insert(name);
        let expands = |point: &ExtensionPoint| !plugins.at(*point).disables_all();
        let lands = |point: &ExtensionPoint| {
            let set = plugins.at(*point);
            expands(point) && implements(name, *point) && !set.disables(name) && !set.enables(name)
        };
        let message = if is_known(name) {
            let twice = ExtensionPoint::BUILD_ORDER.iter().find(|point| !first && lands(point));
            twice.map(|point| {
                format!("plugin {name:?} already registered as {:?}", point.type_name())
            })
        } else {
            let point = ExtensionPoint::BUILD_ORDER.iter().find(|point| first && expands(point));
            point.map(|point| missing(point.type_name(), name))
        };
        problems.extend(message.map(|message| ConfigProblem {
            path: "plugins.multiPoint.enabled".to_owned(),
            message,
        }));
    }
}

/// Orders the plugins of a point: first those listed there that `multiPoint` also has, then those
/// only `multiPoint` has, then those only the point lists.
fn expand_point(
    set: &PluginSet,
    multi_point: &PluginSet,
    implements: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let mut listed: Vec<&str> = Vec::new();
    for plugin in &set.enabled {
        if implements(&plugin.name) && !listed.contains(&plugin.name.as_str()) {
            listed.push(&plugin.name);
        }
    }
    if set.disables_all() {
        return listed.into_iter().map(str::to_owned).collect();
    }
    let mut shared = BTreeSet::new();
    let mut only_multi_point: Vec<&str> = Vec::new();
    for name in multi_point.enabled.iter().map(|plugin| plugin.name.as_str()) {
        if !implements(name) || set.disables(name) {
            continue;
        }
        if listed.contains(&name) {
            shared.insert(name);
        } else if !only_multi_point.contains(&name) {
            only_multi_point.push(name);
        }
    }
    let (front, back): (Vec<&str>, Vec<&str>) =
        listed.into_iter().partition(|name| shared.contains(name));
    front.into_iter().chain(only_multi_point).chain(back).map(str::to_owned).collect()
}

fn check_counts(profile: &Profile, expanded: &ExpandedProfile, problems: &mut Vec<ConfigProblem>) {
    let name = &profile.scheduler_name;
    let sorters = expanded.at(ExtensionPoint::QueueSort).len();
    let mut report = |point: ExtensionPoint, message: String| {
        problems.push(ConfigProblem { path: format!("plugins.{}", point.key()), message });
    };
    if sorters != 1 {
        report(
            ExtensionPoint::QueueSort,
            format!(
                "only one queue sort plugin required for profile with scheduler name {name:?}, but got {sorters}"
            ),
        );
    }
    if expanded.at(ExtensionPoint::Bind).is_empty() {
        let message =
            format!("at least one bind plugin is needed for profile with scheduler name {name:?}");
        report(ExtensionPoint::Bind, message);
    }
    if expanded.at(ExtensionPoint::PlacementGenerate).len() > 1 {
        report(
            ExtensionPoint::PlacementGenerate,
            format!(
                "at most one placement generate plugin is allowed for profile with scheduler name {name:?}"
            ),
        );
    }
}

/// Returns the weights of scoring plugins, or `None` if their sum overflows. A plugin's first
/// occurrence counts.
fn weights(
    set: &PluginSet,
    multi_point: &PluginSet,
    implements: &dyn Fn(&str) -> bool,
) -> Option<BTreeMap<String, i64>> {
    let mut weights = BTreeMap::new();
    let mut total: i64 = 0;
    for plugin in set.enabled.iter().chain(&multi_point.enabled) {
        if !implements(&plugin.name) || weights.contains_key(&plugin.name) {
            continue;
        }
        let weight = plugin.weight.filter(|weight| *weight != 0).map_or(1, i64::from);
        total = total.checked_add(weight * SCORE_MAX)?;
        weights.insert(plugin.name.clone(), weight);
    }
    Some(weights)
}

fn missing(type_name: &str, plugin: &str) -> String {
    let in_tree = in_tree_plugins();
    let hint = match plugin {
        "NodeResourcesLeastAllocated" => {
            "; use NodeResourcesFit with scoringStrategy.type LeastAllocated".to_owned()
        }
        "NodeResourcesMostAllocated" => {
            "; use NodeResourcesFit with scoringStrategy.type MostAllocated".to_owned()
        }
        "RequestedToCapacityRatio" => {
            "; use NodeResourcesFit with scoringStrategy.type RequestedToCapacityRatio".to_owned()
        }
        "NodeLabel" | "ServiceAffinity" => "; use node affinity or pod affinity instead".to_owned(),
        _ => match nearest(plugin, in_tree.iter().map(String::as_str)) {
            Some(name) => format!("; did you mean {name:?}?"),
            None => String::new(),
        },
    };
    format!("{type_name} {plugin:?} does not exist{hint}")
}
