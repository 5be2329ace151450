//! Topology spreading: constraints of the pod, and the services and owners from which default constraints take their selector.

use serde_json::{Value, json};

use crate::draft::{CaseDraft, POD_LABELS, TOPOLOGY_KEYS, pod_selector, push};
use crate::rng::Rng;
use crate::theme::Topic;

/// Adds spread constraints to the pod, no two with the same topology key and `whenUnsatisfiable`.
pub(crate) fn add_constraints(draft: &mut CaseDraft, pod: &mut Value) {
    let dense = if draft.theme.is_about(Topic::SpreadDefaults) { 20 } else { 96 };
    if !draft.often(Topic::Spread, dense, 40) {
        return;
    }
    let rng = &mut draft.rng;
    let mut seen = Vec::new();
    for _ in 0..rng.weighted(&[(45, 1), (38, 2), (17, 3)]) {
        let constraint = constraint(rng, pod);
        let identity = (constraint["topologyKey"].clone(), constraint["whenUnsatisfiable"].clone());
        if !seen.contains(&identity) {
            seen.push(identity);
            push(&mut pod["spec"], "topologySpreadConstraints", constraint);
        }
    }
}

fn constraint(rng: &mut Rng, pod: &Value) -> Value {
    let hard = rng.chance(55);
    let key = rng.weighted(&[
        (45, TOPOLOGY_KEYS[0]),
        (35, TOPOLOGY_KEYS[1]),
        (12, TOPOLOGY_KEYS[2]),
        (8, TOPOLOGY_KEYS[3]),
    ]);
    let mut constraint = json!({
        "maxSkew": rng.weighted(&[(72, 1), (20, 2), (8, 5)]),
        "topologyKey": key,
        "whenUnsatisfiable": if hard { "DoNotSchedule" } else { "ScheduleAnyway" },
    });
    let mut labels = pod_selector(rng);
    // Mostly the pod matches its own constraint, as is usual.
    if let (true, Some(app)) = (rng.chance(60), pod["metadata"]["labels"]["app"].as_str()) {
        labels = json!({"matchLabels": {"app": app}});
    }
    if !labels.is_null() {
        constraint["labelSelector"] = labels;
        if rng.chance(20) {
            let count = rng.between(1, 2);
            let text = constraint["labelSelector"].to_string();
            let keys: Vec<&str> =
                POD_LABELS.iter().map(|(key, _)| *key).chain(["pod-template-hash"]).collect();
            let free: Vec<&str> =
                keys.into_iter().filter(|key| !text.contains(&format!("\"{key}\""))).collect();
            constraint["matchLabelKeys"] = json!(rng.some(&free, count));
        }
    }
    if hard && rng.chance(38) {
        constraint["minDomains"] = json!(rng.between(1, 4));
    }
    for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        if rng.chance(40) {
            constraint[policy] = json!(rng.pick(&["Honor", "Ignore"]));
        }
    }
    constraint
}

/// Returns arguments of PodTopologySpread.
pub(crate) fn spread_args(rng: &mut Rng) -> Value {
    if rng.chance(20) {
        return json!({"defaultingType": "System"});
    }
    let mut constraints = Vec::new();
    let mut seen = Vec::new();
    for _ in 0..rng.weighted(&[(10, 0), (50, 1), (40, 2)]) {
        let key =
            rng.weighted(&[(50, TOPOLOGY_KEYS[0]), (35, TOPOLOGY_KEYS[1]), (15, TOPOLOGY_KEYS[3])]);
        let kind = rng.pick(&["DoNotSchedule", "ScheduleAnyway"]);
        if !seen.contains(&(key, kind)) {
            seen.push((key, kind));
            constraints.push(json!({"maxSkew": rng.between(1, 3), "topologyKey": key, "whenUnsatisfiable": kind}));
        }
    }
    json!({"defaultingType": "List", "defaultConstraints": constraints})
}

/// Adds services and an owner, whose selectors default constraints use.
pub(crate) fn add_owners(draft: &mut CaseDraft) {
    let labels = draft.pod["metadata"]["labels"].clone();
    let namespace = draft.pod["metadata"]["namespace"].clone();
    if draft.often(Topic::SpreadDefaults, 60, 60) {
        for index in 0..draft.rng.between(1, 2) {
            let rng = &mut draft.rng;
            let mut spec = json!({"ports": [{"port": 80, "protocol": "TCP"}]});
            if rng.chance(92) {
                spec["selector"] = subset(rng, &labels);
            }
            let namespace = if rng.chance(90) { namespace.clone() } else { json!("team-b") };
            draft.others.push(json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": format!("service-{index}"), "namespace": namespace}, "spec": spec,
            }));
        }
    }
    if !draft.often(Topic::SpreadDefaults, 65, 60) {
        return;
    }
    let rng = &mut draft.rng;
    let (api, kind) = rng.pick(&[
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("v1", "ReplicationController"),
    ]);
    let matched = subset(rng, &labels);
    let selector = match kind {
        "ReplicationController" => matched.clone(),
        _ if rng.chance(20) => pod_selector(rng),
        _ => json!({"matchLabels": matched}),
    };
    let template = json!({"metadata": {"labels": matched}, "spec": {"containers": [{"name": "app", "image": "busybox"}]}});
    let mut spec = json!({"replicas": 3, "template": template});
    if !selector.is_null() {
        spec["selector"] = selector;
    }
    if kind == "StatefulSet" {
        spec["serviceName"] = json!("service-0");
    }
    if rng.chance(92) {
        draft.others.push(json!({
            "apiVersion": api, "kind": kind,
            "metadata": {"name": "owner", "namespace": namespace, "uid": "owner"}, "spec": spec,
        }));
    }
    let mut reference = json!({"apiVersion": api, "kind": kind, "name": "owner", "uid": "owner"});
    if rng.chance(92) {
        reference["controller"] = json!(true);
    }
    push(&mut draft.pod["metadata"], "ownerReferences", reference);
}

/// Returns some of the labels, sometimes with a value that does not match.
fn subset(rng: &mut Rng, labels: &Value) -> Value {
    let mut chosen = json!({});
    for (key, value) in labels.as_object().into_iter().flatten() {
        if rng.chance(70) {
            chosen[key] = value.clone();
        }
    }
    if rng.chance(12) || chosen.as_object().is_none_or(serde_json::Map::is_empty) {
        chosen["app"] = json!(rng.pick(POD_LABELS[0].1));
    }
    chosen
}
