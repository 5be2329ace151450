//! Malformed and huge input: a clear message, exit code 1, never a panic.

use std::fmt::Write as _;

use insta::assert_snapshot;

use crate::{Folder, Run, explain, jindou, node, placed, pod};

#[track_caller]
fn refused(cluster: &str, pod: &str) -> String {
    let run = explain(cluster, pod, &[]);
    assert_eq!((run.code, &*run.stdout), (1, ""), "{}", run.text());
    run.stderr
}

/// Returns a long text of similar parts.
fn repeated(count: usize, part: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for number in 0..count {
        text.push_str(&part(number));
    }
    text
}

/// Asserts a decision without errors or warnings.
#[track_caller]
fn decided(cluster: &str, pod: &str) -> Run {
    let run = explain(cluster, pod, &["-o", "json"]);
    assert!(
        run.code != 1 && run.stderr.is_empty(),
        "{}",
        run.stderr.chars().take(2000).collect::<String>()
    );
    run
}

#[test]
fn files_that_are_cut_off() {
    let whole = node("a", "", "");
    assert_snapshot!(refused(&whole[..120], &pod("")), @r"
    error: cluster.yaml: document 1: line 2 column 108: unclosed bracket '{': is the file cut off?
    error: cluster.yaml has a problem; nothing was decided
    ");
    assert_snapshot!(refused("apiVersion: v1\nkind: Node\nmetadata:\n  name: \"a", &pod("")), @r"
    error: cluster.yaml: document 1: line 4 column 9: unclosed quote: is the file cut off?
    error: cluster.yaml has a problem; nothing was decided
    ");
    assert_snapshot!(refused("{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{\"kind\": \"Node\"", &pod("")), @r"
    error: cluster.yaml: document 1: line 1 column 62: found the end of the text within a value: the file seems to be cut off
    error: cluster.yaml has a problem; nothing was decided
    ");
    assert_snapshot!(refused("spec: {}", &pod("")), @r"
    error: cluster.yaml: document 1: kind: found none, expected one such as Pod: is the file cut off?
    error: cluster.yaml has a problem; nothing was decided
    ");
    assert_snapshot!(refused(&whole, "kind: Pod\nmetadata: {name: p}\nspec: {tolerations: [{key"), @r"
    error: pod.yaml: document 1: line 3 column 22: unclosed bracket '{': is the file cut off?
    error: pod.yaml has a problem; nothing was decided
    ");
}

#[test]
fn every_cut_of_a_file_is_survived() {
    let whole = "apiVersion: v1\nkind: List\nitems:\n- kind: Node\n  metadata: {name: a, labels: {x: 'ü'}}\n- kind: Pod\n  metadata:\n    name: q\n  spec:\n    nodeName: a\n    containers: [{resources: {requests: {cpu: 1e3}}}]\n";
    for (end, _) in whole.char_indices().step_by(7) {
        let run = explain(&whole[..end], &pod(""), &[]);
        assert!(
            !run.stderr.contains("panicked") && [0, 1, 2].contains(&run.code),
            "{end}: {}",
            run.text()
        );
    }
}

#[test]
fn files_that_are_no_text() {
    let folder = Folder::new(&[("pod.yaml", &pod(""))]);
    std::fs::write(folder.0.join("binary"), [0xff, 0xfe, 0x00, 0x9f])
        .expect("a file can be written");
    let run = jindou(&folder.0, &["explain", "--snapshot", "binary", "--pod", "pod.yaml"]);
    assert_snapshot!(run.text(), @r"
    --- stderr
    error: cannot read binary: stream did not contain valid UTF-8
    --- exit code 1
    ");
}

#[test]
fn unknown_operators_and_effects() {
    let asked = pod(
        "tolerations: [{key: k, operator: Like}, {operator: Exists, effect: Never}], preemptionPolicy: Maybe, \
        affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Is, values: [b]}]}]}}, \
        podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchExpressions: [{key: a, operator: Has}]}}]}}, \
        topologySpreadConstraints: [{maxSkew: 0, topologyKey: '', whenUnsatisfiable: Perhaps}],",
    );
    assert_snapshot!(refused(&node("a", "", ""), &asked), @r#"
    error: pod.yaml: Pod default/p: spec.topologySpreadConstraints[0].maxSkew: found 0, expected at least 1
    error: pod.yaml: Pod default/p: spec.topologySpreadConstraints[0].topologyKey: found none, expected a node label such as topology.kubernetes.io/zone
    error: pod.yaml: Pod default/p: spec.topologySpreadConstraints[0].whenUnsatisfiable: found "Perhaps", expected DoNotSchedule or ScheduleAnyway
    error: pod.yaml: Pod default/p: spec.preemptionPolicy: found "Maybe", expected Never or PreemptLowerPriority
    error: pod.yaml: Pod default/p: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: found "Is", expected In, NotIn, Exists, DoesNotExist, Gt or Lt
    error: pod.yaml: Pod default/p: spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].operator: found "Has", expected In, NotIn, Exists or DoesNotExist
    error: pod.yaml: Pod default/p: spec.tolerations[0].operator: found "Like", expected Equal or Exists
    error: pod.yaml: Pod default/p: spec.tolerations[1].effect: found "Never", expected NoSchedule, PreferNoSchedule or NoExecute
    error: pod.yaml has problems; nothing was decided
    "#);
}

#[test]
fn selectors_that_cannot_be_parsed() {
    let selector = |selector: &str| {
        pod(&format!(
            "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: zone, labelSelector: {selector}}}]}}}},"
        ))
    };
    assert_snapshot!(refused(&node("a", "", ""), &selector("{matchExpressions: [{key: 'a b', operator: In, values: []}]}")), @r#"
    error: pod.yaml: Pod default/p: spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].key: found "a b", expected a label key such as app or example.com/app
    error: pod.yaml: Pod default/p: spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].values: found 0 values for In, expected at least one
    error: pod.yaml has problems; nothing was decided
    "#);
    assert_snapshot!(refused(&node("a", "", ""), &selector("{matchLabels: [a]}")), @r"
    error: pod.yaml: Pod default/p: spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchLabels: invalid type: sequence, expected a map
    error: pod.yaml has a problem; nothing was decided
    ");
    assert_snapshot!(refused(&node("a", "", ""), &selector("text")), @r#"
    error: pod.yaml: Pod default/p: spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: invalid type: string "text", expected an object
    error: pod.yaml has a problem; nothing was decided
    "#);
}

#[test]
fn quantities_that_are_none() {
    let asked = pod("").replace("500m", "half");
    assert_snapshot!(refused(&node("a", "", ""), &asked), @r#"
    error: pod.yaml: Pod default/p: spec.containers[0].resources.requests.cpu: found "half", expected a quantity such as 500m, 2, 1Gi
    error: pod.yaml has a problem; nothing was decided
    "#);
    assert_snapshot!(refused(&node("a", "", "").replace("memory: 8Gi", "memory: -8Gi"), &pod("")), @r#"
    error: cluster.yaml: Node a: status.allocatable.memory: found "-8Gi", expected a quantity that is not negative
    error: cluster.yaml has a problem; nothing was decided
    "#);
}

#[test]
fn quantities_that_overflow_count_as_the_largest() {
    let asked = pod("").replace("500m", "'1e400'");
    let run = explain(&node("a", "", ""), &asked, &[]);
    assert_snapshot!(run.text(), @r#"
    default/p fits on none of 1 nodes
    0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.

    NODES  PLUGIN            REASON            WHICH
        1  NodeResourcesFit  Insufficient cpu  a

    What would help
      - lower the cpu request from 9223372036854775807m to at most 4, which a has left: opens up to 1 node (a)
    --- stderr
    warning: pod.yaml: Pod default/p: spec.containers[0].resources.requests.cpu: found "1e400", which counts as 9223372036854775807, the largest amount
    --- exit code 2
    "#);
    let huge =
        node("a", "", "").replace("cpu: 4, memory: 8Gi", "cpu: 99999999E, memory: 99999999Ei");
    let fill = placed("q", "a", "")
        .replace("image: i", "image: i, resources: {requests: {cpu: 9E, memory: 8E}}");
    let run = explain(&(huge + &fill + &fill.replace("name: q", "name: r")), &pod(""), &[]);
    assert!(run.code == 2 && run.stdout.contains("Insufficient cpu"), "{}", run.text());
}

#[test]
fn huge_pods_that_are_taken_away_leave_what_the_others_hold() {
    let asks = |pod: &str, cpu: &str| {
        let resources = format!("image: i, resources: {{requests: {{cpu: {cpu}}}}}");
        pod.replace("image: i", &resources)
    };
    let huge = |name: &str| asks(&placed(name, "a", ""), "9E");
    let cluster = |resident: &str| {
        let resident = asks(&placed("resident", "a", "priority: 100,"), resident);
        node("a", "", "") + &huge("q") + &huge("r") + &resident
    };
    // Preemption removes all pods of lower priority and puts them back one by one while the preemptor fits.
    let run = explain(&cluster("3"), &pod("priority: 10,"), &[]);
    assert!(
        run.stdout.contains("make room on a by evicting default/q, default/r."),
        "{}",
        run.text()
    );
    // The resident alone leaves too little.
    let run = explain(&cluster("3800m"), &pod("priority: 10,"), &[]);
    assert!(!run.stdout.contains("make room"), "{}", run.text());
}

#[test]
fn wrong_types() {
    assert_snapshot!(refused("[1, text]", &pod("")), @r"
    error: cluster.yaml: document 1, item 1: found a number, expected an object
    error: cluster.yaml: document 1, item 2: found a string, expected an object
    error: cluster.yaml has problems; nothing was decided
    ");
    assert_snapshot!(refused(&node("a", "", "").replace("taints: []", "").replace("spec: {}", "spec: {taints: 3}"), &pod("")), @r"
    error: cluster.yaml: Node a: spec.taints: invalid type: integer `3`, expected a sequence
    error: cluster.yaml has a problem; nothing was decided
    ");
    assert_snapshot!(refused(&node("a", "", ""), &pod("priority: high,")), @r#"
    error: pod.yaml: Pod default/p: spec.priority: invalid type: string "high", expected i32
    error: pod.yaml has a problem; nothing was decided
    "#);
    assert_snapshot!(refused(&node("a", "", ""), "{kind: Pod, metadata: {}, spec: {containers: [{}]}}"), @r"
    error: pod.yaml: Pod default/(no name): metadata.name: found none, expected the name of the object
    error: pod.yaml has a problem; nothing was decided
    ");
}

#[test]
fn a_megabyte_of_labels() {
    let labels = |bytes: usize| repeated(bytes / 32, |n| format!("label-{n:09}: value-{n:09}, "));
    let cluster = node("a", &labels(1 << 20), "");
    let run = decided(&cluster, &pod("nodeSelector: {label-000000001: valeu-000000001},"));
    assert_snapshot!(run.suggestions(), @r"
    nodeSelector label-000000001=valeu-000000001: no node has it; did you mean value-000000001 (1 node)?
    drop nodeSelector label-000000001=valeu-000000001: opens 1 node (a)
    ");
    let selector = pod(&format!("nodeSelector: {{{}}},", labels(1 << 20)));
    let run = decided(&cluster, &selector);
    assert_eq!(run.code, 0);
    let one = pod(&format!("nodeSelector: {{kubernetes.io/hostname: {}}},", "x".repeat(1 << 20)));
    let run = decided(&cluster, &one);
    assert!(run.suggestions().len() < 2000, "long values are shortened");
    assert_snapshot!(refused(&node("a", &labels(3 << 20), ""), &pod("")), @r"
    error: cluster.yaml: Node a: metadata.labels: found 2949143 bytes, expected at most 1572864
    error: cluster.yaml has a problem; nothing was decided
    ");
}

#[test]
fn ten_thousand_tolerations() {
    let tolerations: String = repeated(10_000, |n| format!("{{key: key-{n}, operator: Exists}}, "));
    let asked = pod(&format!("tolerations: [{tolerations}],"));
    let taint = |key: &str| format!("taints: [{{key: {key}, effect: NoSchedule}}]");
    assert_eq!(decided(&node("a", "", &taint("key-9999")), &asked).code, 0);
    let run = decided(&node("a", "", &taint("other")), &asked);
    assert_snapshot!(run.suggestions(), @"tolerate taint other:NoSchedule: opens 1 node (a)");
}

#[test]
fn five_thousand_affinity_terms() {
    let node_terms: String = repeated(5000, |n| {
        format!("{{matchExpressions: [{{key: k, operator: In, values: [v{n}]}}]}}, ")
    });
    let asked = pod(&format!(
        "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{node_terms}]}}}}}},"
    ));
    let cluster: String = (0..50).map(|n| node(&format!("n{n:02}"), "k: none", "")).collect();
    let run = decided(&cluster, &asked);
    assert_snapshot!(run.suggestions().lines().last().unwrap_or_default(), @"drop the required node affinity: opens 50 nodes (n00, n01, n02, …)");
    let pod_terms: String = repeated(5000, |n| {
        format!(
            "{{labelSelector: {{matchLabels: {{app: a{n}}}}}, topologyKey: kubernetes.io/hostname}}, "
        )
    });
    let asked = pod(&format!(
        "affinity: {{podAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{pod_terms}]}}}},"
    ));
    assert_snapshot!(decided(&cluster, &asked).suggestions(), @"drop all 5000 required pod affinity terms: opens 50 nodes (n00, n01, n02, …)");
}

#[test]
fn too_many_entries_are_refused() {
    let tolerations = "{}, ".repeat(20_000);
    assert_snapshot!(refused(&node("a", "", ""), &pod(&format!("tolerations: [{tolerations}],"))), @r"
    error: pod.yaml: Pod default/p: spec.tolerations: found 20000 entries, expected at most 16384
    error: pod.yaml has a problem; nothing was decided
    ");
}

#[test]
fn aliases_and_depth_do_not_blow_up() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let _ = writeln!(
            bomb,
            "a{level}: &a{level} [{}]",
            vec![format!("*a{}", level - 1); 10].join(", ")
        );
    }
    for text in [
        bomb,
        "[".repeat(20_000),
        "{a: ".repeat(10_000),
        format!("kind: List\nitems: {}", "[".repeat(10_000)),
    ] {
        let errors = refused(&text, &pod(""));
        assert!(
            errors.contains("cluster.yaml")
                && !errors.contains("panicked")
                && !errors.contains("overflow"),
            "{errors}"
        );
    }
}

#[test]
fn names_cannot_drive_the_terminal() {
    let cluster = node("\"a\\e[31mred\"", "", "");
    let run = explain(&cluster, &pod(""), &[]);
    assert!(!run.text().contains('\u{1b}'), "{:?}", run.text());
}
