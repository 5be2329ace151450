//! Tests of merging with the defaults, and of the expansion of `multiPoint`.

use super::*;

#[test]
fn defaults_expand_to_the_order_of_upstream() {
    let rows = [
        (ExtensionPoint::PreEnqueue, "SchedulingGates, DynamicResources, DefaultPreemption"),
        (ExtensionPoint::QueueSort, "PrioritySort"),
        (
            ExtensionPoint::PreFilter,
            "NodeAffinity, NodePorts, NodeResourcesFit, VolumeRestrictions, NodeVolumeLimits, VolumeBinding, \
             VolumeZone, PodTopologySpread, InterPodAffinity, DynamicResources, NodeDeclaredFeatures",
        ),
        (
            ExtensionPoint::Filter,
            "NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodePorts, NodeResourcesFit, \
             VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone, PodTopologySpread, InterPodAffinity, \
             DynamicResources, NodeDeclaredFeatures",
        ),
        (ExtensionPoint::PostFilter, "DynamicResources, DefaultPreemption"),
        (
            ExtensionPoint::Score,
            "TaintToleration 3, NodeAffinity 2, NodeResourcesFit 1, VolumeBinding 1, PodTopologySpread 2, \
             InterPodAffinity 2, DynamicResources 2, NodeResourcesBalancedAllocation 1, ImageLocality 1",
        ),
        (ExtensionPoint::Reserve, "VolumeBinding, DynamicResources"),
        (ExtensionPoint::Permit, ""),
        (ExtensionPoint::Bind, "DefaultBinder"),
        (ExtensionPoint::PlacementScore, "NodeResourcesFit 1"),
    ];
    for (point, want) in rows {
        assert_eq!(plugins_at(&v1_file(""), point).join(", "), want, "{point:?}");
    }
}

#[test]
fn plugin_sets_are_merged_with_their_defaults() {
    // Plugins are enabled as name or name:weight, and disabled with a minus sign.
    let set = |text: &str| {
        let mut set = PluginSet::default();
        for word in text.split_whitespace() {
            let (name, weight) = word.split_once(':').unwrap_or((word, "0"));
            let weight = weight.parse().ok().filter(|weight| *weight != 0);
            match name.strip_prefix('-') {
                Some(name) => set.disabled.push(Plugin { name: name.to_owned(), weight }),
                None => set.enabled.push(Plugin { name: name.to_owned(), weight }),
            }
        }
        set
    };
    for (name, defaults, custom, want) in [
        ("nothing changes", "A B:2 C", "", "A B:2 C"),
        ("added at the end", "A B", "X Y", "A B X Y"),
        ("listed again keeps its place and takes the weight", "A B:2 C", "C B:5", "A B:5 C"),
        ("listed again without a weight loses it", "A B:2", "B", "A B"),
        ("disabled", "A B C", "-B", "A C -B"),
        ("disabled and enabled goes to the end", "A B C", "B:7 -B", "A C B:7 -B"),
        ("all disabled", "A B C", "X B -*", "X B -*"),
        ("given twice stays twice", "A", "X X", "A X X"),
        ("a default given twice is replaced by the last", "A B", "A:1 A:2", "A:2 B A:1"),
        ("defaults may disable too", "A -B", "-A", "-A -B"),
        ("the weight of a disabled plugin is dropped", "A", "-A:3", "-A"),
    ] {
        assert_eq!(merge_plugin_set(&set(defaults), &set(custom)), set(want), "{name}");
    }
}

#[test]
fn a_default_listed_again_at_a_point_moves_to_its_front() {
    let text = v1_file(
        "profiles: [{plugins: {bind: {enabled: [{name: Custom}]}, filter: {enabled: [{name: NodePorts}, {name: Custom}, {name: NodeName}]}}}]",
    );
    let got = plugins_at(&text, ExtensionPoint::Filter);
    assert_eq!(got[..3], ["NodePorts", "NodeName", "NodeUnschedulable"]);
    assert_eq!(got.last().map(String::as_str), Some("Custom"));
    assert_eq!(got.len(), 15);
    assert_eq!(plugins_at(&text, ExtensionPoint::Bind), ["DefaultBinder", "Custom"]);
}

#[test]
fn a_default_disabled_and_enabled_at_a_point_moves_to_its_end() {
    let text = v1_file(
        "profiles: [{plugins: {filter: {enabled: [{name: NodeName}], disabled: [{name: NodeName}]}}}]",
    );
    let got = plugins_at(&text, ExtensionPoint::Filter);
    assert_eq!(got.first().map(String::as_str), Some("NodeUnschedulable"));
    assert_eq!(got.last().map(String::as_str), Some("NodeName"));
    assert_eq!(got.len(), 14);
}

#[test]
fn a_star_disables_all_plugins_but_those_listed() {
    let text = v1_file(
        "profiles: [{plugins: {score: {enabled: [{name: Custom, weight: 4}, {name: ImageLocality}], disabled: [{name: '*'}]}}}]",
    );
    assert_eq!(plugins_at(&text, ExtensionPoint::Score), ["Custom 4", "ImageLocality 1"]);
    let text = v1_file(
        "profiles: [{plugins: {multiPoint: {enabled: [{name: PrioritySort}, {name: NodeName}, {name: DefaultBinder}], disabled: [{name: '*'}]}}}]",
    );
    assert_eq!(plugins_at(&text, ExtensionPoint::Filter), ["NodeName"]);
    assert_eq!(plugins_at(&text, ExtensionPoint::Score), [""; 0]);
}

#[test]
fn weights_of_a_point_go_before_those_of_multi_point() {
    let text = v1_file(
        "profiles: [{plugins: {multiPoint: {enabled: [{name: TaintToleration, weight: 9}, {name: Custom, weight: 6}], disabled: [{name: PrioritySort}]}, score: {enabled: [{name: NodeAffinity, weight: 8}, {name: InterPodAffinity, weight: 0}]}}}]",
    );
    let got = plugins_at(&text, ExtensionPoint::Score);
    assert_eq!(got[..3], ["NodeAffinity 8", "InterPodAffinity 1", "TaintToleration 9"]);
    assert_eq!(got.last().map(String::as_str), Some("Custom 6"));
    assert_eq!(plugins_at(&text, ExtensionPoint::QueueSort), ["Custom"]);
}

#[test]
fn profiles_that_cannot_be_built_are_refused() {
    refused(
        "profiles: [{plugins: {filter: {enabled: [{name: NodeNam}, {name: ImageLocality}, {name: Custom}, {name: Custom}]}}}]",
        &[
            "profiles[0].plugins.filter.enabled[0]: FilterPlugin \"NodeNam\" does not exist; did you mean \"NodeName\"?",
            "profiles[0].plugins.filter.enabled[1]: plugin \"ImageLocality\" does not extend FilterPlugin plugin",
            "profiles[0].plugins.filter.enabled[3]: plugin \"Custom\" already registered as \"FilterPlugin\"",
        ],
    );
    refused(
        "profiles: [{plugins: {multiPoint: {enabled: [{name: Missing}, {name: NodeName}, {name: NodeName}]}}}]",
        &[
            "profiles[0].plugins.multiPoint.enabled: PreFilterPlugin \"Missing\" does not exist",
            "profiles[0].plugins.multiPoint.enabled: plugin \"NodeName\" already registered as \"FilterPlugin\"",
        ],
    );
    refused(
        "profiles: [{schedulerName: a, plugins: {bind: {disabled: [{name: '*'}]}, queueSort: {disabled: [{name: PrioritySort}]}}}]",
        &[
            "profiles[0].plugins.bind: at least one bind plugin is needed for profile with scheduler name \"a\"",
            "profiles[0].plugins.queueSort: only one queue sort plugin required for profile with scheduler name \"a\", but got 0",
        ],
    );
    refused(
        "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {multiPoint: {enabled: [{name: Reverse}], disabled: [{name: PrioritySort}]}}}]",
        &[
            "profiles[1].plugins.queueSort: different queue sort plugins for profile \"b\": \"Reverse\", first: \"PrioritySort\"",
        ],
    );
    let multi_point =
        "plugins: {multiPoint: {enabled: [{name: Reverse}], disabled: [{name: PrioritySort}]}}";
    refused(
        &format!(
            "profiles: [{{schedulerName: a, {multi_point}}}, {{schedulerName: b, {multi_point}, pluginConfig: [{{name: Reverse, args: {{a: 1}}}}]}}]"
        ),
        &["profiles[1].pluginConfig: different queue sort plugin args for profile \"b\""],
    );
    refused(
        "profiles: [{plugins: {score: {enabled: [{name: NodeResourcesMostAllocated}]}}}]",
        &[
            "profiles[0].plugins.score.enabled[0]: ScorePlugin \"NodeResourcesMostAllocated\" does not exist; \
           use NodeResourcesFit with scoringStrategy.type MostAllocated",
        ],
    );
}
