//! Tests that both encodings of an object deserialize to the same value, and tests of the wire format.

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::kinds::KINDS;
use crate::lower::{self, LoweringCache, Source};

/// Encodes JSON as a message of the schema, with fields in order of their numbers as Kubernetes
/// does.
pub(crate) fn encode(message: &Message, value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in message.fields {
        let inlined = matches!(field.shape, Shape::Inline(_));
        let found = if inlined { Some(value) } else { value.get(field.name) };
        let Some(found) = found.filter(|found| !found.is_null()) else { continue };
        match &field.shape {
            Shape::List(shape) => {
                for element in found.as_array().into_iter().flatten() {
                    put(&mut bytes, field.number, shape, element);
                }
            }
            Shape::Map(shape) => {
                for (key, value) in found.as_object().into_iter().flatten() {
                    let mut entry = Vec::new();
                    put(&mut entry, 1, &Shape::Text, &json!(key));
                    put(&mut entry, 2, shape, value);
                    put_bytes(&mut bytes, field.number, &entry);
                }
            }
            shape => put(&mut bytes, field.number, shape, found),
        }
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, number: u32, shape: &Shape, value: &Value) {
    match shape {
        Shape::Text => put_bytes(bytes, number, value.as_str().unwrap_or("").as_bytes()),
        Shape::Int => put_number(bytes, number, value.as_i64().unwrap_or(0).cast_unsigned()),
        Shape::Bool => put_number(bytes, number, value.as_bool().unwrap_or(false).into()),
        Shape::Quantity => {
            let mut inner = Vec::new();
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            put_bytes(&mut inner, 1, text.as_bytes());
            put_bytes(bytes, number, &inner);
        }
        Shape::Time => {
            let nanoseconds = value.as_str().and_then(crate::lower::time::parse).unwrap_or(0);
            let mut inner = Vec::new();
            put_number(&mut inner, 1, nanoseconds.div_euclid(1_000_000_000).cast_unsigned());
            put_number(&mut inner, 2, nanoseconds.rem_euclid(1_000_000_000).cast_unsigned());
            put_bytes(bytes, number, &inner);
        }
        Shape::Message(message) | Shape::Inline(message) => {
            put_bytes(bytes, number, &encode(message, value));
        }
        Shape::List(_) | Shape::Map(_) => panic!("lists cannot be nested"),
    }
}

fn put_number(bytes: &mut Vec<u8>, field: u32, number: u64) {
    put_varint(bytes, u64::from(field) << 3);
    put_varint(bytes, number);
}

fn put_bytes(bytes: &mut Vec<u8>, field: u32, inner: &[u8]) {
    put_varint(bytes, u64::from(field) << 3 | 2);
    put_varint(bytes, inner.len() as u64);
    bytes.extend_from_slice(inner);
}

fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Checks that both encodings of an object of this kind are lowered to equal changes.
#[track_caller]
fn assert_alike(kind: &str, object: &Value) {
    let kind = KINDS.iter().find(|row| row.name == kind).unwrap();
    let lower = |source: Source<'_>| (kind.lower)(source, &mut LoweringCache::default());
    let from_protobuf = lower(Source::Protobuf(kind.message, &encode(kind.message, object)));
    let from_json = lower(Source::Json(object));
    assert!(from_json.0.is_some(), "{:?}", from_json.1);
    assert_eq!(format!("{from_protobuf:?}"), format!("{from_json:?}"));
}

fn meta() -> Value {
    json!({
        "name": "a", "namespace": "b", "uid": "c", "resourceVersion": "17", "generation": 3,
        "creationTimestamp": "2026-01-31T12:00:01Z", "labels": {"x": "1", "y": ""},
        "annotations": {"n": "o"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}],
    })
}

fn selector() -> Value {
    let expression = json!({"key": "k", "operator": "NotIn", "values": ["a", "b"]});
    json!({"matchLabels": {"app": "x"}, "matchExpressions": [expression]})
}

pub(crate) fn full_pod() -> Value {
    let term = json!({
        "labelSelector": selector(), "namespaces": ["n1", "n2"], "namespaceSelector": {},
        "topologyKey": "zone",
    });
    let both = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": [term],
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": term}],
    });
    let node_term = json!({
        "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}],
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
    });
    json!({
        "metadata": meta(),
        "spec": {
            "schedulerName": "s", "nodeName": "n", "priority": -5, "preemptionPolicy": "Never",
            "nodeSelector": {"disk": "ssd"}, "hostNetwork": true, "hostUsers": false,
            "overhead": {"cpu": "10m"}, "resources": {"requests": {"memory": "1Gi"}},
            "schedulingGates": [{"name": "g"}], "resourceClaims": [{"name": "rc"}],
            "tolerations": [{"key": "t", "operator": "Exists", "effect": "NoExecute"}, {"operator": "Exists"}],
            "topologySpreadConstraints": [{
                "maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector(), "matchLabelKeys": ["x"], "minDomains": 3,
                "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor",
            }],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [node_term]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": node_term}],
                },
                "podAffinity": both, "podAntiAffinity": both,
            },
            "containers": [{
                "name": "c", "image": "i:1",
                "ports": [{"hostPort": 80, "hostIP": "10.0.0.1", "protocol": "UDP"}],
                "resources": {"requests": {"cpu": "1500m", "memory": "2Gi", "example.com/gpu": "2"}, "limits": {"cpu": "2"}},
            }],
            "initContainers": [{
                "name": "i", "image": "j", "restartPolicy": "Always",
                "resources": {"requests": {"cpu": "1"}}, "restartPolicyRules": [{"action": "Restart"}],
            }],
            "volumes": [
                {"name": "v", "persistentVolumeClaim": {"claimName": "pvc"}},
                {"name": "e", "ephemeral": {}},
                {"name": "r", "rbd": {"monitors": ["m1", "m2"], "image": "im", "pool": "p", "readOnly": true}},
                {"name": "i", "iscsi": {"iqn": "q"}},
                {"name": "g", "gcePersistentDisk": {"pdName": "pd"}},
                {"name": "a", "awsElasticBlockStore": {"volumeID": "vol"}},
                {"name": "d", "azureDisk": {"diskURI": "uri"}},
                {"name": "f", "azureFile": {"secretName": "s", "shareName": "t"}},
                {"name": "s", "csi": {"driver": "d"}},
                {"name": "o", "cinder": {"volumeID": "w"}},
                {"name": "p", "portworxVolume": {"volumeID": "x"}},
                {"name": "w", "vsphereVolume": {"volumePath": "path"}},
                {"name": "m", "image": {"reference": "ref"}},
                {"name": "h", "hostPath": {}},
                {"name": "t", "emptyDir": {"medium": ""}},
            ],
        },
        "status": {
            "phase": "Running", "nominatedNodeName": "nn", "startTime": "2026-02-01T00:00:00Z",
            "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
            "containerStatuses": [{
                "name": "c", "restartCount": 3, "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "2"}},
            }],
            "resources": {"requests": {"memory": "2Gi"}}, "allocatedResources": {"memory": "3Gi"},
        },
    })
}

#[test]
fn pods_lower_equally_from_both_encodings() {
    assert_alike("Pod", &full_pod());
    let (pod, problems) =
        lower::pod(Source::Protobuf(&schema::POD, &encode(&schema::POD, &full_pod())));
    let pod = pod.unwrap();
    assert_eq!(problems.iter().map(ToString::to_string).collect::<Vec<_>>(), Vec::<String>::new());
    assert_eq!((&*pod.name, pod.resource_version, pod.priority), ("a", 17, -5));
    assert_eq!((pod.spec.volumes.len(), pod.spec.spread.len()), (12, 1));
    let bare = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}});
    assert_alike("Pod", &bare);
}

#[test]
fn nodes_and_workloads_lower_equally_from_both_encodings() {
    let node = json!({
        "metadata": meta(),
        "spec": {"unschedulable": true, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "4", "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "declaredFeatures": ["f", "g"],
            "images": [{"names": ["i:1", "i@sha256:0"], "sizeBytes": 12_345_678_901_i64}],
        },
    });
    assert_alike("Node", &node);
    assert_alike("Namespace", &json!({"metadata": meta()}));
    let by_map = json!({"metadata": meta(), "spec": {"selector": {"app": "x"}}});
    assert_alike("Service", &by_map);
    assert_alike("ReplicationController", &by_map);
    let by_selector = json!({"metadata": meta(), "spec": {"selector": selector()}});
    assert_alike("ReplicaSet", &by_selector);
    assert_alike("StatefulSet", &by_selector);
    let rollout = json!({
        "observedGeneration": 3, "replicas": 5, "updatedReplicas": 4, "readyReplicas": 3,
        "availableReplicas": 2,
    });
    let spec = json!({"replicas": 5, "selector": selector(), "paused": true});
    let rolling = json!({"metadata": meta(), "spec": spec, "status": rollout});
    for kind in ["ReplicaSet", "StatefulSet", "Deployment"] {
        assert_alike(kind, &rolling);
    }
    let rollout = json!({
        "observedGeneration": 3, "currentNumberScheduled": 5, "updatedNumberScheduled": 4,
        "numberReady": 3, "numberAvailable": 2, "desiredNumberScheduled": 6,
    });
    let spec = json!({"selector": selector()});
    assert_alike("DaemonSet", &json!({"metadata": meta(), "spec": spec, "status": rollout}));
    let status = json!({"active": 1, "succeeded": 2, "failed": 3});
    let spec = json!({"parallelism": 4, "completions": 5, "suspend": true});
    assert_alike("Job", &json!({"metadata": meta(), "spec": spec, "status": status}));
    let budget = json!({
        "metadata": meta(), "spec": {"selector": selector()},
        "status": {"disruptionsAllowed": 2, "disruptedPods": {"p": "2026-01-31T12:00:00Z"}},
    });
    assert_alike("PodDisruptionBudget", &budget);
    let class = json!({"metadata": meta(), "spec": {"extendedResourceName": "example.com/gpu"}});
    assert_alike("DeviceClass", &class);
}

#[test]
fn storage_objects_lower_equally_from_both_encodings() {
    let required =
        json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]});
    let volume = json!({
        "metadata": meta(),
        "spec": {
            "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
            "claimRef": {"namespace": "n", "name": "c", "uid": "u"}, "storageClassName": "fast",
            "volumeMode": "Block", "volumeAttributesClassName": "gold",
            "nodeAffinity": {"required": required}, "csi": {"driver": "d", "volumeHandle": "h"},
        },
        "status": {"phase": "Bound"},
    });
    assert_alike("PersistentVolume", &volume);
    let claim = json!({
        "metadata": meta(),
        "spec": {
            "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}},
            "selector": selector(), "storageClassName": "", "volumeMode": "Filesystem", "volumeName": "v",
        },
        "status": {"phase": "Pending"},
    });
    assert_alike("PersistentVolumeClaim", &claim);
    let topology = json!({"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]});
    let class = json!({
        "metadata": meta(), "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [topology],
    });
    assert_alike("StorageClass", &class);
    let driver = json!({"name": "d", "allocatable": {"count": 8}, "topologyKeys": ["zone"]});
    let csi_node = json!({"metadata": meta(), "spec": {"drivers": [driver]}});
    assert_alike("CSINode", &csi_node);
    let spec = json!({"attachRequired": false, "preventPodSchedulingIfMissing": true, "storageCapacity": true});
    let driver = json!({"metadata": meta(), "spec": spec});
    assert_alike("CSIDriver", &driver);
    let capacity = json!({
        "metadata": meta(), "capacity": "5Gi", "maximumVolumeSize": "1Gi", "nodeTopology": selector(),
        "storageClassName": "fast",
    });
    assert_alike("CSIStorageCapacity", &capacity);
    let source = json!({"persistentVolumeName": "pv"});
    let spec = json!({"attacher": "d", "nodeName": "n", "source": source});
    let attachment = json!({"metadata": meta(), "spec": spec});
    assert_alike("VolumeAttachment", &attachment);
}

#[test]
fn unknown_fields_are_skipped_and_zero_times_are_unset() {
    let mut bytes = Vec::new();
    put_number(&mut bytes, 999, 7);
    put_varint(&mut bytes, 998 << 3 | 1);
    bytes.extend([0; 8]);
    put_varint(&mut bytes, 997 << 3 | 5);
    bytes.extend([0; 4]);
    let mut metadata = encode(&schema::OBJECT_META, &json!({"name": "a"}));
    put_bytes(&mut metadata, 8, &[]);
    put_bytes(&mut metadata, 9, &[8, 0, 16, 0]);
    put_bytes(&mut bytes, 1, &metadata);
    let (pod, _) = lower::pod(Source::Protobuf(&schema::POD, &bytes));
    let pod = pod.unwrap();
    assert_eq!((&*pod.name, pod.creation_time, pod.terminating), ("a", 0, false));
}

#[test]
fn a_list_in_two_parts_is_an_error() {
    let part = |spec| encode(&schema::NODE_SPEC, &spec);
    let taint = || part(json!({"taints": [{"key": "a"}]}));
    let spec = [taint(), part(json!({"unschedulable": true})), taint()].concat();
    let mut node = encode(&schema::NODE, &json!({"metadata": {"name": "n"}}));
    put_bytes(&mut node, 2, &spec);
    let (node, problems) = lower::node(Source::Protobuf(&schema::NODE, &node));
    assert!(node.is_none());
    assert_eq!(problems[0].to_string(), "Node n: duplicate field `taints`");
}

#[test]
fn wrong_types_are_reported_with_their_path() {
    let mut spec = Vec::new();
    put_bytes(&mut spec, 25, b"high");
    let mut pod = encode(&schema::POD, &json!({"metadata": {"name": "p"}}));
    put_bytes(&mut pod, 2, &spec);
    let (pod, problems) = lower::pod(Source::Protobuf(&schema::POD, &pod));
    assert!(pod.is_none());
    let told = problems[0].to_string();
    assert_eq!(told, "Pod default/p: spec.priority: found bytes, expected a number");
}

#[test]
fn watch_events_and_envelopes_are_decoded() {
    let pod = encode(&schema::POD, &json!({"metadata": {"name": "p", "resourceVersion": "5"}}));
    let mut unknown = Vec::new();
    put_bytes(&mut unknown, 1, b"");
    put_bytes(&mut unknown, 2, &pod);
    let wrapped = [b"k8s\0", &*unknown].concat();
    let mut extension = Vec::new();
    put_bytes(&mut extension, 1, &wrapped);
    let mut event = Vec::new();
    put_bytes(&mut event, 1, b"ADDED");
    put_bytes(&mut event, 2, &extension);
    assert_eq!(wire::watch_event(&event).unwrap(), ("ADDED", &*pod));
    let identity = Source::Protobuf(&schema::POD, &pod).identity();
    assert_eq!((identity.name, identity.version, identity.namespace), ("p", "5", ""));
    assert!(wire::strip_envelope(b"{}").is_err());
    assert!(wire::watch_event(&event[..event.len() - 1]).is_err());
}

#[test]
fn negative_numbers_are_decoded_and_endless_ones_refused() {
    #[derive(Debug, Deserialize)]
    struct Code {
        code: i64,
    }
    let read = |bytes: &[u8]| {
        Code::deserialize(MessageDeserializer::new(&schema::STATUS, bytes)).map(|c| c.code)
    };
    let mut bytes = Vec::new();
    put_number(&mut bytes, 6, (-3_i64).cast_unsigned());
    assert_eq!(read(&bytes), Ok(-3));
    assert!(read(&[6 << 3]).is_err());
    assert!(read(&[&[6 << 3][..], &[0xff; 11]].concat()).is_err());
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = lower::pod(Source::Protobuf(&schema::POD, &bytes));
        let _ = wire::watch_event(&bytes);
        let _ = wire::strip_envelope(&bytes);
    }

    #[test]
    fn damaged_messages_never_panic(place in any::<prop::sample::Index>(), byte: u8, cut in any::<prop::sample::Index>()) {
        let mut bytes = encode(&schema::POD, &full_pod());
        let place = place.index(bytes.len());
        bytes[place] = byte;
        let cut = cut.index(bytes.len());
        let _ = lower::pod(Source::Protobuf(&schema::POD, &bytes));
        let _ = lower::pod(Source::Protobuf(&schema::POD, &bytes[..cut]));
    }
}

#[test]
fn pod_conditions_are_detected_without_deserializing_the_pod() {
    let mut pod = full_pod();
    for has in [true, false] {
        assert_eq!(Source::Json(&pod).has_conditions(), has);
        let bytes = encode(&schema::POD, &pod);
        assert_eq!(Source::Protobuf(&schema::POD, &bytes).has_conditions(), has);
        pod["status"].as_object_mut().unwrap().remove("conditions");
    }
    assert!(!Source::Protobuf(&schema::POD, &[]).has_conditions());
    assert!(Source::Protobuf(&schema::POD, &[0x1a, 9]).has_conditions(), "it is cut off");
}
