//! Decisions as JSON, and exit codes.

use insta::assert_snapshot;
use serde_json::json;

use crate::{Folder, explain, jindou, node, placed, pod};

#[test]
fn json_has_exactly_the_documented_shape() {
    let cluster =
        node("a", "", "") + &node("b", "", "taints: [{key: k, value: v, effect: NoSchedule}]");
    let run = explain(&cluster, &pod(""), &["-o", "json"]);
    let expected = json!({
        "pod": "default/p",
        "scheduler": "default-scheduler",
        "selected": "a",
        "feasible": ["a"],
        "nodes": {
            "a": {"code": "Success", "plugin": "", "reasons": [], "scores": {}, "total": 0},
            "b": {
                "code": "UnschedulableAndUnresolvable",
                "plugin": "TaintToleration",
                "reasons": ["node(s) had untolerated taint(s)"],
                "scores": {},
                "total": 0,
            },
        },
        "message": "",
        "preemption": {"node": "", "victims": []},
        "suggestions": [],
    });
    assert_eq!((run.code, run.json()), (0, expected), "{}", run.stderr);
}

#[test]
fn totals_are_sums_of_weighted_scores() {
    let cluster = node("a", "", "") + &node("b", "", "") + &placed("q", "a", "");
    let json = explain(&cluster, &pod(""), &["-o", "json"]).json();
    assert_eq!(json["feasible"], json!(["a", "b"]));
    for name in ["a", "b"] {
        let answer = &json["nodes"][name];
        let scores = answer["scores"].as_object().expect("scores by plugin");
        assert!(scores.contains_key("NodeResourcesFit") && scores["TaintToleration"] == 300);
        let sum: i64 = scores.values().filter_map(serde_json::Value::as_i64).sum();
        assert_eq!(answer["total"], sum);
    }
}

#[test]
fn nodes_outside_a_narrowed_set_have_no_entry() {
    let affinity = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
        {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [b]}]}]}}},";
    let cluster = node("a", "", "") + &node("b", "", "") + &node("c", "", "");
    let run = explain(&cluster, &pod(affinity), &["-o", "json"]);
    let nodes =
        run.json()["nodes"].as_object().expect("nodes by name").keys().cloned().collect::<Vec<_>>();
    assert_eq!((run.code, nodes), (0, vec!["b".to_owned()]));
    let run = explain(&cluster, &pod(affinity), &[]);
    assert_snapshot!(run.text(), @r"
    default/p goes to b
    It is the only one of 3 nodes that fits.

    2 more nodes were excluded by PreFilter.
    --- exit code 0
    ");
}

#[test]
fn nominated_pods_hold_their_node() {
    let rival = "---\n{apiVersion: v1, kind: Pod, metadata: {name: rival}, \
        spec: {priority: 10, containers: [{name: c, image: i, resources: {requests: {cpu: 3800m}}}]}, \
        status: {nominatedNodeName: a}}\n";
    let run = explain(&(node("a", "", "") + rival), &pod(""), &["-o", "json"]);
    let json = run.json();
    assert_eq!((run.code, &json["nodes"]["a"]["plugin"]), (2, &json!("NodeResourcesFit")));
    assert_snapshot!(run.suggestions(), @"wait for pods nominated for nodes (default/rival), or give this one a higher priority: opens up to 1 node (a)");
}

#[test]
fn a_node_that_has_room_for_a_nominated_pod_as_well_counts_as_opened() {
    let rival = |cpu: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: rival}}, spec: {{priority: 10, \
             containers: [{{name: c, resources: {{requests: {{cpu: {cpu}}}}}}}]}}, \
             status: {{nominatedNodeName: a}}}}\n"
        )
    };
    let asked = pod("nodeSelector: {disk: ssd},");
    let run = explain(&(node("a", "", "") + &rival("2")), &asked, &["-o", "json"]);
    assert_snapshot!(run.suggestions(), @r"
    nodeSelector disk=ssd: no node has the label disk
    drop nodeSelector disk=ssd: opens 1 node (a)
    ");
    let run = explain(&(node("a", "", "") + &rival("3800m")), &asked, &["-o", "json"]);
    assert_snapshot!(run.suggestions(), @r"
    nodeSelector disk=ssd: no node has the label disk
    no single change is enough; nodes are rejected by NodeAffinity and nominated pods (1 node)
    ");
}

#[test]
fn the_pod_itself_does_not_count_when_the_snapshot_holds_it() {
    let itself = pod("nodeName: a,").replace("cpu: 500m", "cpu: 3");
    let cluster = format!("{}---\n{itself}\n", node("a", "", ""));
    let asked = pod("").replace("cpu: 500m", "cpu: 3");
    assert_eq!(explain(&cluster, &asked, &[]).code, 0);
}

#[test]
fn an_error_is_the_message() {
    let run = explain(&placed("q", "a", ""), &pod(""), &["-o", "json"]);
    let message = &run.json()["message"];
    assert_eq!((run.code, message), (1, &json!("no nodes available to schedule pods")));
    let run = explain("", &pod(""), &[]);
    assert_snapshot!(run.text(), @r"
    default/p cannot be decided: no nodes available to schedule pods; the cluster has no Node objects
    --- exit code 1
    ");
}

#[test]
fn scheduling_gates_are_reported_even_if_the_pod_fits() {
    let gated = pod("schedulingGates: [{name: example.com/quota}],");
    let run = explain(&node("a", "", ""), &gated, &[]);
    assert_snapshot!(run.text(), @r"
    default/p goes to a
    It is the only node.

    What would help
      - remove the scheduling gates (example.com/quota): the pod is not scheduled before
    --- exit code 0
    ");
}

#[test]
fn an_unknown_scheduler_name_is_an_error() {
    let run = explain(&node("a", "", ""), &pod("schedulerName: other,"), &[]);
    assert_snapshot!(run.text(), @r#"
    --- stderr
    error: pod.yaml: Pod default/p: spec.schedulerName: found "other", expected one of the configured profiles: default-scheduler
    --- exit code 1
    "#);
}

#[test]
fn a_configuration_file_decides() {
    let config = "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, \
        profiles: [{schedulerName: tight, pluginConfig: [{name: NodeResourcesFit, args: \
        {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}]}]}";
    let cluster = node("a", "", "")
        + &node("b", "", "")
        + &placed("q", "a", "").replace("image: i", "image: i, resources: {requests: {cpu: 2}}");
    let tight = pod("schedulerName: tight,");
    let files = [("cluster.yaml", &*cluster), ("pod.yaml", &tight), ("config.yaml", config)];
    let folder = Folder::new(&files);
    let run = jindou(
        &folder.0,
        &[
            "explain",
            "--snapshot",
            "cluster.yaml",
            "--pod",
            "pod.yaml",
            "--config",
            "config.yaml",
            "-o",
            "json",
        ],
    );
    assert_eq!((&run.json()["selected"], &run.json()["scheduler"]), (&json!("a"), &json!("tight")));
    assert_eq!(explain(&cluster, &pod(""), &["-o", "json"]).json()["selected"], "b");
}

#[test]
fn yaml_equals_json() {
    let cluster = node("a", "", "");
    let run = explain(&cluster, &pod(""), &["-o", "yaml"]);
    assert_snapshot!(run.text(), @r#"
    pod: default/p
    scheduler: default-scheduler
    selected: a
    feasible:
    - a
    nodes:
      a:
        code: Success
        plugin: ""
        reasons: []
        scores: {}
        total: 0
    message: ""
    preemption:
      node: ""
      victims: []
    suggestions: []
    --- exit code 0
    "#);
}

#[test]
fn wrong_arguments_exit_with_code_1() {
    let folder = Folder::new(&[]);
    for arguments in [
        &["explain"][..],
        &["explain", "--snapshot", "nowhere.yaml", "--pod", "nowhere.yaml"],
        &["explain", "--snapshot", "-", "--pod", "-"],
        &["explain", "--snapshot", ".", "--pod", "."],
        &["explain", "-o", "xml"],
        &["no-such-command"],
        &["config", "check", "nowhere.yaml"],
        &[],
    ] {
        let run = jindou(&folder.0, arguments);
        assert_eq!(run.code, 1, "{arguments:?}");
        assert!(run.stdout.is_empty() && !run.stderr.is_empty(), "{arguments:?}: {}", run.text());
    }
    assert_eq!(jindou(&folder.0, &["--help"]).code, 0);
    assert_eq!(jindou(&folder.0, &["--version"]).code, 0);
    assert!(jindou(&folder.0, &["explain", "--help"]).stdout.contains("Exit codes:"));
}

#[test]
fn colours_are_for_terminals_only() {
    let run = explain(&node("a", "", ""), &pod(""), &[]);
    assert!(!run.stdout.contains('\u{1b}'));
}
