//! Lowered with the spec of a sibling or without: the pod must be the same.

use serde_json::{Value, json};

use super::*;
use crate::lower;
use crate::protobuf::tests::{encode, full_pod};

/// A pod of which a sibling can have the same spec.
fn pod() -> Value {
    let mut pod = full_pod();
    let volumes = pod["spec"]["volumes"].as_array_mut().unwrap();
    volumes.retain(|volume| volume.get("ephemeral").is_none());
    volumes.push(json!({"name": "token-x7k2p"}));
    let conditions = pod["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": "PodResizePending", "status": "True", "reason": "Deferred"}));
    pod
}

fn bytes(pod: &Value) -> Vec<u8> {
    encode(&schema::POD, pod)
}

fn through(siblings: &mut Siblings, pod: &Value) -> Lowered<Pod> {
    siblings.pod(Source::Protobuf(&schema::POD, &bytes(pod)))
}

fn directly(pod: &Value) -> Lowered<Pod> {
    lower::pod(Source::Protobuf(&schema::POD, &bytes(pod)))
}

/// Every object with one thing in it different.
fn variants(value: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                let with = |inner: Option<Value>| {
                    let mut fields = fields.clone();
                    match inner {
                        Some(inner) => fields.insert(name.clone(), inner),
                        None => fields.remove(name),
                    };
                    Value::Object(fields)
                };
                found.push(with(None));
                found.extend(variants(inner).into_iter().map(|inner| with(Some(inner))));
            }
        }
        Value::Array(entries) => {
            for (index, inner) in entries.iter().enumerate() {
                let mut fewer = entries.clone();
                fewer.remove(index);
                found.push(Value::Array(fewer));
                found.push(Value::Array([entries.clone(), vec![inner.clone()]].concat()));
                for inner in variants(inner) {
                    let mut entries = entries.clone();
                    entries[index] = inner;
                    found.push(Value::Array(entries));
                }
            }
        }
        Value::String(text) if text.starts_with("2026") => {
            found.push(json!("2026-03-01T00:00:00Z"));
        }
        Value::String(text) => found.push(json!(format!("{text}0"))),
        Value::Number(number) => found.push(json!(number.as_i64().unwrap() + 1)),
        Value::Bool(value) => found.push(json!(!value)),
        Value::Null => {}
    }
    found
}

#[test]
fn whatever_differs_is_seen() {
    let base = pod();
    let variants = variants(&base);
    assert!(variants.len() > 200, "{}", variants.len());
    for variant in variants {
        let mut siblings = Siblings::new(7);
        for pod in [&base, &variant, &base, &variant] {
            assert_eq!(through(&mut siblings, pod), directly(pod), "{variant}");
        }
    }
}

#[test]
fn siblings_share_their_spec() {
    let mut siblings = Siblings::new(7);
    let base = pod();
    let mut sibling = base.clone();
    sibling["metadata"]["name"] = json!("other");
    sibling["metadata"]["uid"] = json!("other");
    sibling["metadata"]["resourceVersion"] = json!("18");
    sibling["metadata"]["annotations"] = json!({"some": "other"});
    sibling["spec"]["nodeName"] = json!("other");
    let token = sibling["spec"]["volumes"].as_array_mut().unwrap().last_mut().unwrap();
    token["name"] = json!("token-other");
    sibling["status"]["phase"] = json!("Pending");
    sibling["status"]["conditions"][0]["type"] = json!("PodScheduled");
    let [one, other] = [&base, &sibling].map(|pod| through(&mut siblings, pod).0.unwrap());
    assert_eq!((&*one.node, &*other.node), ("n", "other"));
    assert!(one.preempted && !other.preempted);
    assert!(Arc::ptr_eq(&one.spec, &other.spec));
}

#[test]
fn a_finished_sibling_is_none() {
    let mut siblings = Siblings::new(7);
    let mut pod = pod();
    assert!(through(&mut siblings, &pod).0.is_some());
    pod["status"]["phase"] = json!("Succeeded");
    assert_eq!(through(&mut siblings, &pod), (None, Vec::new()));
}

#[test]
fn claims_named_after_their_pod_are_its_own() {
    let mut siblings = Siblings::new(7);
    for name in ["a", "b"] {
        let mut pod = full_pod();
        pod["metadata"]["name"] = json!(name);
        assert_eq!(through(&mut siblings, &pod), directly(&pod));
    }
    assert_eq!(siblings.specs.len(), 0);
}

#[test]
fn what_is_wrong_is_told_each_time() {
    let mut siblings = Siblings::new(7);
    let mut pod = pod();
    pod["spec"]["preemptionPolicy"] = json!("Sometimes");
    for _ in 0..2 {
        let (_, problems) = through(&mut siblings, &pod);
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
    let whole = bytes(&self::pod());
    for end in 0..whole.len() {
        let source = Source::Protobuf(&schema::POD, &whole[..end]);
        assert_eq!(siblings.pod(source), lower::pod(source));
    }
}

#[test]
fn only_so_many_specs_are_remembered() {
    let mut siblings = Siblings::new(7);
    for number in 0..2 * SPECS_MAX {
        let mut pod = pod();
        pod["metadata"]["labels"] = json!({"number": number.to_string()});
        assert!(through(&mut siblings, &pod).0.is_some());
        assert!(siblings.specs.len() <= SPECS_MAX);
    }
}
