//! Tests of lowering.

use std::sync::Arc;

use engine::change::Change;
use engine::object::{
    ClusterObject, CsiDriver, CsiNode, CsiStorageCapacity, DaemonSet, Deployment, DeviceClass,
    DisruptionBudget, Job, Namespace, Operator, PersistentVolume, PersistentVolumeClaim,
    Requirement, Resources, Selector, StorageClass, VolumeAttachment, Workload, WorkloadKind,
};
use serde_json::json;

use super::*;
use crate::kinds::KINDS;

mod arbitrary;
mod nodes;
mod pods;
mod requests;
mod selectors;
mod volumes;
mod workloads;

macro_rules! lowering {
    ($($function:ident: $kind:ident($object:ty) $name:literal;)*) => {
        $(
            fn $function(value: &Value) -> Lowered<$object> {
                let kind = KINDS.iter().find(|kind| kind.name == $name).unwrap();
                let (change, problems) = (kind.lower)(value.into(), &mut LoweringCache::default());
                let object = change.map(|change| match change {
                    Change::Object(ClusterObject::$kind(object)) => Arc::unwrap_or_clone(object),
                    _ => unreachable!("the kind is another one"),
                });
                (object, problems)
            }
        )*
    };
}

lowering! {
    namespace: Namespace(Namespace) "Namespace";
    service: Service(Workload) "Service";
    replication_controller: ReplicationController(Workload) "ReplicationController";
    replica_set: ReplicaSet(Workload) "ReplicaSet";
    stateful_set: StatefulSet(Workload) "StatefulSet";
    deployment: Deployment(Deployment) "Deployment";
    daemon_set: DaemonSet(DaemonSet) "DaemonSet";
    job: Job(Job) "Job";
    disruption_budget: PodDisruptionBudget(DisruptionBudget) "PodDisruptionBudget";
    persistent_volume: PersistentVolume(PersistentVolume) "PersistentVolume";
    persistent_volume_claim: PersistentVolumeClaim(PersistentVolumeClaim) "PersistentVolumeClaim";
    storage_class: StorageClass(StorageClass) "StorageClass";
    csi_node: CsiNode(CsiNode) "CSINode";
    csi_driver: CsiDriver(CsiDriver) "CSIDriver";
    csi_storage_capacity: CsiStorageCapacity(CsiStorageCapacity) "CSIStorageCapacity";
    volume_attachment: VolumeAttachment(VolumeAttachment) "VolumeAttachment";
    device_class: DeviceClass(DeviceClass) "DeviceClass";
}

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

/// Checks the problems of a pod with this spec, and returns the pod, if it is usable.
#[track_caller]
fn check_problems(spec: &Value, want: &[&str]) -> Option<Pod> {
    let (object, problems) = super::pod(&a_pod(spec));
    assert_eq!(texts(&problems), want, "{spec}");
    object
}

fn scalars(resources: &Resources) -> Vec<(&str, i64)> {
    resources.scalars.iter().map(|(name, amount)| (&**name, *amount)).collect()
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
