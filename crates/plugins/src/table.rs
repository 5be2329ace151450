//! The table of plugins, which registration, documentation and tests read.

use api::config::PluginArgs;
use engine::framework::{Plugin, Point};

/// A plugin of the table.
pub struct PluginEntry {
    /// Name, as in configuration files.
    pub name: &'static str,
    /// Extension points that it implements.
    pub points: &'static [Point],
    /// Builds the plugin from its validated arguments; `None` means the defaults.
    pub build: fn(Option<&PluginArgs>) -> Box<dyn Plugin>,
    /// Purpose in one sentence, for the reference page.
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

/// All in-tree plugins, sorted by name.
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

/// Returns the plugin of a name.
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
    fn every_doc_is_one_short_sentence() {
        for entry in TABLE {
            assert!(entry.doc.ends_with('.') && entry.doc.len() < 120, "{}", entry.name);
        }
    }

    #[test]
    fn built_plugins_have_the_listed_name_and_points() {
        for entry in TABLE {
            let plugin = (entry.build)(None);
            assert_eq!(plugin.name(), entry.name);
            assert_eq!(plugin.points(), entry.points, "{}", entry.name);
            assert!(find(entry.name).is_some());
        }
    }

    #[test]
    fn the_table_has_all_plugins_of_the_default_profile() {
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
    fn points_are_sorted_by_the_order_in_which_they_run() {
        for entry in TABLE {
            assert!(!entry.points.is_empty(), "{}", entry.name);
            assert!(entry.points.is_sorted(), "{}", entry.name);
        }
    }
}
