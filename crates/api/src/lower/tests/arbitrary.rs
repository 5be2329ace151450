//! Tests that arbitrary values are lowered without panics and never refused silently.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::kinds::KINDS;

/// A valid pod with most fields that are read.
fn valid_pod() -> Value {
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

#[test]
fn the_unmutated_pod_has_no_problem() {
    lowered(&valid_pod());
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

/// Returns `true` if a missing object is explained by a problem.
fn explained<T>((object, problems): &Lowered<T>) -> bool {
    object.is_some() || problems.iter().any(|problem| problem.severity == Severity::Error)
}

proptest! {
    #[test]
    fn mutated_pods_never_panic(at: prop::sample::Index, value in any_value()) {
        let mut pod = valid_pod();
        let mut all = Vec::new();
        pointers(&pod, "", &mut all);
        let path: &String = at.get(&all);
        *pod.pointer_mut(path).unwrap() = value;
        prop_assert!(explained(&super::pod(&pod)));
    }

    #[test]
    fn arbitrary_values_never_panic(value in any_value(), spec in any_value(), status in any_value()) {
        let object = json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
        for kind in KINDS {
            for value in [&value, &object] {
                let lowered = (kind.lower)(Source::Json(value), &mut LoweringCache::default());
                prop_assert!(explained(&lowered), "{}", kind.name);
            }
        }
    }
}
