//! What is kept of nodes although nothing is decided by it.

use serde_json::{Value, json};

use crate::lower;

#[test]
fn changes_of_node_conditions_and_annotations_change_the_lowered_node() {
    let node = |conditions: Value, annotations: Value| {
        let value = json!({
            "metadata": {"name": "n", "annotations": annotations},
            "status": {"conditions": conditions, "allocatable": {"cpu": 1}},
        });
        let node = lower::node(&value).0.unwrap();
        (node.conditions, node.annotations)
    };
    let (ready, full) = (json!({"type": "Ready", "status": "True"}), json!({"type": "Full"}));
    let base = node(json!([ready, full]), json!({"a": "1", "b": null}));
    let empty = json!({"type": "Full", "status": ""});
    assert_eq!(base.0, node(json!([ready, empty]), json!({})).0);
    assert_eq!(base, node(json!([full, ready]), json!({"b": "", "a": "1"})));
    let unknown = json!({"type": "Ready", "status": "Unknown"});
    assert_ne!(base.0, node(json!([unknown, full]), json!({})).0);
    assert_ne!(base.0, node(json!([ready]), json!({})).0);
    assert_ne!(base.1, node(json!([]), json!({"a": "2", "b": ""})).1);
    assert_ne!(base.1, node(json!([]), json!({"a": "1"})).1);
}
