//! Tests of lowering.

use engine::object::{
    AccessModes, BindingMode, ClaimPhase, HostPort, InlineDisk, NodeTerm, Operator, Protocol,
    Requirement, Resources, Selector, TaintEffect, TolerationOperator, Volume, VolumeMode,
    VolumePhase, VolumeSource, WhenUnsatisfiable, WorkloadKind,
};
use proptest::prelude::*;
use serde_json::json;

use super::*;

mod nodes;
mod requests;

fn a_pod(spec: &Value) -> Value {
    json!({"metadata": {"name": "web-1", "labels": {"app": "web", "rev": "7"}}, "spec": spec})
}

fn lowered(pod: &Value) -> Pod {
    let (object, problems) = super::pod(pod);
    assert_eq!(texts(&problems), Vec::<String>::new());
    object.expect("no problem means an object")
}

fn texts(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// Lowers a pod of which something is wrong.
#[track_caller]
fn check_problems(spec: &Value, want: &[&str]) -> Option<Pod> {
    let (object, problems) = super::pod(&a_pod(spec));
    assert_eq!(texts(&problems), want, "{spec}");
    object
}

fn scalars(resources: &Resources) -> Vec<(&str, i64)> {
    resources.scalars.iter().map(|(name, amount)| (&**name, *amount)).collect()
}

#[test]
fn only_countable_resources_are_kept() {
    let spec = lowered(&a_pod(&json!({"containers": [{"resources": {"requests": {
        "cpu": 1,
        "ephemeral-storage": "1Ki",
        "storage": 1,
        "gpu": 1,
        "pods": 1,
        "nvidia.com/gpu": "2",
        "kubernetes.io/batch": 3,
        "hugepages-1Gi": "1Gi",
        "attachable-volumes-aws-ebs": 4,
        "requests.nvidia.com/gpu": 1,
        "example.com/zero": 0,
    }}}]})))
    .spec;
    assert_eq!(spec.requests.ephemeral, 1024);
    let want = [
        ("attachable-volumes-aws-ebs", 4),
        ("example.com/zero", 0),
        ("hugepages-1Gi", 1 << 30),
        ("kubernetes.io/batch", 3),
        ("nvidia.com/gpu", 2),
    ];
    assert_eq!(scalars(&spec.requests), want);
}

#[test]
fn a_bare_pod_gets_its_defaults() {
    let pod =
        lowered(&json!({"metadata": {"name": "a"}, "spec": {"containers": [{"image": "nginx"}]}}));
    assert_eq!((&*pod.namespace, pod.uid), ("default", "uid-default-a".into()));
    assert_eq!(&*pod.spec.scheduler_name, "default-scheduler");
    assert_eq!((pod.priority, pod.creation_time, pod.start_time), (0, 0, None));
    assert_eq!(pod.spec.node_selector, None);
    assert_eq!(pod.spec.node_affinity.required, None);
    assert_eq!(pod.spec.node_affinity.preferred, None);
    assert_eq!(pod.spec.container_count, 1);
}

#[test]
fn null_means_absent() {
    let nulls = json!({
        "metadata": {
            "name": "a", "namespace": null, "uid": null, "labels": null, "annotations": null,
            "creationTimestamp": null, "deletionTimestamp": null, "ownerReferences": null, "generation": null,
        },
        "spec": {
            "affinity": null, "containers": [{"image": null, "ports": null, "resources": null}],
            "initContainers": null, "nodeName": null, "nodeSelector": null, "overhead": null, "priority": null,
            "tolerations": null, "topologySpreadConstraints": null, "volumes": null, "hostNetwork": null,
            "hostUsers": null, "resources": null, "schedulerName": null,
        },
        "status": null,
    });
    assert_eq!(
        lowered(&nulls),
        lowered(&json!({"metadata": {"name": "a"}, "spec": {"containers": [{}]}}))
    );
}

#[test]
fn simple_fields_of_a_pod_are_read() {
    let pod = lowered(&json!({
        "metadata": {
            "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "12", "generation": 3,
            "creationTimestamp": "1970-01-01T00:00:01Z", "deletionTimestamp": "1970-01-01T00:00:02Z",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "1"},
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "2", "controller": true},
            ],
        },
        "spec": {
            "containers": [{"image": "b", "restartPolicyRules": [{"action": "RestartAllContainers"}]}],
            "initContainers": [{"image": "reg:5000/a"}, {"image": "reg:5000/a:v1"}],
            "nodeName": "n1", "priority": -5, "preemptionPolicy": "Never", "schedulerName": "mine",
            "nodeSelector": {"zone": "a"}, "schedulingGates": [{"name": "g"}],
            "resourceClaims": [{"name": "gpu"}], "hostNetwork": true, "hostUsers": false,
            "volumes": [{"name": "v", "image": {"reference": "quay.io/data@sha256:00"}}],
        },
        "status": {
            "nominatedNodeName": "n2", "startTime": "1970-01-01T00:00:03Z",
            "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
        },
    }));
    assert_eq!((&*pod.namespace, &*pod.name, pod.uid), ("n", "a", "u".into()));
    assert_eq!((&*pod.node, &*pod.nominated_node, pod.priority), ("n1", "n2", -5));
    assert_eq!((pod.creation_time, pod.start_time), (1_000_000_000, Some(3_000_000_000)));
    assert_eq!((pod.resource_version, pod.generation), (12, 3));
    assert!(pod.terminating && pod.preempted && pod.spec.never_preempts);
    assert_eq!(pod.gates, ["g".into()].into());
    let spec = pod.spec;
    assert_eq!(&*spec.scheduler_name, "mine");
    assert_eq!(spec.node_selector.as_ref().unwrap().get("zone"), Some("a"));
    assert_eq!(spec.resource_claims, ["gpu".into()].into());
    let images: Vec<_> = spec.images.iter().map(|image| &**image).collect();
    assert_eq!(
        images,
        ["reg:5000/a:latest", "reg:5000/a:v1", "b:latest", "quay.io/data@sha256:00"]
    );
    assert_eq!(spec.container_count, 3);
    let features: Vec<_> = spec.required_features.iter().map(|feature| &**feature).collect();
    assert_eq!(
        features,
        ["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"]
    );
    let owner = spec.owner.as_ref().unwrap();
    assert_eq!(
        (&*owner.api_version, &*owner.kind, &*owner.name, &*owner.uid),
        ("apps/v1", "ReplicaSet", "r", "2")
    );
}

#[test]
fn finished_pods_yield_no_object() {
    for phase in ["Succeeded", "Failed"] {
        let pod = json!({"metadata": {"name": "a"}, "status": {"phase": phase}});
        assert_eq!(super::pod(&pod), (None, Vec::new()));
    }
}

#[test]
fn host_ports_of_containers_and_sidecars_are_taken() {
    let ports = |ports: Value| json!({"ports": ports});
    let mut sidecar = ports(json!([{"hostPort": 1, "protocol": "UDP"}]));
    sidecar["restartPolicy"] = json!("Always");
    let pod = lowered(&a_pod(&json!({
        "containers": [ports(json!([{"hostPort": 80, "hostIP": "10.0.0.1"}, {"containerPort": 5}]))],
        "initContainers": [ports(json!([{"hostPort": 9}])), sidecar],
    })));
    let want = [
        HostPort { ip: "0.0.0.0".into(), protocol: Protocol::Udp, port: 1 },
        HostPort { ip: "10.0.0.1".into(), protocol: Protocol::Tcp, port: 80 },
    ];
    assert_eq!(*pod.spec.host_ports, want);
}

#[test]
fn volumes_that_scheduling_reads_are_taken() {
    let pod = lowered(&a_pod(&json!({"containers": [{}], "volumes": [
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "b", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "c", "emptyDir": {}},
        {"name": "d", "configMap": {"name": "x"}},
        {"name": "e", "gcePersistentDisk": {"pdName": "disk", "readOnly": true}},
        {"name": "f", "rbd": {"monitors": ["m"], "pool": "p", "image": "i"}},
        {"name": "g", "csi": {"driver": "d"}},
        {"name": "h", "awsElasticBlockStore": {"volumeID": "vol-1"}},
        {"name": "i", "iscsi": {"iqn": "q"}},
        {"name": "j", "azureDisk": {"diskURI": "u"}},
    ]})));
    let want = [
        Volume::Claim { name: "data".into() },
        Volume::Ephemeral { claim: "web-1-b".into() },
        Volume::Inline(InlineDisk::GcePersistentDisk { name: "disk".into(), read_only: true }),
        Volume::Inline(InlineDisk::Rbd {
            monitors: ["m".into()].into(),
            pool: "p".into(),
            image: "i".into(),
            read_only: false,
        }),
        Volume::Inline(InlineDisk::Csi { driver: "d".into() }),
        Volume::Inline(InlineDisk::AwsElasticBlockStore { id: "vol-1".into(), read_only: false }),
        Volume::Inline(InlineDisk::Iscsi { iqn: "q".into(), read_only: false }),
        Volume::Inline(InlineDisk::AzureDisk { uri: "u".into() }),
    ];
    assert_eq!(*pod.spec.volumes, want);
}

#[test]
fn tolerations_are_read() {
    let spec = lowered(&a_pod(&json!({"containers": [{}], "tolerations": [
        {"key": "a", "value": "x", "effect": "NoSchedule"},
        {"operator": "Exists"},
        {"key": "b", "operator": "Gt", "value": "1"},
    ]})))
    .spec;
    let got: Vec<_> =
        spec.tolerations.iter().map(|t| (&*t.key, t.operator, &*t.value, t.effect)).collect();
    let want = [
        ("a", TolerationOperator::Equal, "x", Some(TaintEffect::NoSchedule)),
        ("", TolerationOperator::Exists, "", None),
        ("b", TolerationOperator::Other, "1", None),
    ];
    assert_eq!(got, want);
    let pod = check_problems(
        &json!({"containers": [{}], "tolerations": [
            {"key": "a", "operator": "Is"}, {"key": "a", "operator": "Exists", "effect": "Never"}, {"value": "x"},
        ]}),
        &[
            r#"Pod default/web-1: spec.tolerations[0].operator: found "Is", expected Equal or Exists"#,
            "Pod default/web-1: spec.tolerations[1].effect: found \"Never\", \
             expected NoSchedule, PreferNoSchedule or NoExecute",
            "Pod default/web-1: spec.tolerations[2].operator: found Equal with an empty key, expected Exists or a key",
        ],
    );
    let operators: Vec<_> = pod.unwrap().spec.tolerations.iter().map(|t| t.operator).collect();
    assert_eq!(
        operators,
        [TolerationOperator::Other, TolerationOperator::Other, TolerationOperator::Equal]
    );
}

fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
    Requirement {
        key: key.into(),
        operator,
        values: values.iter().map(|&value| value.into()).collect(),
    }
}

fn selector(requirements: &[Requirement]) -> Selector {
    Selector { requirements: requirements.into() }
}

#[test]
fn selectors_are_sorted() {
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
fn selectors_that_cannot_be_read_match_nothing() {
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
fn node_terms_are_read_as_upstream_parses_them() {
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
fn preferred_node_terms_are_read() {
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
fn spread_constraints_take_the_pods_own_labels() {
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

#[test]
fn all_problems_are_reported_at_once() {
    let pod = check_problems(
        &json!({
            "containers": [
                {"resources": {"requests": {"cpu": "12Q", "memory": "1Gi"}}, "ports": [{"hostPort": 70000}]},
                {"resources": {"requests": {"memory": "10E"}}, "ports": [{"hostPort": 1, "protocol": "ICMP"}]},
            ],
            "preemptionPolicy": "Maybe",
        }),
        &[
            "Pod default/web-1: spec.containers[0].resources.requests.cpu: found \"12Q\", \
             expected a quantity such as 500m, 2, 1Gi",
            "Pod default/web-1: spec.containers[1].resources.requests.memory: found \"10E\", \
             which counts as 9223372036854775807, the largest amount",
            "Pod default/web-1: spec.preemptionPolicy: found \"Maybe\", expected Never or PreemptLowerPriority",
            "Pod default/web-1: spec.containers[0].ports[0].hostPort: found 70000, expected 1 to 65535",
            "Pod default/web-1: spec.containers[1].ports[0].protocol: found \"ICMP\", expected TCP, UDP or SCTP",
        ],
    );
    assert_eq!(pod, None);
}

#[test]
fn wrong_types_are_reported_with_their_path() {
    let check = |pod: Value, want: &str| {
        let (object, problems) = super::pod(&pod);
        assert_eq!((object, texts(&problems)), (None, vec![want.to_owned()]));
    };
    check(
        a_pod(&json!({"containers": [{}, {"ports": [{"hostPort": "80"}]}]})),
        "Pod default/web-1: spec.containers[1].ports[0].hostPort: invalid type: string \"80\", expected i32",
    );
    check(
        json!({"metadata": {"name": "a", "labels": {"version": 1}}}),
        "Pod default/a: metadata.labels.version: invalid type: integer `1`, expected a string: put it in quotes",
    );
    check(json!(5), "Pod default/(no name): invalid type: integer `5`, expected an object");
    check(
        json!({"metadata": {"name": "a"}, "spec": {"containers": [{"resources": {"requests": {"cpu": true}}}]}}),
        "Pod default/a: spec.containers[0].resources.requests.cpu: \
         invalid type: boolean `true`, expected a quantity such as 500m, 2, 1Gi",
    );
    check(json!([]), "Pod default/(no name): found a list, expected an object");
    check(
        json!({"metadata": {"name": "a"}, "spec": []}),
        "Pod default/a: spec: found a list, expected an object",
    );
    check(
        json!({"metadata": {"name": "a"}, "spec": {"affinity": 1}}),
        "Pod default/a: spec.affinity: invalid type: integer `1`, expected an object",
    );
    check(
        json!({"metadata": {"namespace": "n"}, "spec": {"containers": [{}]}}),
        "Pod n/(no name): metadata.name: found none, expected the name of the object",
    );
    check(
        json!({"metadata": {"name": "a", "creationTimestamp": "yesterday"}, "spec": {"containers": [{}]}}),
        "Pod default/a: metadata.creationTimestamp: found \"yesterday\", expected a time such as 2026-01-31T12:00:00Z",
    );
}

#[test]
fn pods_beyond_the_limits_are_lowered_but_not_scheduled() {
    let with_tolerations = |count: usize| {
        let tolerations: Vec<_> =
            (0..count).map(|i| json!({"key": format!("k{i}"), "operator": "Exists"})).collect();
        a_pod(&json!({"containers": [{}], "tolerations": tolerations}))
    };
    assert_eq!(lowered(&with_tolerations(10_000)).spec.tolerations.len(), 10_000);
    let (object, problems) = super::pod(&with_tolerations(20_000));
    assert_eq!(
        object.unwrap().spec.too_large.as_deref(),
        Some(
            "the pod is too large to be scheduled: spec.tolerations: found 20000 entries, \
             expected at most 16384; recreate it with fewer"
        ),
    );
    assert!(problems.iter().all(|problem| problem.severity == Severity::Error));
    assert_eq!(
        texts(&problems),
        ["Pod default/web-1: spec.tolerations: found 20000 entries, expected at most 16384"],
    );

    let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}});
    let terms = vec![term; 5_000];
    let pod = lowered(&a_pod(&json!({"containers": [{}], "affinity": {"podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": terms,
    }}})));
    assert_eq!(pod.spec.pod_affinity.required.len(), 5_000);

    let with_labels = |bytes: usize| {
        let labels: serde_json::Map<_, _> =
            (0..bytes / 16).map(|i| (format!("{i:08}"), json!("12345678"))).collect();
        json!({"metadata": {"name": "a", "labels": labels}, "spec": {"containers": [{}]}})
    };
    assert_eq!(lowered(&with_labels(1 << 20)).labels.len(), 1 << 16);
    let (object, problems) = super::pod(&with_labels(2 << 20));
    let object = object.unwrap();
    assert_eq!((object.labels.len(), object.spec.too_large.is_some()), (1 << 17, true));
    assert_eq!(
        texts(&problems),
        ["Pod default/a: metadata.labels: found 2097152 bytes, expected at most 1572864"],
    );
}

#[test]
fn long_texts_are_shortened_in_messages_and_many_problems_are_counted() {
    let (_, problems) =
        super::pod(&a_pod(&json!({"containers": [], "overhead": {"cpu": "9Q".repeat(1000)}})));
    assert!(problems[1].message.len() < 200, "{}", problems[1].message);
    let tolerations = vec![json!({"key": "a", "operator": "Is"}); 250];
    let (_, problems) =
        super::pod(&a_pod(&json!({"containers": [{}], "tolerations": tolerations})));
    assert_eq!(problems.len(), 101);
    assert_eq!(problems[100].to_string(), "Pod default/web-1: 150 more problems omitted");
}

#[test]
fn nodes_are_read() {
    let (node, problems) = super::node(&json!({
        "metadata": {"name": "n", "labels": {"zone": "a"}, "annotations": {"x": "y"}},
        "spec": {"unschedulable": true, "taints": [
            {"key": "a", "effect": "NoExecute"}, {"key": "b", "value": "c", "effect": "Sometimes"},
        ]},
        "status": {
            "allocatable": {"cpu": "3920m", "memory": "1Gi", "ephemeral-storage": "1k", "pods": "110",
                "nvidia.com/gpu": 2, "hugepages-2Mi": 0},
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}],
            "images": [{"names": ["a:1", "a@sha256:0"], "sizeBytes": 7}],
            "declaredFeatures": ["B", "A", "B"],
        },
    }));
    let node = node.unwrap();
    assert_eq!(
        texts(&problems),
        [
            "Node n: spec.taints[1].effect: found \"Sometimes\", expected NoSchedule, PreferNoSchedule or NoExecute"
        ],
    );
    assert_eq!(
        (node.allocatable.cpu, node.allocatable.memory, node.allocatable.ephemeral),
        (3920, 1 << 30, 1000)
    );
    assert_eq!(scalars(&node.allocatable), [("hugepages-2Mi", 0), ("nvidia.com/gpu", 2)]);
    assert_eq!((node.allowed_pods, node.unschedulable, node.taints.len()), (110, true, 1));
    assert_eq!(node.taints[0].effect, TaintEffect::NoExecute);
    assert_eq!((node.images[0].size, &*node.images[0].names[1]), (7, "a@sha256:0"));
    assert_eq!(*node.declared_features, ["A", "B"]);
    let (node, problems) = super::node(&json!({"metadata": {"name": "n"}}));
    assert!(node.is_some());
    assert_eq!(problems[0].severity, Severity::Warning);
}

#[test]
fn volumes_and_claims_are_read() {
    let (volume, problems) = persistent_volume(&json!({
        "metadata": {
            "name": "pv", "labels": {"zone": "a"}, "deletionTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"volume.beta.kubernetes.io/storage-class": "beta"},
        },
        "spec": {
            "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "storageClassName": "slow", "volumeMode": "Block", "volumeAttributesClassName": "gold",
            "claimRef": {"namespace": "n", "name": "c", "uid": "u"},
            "csi": {"driver": "d", "volumeHandle": "h"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
            ]}},
        },
        "status": {"phase": "Available"},
    }));
    assert_eq!(texts(&problems), Vec::<String>::new());
    let volume = volume.unwrap();
    assert_eq!(
        (volume.capacity, &*volume.storage_class, volume.volume_mode),
        (10 << 30, "beta", VolumeMode::Block)
    );
    assert_eq!(volume.access_modes, AccessModes::READ_WRITE_ONCE.with(AccessModes::READ_ONLY_MANY));
    assert_eq!((volume.phase, volume.deleting), (VolumePhase::Available, true));
    assert_eq!(volume.source, VolumeSource::Csi { driver: "d".into(), handle: "h".into() });
    assert_eq!(volume.node_affinity.unwrap().len(), 1);
    assert_eq!(&*volume.claim_ref.unwrap().uid, "u");

    let (claim, problems) = persistent_volume_claim(&json!({
        "metadata": {
            "name": "c",
            "annotations": {"pv.kubernetes.io/bind-completed": "", "volume.kubernetes.io/selected-node": "n1"},
            "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "pu", "controller": true}],
        },
        "spec": {
            "accessModes": ["ReadWriteOncePod", "Sometimes"], "storageClassName": "",
            "resources": {"requests": {"storage": "1.5"}}, "volumeName": "pv",
            "selector": {"matchLabels": {"a": "b"}},
        },
        "status": {"phase": "Lost"},
    }));
    assert_eq!(
        texts(&problems),
        ["PersistentVolumeClaim default/c: spec.accessModes[1]: found \"Sometimes\", \
          expected ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod"],
    );
    let claim = claim.unwrap();
    assert_eq!(
        (claim.request, claim.storage_class.as_deref(), claim.class()),
        (Some(2), Some(""), "")
    );
    assert_eq!(
        (claim.phase, claim.bind_completed, claim.bound_by_controller),
        (ClaimPhase::Lost, true, false)
    );
    assert_eq!((claim.selected_node.as_deref(), claim.owner_uid), (Some("n1"), Some("pu".into())));
    assert!(claim.access_modes.contains(AccessModes::READ_WRITE_ONCE_POD));
    assert_eq!(claim.selector.unwrap().requirements.len(), 1);
}

#[test]
fn classes_and_drivers_are_read() {
    let (class, problems) = storage_class(&json!({
        "metadata": {"name": "s"}, "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["b", "a"]}]}, {}],
    }));
    assert_eq!(texts(&problems), Vec::<String>::new());
    let class = class.unwrap();
    assert_eq!(class.binding_mode, Some(BindingMode::WaitForFirstConsumer));
    assert_eq!(
        *class.allowed_topologies[0].expressions,
        [requirement("zone", Operator::In, &["a", "b"])]
    );
    assert!(class.allowed_topologies[1].is_empty());
    assert_eq!(storage_class(&json!({"metadata": {"name": "s"}})).0.unwrap().binding_mode, None);

    let (node, _) = csi_node(&json!({
        "metadata": {
            "name": "n",
            "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"},
        },
        "spec": {"drivers": [{"name": "d", "allocatable": {"count": 5}, "topologyKeys": ["z"]}, {"name": "e", "allocatable": null}]},
    }));
    let node = node.unwrap();
    assert_eq!((node.drivers[0].limit, node.drivers[1].limit), (Some(5), None));
    assert_eq!(&*node.migrated_plugins[0], "kubernetes.io/aws-ebs");

    let driver = csi_driver(&json!({"metadata": {"name": "d"}, "spec": {"storageCapacity": true}}))
        .0
        .unwrap();
    assert!(driver.storage_capacity && driver.attach_required && !driver.prevents_if_missing);

    let (capacity, _) = csi_storage_capacity(&json!({
        "metadata": {"name": "c"}, "storageClassName": "s", "capacity": "1Gi",
        "nodeTopology": {"matchLabels": {"zone": "a"}},
    }));
    let capacity = capacity.unwrap();
    assert_eq!((capacity.capacity, capacity.maximum_volume_size), (Some(1 << 30), None));
    assert!(capacity.node_topology.is_some());

    let (attachment, _) = volume_attachment(&json!({
        "metadata": {"name": "x"},
        "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "pv"}},
    }));
    assert_eq!(attachment.unwrap().volume_name.as_deref(), Some("pv"));
    let (class, _) = device_class(
        &json!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "a.com/gpu"}}),
    );
    assert_eq!(class.unwrap().extended_resource.as_deref(), Some("a.com/gpu"));
}

#[test]
fn workloads_and_budgets_are_read() {
    let named =
        |selector: Value| json!({"metadata": {"name": "w"}, "spec": {"selector": selector}});
    let web = selector(&[requirement("app", Operator::In, &["web"])]);
    let services = [
        service(&named(json!({"app": "web"}))),
        replication_controller(&named(json!({"app": "web"}))),
    ];
    let sets = named(json!({"matchLabels": {"app": "web"}}));
    let all = services.into_iter().chain([replica_set(&sets), stateful_set(&sets)]);
    let all: Vec<_> = all.map(|(object, _)| object.unwrap()).collect();
    let kinds: Vec<_> = all.iter().map(|workload| workload.kind).collect();
    assert_eq!(
        kinds,
        [
            WorkloadKind::Service,
            WorkloadKind::ReplicationController,
            WorkloadKind::ReplicaSet,
            WorkloadKind::StatefulSet
        ]
    );
    assert!(all.iter().all(|workload| workload.selector.as_ref() == Some(&web)));
    for empty in [json!({}), json!(null)] {
        assert_eq!(service(&named(empty)).0.unwrap().selector, None);
    }
    assert_eq!(replica_set(&named(json!({}))).0.unwrap().selector, Some(Selector::default()));

    let mut budget = named(json!({"matchLabels": {"app": "web"}}));
    budget["status"] =
        json!({"disruptionsAllowed": 2, "disruptedPods": {"b": "2026-01-01T00:00:00Z", "a": null}});
    let budget = disruption_budget(&budget).0.unwrap();
    assert_eq!((budget.selector, budget.disruptions_allowed), (Some(web), 2));
    assert_eq!(*budget.disrupted_pods, ["a", "b"]);
    for nothing in [json!({}), json!(null)] {
        assert_eq!(disruption_budget(&named(nothing)).0.unwrap().selector, None);
    }
    let namespace = namespace(&json!({"metadata": {"name": "n", "labels": {"a": "b"}}})).0.unwrap();
    assert_eq!(namespace.labels.get("a"), Some("b"));
}

/// An object with every field that is read.
fn rich_pod() -> Value {
    json!({
        "metadata": {"name": "a", "labels": {"a": "b"}, "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"kind": "X", "controller": true}]},
        "spec": {
            "containers": [{"name": "c", "image": "i", "ports": [{"hostPort": 1, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "1", "x.com/y": 2}}}],
            "initContainers": [{"name": "s", "restartPolicy": "Always"}],
            "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute"}],
            "nodeSelector": {"a": "b"}, "overhead": {"cpu": "1m"}, "resources": {"requests": {"cpu": "1"}},
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}],
                        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                ]}},
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "z", "labelSelector": {"matchLabels": {"a": "b"}}, "namespaceSelector": {}},
                ]},
            },
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        },
        "status": {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}],
            "conditions": [{"type": "PodResizePending"}], "startTime": "2026-01-01T00:00:00Z"},
    })
}

fn pointers(value: &Value, path: &str, all: &mut Vec<String>) {
    all.push(path.to_owned());
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                pointers(value, &format!("{path}/{}", key.replace('/', "~1")), all);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                pointers(value, &format!("{path}/{index}"), all);
            }
        }
        _ => {}
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        Just(json!({})),
        Just(json!([])),
        Just(json!("-9223372036854775808")),
    ];
    leaf.prop_recursive(2, 8, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,8}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

type AnyKind = fn(&Value) -> bool;

/// Whether every kind says why it gives no object.
const ALL_KINDS: &[AnyKind] = &[
    |v| explained(&pod(v)),
    |v| explained(&node(v)),
    |v| explained(&namespace(v)),
    |v| explained(&service(v)),
    |v| explained(&replication_controller(v)),
    |v| explained(&replica_set(v)),
    |v| explained(&stateful_set(v)),
    |v| explained(&disruption_budget(v)),
    |v| explained(&persistent_volume(v)),
    |v| explained(&persistent_volume_claim(v)),
    |v| explained(&storage_class(v)),
    |v| explained(&csi_node(v)),
    |v| explained(&csi_driver(v)),
    |v| explained(&csi_storage_capacity(v)),
    |v| explained(&volume_attachment(v)),
    |v| explained(&device_class(v)),
    |v| explained(&resource_claim(v)),
];

fn explained<T>((object, problems): &Lowered<T>) -> bool {
    object.is_some() || problems.iter().any(|problem| problem.severity == Severity::Error)
}

proptest! {
    #[test]
    fn mutated_pods_never_panic(at: prop::sample::Index, value in any_value()) {
        let mut pod = rich_pod();
        let mut all = Vec::new();
        pointers(&pod, "", &mut all);
        let path: &String = at.get(&all);
        *pod.pointer_mut(path).unwrap() = value;
        prop_assert!(explained(&super::pod(&pod)));
    }

    #[test]
    fn arbitrary_values_never_panic(value in any_value(), spec in any_value(), status in any_value()) {
        let object = json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
        for lower in ALL_KINDS {
            prop_assert!(lower(&value));
            prop_assert!(lower(&object));
        }
    }
}

#[test]
fn the_rich_pod_has_no_problem() {
    lowered(&rich_pod());
}
