//! Node selectors, node affinity and pod affinity.

use serde_json::{Value, json};

use crate::cluster::NAMESPACE_LABELS;
use crate::draft::{
    CaseDraft, HOSTNAME, NAMESPACES, REGION, TOPOLOGY_KEYS, ZONE, pod_selector, push, selector,
};
use crate::theme::Topic;

/// Node labels that node affinity refers to, with their values.
const NODE_LABELS: [(&str, &[&str]); 6] = [
    ("disk", &["ssd", "hdd"]),
    (ZONE, &["z1", "z2", "z3"]),
    ("rack", &["a", "b", ""]),
    ("rank", &["1", "5", "10", "x", "7"]),
    (REGION, &["r1", "r2"]),
    (HOSTNAME, &["n00", "n01", "n02", "n03"]),
];

/// Adds a node selector and node affinity to the pod.
pub(crate) fn add_node_affinity(draft: &mut CaseDraft, pod: &mut Value) {
    if draft.often(Topic::NodeAffinity, 20, 25) {
        let rng = &mut draft.rng;
        pod["spec"]["nodeSelector"] = json!({});
        for _ in 0..rng.weighted(&[(20, 0), (65, 1), (15, 2)]) {
            let (key, values) = rng.pick(&NODE_LABELS[..3]);
            pod["spec"]["nodeSelector"][key] = json!(rng.pick(values));
        }
    }
    if draft.often(Topic::NodeAffinity, 42, 30) {
        let terms = required_terms(draft);
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": terms});
    }
    if draft.often(Topic::NodeAffinity, 65, 80) {
        pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
            preferred_terms(draft);
    }
}

/// Returns the `addedAffinity` of a profile.
pub(crate) fn added_affinity(draft: &mut CaseDraft) -> Value {
    let mut affinity = json!({});
    if draft.rng.chance(55) {
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": required_terms(draft)});
    }
    if draft.rng.chance(70) {
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred_terms(draft);
    }
    affinity
}

fn required_terms(draft: &mut CaseDraft) -> Vec<Value> {
    // If all terms name nodes, PreFilter restricts the search to these.
    let pinned = draft.rng.chance(22);
    let count = draft.rng.weighted(&[(45, 1), (40, 2), (15, 3)]);
    (0..count).map(|_| term(draft, pinned)).collect()
}

fn preferred_terms(draft: &mut CaseDraft) -> Value {
    let count = draft.rng.weighted(&[(3, 0), (40, 1), (35, 2), (22, 4)]);
    let terms: Vec<Value> = (0..count)
        .map(|_| {
            let weight = draft.rng.weighted(&[(40, 1), (30, 10), (20, 57), (10, 100)]);
            json!({"weight": weight, "preference": term(draft, false)})
        })
        .collect();
    json!(terms)
}

fn term(draft: &mut CaseDraft, pinned: bool) -> Value {
    let mut term = json!({});
    if draft.rng.chance(5) {
        return term;
    }
    if pinned || draft.rng.chance(8) {
        for _ in 0..draft.rng.weighted(&[(85, 1), (15, 2)]) {
            let operator =
                draft.rng.weighted(&[(if pinned { 93 } else { 50 }, "In"), (10, "NotIn")]);
            let requirement = json!({"key": "metadata.name", "operator": operator, "values": [draft.some_node_name()]});
            push(&mut term, "matchFields", requirement);
        }
        if draft.rng.chance(if pinned { 80 } else { 30 }) {
            return term;
        }
    }
    for _ in 0..draft.rng.weighted(&[(65, 1), (28, 2), (7, 3)]) {
        let requirement = node_requirement(draft);
        push(&mut term, "matchExpressions", requirement);
    }
    term
}

fn node_requirement(draft: &mut CaseDraft) -> Value {
    let rng = &mut draft.rng;
    let operator = rng.weighted(&[
        (38, "In"),
        (18, "NotIn"),
        (12, "Exists"),
        (10, "DoesNotExist"),
        (11, "Gt"),
        (11, "Lt"),
    ]);
    match operator {
        "Gt" | "Lt" => {
            // With a bound that is not an integer a required term matches nothing, and a preferred term is an error.
            let value = if rng.chance(4) { "x" } else { rng.pick(&["0", "1", "5", "7", "10"]) };
            json!({"key": "rank", "operator": operator, "values": [value]})
        }
        "In" | "NotIn" => {
            let (key, values) = rng.pick(&NODE_LABELS);
            let count = rng.between(1, 2);
            json!({"key": key, "operator": operator, "values": rng.some(values, count)})
        }
        _ => json!({"key": rng.pick(&NODE_LABELS).0, "operator": operator}),
    }
}

/// Adds pod affinity and anti-affinity to the pod to schedule, or to a running one.
pub(crate) fn add_pod_affinity(draft: &mut CaseDraft, pod: &mut Value, running: bool) {
    let (required, preferred) = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    );
    let kinds = [
        ("podAffinity", required, if running { 14 } else { 22 }),
        ("podAntiAffinity", required, if running { 14 } else { 26 }),
        ("podAffinity", preferred, if running { 22 } else { 55 }),
        ("podAntiAffinity", preferred, if running { 22 } else { 50 }),
    ];
    for (kind, strength, dense) in kinds {
        if !draft.often(Topic::PodAffinity, dense, if running { 6 } else { 25 }) {
            continue;
        }
        let count = draft.rng.weighted(&[(65, 1), (27, 2), (8, 3)]);
        for _ in 0..count {
            let term = pod_term(draft, &pod["metadata"]["labels"]);
            let item = if strength.starts_with("required") {
                term
            } else {
                json!({"weight": draft.rng.weighted(&[(30, 1), (30, 29), (25, 57), (15, 100)]), "podAffinityTerm": term})
            };
            push(&mut pod["spec"]["affinity"][kind], strength, item);
        }
    }
}

fn pod_term(draft: &mut CaseDraft, own_labels: &Value) -> Value {
    let rng = &mut draft.rng;
    let key = rng.weighted(&[
        (40, TOPOLOGY_KEYS[0]),
        (35, TOPOLOGY_KEYS[1]),
        (15, TOPOLOGY_KEYS[2]),
        (10, TOPOLOGY_KEYS[3]),
    ]);
    let mut term = json!({"topologyKey": key});
    let labels = pod_selector(rng);
    if !labels.is_null() {
        term["labelSelector"] = labels;
    }
    if rng.chance(6)
        && let Some(app) = own_labels["app"].as_str()
    {
        // The API server merges these keys into the selector, so the case has them merged.
        let (field, operator) =
            rng.pick(&[("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")]);
        let merged = json!({"key": "app", "operator": operator, "values": [app]});
        term["labelSelector"] =
            json!({"matchLabels": {"tier": "front"}, "matchExpressions": [merged]});
        term[field] = json!(["app"]);
    }
    if rng.chance(25) {
        let count = rng.between(1, 2);
        let mut namespaces = rng.some(&NAMESPACES, count);
        if rng.chance(10) {
            namespaces.push("nowhere");
        }
        term["namespaces"] = json!(namespaces);
    }
    if rng.chance(28) {
        let shapes = [(25, "all"), (30, "labels"), (40, "expressions"), (5, "both")];
        term["namespaceSelector"] = selector(rng, &NAMESPACE_LABELS, &shapes);
    }
    term
}
