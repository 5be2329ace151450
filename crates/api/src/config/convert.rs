//! Conversion of v1beta2 and v1beta3 to v1, preserving scheduling decisions.

use super::merge::merge_plugin_set;
use super::point::ExtensionPoint;
use super::problem::{ProblemSink, child, index};
use super::v1::{KubeSchedulerConfiguration, Plugin, PluginSet, Plugins, Profile};
use super::validate::REMOVED;
use super::version::Version;

/// The default plugins of v1beta2 at each point; a weight of zero means unweighted.
const V1BETA2_DEFAULTS: [(ExtensionPoint, &[(&str, i32)]); 9] = [
    (ExtensionPoint::QueueSort, &[("PrioritySort", 0)]),
    (
        ExtensionPoint::PreFilter,
        &[
            ("NodeResourcesFit", 0),
            ("NodePorts", 0),
            ("VolumeRestrictions", 0),
            ("PodTopologySpread", 0),
            ("InterPodAffinity", 0),
            ("VolumeBinding", 0),
            ("VolumeZone", 0),
            ("NodeAffinity", 0),
        ],
    ),
    (
        ExtensionPoint::Filter,
        &[
            ("NodeUnschedulable", 0),
            ("NodeName", 0),
            ("TaintToleration", 0),
            ("NodeAffinity", 0),
            ("NodePorts", 0),
            ("NodeResourcesFit", 0),
            ("VolumeRestrictions", 0),
            ("NodeVolumeLimits", 0),
            ("VolumeBinding", 0),
            ("VolumeZone", 0),
            ("PodTopologySpread", 0),
            ("InterPodAffinity", 0),
        ],
    ),
    (ExtensionPoint::PostFilter, &[("DefaultPreemption", 0)]),
    (
        ExtensionPoint::PreScore,
        &[
            ("InterPodAffinity", 0),
            ("PodTopologySpread", 0),
            ("TaintToleration", 0),
            ("NodeAffinity", 0),
        ],
    ),
    (
        ExtensionPoint::Score,
        &[
            ("NodeResourcesBalancedAllocation", 1),
            ("ImageLocality", 1),
            ("InterPodAffinity", 1),
            ("NodeResourcesFit", 1),
            ("NodeAffinity", 1),
            ("PodTopologySpread", 2),
            ("TaintToleration", 1),
        ],
    ),
    (ExtensionPoint::Reserve, &[("VolumeBinding", 0)]),
    (ExtensionPoint::PreBind, &[("VolumeBinding", 0)]),
    (ExtensionPoint::Bind, &[("DefaultBinder", 0)]),
];

/// Converts a file in place and adds a note for each change.
pub(super) fn to_v1(version: Version, config: &mut KubeSchedulerConfiguration, sink: &ProblemSink) {
    if version == Version::V1 {
        return;
    }
    let (from, to) = (version.api_version(), Version::V1.api_version());
    sink.note(format!("apiVersion: {from} was converted to {to}"));
    resource_lock(config, sink);
    for (position, profile) in config.profiles.iter_mut().enumerate() {
        drop_removed(profile, &index("profiles", position), sink);
    }
    if version == Version::V1beta2 {
        keep_v1beta2_behaviour(config, sink);
    }
}

/// Makes explicit what v1 would default differently: score weights, the order at points that list
/// defaults again, and the queue sort plugin if one profile names it.
fn keep_v1beta2_behaviour(config: &mut KubeSchedulerConfiguration, sink: &ProblemSink) {
    if config.profiles.is_empty() {
        config.profiles.push(Profile::default());
    }
    let mut plugins = config.profiles.iter().filter_map(|profile| profile.plugins.as_ref());
    let names_queue_sort =
        plugins.any(|plugins| *plugins.at(ExtensionPoint::QueueSort) != PluginSet::default());
    for (position, profile) in config.profiles.iter_mut().enumerate() {
        let path = child(&index("profiles", position), "plugins");
        let plugins = profile.plugins.get_or_insert_default();
        for (point, defaults) in V1BETA2_DEFAULTS {
            if point != ExtensionPoint::QueueSort {
                keep_point(plugins.at_mut(point), point, defaults, &path, sink);
            } else if names_queue_sort {
                keep_queue_sort(plugins.at_mut(point), defaults, &path, sink);
            }
        }
    }
}

/// Replaces locks on Endpoints and ConfigMaps, which v1 no longer supports, by leases.
fn resource_lock(config: &mut KubeSchedulerConfiguration, sink: &ProblemSink) {
    let Some(lock) =
        config.leader_election.as_mut().and_then(|election| election.resource_lock.as_mut())
    else {
        return;
    };
    if ["endpoints", "configmaps", "endpointsleases", "configmapsleases"].contains(&lock.as_str()) {
        sink.note(format!(
            "leaderElection.resourceLock: {lock:?} was changed to \"leases\", the only lock in v1"
        ));
        "leases".clone_into(lock);
    }
}

/// Removes plugins that v1 does not have from every plugin set and from the plugin configuration.
fn drop_removed(profile: &mut Profile, path: &str, sink: &ProblemSink) {
    for (key, set) in profile.plugins.iter_mut().flat_map(Plugins::sets_mut) {
        for (list, plugins) in [("enabled", &mut set.enabled), ("disabled", &mut set.disabled)] {
            plugins.retain(|plugin| {
                let reason = removal(&plugin.name);
                if let Some(reason) = reason {
                    sink.note(format!(
                        "{path}.plugins.{key}.{list}: {} was dropped; {reason}",
                        plugin.name
                    ));
                }
                reason.is_none()
            });
        }
    }
    profile.plugin_config.retain(|config| {
        let reason = removal(&config.name);
        if let Some(reason) = reason {
            sink.note(format!(
                "{path}.pluginConfig: the args of {} were dropped; {reason}",
                config.name
            ));
        }
        reason.is_none()
    });
}

fn removal(plugin: &str) -> Option<&'static str> {
    match plugin {
        name if REMOVED.contains(&name) => Some("NodeVolumeLimits counts these volumes"),
        "SelectorSpread" => Some("PodTopologySpread spreads pods of the same owner by default"),
        "NodePreferAvoidPods" => Some("the annotation it read is no longer supported"),
        _ => None,
    }
}

/// Makes an implicit queue sort plugin explicit if profiles differ: v1beta2 compared them after
/// merging defaults, v1 compares them as written.
fn keep_queue_sort(set: &mut PluginSet, defaults: &[(&str, i32)], path: &str, sink: &ProblemSink) {
    let enabled = merge_plugin_set(&default_set(defaults), set).enabled;
    let is_default = matches!(&enabled[..], [only] if only.name == "PrioritySort");
    let star = Plugin { name: "*".to_owned(), weight: None };
    let disabled = if is_default { Vec::new() } else { vec![star] };
    let kept = PluginSet { enabled, disabled };
    if *set != kept {
        sink.note(format!(
            "{path}.queueSort: made explicit, because v1 requires it to be the same in all profiles"
        ));
        *set = kept;
    }
}

fn keep_point(
    set: &mut PluginSet,
    point: ExtensionPoint,
    defaults: &[(&str, i32)],
    path: &str,
    sink: &ProblemSink,
) {
    let defaults = default_set(defaults);
    let merged = merge_plugin_set(&defaults, set).enabled;
    let lists_again = !set.disables_all()
        && set
            .enabled
            .iter()
            .any(|plugin| defaults.enables(&plugin.name) && !set.disables(&plugin.name));
    let scores = point == ExtensionPoint::Score;
    if merged == set.enabled || !scores && !lists_again {
        return;
    }
    let reason = if scores {
        let weight = |plugin: &Plugin| plugin.weight.filter(|weight| *weight != 0).unwrap_or(1);
        let weights = merged.iter().map(|plugin| format!("{} {}", plugin.name, weight(plugin)));
        let weights = weights.collect::<Vec<_>>().join(", ");
        format!("the weights of v1beta2 were made explicit, because those of v1 differ: {weights}")
    } else {
        "the defaults of v1beta2 were made explicit in their order, because v1 moves a default that is listed again to the front"
            .to_owned()
    };
    sink.note(format!("{path}.{}.enabled: {reason}", point.key()));
    set.enabled = merged;
}

fn default_set(defaults: &[(&str, i32)]) -> PluginSet {
    let plugin = |(name, weight): &(&str, i32)| Plugin {
        name: (*name).to_owned(),
        weight: (*weight != 0).then_some(*weight),
    };
    PluginSet { enabled: defaults.iter().map(plugin).collect(), disabled: Vec::new() }
}
