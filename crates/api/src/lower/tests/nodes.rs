//! Tests of lowering nodes.

use engine::object::TaintEffect;
use serde_json::json;

use super::*;

#[test]
fn nodes_are_lowered() {
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
fn changes_of_node_conditions_and_annotations_change_the_lowered_node() {
    let digests = |conditions: Value, annotations: Value| {
        let value = json!({
            "metadata": {"name": "n", "annotations": annotations},
            "status": {"conditions": conditions, "allocatable": {"cpu": 1}},
        });
        let node = node(&value).0.unwrap();
        (node.conditions, node.annotations_digest)
    };
    let (ready, full) = (json!({"type": "Ready", "status": "True"}), json!({"type": "Full"}));
    let base = digests(json!([ready, full]), json!({"a": "1", "b": null}));
    let empty = json!({"type": "Full", "status": ""});
    assert_eq!(base.0, digests(json!([ready, empty]), json!({})).0);
    assert_eq!(base, digests(json!([full, ready]), json!({"b": "", "a": "1"})));
    let unknown = json!({"type": "Ready", "status": "Unknown"});
    assert_ne!(base.0, digests(json!([unknown, full]), json!({})).0);
    assert_ne!(base.0, digests(json!([ready]), json!({})).0);
    assert_ne!(base.1, digests(json!([]), json!({"a": "2", "b": ""})).1);
    assert_ne!(base.1, digests(json!([]), json!({"a": "1"})).1);
}
