//! The topics of a case: features of a few topics are frequent, those of the others rare, so that features interact
//! without hiding each other's effect.

use crate::rng::Rng;

/// A set of related features that the generator can make frequent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    Taints,
    NodeAffinity,
    Ports,
    Resources,
    Images,
    Spread,
    SpreadDefaults,
    PodAffinity,
    Disks,
    VolumeLimits,
    VolumeBinding,
    VolumeZone,
    Features,
    Preemption,
    Config,
}

/// Every topic with its weight in cases that are not about a given plugin.
const TOPICS: [(usize, Topic); 15] = [
    (8, Topic::Taints),
    (9, Topic::NodeAffinity),
    (6, Topic::Ports),
    (12, Topic::Resources),
    (5, Topic::Images),
    (11, Topic::Spread),
    (5, Topic::SpreadDefaults),
    (11, Topic::PodAffinity),
    (5, Topic::Disks),
    (5, Topic::VolumeLimits),
    (9, Topic::VolumeBinding),
    (5, Topic::VolumeZone),
    (4, Topic::Features),
    (20, Topic::Preemption),
    (12, Topic::Config),
];

/// The plugins that have cases of their own, with the topics that exercise them.
pub(crate) const PLUGINS: [(&str, &[Topic]); 17] = [
    ("DefaultPreemption", &[Topic::Preemption]),
    ("ImageLocality", &[Topic::Images]),
    ("InterPodAffinity", &[Topic::PodAffinity]),
    ("NodeAffinity", &[Topic::NodeAffinity]),
    ("NodeDeclaredFeatures", &[Topic::Features]),
    ("NodeName", &[Topic::NodeAffinity]),
    ("NodePorts", &[Topic::Ports]),
    ("NodeResourcesBalancedAllocation", &[Topic::Resources]),
    ("NodeResourcesFit", &[Topic::Resources]),
    ("NodeUnschedulable", &[Topic::Taints]),
    ("NodeVolumeLimits", &[Topic::VolumeLimits]),
    ("PodTopologySpread", &[Topic::Spread, Topic::SpreadDefaults]),
    ("Profiles", &[Topic::Config]),
    ("TaintToleration", &[Topic::Taints]),
    ("VolumeBinding", &[Topic::VolumeBinding]),
    ("VolumeRestrictions", &[Topic::Disks]),
    ("VolumeZone", &[Topic::VolumeZone]),
];

/// Sizes of the clusters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterSize {
    /// Mostly 2 to 12 nodes; sometimes none, up to 30, or more than 100.
    Usual,
    /// At most 5 nodes, for committed cases.
    Small,
}

/// The topics of one case.
#[derive(Clone, Debug)]
pub(crate) struct Theme {
    dense: Vec<Topic>,
    pub(crate) size: ClusterSize,
    /// The plugin that all cases of the run are about.
    pub(crate) plugin: Option<&'static str>,
    /// `true` if the case may have objects that an API server would reject.
    pub(crate) hostile: bool,
}

impl Theme {
    /// Returns one to four random topics, the first one of the plugin's if a plugin is given.
    pub(crate) fn random(rng: &mut Rng, plugin: Option<&'static str>, size: ClusterSize) -> Self {
        let mut dense = Vec::new();
        let topics =
            PLUGINS.iter().find(|(name, _)| Some(*name) == plugin).map(|(_, topics)| *topics);
        let extra = match topics {
            Some(topics) => {
                dense.push(rng.pick(topics));
                rng.weighted(&[(60, 0), (30, 1), (10, 2)])
            }
            None => rng.weighted(&[(35, 1), (35, 2), (20, 3), (10, 4)]),
        };
        for _ in 0..extra {
            dense.push(rng.weighted(&TOPICS));
        }
        // Node inclusion policies of spread constraints have an effect only with taints and node affinity.
        if dense.contains(&Topic::Spread) && rng.chance(35) {
            dense.push(rng.pick(&[Topic::Taints, Topic::NodeAffinity]));
        }
        let hostile = rng.rarely(15);
        Self { dense, size, plugin, hostile }
    }

    /// Returns `true` if the case is about the topic.
    pub(crate) fn is_about(&self, topic: Topic) -> bool {
        self.dense.contains(&topic)
    }

    /// Returns the names of the topics, for reports.
    pub(crate) fn names(&self) -> Vec<String> {
        self.dense.iter().map(|topic| format!("{topic:?}")).collect()
    }
}

/// Returns the plugin's name as in [`PLUGINS`], without regard to case.
pub(crate) fn plugin(name: &str) -> Option<&'static str> {
    PLUGINS.iter().map(|(plugin, _)| *plugin).find(|plugin| plugin.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_with_cases_are_plugins_of_jindou() {
        for (name, _) in PLUGINS.iter().filter(|(name, _)| *name != "Profiles") {
            let known = plugins::table::TABLE.iter().any(|entry| entry.name == *name);
            assert!(known, "{name}");
        }
    }

    #[test]
    fn cases_about_a_plugin_have_one_of_its_topics() {
        for (name, topics) in PLUGINS {
            for index in 0..50 {
                let mut rng = Rng::new(5, index);
                let theme = Theme::random(&mut rng, Some(name), ClusterSize::Small);
                assert!(topics.iter().any(|topic| theme.is_about(*topic)), "{name}");
            }
        }
    }
}
