//! Tests of the conversion of old versions and of its notes.

use super::*;

const CUSTOM_SCHEDULER: &str = r"apiVersion: kubescheduler.config.k8s.io/v1beta2
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: custom-scheduler
  plugins:
    queueSort:
      enabled:
      - name: PrioritySort
    preFilter:
      enabled:
      - name: NodeResourcesFit
      - name: NodePorts
    filter:
      enabled:
      - name: NodeUnschedulable
      - name: NodeName
      - name: TaintToleration
      - name: NodeAffinity
    score:
      enabled:
      - name: NodeResourcesBalancedAllocation
        weight: 1
      - name: ImageLocality
        weight: 1
    bind:
      enabled:
      - name: DefaultBinder
";

const MY_CUSTOM_SCHEDULER: &str = r"apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: my-custom-scheduler # 调度器名称
  plugins:
    score:
      enabled:
      - name: NodeResourcesFit
        weight: 1
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources:
        - name: cpu
          weight: 1
        - name: memory
          weight: 1
  - name: VolumeBinding
    args:
      bindTimeoutSeconds: 60
";

#[test]
fn the_v1beta2_example_keeps_its_order_and_weights() {
    let rows = [
        (
            ExtensionPoint::PreFilter,
            "NodeResourcesFit, NodePorts, VolumeRestrictions, PodTopologySpread, InterPodAffinity, VolumeBinding, \
             VolumeZone, NodeAffinity, NodeVolumeLimits, DynamicResources, NodeDeclaredFeatures",
        ),
        (
            ExtensionPoint::Filter,
            "NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodePorts, NodeResourcesFit, \
             VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone, PodTopologySpread, InterPodAffinity, \
             DynamicResources, NodeDeclaredFeatures",
        ),
        (
            ExtensionPoint::Score,
            "NodeResourcesBalancedAllocation 1, ImageLocality 1, InterPodAffinity 1, NodeResourcesFit 1, \
             NodeAffinity 1, PodTopologySpread 2, TaintToleration 1, VolumeBinding 1, DynamicResources 2",
        ),
        (ExtensionPoint::QueueSort, "PrioritySort"),
        (ExtensionPoint::Bind, "DefaultBinder"),
    ];
    for (point, want) in rows {
        assert_eq!(plugins_at(CUSTOM_SCHEDULER, point).join(", "), want, "{point:?}");
    }
    let read = check(CUSTOM_SCHEDULER, Gates::default(), &implements, &known);
    assert_eq!(read.version, Some(Version::V1beta2));
    assert_eq!(read.notes.len(), 4, "{:#?}", read.notes);
    let again = write_v1(&read.v1.unwrap());
    assert_eq!(valid(&again), read.config.unwrap(), "{again}");
}

#[test]
fn the_v1_example_is_taken_as_written() {
    let config = valid(MY_CUSTOM_SCHEDULER);
    let profile = &config.profiles[0];
    assert_eq!(profile.scheduler_name, "my-custom-scheduler");
    let Some(PluginArgs::NodeResourcesFit(fit)) = profile.args("NodeResourcesFit") else {
        panic!("no args")
    };
    assert_eq!(fit.scoring_strategy.strategy, args::ScoringStrategyType::MostAllocated);
    let Some(PluginArgs::VolumeBinding(binding)) = profile.args("VolumeBinding") else {
        panic!("no args")
    };
    assert_eq!(binding.bind_timeout_seconds, 60);
    assert_eq!(
        plugins_at(MY_CUSTOM_SCHEDULER, ExtensionPoint::Score)[..2],
        ["NodeResourcesFit 1", "TaintToleration 3"]
    );
    assert_eq!(read(MY_CUSTOM_SCHEDULER).notes, [""; 0]);
}

#[test]
fn an_empty_v1beta2_file_has_the_weights_of_v1beta2() {
    let got = plugins_at(&file("v1beta2", ""), ExtensionPoint::Score).join(", ");
    let want = "NodeResourcesBalancedAllocation 1, ImageLocality 1, InterPodAffinity 1, NodeResourcesFit 1, \
                NodeAffinity 1, PodTopologySpread 2, TaintToleration 1, VolumeBinding 1, DynamicResources 2";
    assert_eq!(got, want);
    assert_eq!(plugins_at(&file("v1beta3", ""), ExtensionPoint::Score)[0], "TaintToleration 3");
}

#[test]
fn plugins_disabled_in_v1beta2_stay_disabled() {
    let text = file(
        "v1beta2",
        "profiles: [{plugins: {score: {enabled: [{name: Custom, weight: 5}, {name: ImageLocality, weight: 3}], disabled: [{name: NodeAffinity}, {name: ImageLocality}]}, filter: {disabled: [{name: NodeName}]}}}]",
    );
    let got = plugins_at(&text, ExtensionPoint::Score).join(", ");
    let want = "NodeResourcesBalancedAllocation 1, InterPodAffinity 1, NodeResourcesFit 1, PodTopologySpread 2, \
                TaintToleration 1, VolumeBinding 1, DynamicResources 2, Custom 5, ImageLocality 3";
    assert_eq!(got, want);
    assert!(!plugins_at(&text, ExtensionPoint::Filter).contains(&"NodeName".to_owned()));
    let text = file(
        "v1beta2",
        "profiles: [{plugins: {score: {enabled: [{name: Custom}], disabled: [{name: '*'}]}}}]",
    );
    assert_eq!(plugins_at(&text, ExtensionPoint::Score), ["Custom 1"]);
}

#[test]
fn plugins_and_fields_missing_in_v1_are_dropped_with_a_note() {
    let body = r"healthzBindAddress: 0.0.0.0:10251
metricsBindAddress: ''
leaderElection: {resourceLock: endpointsleases}
profiles:
- plugins:
    filter:
      enabled: [{name: EBSLimits}]
      disabled: [{name: GCEPDLimits}]
    score: {enabled: [{name: SelectorSpread}], disabled: [{name: NodePreferAvoidPods}]}
  pluginConfig: [{name: AzureDiskLimits, args: {}}, {name: InterPodAffinity, args: {apiVersion: kubescheduler.config.k8s.io/v1beta2, kind: InterPodAffinityArgs}}]
";
    let read = read(&file("v1beta2", body));
    assert_eq!(read.problems, []);
    assert_eq!(
        read.notes,
        [
            "healthzBindAddress: \"0.0.0.0:10251\" was dropped; health and metrics are served on the secure port",
            "metricsBindAddress: \"\" was dropped; health and metrics are served on the secure port",
            "apiVersion: kubescheduler.config.k8s.io/v1beta2 was converted to kubescheduler.config.k8s.io/v1",
            "leaderElection.resourceLock: \"endpointsleases\" was changed to \"leases\", the only lock in v1",
            "profiles[0].plugins.filter.enabled: EBSLimits was dropped; NodeVolumeLimits counts these volumes",
            "profiles[0].plugins.filter.disabled: GCEPDLimits was dropped; NodeVolumeLimits counts these volumes",
            "profiles[0].plugins.score.enabled: SelectorSpread was dropped; PodTopologySpread spreads pods of the same owner by default",
            "profiles[0].plugins.score.disabled: NodePreferAvoidPods was dropped; the annotation it read is no longer supported",
            "profiles[0].pluginConfig: the args of AzureDiskLimits were dropped; NodeVolumeLimits counts these volumes",
            "profiles[0].plugins.score.enabled: the weights of v1beta2 were made explicit, because those of v1 differ: \
             NodeResourcesBalancedAllocation 1, ImageLocality 1, InterPodAffinity 1, NodeResourcesFit 1, NodeAffinity 1, \
             PodTopologySpread 2, TaintToleration 1",
        ]
    );
}

#[test]
fn fields_of_later_versions_are_refused_in_older_ones() {
    let body = "delayCacheUntilActive: true\nprofiles: [{percentageOfNodesToScore: 5, plugins: {multiPoint: {}, placementScore: {}}}]";
    assert_eq!(
        problems(&file("v1beta2", body)),
        [
            "profiles[0].percentageOfNodesToScore: unknown field in v1beta2; it exists since v1",
            "profiles[0].plugins.multiPoint: unknown field in v1beta2; it exists since v1beta3",
            "profiles[0].plugins.placementScore: unknown field in v1beta2; it exists since v1",
            "delayCacheUntilActive: unknown field in v1beta2; it exists since v1",
        ]
    );
    assert_eq!(problems(&file("v1beta3", body)).len(), 3);
    let text = file(
        "v1beta3",
        "profiles: [{plugins: {multiPoint: {enabled: [{name: EBSLimits}, {name: Custom, weight: 4}], disabled: [{name: PrioritySort}]}}}]",
    );
    assert_eq!(plugins_at(&text, ExtensionPoint::QueueSort), ["Custom"]);
    assert_eq!(read(&text).notes.len(), 2);
}

#[test]
fn profiles_of_v1beta2_may_name_the_default_queue_sort_or_not() {
    let text = file(
        "v1beta2",
        "profiles: [{schedulerName: a, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}}, {schedulerName: b}]",
    );
    assert_eq!(problems(&text), [""; 0]);
    let text = file(
        "v1beta2",
        "profiles: [{schedulerName: a, plugins: {queueSort: {enabled: [{name: Reverse}], disabled: [{name: '*'}]}}}, \
         {schedulerName: b, plugins: {queueSort: {enabled: [{name: Reverse}], disabled: [{name: PrioritySort}]}}}]",
    );
    assert_eq!(problems(&text), [""; 0]);
    assert_eq!(plugins_at(&text, ExtensionPoint::QueueSort), ["Reverse"]);
}
