//! Round trips, and malformed input.

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[track_caller]
fn check_round_trip(object: &Value) {
    let bytes = encode(object).expect("the kind has a protobuf form");
    assert_eq!(decode(&bytes).as_ref(), Ok(object));
}

#[test]
fn objects_survive_a_round_trip() {
    check_round_trip(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "a", "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"a": "b", "c": ""},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}],
            "managedFields": [{"manager": "m", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {
            "containers": [{
                "name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 5},
                "readinessProbe": {"tcpSocket": {"port": "web"}},
                "envFrom": [{"configMapRef": {"name": "cm", "optional": true}}],
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
            }],
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "secret": {"secretName": "s", "defaultMode": 420}}],
            "terminationGracePeriodSeconds": 0, "hostNetwork": true, "priority": -5,
            "tolerations": [{"operator": "Exists", "tolerationSeconds": 300}],
        },
        "status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]},
    }));
    check_round_trip(&json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
        "spec": {"holderIdentity": "h", "renewTime": "2026-01-02T03:04:05.678901Z", "leaseTransitions": 3},
    }));
    check_round_trip(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "aGk="}, "type": "Opaque",
    }));
    check_round_trip(&json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "p"},
        "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}},
    }));
}

#[test]
fn zero_values_that_equal_absence_are_dropped() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "generation": 0},
        "spec": {"hostNetwork": false, "enableServiceLinks": false, "terminationGracePeriodSeconds": 0}});
    let back = decode(&encode(&pod).unwrap()).unwrap();
    assert_eq!(
        back["spec"],
        json!({"enableServiceLinks": false, "terminationGracePeriodSeconds": 0})
    );
    assert_eq!(back["metadata"], json!({"name": "a"}));
}

#[test]
fn lists_have_a_protobuf_form() {
    let list = json!({
        "apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "5"},
        "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}],
    });
    check_round_trip(&list);
    assert!(encode(&json!({"apiVersion": "example.com/v1", "kind": "Thing"})).is_none());
}

#[test]
fn every_field_of_the_table_is_parsed() {
    let lines = include_str!("fields.txt").lines().filter(|line| line.contains(": "));
    let listed: usize = lines.map(|line| line.split(',').count()).sum();
    let read: usize = TABLE.messages.iter().map(|message| message.fields.len()).sum();
    // Only fields whose messages belong to other groups may be missing.
    assert!(listed - read < 5, "{listed} are listed, {read} were parsed");
}

proptest! {
    #[test]
    fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut enveloped = MAGIC.to_vec();
        enveloped.extend_from_slice(&bytes);
        let _ = decode(&enveloped);
        let pod = json!({"apiVersion": "v1", "kind": "Pod"});
        let mut broken = encode(&pod).unwrap();
        let index = bytes.len().min(broken.len());
        broken.splice(index.., bytes);
        let _ = decode(&broken);
    }
}
