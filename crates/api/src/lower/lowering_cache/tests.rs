//! Tests that lowering with the cache yields the same objects as lowering without it.

use serde_json::{Value, json};

use super::*;
use crate::lower;
use crate::protobuf::tests::{encode, full_pod};
use crate::protobuf::{Message, Shape};

/// A pod that can be cached, with every field that is read.
fn pod() -> Value {
    let mut pod = full_pod();
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-31T12:00:02Z");
    let (spec, more) = (&mut pod["spec"], json!({"cpu": "7"}));
    spec["resources"]["limits"] = more.clone();
    spec["tolerations"][0]["value"] = json!("v");
    spec["containers"][0]["restartPolicy"] = json!("Never");
    spec["containers"][0]["restartPolicyRules"] = json!([{"action": "Restart"}]);
    spec["initContainers"][0]["ports"] = spec["containers"][0]["ports"].clone();
    spec["initContainers"][0]["resources"]["limits"] = more.clone();
    for kind in ["podAffinity", "podAntiAffinity"] {
        let rules = spec["affinity"][kind].as_object_mut().unwrap();
        for rule in rules.values_mut() {
            let rule = &mut rule[0];
            let term = if rule.get("podAffinityTerm").is_some() {
                &mut rule["podAffinityTerm"]
            } else {
                rule
            };
            term["namespaceSelector"] = term["labelSelector"].clone();
            term["matchLabelKeys"] = json!(["x"]);
            term["mismatchLabelKeys"] = json!(["y"]);
        }
    }
    let volumes = spec["volumes"].as_array_mut().unwrap();
    volumes.retain(|volume| volume.get("ephemeral").is_none());
    for volume in &mut *volumes {
        for (_, source) in volume.as_object_mut().unwrap() {
            if source.is_object() {
                source["readOnly"] = json!(true);
                source["kind"] = json!("Managed");
            }
        }
    }
    volumes.push(json!({"name": "token-x7k2p"}));
    let status = &mut pod["status"];
    status["resources"]["limits"] = more.clone();
    status["containerStatuses"][0]["resources"]["limits"] = more;
    status["initContainerStatuses"] = status["containerStatuses"].clone();
    status["initContainerStatuses"][0]["name"] = json!("i");
    let pending = json!({
        "type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "later",
    });
    status["conditions"].as_array_mut().unwrap().push(pending);
    pod
}

fn bytes(pod: &Value) -> Vec<u8> {
    encode(&schema::POD, pod)
}

fn cached(cache: &mut LoweringCache, pod: &Value) -> Lowered<Pod> {
    cache.pod(Source::Protobuf(&schema::POD, &bytes(pod)))
}

fn direct(pod: &Value) -> Lowered<Pod> {
    lower::pod(Source::Protobuf(&schema::POD, &bytes(pod)))
}

/// Returns copies of the value that differ in one place each.
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
        Value::String(text) => {
            found.push(json!(format!("{text}0")));
            // Keys must differ even if lengths are equal.
            let other = if text.ends_with('1') { "2" } else { "1" };
            found.push(json!(format!("{}{other}", &text[..text.len().saturating_sub(1)])));
        }
        Value::Number(number) => found.push(json!(number.as_i64().unwrap() + 1)),
        Value::Bool(value) => found.push(json!(!value)),
        Value::Null => {}
    }
    found
}

/// Returns the paths of the fields of a message that the value lacks.
fn lacking(message: &Message, value: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for field in message.fields {
        let path = format!("{path}.{}", field.name);
        let inner = match &field.shape {
            Shape::Inline(inner) => {
                found.extend(lacking(inner, value, &path));
                continue;
            }
            Shape::Message(inner) | Shape::List(Shape::Message(inner)) => Some(*inner),
            _ => None,
        };
        // Each field must be in some entry of a list, not in all.
        let entries = match value.get(field.name) {
            None => Vec::new(),
            Some(Value::Array(entries)) => entries.clone(),
            Some(one) => vec![one.clone()],
        };
        let merged = entries.into_iter().reduce(|mut all, more| {
            if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
                all.extend(more);
            }
            all
        });
        match (merged, inner) {
            (None, _) => found.push(path),
            (Some(value), Some(inner)) => found.extend(lacking(inner, &value, &path)),
            (Some(_), None) => {}
        }
    }
    found
}

#[test]
fn the_test_pod_has_every_field_that_is_read() {
    let mut pod = pod();
    // Needs no variant, because pods with ephemeral volumes are not cached.
    pod["spec"]["volumes"].as_array_mut().unwrap().push(json!({"ephemeral": {}}));
    assert_eq!(lacking(&schema::POD, &pod, ""), Vec::<String>::new());
}

#[test]
fn a_difference_in_any_field_is_noticed() {
    let base = pod();
    let variants = variants(&base);
    assert!(variants.len() > 300, "{}", variants.len());
    for variant in variants {
        let mut cache = LoweringCache::default();
        for pod in [&base, &variant, &base, &variant] {
            assert_eq!(cached(&mut cache, pod), direct(pod), "{variant}");
        }
    }
}

#[test]
fn pods_with_equal_shared_fields_share_their_spec() {
    let mut cache = LoweringCache::default();
    let base = pod();
    let mut other = base.clone();
    other["metadata"]["name"] = json!("other");
    other["metadata"]["uid"] = json!("other");
    other["metadata"]["resourceVersion"] = json!("18");
    other["metadata"]["annotations"] = json!({"some": "other"});
    other["spec"]["nodeName"] = json!("other");
    let token = other["spec"]["volumes"].as_array_mut().unwrap().last_mut().unwrap();
    token["name"] = json!("token-other");
    other["status"]["phase"] = json!("Pending");
    other["status"]["conditions"][0]["type"] = json!("PodScheduled");
    let [first, second] = [&base, &other].map(|pod| cached(&mut cache, pod).0.unwrap());
    assert_eq!((&*first.node, &*second.node), ("n", "other"));
    assert!(first.preempted && !second.preempted);
    assert!(Arc::ptr_eq(&first.spec, &second.spec));
    other["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!("z");
    let labelled = cached(&mut cache, &other).0.unwrap();
    assert_ne!(labelled.labels, first.labels);
    assert!(Arc::ptr_eq(&first.spec, &labelled.spec));
}

#[test]
fn volume_mounts_are_not_part_of_the_key() {
    let field = |number: u8, value: &[u8]| [&[number << 3 | 2, value.len() as u8], value].concat();
    // Mounts name the volume of the service account token, whose name is random.
    let key_with = |number: u8, value: &[u8]| {
        let container = field(2, &field(number, value));
        let pod = [bytes(&pod()), field(2, &container)].concat();
        let mut key = CacheKeyBuilder::default();
        assert!(split(&pod, &BTreeSet::new(), &mut key).unwrap().is_some());
        key.bytes().to_vec()
    };
    let (mount, image) = (9, 2);
    assert_eq!(
        key_with(mount, &field(1, b"token-x7k2p")),
        key_with(mount, &field(1, b"token-other"))
    );
    assert_ne!(key_with(image, b"one"), key_with(image, b"other"));
}

#[test]
fn status_and_eviction_facts_are_those_of_each_pod() {
    let mut cache = LoweringCache::default();
    let base = pod();
    let mut other = base.clone();
    other["metadata"]["annotations"] =
        json!({"kubernetes.io/config.mirror": "x", SAFE_TO_EVICT: "false"});
    other["status"]["conditions"][0] = json!({"type": "Ready", "status": "True"});
    other["status"]["containerStatuses"][0]["restartCount"] = json!(40);
    let [first, second] = [&base, &other].map(|pod| {
        let lowered = cached(&mut cache, pod);
        assert_eq!(lowered, direct(pod));
        lowered.0.unwrap()
    });
    let facts = |ready, restarts, mirror, safe_to_evict| PodFacts {
        ready,
        restarts,
        mirror,
        safe_to_evict,
    };
    assert_eq!(first.facts, facts(false, 6, false, None));
    assert_eq!(second.facts, facts(true, 43, true, Some(false)));
    assert!(Arc::ptr_eq(&first.spec, &second.spec));
    other["status"]["containerStatuses"][0]["restartCount"] = json!(1_i64 << 40);
    assert_eq!(cached(&mut cache, &other), direct(&other));
}

/// Keys of one annotation each.
fn keys(pods: &str, nodes: &str) -> Arc<AnnotationKeys> {
    let set = |key: &str| BTreeSet::from([key.into()]);
    Arc::new(AnnotationKeys { pods: set(pods), nodes: set(nodes) })
}

#[test]
fn declared_annotations_of_pods_are_part_of_their_spec() {
    let mut cache = LoweringCache::new(keys("team", "none"));
    let with = |name: &str, annotations: Value| {
        let mut pod = pod();
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["annotations"] = annotations;
        pod
    };
    let lowered = [
        with("a", json!({"other": "1", "team": "red"})),
        with("b", json!({"other": "2", "team": "red"})),
        with("c", json!({"team": "blue"})),
        with("d", json!({"other": "red"})),
    ]
    .map(|pod| {
        let in_json = cache.pod(Source::Json(&pod)).0.unwrap();
        let lowered = cached(&mut cache, &pod).0.unwrap();
        assert_eq!(lowered, in_json);
        lowered
    });
    let [a, b, c, d] = lowered.each_ref().map(|pod| &pod.spec);
    assert_eq!(a.annotations.iter().collect::<Vec<_>>(), [("team", "red")]);
    assert_eq!(c.annotations.get("team"), Some("blue"));
    assert!(d.annotations.is_empty());
    assert!(Arc::ptr_eq(a, b));
    assert!(a != c && a != d && c != d);
    let none = cached(&mut LoweringCache::default(), &with("c", json!({"team": "blue"})));
    assert!(none.0.unwrap().spec.annotations.is_empty());
}

#[test]
fn declared_annotations_of_nodes_are_kept() {
    let mut cache = LoweringCache::new(keys("none", "b"));
    let mut other = node();
    other["metadata"]["name"] = json!("o");
    other["metadata"]["annotations"]["b"] = json!("3");
    for (node, value) in [(node(), "2"), (other.clone(), "3"), (node(), "2")] {
        let bytes = node_bytes(&node);
        let (lowered, _) = cache.node(Source::Protobuf(&schema::NODE, &bytes));
        assert_eq!(lowered, cache.node(Source::Json(&node)).0);
        let annotations = lowered.unwrap().annotations;
        assert_eq!(annotations.iter().collect::<Vec<_>>(), [("b", value)]);
    }
    assert_eq!(cache.nodes.len(), 1);
}

#[test]
fn a_finished_pod_with_a_known_key_yields_no_object() {
    let mut cache = LoweringCache::default();
    let mut pod = pod();
    assert!(cached(&mut cache, &pod).0.is_some());
    pod["status"]["phase"] = json!("Succeeded");
    assert_eq!(cached(&mut cache, &pod), (None, Vec::new()));
}

#[test]
fn pods_with_ephemeral_volumes_are_not_cached() {
    let mut cache = LoweringCache::default();
    for name in ["a", "b"] {
        let mut pod = full_pod();
        pod["metadata"]["name"] = json!(name);
        assert_eq!(cached(&mut cache, &pod), direct(&pod));
    }
    assert_eq!(cache.pods.len(), 0);
}

#[test]
fn problems_are_reported_each_time() {
    let mut cache = LoweringCache::default();
    let mut pod = pod();
    pod["spec"]["preemptionPolicy"] = json!("Sometimes");
    for _ in 0..2 {
        let (_, problems) = cached(&mut cache, &pod);
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
    let whole = bytes(&self::pod());
    for end in 0..whole.len() {
        let source = Source::Protobuf(&schema::POD, &whole[..end]);
        assert_eq!(cache.pod(source), lower::pod(source));
    }
}

#[test]
fn the_cache_is_bounded() {
    let mut cache = LoweringCache::default();
    for number in 0..2 * ENTRIES_MAX {
        let mut pod = pod();
        pod["metadata"]["labels"] = json!({"number": number.to_string()});
        assert!(cached(&mut cache, &pod).0.is_some());
        assert!(cache.pods.len() <= ENTRIES_MAX);
    }
}

fn node() -> Value {
    json!({
        "metadata": {
            "name": "n",
            "labels": {"kubernetes.io/hostname": "n", "topology.kubernetes.io/zone": "z"},
            "annotations": {"a": "1", "b": "2"},
        },
        "spec": {
            "unschedulable": true,
            "taints": [
                {"key": "k", "value": "v", "effect": "NoSchedule"},
                {"key": "l", "effect": "NoExecute"},
            ],
        },
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/gpu": "2"},
            "conditions": [
                {"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"},
            ],
            "declaredFeatures": ["A", "B"],
            "images": [
                {"names": ["one", "also"], "sizeBytes": 7}, {"names": ["two"], "sizeBytes": 9},
            ],
        },
    })
}

fn node_bytes(node: &Value) -> Vec<u8> {
    encode(&schema::NODE, node)
}

fn both_ways(cache: &mut LoweringCache, node: &[u8]) -> [Lowered<Node>; 2] {
    let source = Source::Protobuf(&schema::NODE, node);
    [cache.node(source), lower::node(source)]
}

#[test]
fn a_difference_in_any_field_of_a_node_is_noticed() {
    let base = node();
    assert_eq!(lacking(&schema::NODE_SPEC, &base["spec"], ""), Vec::<String>::new());
    assert_eq!(lacking(&schema::NODE_STATUS, &base["status"], ""), Vec::<String>::new());
    let variants = variants(&base);
    assert!(variants.len() > 50, "{}", variants.len());
    for variant in variants {
        let mut cache = LoweringCache::default();
        for node in [&base, &variant, &base, &variant] {
            let [cached, direct] = both_ways(&mut cache, &node_bytes(node));
            assert_eq!(cached, direct, "{variant}");
        }
    }
}

#[test]
fn nodes_with_equal_shared_fields_keep_their_own_fields() {
    let mut cache = LoweringCache::default();
    let mut other = node();
    other["metadata"]["name"] = json!("o");
    other["metadata"]["labels"]["kubernetes.io/hostname"] = json!("o");
    other["metadata"]["annotations"]["c"] = json!("3");
    other["status"]["images"] = json!([]);
    for node in [&node(), &other] {
        let [cached, direct] = both_ways(&mut cache, &node_bytes(node));
        assert_eq!(cached, direct);
    }
    assert_eq!(cache.nodes.len(), 1);
    other["status"]["allocatable"]["cpu"] = json!("5");
    assert!(both_ways(&mut cache, &node_bytes(&other))[0].0.is_some());
    assert_eq!(cache.nodes.len(), 2);
}

#[test]
fn malformed_and_unusual_nodes_are_lowered_without_the_cache() {
    let mut cache = LoweringCache::default();
    let whole = node_bytes(&node());
    assert!(both_ways(&mut cache, &whole)[0].0.is_some());
    for end in 0..whole.len() {
        let [cached, direct] = both_ways(&mut cache, &whole[..end]);
        assert_eq!(cached, direct, "{end}");
    }
    // Metadata that occurs twice, with the same annotations.
    let metadata = encode(&schema::OBJECT_META, &node()["metadata"]);
    let again = [&whole[..], &[1 << 3 | 2, metadata.len() as u8], &metadata].concat();
    let [cached, direct] = both_ways(&mut cache, &again);
    assert_eq!(cached, direct);
}
