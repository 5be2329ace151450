//! Tests of lowering pods.

use engine::object::{
    HostPort, InlineDisk, PodFacts, Protocol, QosClass, TaintEffect, TolerationOperator, Volume,
};
use serde_json::json;

use super::*;

#[test]
fn resources_that_scheduling_does_not_count_are_dropped() {
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
fn unset_fields_of_a_pod_get_their_defaults() {
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
fn simple_fields_of_a_pod_are_lowered() {
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
fn host_ports_of_containers_and_sidecars_are_lowered() {
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
fn only_volumes_that_scheduling_reads_are_lowered() {
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
fn tolerations_are_lowered() {
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

#[test]
fn local_volumes_are_host_paths_and_directories_on_disk() {
    let pod = lowered(&a_pod(&json!({"containers": [{}], "volumes": [
        {"name": "host", "hostPath": {"path": "/var/log"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "config", "configMap": {"name": "c"}},
    ]})));
    assert_eq!(*pod.spec.local_volumes, ["host", "scratch"]);
    assert_eq!(pod.spec.volumes.len(), 1);
}

#[test]
fn the_qos_class_is_that_of_upstream() {
    let both = |cpu: &str, memory: &str| json!({"cpu": cpu, "memory": memory});
    let of = |requests: Value, limits: Value| json!({"resources": {"requests": requests, "limits": limits}});
    let full = of(both("1", "1Gi"), both("1000m", "1024Mi"));
    let (best, burst, guaranteed) =
        (QosClass::BestEffort, QosClass::Burstable, QosClass::Guaranteed);
    let table = [
        (json!({"containers": [{}]}), best),
        (json!({"containers": [of(both("0", "0"), json!({}))]}), best),
        (json!({"containers": [of(json!({"example.com/gpu": 1}), json!({}))]}), best),
        (json!({"containers": [full]}), guaranteed),
        (json!({"containers": [full, full], "initContainers": [full]}), guaranteed),
        (json!({"containers": [full], "initContainers": [{}]}), burst),
        (json!({"containers": [of(both("1", "1Gi"), both("2", "1Gi"))]}), burst),
        (json!({"containers": [of(json!({}), both("1", "1Gi"))]}), burst),
        (json!({"containers": [of(json!({"cpu": "1"}), json!({"cpu": "1"}))]}), burst),
        (json!({"containers": [{}], "resources": full["resources"]}), guaranteed),
        (json!({"containers": [full], "resources": {"requests": {"cpu": "1"}}}), burst),
        (json!({"containers": [full], "resources": {}}), best),
    ];
    for (spec, want) in table {
        assert_eq!(lowered(&a_pod(&spec)).spec.qos, want, "{spec}");
    }
}

#[test]
fn facts_about_eviction_are_lowered() {
    let facts = |annotations: Value, status: Value| {
        let mut pod = a_pod(&json!({"containers": [{}]}));
        pod["metadata"]["annotations"] = annotations;
        pod["status"] = status;
        let PodFacts { ready, restarts, mirror, safe_to_evict } = lowered(&pod).facts;
        (ready, restarts, mirror, safe_to_evict)
    };
    let safe = "cluster-autoscaler.kubernetes.io/safe-to-evict";
    assert_eq!(facts(json!({}), json!({})), (false, 0, false, None));
    assert_eq!(facts(json!({safe: "maybe"}), json!({})), (false, 0, false, None));
    let status = json!({
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "a", "restartCount": 2}, {"name": "b", "restartCount": -1}],
        "initContainerStatuses": [{"name": "c", "restartCount": 5}],
    });
    let annotations = json!({"kubernetes.io/config.mirror": "hash", safe: "true"});
    assert_eq!(facts(annotations, status), (true, 7, true, Some(true)));
    let status = json!({"conditions": [{"type": "Ready", "status": "False"}]});
    assert_eq!(facts(json!({safe: "false"}), status), (false, 0, false, Some(false)));
}
