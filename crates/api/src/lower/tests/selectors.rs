//! Tests of lowering selectors, affinity and spread constraints.

use engine::object::{NodeTerm, WhenUnsatisfiable};
use serde_json::json;

use super::*;

#[test]
fn requirements_of_selectors_are_sorted() {
    let spec = lowered(&a_pod(&json!({"containers": [{}], "affinity": {"podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {
                "matchLabels": {"b": "1"},
                "matchExpressions": [
                    {"key": "c", "operator": "NotIn", "values": ["y", "x", "y"]},
                    {"key": "a", "operator": "Exists"},
                    {"key": "b", "operator": "In", "values": ["1"]},
                ],
            }},
            {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {}},
            {"topologyKey": "zone", "namespaces": ["z", "y", "z"]},
        ],
    }}})))
    .spec;
    let terms = &spec.pod_affinity.required;
    let want = selector(&[
        requirement("a", Operator::Exists, &[]),
        requirement("b", Operator::In, &["1"]),
        requirement("c", Operator::NotIn, &["x", "y"]),
    ]);
    assert_eq!(terms[0].selector, Some(want));
    assert_eq!(
        (terms[0].namespaces.as_ref(), &terms[0].namespace_selector),
        (&["default".into()][..], &None)
    );
    assert_eq!(terms[1].selector, Some(Selector::default()));
    assert_eq!(
        (terms[1].namespaces.len(), &terms[1].namespace_selector),
        (0, &Some(Selector::default()))
    );
    assert_eq!(terms[2].selector, None);
    assert_eq!(*terms[2].namespaces, ["y", "z"]);
    assert!(spec.pod_affinity.has_affinity && !spec.pod_affinity.has_anti_affinity);
}

#[test]
fn invalid_selectors_match_nothing() {
    let check = |expression: Value, want: &str| {
        let path = "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm";
        let want = format!("Pod default/web-1: {path}.labelSelector.matchExpressions[0].{want}");
        let pod = check_problems(
            &json!({"containers": [{}], "affinity": {"podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": {
                    "topologyKey": "zone", "labelSelector": {"matchExpressions": [expression]},
                }}],
            }}}),
            &[&want],
        );
        let affinity = pod.unwrap().spec.pod_affinity.clone();
        assert_eq!(
            (affinity.preferred_anti[0].0, &affinity.preferred_anti[0].1.selector),
            (5, &None)
        );
    };
    check(
        json!({"key": "a", "operator": "Gt", "values": ["1"]}),
        r#"operator: found "Gt", expected In, NotIn, Exists or DoesNotExist"#,
    );
    check(
        json!({"key": "a", "operator": "in", "values": ["1"]}),
        r#"operator: found "in", expected In, NotIn, Exists or DoesNotExist"#,
    );
    check(
        json!({"key": "a", "operator": "In"}),
        "values: found 0 values for In, expected at least one",
    );
    check(
        json!({"key": "a", "operator": "Exists", "values": ["1"]}),
        "values: found 1 values for Exists, expected none",
    );
    check(
        json!({"key": "-a", "operator": "Exists"}),
        r#"key: found "-a", expected a label key such as app or example.com/app"#,
    );
    check(
        json!({"key": "a", "operator": "In", "values": ["x", "a b"]}),
        r#"values[1]: found "a b", expected a label value: at most 63 letters, digits, '-', '_' or '.'"#,
    );
}

#[test]
fn node_terms_are_validated_as_by_upstream() {
    let check = |term: Value, malformed: bool, want: &[&str]| {
        let path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]";
        let want: Vec<_> =
            want.iter().map(|want| format!("Pod default/web-1: {path}.{want}")).collect();
        let want: Vec<_> = want.iter().map(String::as_str).collect();
        let pod = check_problems(
            &json!({"containers": [{}], "affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            }}}),
            &want,
        );
        let pod = pod.unwrap();
        let term = pod.spec.node_affinity.required.as_ref().unwrap()[0].clone();
        assert_eq!(term.malformed, malformed);
        term
    };
    let label = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
    let field = |key: &str, operator: &str, values: Value| json!({"matchFields": [{"key": key, "operator": operator, "values": values}]});
    let term = check(label("In", json!(["b", "a"])), false, &[]);
    assert_eq!(*term.expressions, [requirement("a", Operator::In, &["a", "b"])]);
    let term = check(label("Gt", json!(["5"])), false, &[]);
    assert_eq!(*term.expressions, [requirement("a", Operator::Gt, &["5"])]);
    let term = check(field("metadata.name", "NotIn", json!(["n"])), false, &[]);
    assert_eq!(*term.fields, [requirement("metadata.name", Operator::NotIn, &["n"])]);
    assert!(check(json!({}), false, &[]).is_empty());

    check(
        label("Gt", json!(["five"])),
        true,
        &[
            r#"matchExpressions[0].values[0]: found "five", expected an integer: the term matches no node"#,
        ],
    );
    check(
        label("Lt", json!([])),
        true,
        &["matchExpressions[0].values: found 0 values for Lt, expected one"],
    );
    check(
        label("Is", json!(["x"])),
        true,
        &[
            r#"matchExpressions[0].operator: found "Is", expected In, NotIn, Exists, DoesNotExist, Gt or Lt"#,
        ],
    );
    check(
        field("metadata.uid", "In", json!(["n"])),
        true,
        &[r#"matchFields[0].key: found "metadata.uid", expected metadata.name"#],
    );
    check(
        field("metadata.name", "In", json!(["n", "m"])),
        true,
        &["matchFields[0].values: found 2 values, expected one"],
    );
    check(
        field("metadata.name", "Exists", json!([])),
        true,
        &[r#"matchFields[0].operator: found "Exists", expected In or NotIn"#],
    );
}

#[test]
fn preferred_node_terms_are_lowered() {
    let spec = lowered(&a_pod(&json!({"containers": [{}], "affinity": {"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 7, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
        ],
    }}})))
    .spec;
    let term = NodeTerm {
        expressions: [requirement("a", Operator::Exists, &[])].into(),
        fields: Box::default(),
        malformed: false,
    };
    assert_eq!(spec.node_affinity.preferred, Some([(7, term)].into()));
    let empty = json!({"containers": [{}], "affinity": {"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [],
    }}});
    assert_eq!(lowered(&a_pod(&empty)).spec.node_affinity.preferred, Some(Box::default()));
}

#[test]
fn spread_constraints_add_the_pods_own_labels() {
    let spec = lowered(&a_pod(&json!({"containers": [{}], "topologySpreadConstraints": [
        {
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3,
            "labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["rev", "none"],
            "nodeTaintsPolicy": "Honor", "nodeAffinityPolicy": "Ignore",
        },
        {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "matchLabelKeys": ["rev"]},
        {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}},
    ]})))
    .spec;
    let [first, second, third] = &*spec.spread else { panic!("three constraints") };
    let want = selector(&[
        requirement("app", Operator::In, &["web"]),
        requirement("rev", Operator::In, &["7"]),
    ]);
    assert_eq!(first.selector, Some(want));
    assert_eq!((first.max_skew, first.min_domains), (1, 3));
    assert_eq!(
        (first.when_unsatisfiable, first.honor_affinity, first.honor_taints),
        (WhenUnsatisfiable::DoNotSchedule, false, true)
    );
    assert_eq!((&second.selector, second.min_domains), (&None, 1));
    assert_eq!(
        (second.when_unsatisfiable, second.honor_affinity, second.honor_taints),
        (WhenUnsatisfiable::ScheduleAnyway, true, false)
    );
    assert_eq!(third.selector, Some(Selector::default()));
    let path = "Pod default/web-1: spec.topologySpreadConstraints[0]";
    check_problems(
        &json!({"containers": [{}], "topologySpreadConstraints": [{}]}),
        &[
            &format!("{path}.maxSkew: found 0, expected at least 1"),
            &format!(
                "{path}.topologyKey: found none, expected a node label such as topology.kubernetes.io/zone"
            ),
            &format!(
                "{path}.whenUnsatisfiable: found \"\", expected DoNotSchedule or ScheduleAnyway"
            ),
        ],
    );
}
