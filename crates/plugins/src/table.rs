//! The table of plugins: registration, defaults, documentation and tests read it.

use api::config::PluginArgs;
use engine::framework::{Plugin, Point};

/// One plugin.
pub struct PluginEntry {
    /// Name, as in configuration files.
    pub name: &'static str,
    /// Extension points that it implements.
    pub points: &'static [Point],
    /// Makes the plugin from its checked arguments (defaults when the configuration gives none).
    pub build: fn(Option<&PluginArgs>) -> Box<dyn Plugin>,
    /// What it decides, in one sentence.
    pub doc: &'static str,
}

macro_rules! entries {
    ($($($module:ident)::+,)*) => {
        &[$(PluginEntry {
            name: crate::$($module)::+::NAME,
            points: crate::$($module)::+::POINTS,
            build: crate::$($module)::+::build,
            doc: crate::$($module)::+::DOC,
        }),*]
    };
}

/// All in-tree plugins, by name.
pub const TABLE: &[PluginEntry] = entries![
    default_binder,
    default_preemption,
    dynamic_resources,
    image_locality,
    inter_pod_affinity,
    node_affinity,
    node_declared_features,
    node_name,
    node_ports,
    node_resources_balanced_allocation,
    node_resources_fit,
    node_unschedulable,
    node_volume_limits,
    pod_topology_spread,
    priority_sort,
    scheduling_gates,
    taint_toleration,
    volume_binding,
    volume_restrictions,
    volume_zone,
];

/// Finds a plugin by name.
pub fn find(name: &str) -> Option<&'static PluginEntry> {
    TABLE.iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::config::{Gates, default_plugins};

    #[test]
    fn names_are_unique_and_sorted() {
        assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
    }

    #[test]
    fn every_plugin_says_what_it_decides() {
        for entry in TABLE {
            assert!(entry.doc.ends_with('.') && entry.doc.len() < 120, "{}", entry.name);
        }
    }

    #[test]
    fn what_is_built_is_what_is_listed() {
        for entry in TABLE {
            let plugin = (entry.build)(None);
            assert_eq!(plugin.name(), entry.name);
            assert_eq!(plugin.points(), entry.points, "{}", entry.name);
            assert!(find(entry.name).is_some());
        }
    }

    #[test]
    fn all_plugins_of_the_default_profile_are_there() {
        for plugin in default_plugins(Gates::default()).multi_point.enabled {
            assert!(find(&plugin.name).is_some(), "{}", plugin.name);
        }
    }

    #[test]
    fn points_are_those_of_upstream() {
        use Point::*;
        for (point, expected) in [
            (PreEnqueue, "DefaultPreemption DynamicResources SchedulingGates"),
            (QueueSort, "PrioritySort"),
            (
                PreFilter,
                "DynamicResources InterPodAffinity NodeAffinity NodeDeclaredFeatures NodePorts \
                 NodeResourcesFit NodeVolumeLimits PodTopologySpread VolumeBinding \
                 VolumeRestrictions VolumeZone",
            ),
            (
                Filter,
                "DynamicResources InterPodAffinity NodeAffinity NodeDeclaredFeatures NodeName \
                 NodePorts NodeResourcesFit NodeUnschedulable NodeVolumeLimits PodTopologySpread \
                 TaintToleration VolumeBinding VolumeRestrictions VolumeZone",
            ),
            (PostFilter, "DefaultPreemption DynamicResources"),
            (
                PreScore,
                "InterPodAffinity NodeAffinity NodeResourcesBalancedAllocation NodeResourcesFit \
                 PodTopologySpread TaintToleration VolumeBinding",
            ),
            (
                Score,
                "DynamicResources ImageLocality InterPodAffinity NodeAffinity \
                 NodeResourcesBalancedAllocation NodeResourcesFit PodTopologySpread \
                 TaintToleration VolumeBinding",
            ),
            (Reserve, "DynamicResources VolumeBinding"),
            (Permit, ""),
            (PreBind, "DynamicResources VolumeBinding"),
            (Bind, "DefaultBinder"),
            (PostBind, ""),
        ] {
            let found = TABLE.iter().filter(|entry| entry.points.contains(&point));
            let found: Vec<_> = found.map(|entry| entry.name).collect();
            assert_eq!(found.join(" "), expected, "{point:?}");
        }
    }

    #[test]
    fn points_are_listed_in_running_order() {
        for entry in TABLE {
            assert!(!entry.points.is_empty(), "{}", entry.name);
            assert!(entry.points.is_sorted(), "{}", entry.name);
        }
    }
}
