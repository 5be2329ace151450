//! Configurations: arguments of plugins; plugins disabled, reordered and weighted; several profiles.

use serde_json::{Value, json};

use crate::draft::{CaseDraft, push};
use crate::rng::Rng;
use crate::theme::Topic;
use crate::{affinity, resources, spread};

const GROUP: &str = "kubescheduler.config.k8s.io/v1";

/// Filter plugins, in their default order.
const FILTERS: [&str; 13] = [
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeDeclaredFeatures",
];

/// Score plugins.
const SCORES: [&str; 7] = [
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
];

/// Adds a configuration, or keeps the default one.
pub(crate) fn add_config(draft: &mut CaseDraft) {
    let about = draft.theme.is_about(Topic::Config);
    let wanted =
        about || draft.theme.plugin.is_some() && draft.rng.chance(55) || draft.rng.chance(30);
    if !wanted {
        return;
    }
    let mut config = json!({"apiVersion": GROUP, "kind": "KubeSchedulerConfiguration"});
    let rng = &mut draft.rng;
    if rng.chance(15) {
        config["percentageOfNodesToScore"] = json!(rng.pick(&[0, 5, 50, 75, 100]));
    }
    let profiles = if rng.chance(if about { 25 } else { 8 }) { rng.between(2, 3) } else { 1 };
    for index in 0..profiles {
        let mut profile = json!({});
        if profiles > 1 || draft.rng.chance(30) {
            profile["schedulerName"] = json!(if index == 0 {
                "default-scheduler".to_owned()
            } else {
                format!("scheduler-{index}")
            });
        }
        if draft.rng.chance(12) {
            profile["percentageOfNodesToScore"] = json!(draft.rng.pick(&[0, 20, 100]));
        }
        add_args(draft, &mut profile);
        if draft.often(Topic::Config, 65, 150) {
            change_plugins(&mut draft.rng, &mut profile);
        }
        push(&mut config, "profiles", profile);
    }
    if profiles == 1 && draft.rng.chance(8) {
        config["profiles"][0]["schedulerName"] = json!("custom");
        draft.pod["spec"]["schedulerName"] = json!("custom");
    }
    if profiles == 1 && draft.rng.chance(4) {
        config["profiles"][0]["plugins"]["queueSort"] =
            json!({"enabled": [{"name": "PrioritySort"}]});
    }
    if profiles > 1 {
        let index = draft.rng.below(profiles);
        if index > 0 {
            draft.pod["spec"]["schedulerName"] = json!(format!("scheduler-{index}"));
        }
    }
    if about && draft.rng.chance(3) {
        add_error(&mut draft.rng, &mut config);
    }
    draft.config = config;
}

/// Adds arguments of plugins, most often of those that the case is about.
fn add_args(draft: &mut CaseDraft, profile: &mut Value) {
    let mut add = |rng: &mut Rng, name: &str, mut args: Value| {
        if rng.chance(50) {
            args["apiVersion"] = json!(GROUP);
            args["kind"] = json!(format!("{name}Args"));
        }
        push(profile, "pluginConfig", json!({"name": name, "args": args}));
    };
    if draft.often(Topic::Resources, 75, 200) {
        let args = resources::fit_args(&mut draft.rng);
        add(&mut draft.rng, "NodeResourcesFit", args);
    }
    if draft.often(Topic::Resources, 40, 100) {
        let args = resources::balanced_args(&mut draft.rng);
        add(&mut draft.rng, "NodeResourcesBalancedAllocation", args);
    }
    if draft.often(Topic::SpreadDefaults, 75, 100) {
        let args = spread::spread_args(&mut draft.rng);
        add(&mut draft.rng, "PodTopologySpread", args);
    }
    if draft.often(Topic::PodAffinity, 60, 120) {
        let rng = &mut draft.rng;
        let mut args = json!({});
        if rng.chance(80) {
            args["hardPodAffinityWeight"] = json!(rng.pick(&[0, 1, 10, 100]));
        }
        if rng.chance(50) {
            args["ignorePreferredTermsOfExistingPods"] = json!(rng.chance(70));
        }
        add(rng, "InterPodAffinity", args);
    }
    if draft.often(Topic::NodeAffinity, 50, 100) {
        let mut args = json!({});
        if draft.rng.chance(90) {
            args["addedAffinity"] = affinity::added_affinity(draft);
        }
        add(&mut draft.rng, "NodeAffinity", args);
    }
    if draft.often(Topic::Preemption, 50, 60) {
        let rng = &mut draft.rng;
        let mut args = json!({"minCandidateNodesPercentage": rng.pick(&[0, 10, 50, 100])});
        // With fewer candidates than nodes, upstream's choice depends on a random offset.
        args["minCandidateNodesAbsolute"] = json!(rng.pick(&[100, 200]));
        if rng.chance(20) {
            args = json!({"minCandidateNodesPercentage": 100, "minCandidateNodesAbsolute": 0});
        }
        add(rng, "DefaultPreemption", args);
    }
    if draft.often(Topic::VolumeBinding, 20, 30) {
        let args = json!({"bindTimeoutSeconds": draft.rng.pick(&[0, 1, 600])});
        add(&mut draft.rng, "VolumeBinding", args);
    }
}

fn change_plugins(rng: &mut Rng, profile: &mut Value) {
    for _ in 0..rng.weighted(&[(60, 1), (30, 2), (10, 3)]) {
        match rng.below(25) / 2 {
            0 | 1 => disable(rng, profile, "score", &SCORES, 3),
            2 => {
                profile["plugins"]["score"] = json!({"disabled": [{"name": "*"}]});
                enable(rng, profile, "score", &SCORES, true);
            }
            3 | 4 => enable(rng, profile, "score", &SCORES, true),
            5 => disable(rng, profile, "filter", &FILTERS, 2),
            6 => enable(rng, profile, "filter", &FILTERS, false),
            7 => disable(rng, profile, "multiPoint", &FILTERS, 2),
            8 => enable(rng, profile, "multiPoint", &SCORES, true),
            9 => change_post_filter(rng, profile),
            10 => only_some(rng, profile),
            11 => move_last(rng, profile),
            _ => {
                // A filter without its PreFilter, or a score without its PreScore, is an error or has another effect.
                let point = rng.pick(&["preFilter", "preScore"]);
                disable(
                    rng,
                    profile,
                    point,
                    if point == "preFilter" { &FILTERS[3..] } else { &SCORES[..6] },
                    1,
                );
            }
        }
    }
}

fn disable(rng: &mut Rng, profile: &mut Value, point: &str, names: &[&str], most: usize) {
    let count = rng.between(1, most);
    for name in rng.some(names, count) {
        add_name(profile, point, "disabled", name, 0);
    }
}

fn enable(rng: &mut Rng, profile: &mut Value, point: &str, names: &[&str], weights: bool) {
    let count = rng.between(1, 3);
    for name in rng.some(names, count) {
        let weight = if weights {
            rng.weighted(&[(15, 0), (30, 1), (25, 2), (20, 7), (10, 100)])
        } else {
            0
        };
        add_name(profile, point, "enabled", name, weight);
    }
}

/// Adds a plugin to a list unless the list has it.
fn add_name(profile: &mut Value, point: &str, list: &str, name: &str, weight: u32) {
    let point = &mut profile["plugins"][point];
    let known = point[list]
        .as_array()
        .is_some_and(|entries| entries.iter().any(|entry| entry["name"] == name));
    if !known {
        push(
            point,
            list,
            if weight == 0 {
                json!({"name": name})
            } else {
                json!({"name": name, "weight": weight})
            },
        );
    }
}

fn change_post_filter(rng: &mut Rng, profile: &mut Value) {
    profile["plugins"]["postFilter"] = match rng.below(4) {
        0 => json!({"disabled": [{"name": "*"}]}),
        1 => json!({"disabled": [{"name": "DefaultPreemption"}]}),
        2 => json!({"disabled": [{"name": "DynamicResources"}]}),
        _ => json!({"enabled": [{"name": "DefaultPreemption"}]}),
    };
}

/// Disables all plugins except a random selection.
fn only_some(rng: &mut Rng, profile: &mut Value) {
    let count = rng.between(2, 8);
    let mut names = rng.some(&FILTERS, count);
    if rng.chance(50) {
        names.push("ImageLocality");
    }
    if rng.chance(50) {
        names.push("NodeResourcesBalancedAllocation");
    }
    if rng.chance(70) {
        names.push("DefaultPreemption");
    }
    rng.shuffle(&mut names);
    profile["plugins"]["multiPoint"] = json!({"disabled": [{"name": "*"}]});
    for name in ["PrioritySort", "DefaultBinder"].into_iter().chain(names) {
        let weight = if rng.chance(20) { rng.between(1, 5) as u32 } else { 0 };
        add_name(profile, "multiPoint", "enabled", name, weight);
    }
}

/// Disables a filter and enables it again, which moves it to the end.
fn move_last(rng: &mut Rng, profile: &mut Value) {
    let name = rng.pick(&FILTERS);
    let point = rng.pick(&["filter", "multiPoint", "preFilter"]);
    let prefilter = !matches!(name, "NodeUnschedulable" | "NodeName" | "TaintToleration");
    if point == "preFilter" && !prefilter {
        return;
    }
    add_name(profile, point, "disabled", name, 0);
    add_name(profile, point, "enabled", name, 0);
}

/// Adds one error to the configuration.
fn add_error(rng: &mut Rng, config: &mut Value) {
    match rng.below(9) {
        0 => config["percentageOfNodesToScore"] = json!(101),
        1 => config["unknownField"] = json!(1),
        2 => {
            config["profiles"][0]["plugins"] =
                json!({"filter": {"enabled": [{"name": "NoSuchPlugin"}]}});
        }
        3 => {
            config["profiles"][0]["plugins"] =
                json!({"filter": {"enabled": [{"name": "ImageLocality"}]}});
        }
        4 => {
            config["profiles"][0]["pluginConfig"] =
                json!([{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 101}}]);
        }
        5 => {
            config["profiles"][0]["pluginConfig"] = json!([{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "RequestedToCapacityRatio"}}}]);
        }
        6 => config["profiles"][0]["plugins"] = json!({"queueSort": {"disabled": [{"name": "*"}]}}),
        7 => config["profiles"][0]["plugins"] = json!({"bind": {"disabled": [{"name": "*"}]}}),
        _ => config["profiles"] = json!([{"schedulerName": "a"}, {"schedulerName": "a"}]),
    }
}
