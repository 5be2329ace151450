//! There and back again, and what is broken on the way.

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[track_caller]
fn there_and_back(object: &Value) {
    let bytes = encode(object).expect("a binary form");
    assert_eq!(decode(&bytes).as_ref(), Ok(object));
}

#[test]
fn objects_survive() {
    there_and_back(&json!({
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
    there_and_back(&json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
        "spec": {"holderIdentity": "h", "renewTime": "2026-01-02T03:04:05.678901Z", "leaseTransitions": 3},
    }));
    there_and_back(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "aGk="}, "type": "Opaque",
    }));
    there_and_back(&json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "p"},
        "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}},
    }));
}

#[test]
fn zeros_that_mean_nothing_are_absent() {
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
fn lists_have_a_form_too() {
    let list = json!({
        "apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "5"},
        "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}],
    });
    there_and_back(&list);
    assert!(encode(&json!({"apiVersion": "example.com/v1", "kind": "Thing"})).is_none());
}

#[test]
fn every_field_of_the_table_is_understood() {
    let lines = include_str!("fields.txt").lines().filter(|line| line.contains(": "));
    let listed: usize = lines.map(|line| line.split(',').count()).sum();
    let read: usize = TABLE.messages.iter().map(|message| message.fields.len()).sum();
    // Messages of groups that are not listed are the only ones that may be missing.
    assert!(listed - read < 5, "{listed} are listed, {read} are understood");
}

proptest! {
    #[test]
    fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut enveloped = MAGIC.to_vec();
        enveloped.extend_from_slice(&bytes);
        let _ = decode(&enveloped);
        let pod = json!({"apiVersion": "v1", "kind": "Pod"});
        let mut broken = encode(&pod).unwrap();
        let place = bytes.len().min(broken.len());
        broken.splice(place.., bytes);
        let _ = decode(&broken);
    }
}
