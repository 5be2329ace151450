//! `jindou config`.

use insta::assert_snapshot;

use crate::{Folder, Run, jindou, root};

fn config(arguments: &[&str], text: &str) -> Run {
    let folder = Folder::new(&[("config.yaml", text)]);
    jindou(&folder.0, &[&["config"], arguments].concat())
}

#[test]
fn show_lists_plugins_in_order() {
    let file = "deploy/examples/config-most-allocated.yaml";
    assert_snapshot!(jindou(&root(), &["config", "show", file]).text(), @r#"
    Profile my-custom-scheduler
    POINT              PLUGINS, IN ORDER (WEIGHT)
    preEnqueue         SchedulingGates, DynamicResources, DefaultPreemption
    queueSort          PrioritySort
    preFilter          NodeAffinity, NodePorts, NodeResourcesFit, VolumeRestrictions, NodeVolumeLimits,
                       VolumeBinding, VolumeZone, PodTopologySpread, InterPodAffinity, DynamicResources,
                       NodeDeclaredFeatures
    filter             NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodePorts,
                       NodeResourcesFit, VolumeRestrictions, NodeVolumeLimits, VolumeBinding,
                       VolumeZone, PodTopologySpread, InterPodAffinity, DynamicResources,
                       NodeDeclaredFeatures
    postFilter         DynamicResources, DefaultPreemption
    preScore           TaintToleration, NodeAffinity, NodeResourcesFit, VolumeBinding,
                       PodTopologySpread, InterPodAffinity, NodeResourcesBalancedAllocation
    score              NodeResourcesFit (1), TaintToleration (3), NodeAffinity (2), VolumeBinding (1),
                       PodTopologySpread (2), InterPodAffinity (2), DynamicResources (2),
                       NodeResourcesBalancedAllocation (1), ImageLocality (1)
    reserve            VolumeBinding, DynamicResources
    permit             -
    preBind            VolumeBinding, DynamicResources
    bind               DefaultBinder
    postBind           -
    placementGenerate  -
    placementScore     -

    PLUGIN                           ARGUMENTS
    NodeResourcesFit                 {"scoringStrategy":{"resources":[{"name":"cpu","weight":1},{"name":"memory","weight":1}],"type":"MostAllocated"}}
    VolumeBinding                    {"bindTimeoutSeconds":60}
    DefaultPreemption                {"minCandidateNodesAbsolute":100,"minCandidateNodesPercentage":10}
    DynamicResources                 {"bindingTimeout":"10m0s","filterTimeout":"10s"}
    InterPodAffinity                 {"hardPodAffinityWeight":1,"ignorePreferredTermsOfExistingPods":false}
    NodeResourcesBalancedAllocation  {"resources":[{"name":"cpu","weight":1},{"name":"memory","weight":1}]}
    PodTopologySpread                {"defaultingType":"System"}
    --- exit code 0
    "#);
}

#[test]
fn show_without_a_file_shows_the_defaults() {
    let run = config(&["show"], "");
    assert!(
        run.code == 0 && run.stdout.starts_with("Profile default-scheduler\n"),
        "{}",
        run.text()
    );
}

#[test]
fn convert_reports_its_changes() {
    let file = "deploy/examples/config-v1beta2.yaml";
    let run = jindou(&root(), &["config", "convert", file]);
    assert_eq!(run.code, 0);
    assert!(run.stdout.starts_with("apiVersion: kubescheduler.config.k8s.io/v1\n"));
    assert!(run.stderr.lines().all(|line| line.starts_with("note: ")));
    let again = config(&["check", "config.yaml"], &run.stdout);
    assert_eq!((again.code, &*again.stderr), (0, ""), "what was converted is valid and final");
}

#[test]
fn defaults_are_valid_and_convert_to_themselves() {
    let run = config(&["defaults"], "");
    let again = config(&["convert", "config.yaml"], &run.stdout);
    assert_eq!((again.code, &*again.stderr, &again.stdout), (0, "", &run.stdout));
}

#[test]
fn problems_have_a_file_and_a_path() {
    let text = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podInitialBackoffSeconds: 0
profiles:
- schedulerName: a
- schedulerName: a
  plugins: {score: {enabled: [{name: NoSuchPlugin}]}}
";
    assert_snapshot!(config(&["check", "config.yaml"], text).text(), @r#"
    --- stderr
    config.yaml: profiles[1].schedulerName: Duplicate value: "a"; profiles[0] has it
    config.yaml: podInitialBackoffSeconds: Invalid value: 0: must be greater than 0
    --- exit code 1
    "#);
}

#[test]
fn hostile_configurations_are_refused() {
    let deep = "[".repeat(100_000);
    let cut = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- {schedulerName: 'a";
    for text in
        ["", "null", "[]", "\u{0}", cut, &deep, "a: &a [*a]", "{{{{", "apiVersion: v1\nkind: Pod\n"]
    {
        for action in ["check", "convert", "show"] {
            let run = config(&[action, "config.yaml"], text);
            let shown: String = text.chars().take(60).collect();
            assert_eq!(run.code, 1, "{action} {shown:?}: {}", run.text());
            assert!(
                run.stderr.contains("config.yaml") && !run.stderr.contains("panicked"),
                "{shown:?}: {}",
                run.stderr
            );
        }
    }
}
