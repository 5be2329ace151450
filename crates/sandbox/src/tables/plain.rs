//! Table cells of the remaining kinds.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Clock, age, labels, or_none, since};
use crate::json::{at, int, list, map, name, text, truth};
use crate::selector::Selector;

/// Returns the cells of a Namespace.
pub(crate) fn namespace(object: &Value, clock: Clock) -> Vec<Value> {
    vec![name(object).into(), text(object, &["status", "phase"]).into(), age(object, clock)]
}

/// Returns the cells of a Service.
pub(crate) fn service(object: &Value, clock: Clock) -> Vec<Value> {
    let kind = text(object, &["spec", "type"]);
    let external: Vec<&str> =
        list(object, &["spec", "externalIPs"]).iter().filter_map(Value::as_str).collect();
    let external = match kind {
        "ExternalName" => text(object, &["spec", "externalName"]).to_owned(),
        "LoadBalancer" if external.is_empty() => "<pending>".to_owned(),
        _ => external.join(","),
    };
    let ports: Vec<String> = list(object, &["spec", "ports"])
        .iter()
        .map(|port| {
            let number = int(port, &["port"]).unwrap_or(0);
            let protocol = text(port, &["protocol"]);
            match int(port, &["nodePort"]) {
                Some(node) if node > 0 => format!("{number}:{node}/{protocol}"),
                _ => format!("{number}/{protocol}"),
            }
        })
        .collect();
    vec![
        name(object).into(),
        kind.into(),
        or_none(text(object, &["spec", "clusterIP"])),
        or_none(&external),
        or_none(&ports.join(",")),
        age(object, clock),
        labels(at(object, &["spec", "selector"])),
    ]
}

/// Returns the cells of Endpoints.
pub(crate) fn endpoints(object: &Value, clock: Clock) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in list(object, &["subsets"]) {
        for address in list(subset, &["addresses"]) {
            let ip = text(address, &["ip"]);
            let ports = list(subset, &["ports"]);
            if ports.is_empty() {
                all.push(ip.to_owned());
            }
            all.extend(
                ports.iter().map(|port| format!("{ip}:{}", int(port, &["port"]).unwrap_or(0))),
            );
        }
    }
    let more = all.len().saturating_sub(3);
    all.truncate(3);
    let mut shown = all.join(",");
    if more > 0 {
        let _ = write!(shown, " + {more} more...");
    }
    vec![name(object).into(), or_none(&shown), age(object, clock)]
}

/// Returns the cells of an Event in the form of the core group.
pub(crate) fn event(object: &Value, clock: Clock) -> Vec<Value> {
    let first_of = |paths: &[&[&str]]| {
        let found = paths.iter().map(|path| text(object, path)).find(|text| !text.is_empty());
        found.unwrap_or_default().to_owned()
    };
    let ago = |time: &str| {
        if time.is_empty() { "<unknown>".to_owned() } else { since(time, clock) }
    };
    let first = first_of(&[&["firstTimestamp"], &["eventTime"]]);
    let series = text(object, &["series", "lastObservedTime"]);
    let last = if series.is_empty() {
        let last = text(object, &["lastTimestamp"]);
        if last.is_empty() { first.clone() } else { last.to_owned() }
    } else {
        series.to_owned()
    };
    let count =
        int(object, &["series", "count"]).or_else(|| int(object, &["count"])).unwrap_or(0).max(1);
    let kind = text(object, &["involvedObject", "kind"]).to_lowercase();
    let involved = text(object, &["involvedObject", "name"]);
    let mut source = text(object, &["source", "component"]).to_owned();
    if source.is_empty() {
        text(object, &["reportingComponent"]).clone_into(&mut source);
    }
    let host = text(object, &["source", "host"]);
    if !host.is_empty() {
        let _ = write!(source, ", {host}");
    }
    vec![
        ago(&last).into(),
        text(object, &["type"]).into(),
        text(object, &["reason"]).into(),
        if involved.is_empty() { kind.into() } else { format!("{kind}/{involved}").into() },
        text(object, &["involvedObject", "fieldPath"]).into(),
        source.into(),
        text(object, &["message"]).trim().into(),
        ago(&first).into(),
        count.into(),
        name(object).into(),
    ]
}

/// Returns the cells of a ConfigMap.
pub(crate) fn config_map(object: &Value, clock: Clock) -> Vec<Value> {
    let count = map(object, &["data"]).count() + map(object, &["binaryData"]).count();
    vec![name(object).into(), count.into(), age(object, clock)]
}

/// Returns the cells of a Secret.
pub(crate) fn secret(object: &Value, clock: Clock) -> Vec<Value> {
    let count = map(object, &["data"]).count();
    vec![name(object).into(), text(object, &["type"]).into(), count.into(), age(object, clock)]
}

/// Returns the cells of kinds that print their creation time.
pub(crate) fn limit_range(object: &Value, _: Clock) -> Vec<Value> {
    vec![name(object).into(), text(object, &["metadata", "creationTimestamp"]).into()]
}

/// Returns the cells of a ResourceQuota.
pub(crate) fn resource_quota(object: &Value, clock: Clock) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in map(object, &["status", "hard"]) {
        let used = text(object, &["status", "used", resource]);
        let used = if used.is_empty() { "0" } else { used };
        let shown = format!("{resource}: {used}/{}", hard.as_str().unwrap_or_default());
        if resource.starts_with("limits.") { limits.push(shown) } else { requests.push(shown) }
    }
    vec![
        name(object).into(),
        requests.join(", ").into(),
        limits.join(", ").into(),
        age(object, clock),
    ]
}

/// Returns the cells of a PodDisruptionBudget.
pub(crate) fn disruption_budget(object: &Value, clock: Clock) -> Vec<Value> {
    let bound = |what: &str| match at(object, &["spec", what]) {
        Some(Value::String(text)) => Value::from(text.as_str()),
        Some(Value::Number(number)) => number.to_string().into(),
        _ => "N/A".into(),
    };
    vec![
        name(object).into(),
        bound("minAvailable"),
        bound("maxUnavailable"),
        int(object, &["status", "disruptionsAllowed"]).unwrap_or(0).into(),
        age(object, clock),
    ]
}

/// Returns the cells of a PriorityClass.
pub(crate) fn priority_class(object: &Value, clock: Clock) -> Vec<Value> {
    vec![
        name(object).into(),
        int(object, &["value"]).unwrap_or(0).into(),
        truth(object, &["globalDefault"]).into(),
        age(object, clock),
        text(object, &["preemptionPolicy"]).into(),
    ]
}

/// Returns the cells of a Lease.
pub(crate) fn lease(object: &Value, clock: Clock) -> Vec<Value> {
    let holder = text(object, &["spec", "holderIdentity"]);
    vec![name(object).into(), holder.into(), age(object, clock)]
}

/// Returns the cells of a ResourceClaim.
pub(crate) fn resource_claim(object: &Value, clock: Clock) -> Vec<Value> {
    let mut states = Vec::new();
    if at(object, &["metadata", "deletionTimestamp"]).is_some() {
        states.push("deleted");
    }
    let allocated = at(object, &["status", "allocation"]).is_some();
    if allocated {
        states.push("allocated");
    }
    if !list(object, &["status", "reservedFor"]).is_empty() {
        states.push("reserved");
    }
    if !allocated {
        states.push("pending");
    }
    vec![name(object).into(), states.join(",").into(), age(object, clock)]
}

/// Returns the cells of a ResourceSlice.
pub(crate) fn resource_slice(object: &Value, clock: Clock) -> Vec<Value> {
    let node = text(object, &["spec", "nodeName"]);
    vec![
        name(object).into(),
        if node.is_empty() { "<unset>" } else { node }.into(),
        text(object, &["spec", "driver"]).into(),
        text(object, &["spec", "pool", "name"]).into(),
        age(object, clock),
    ]
}

/// Returns the cells of a NetworkPolicy.
pub(crate) fn network_policy(object: &Value, clock: Clock) -> Vec<Value> {
    let selector = at(object, &["spec", "podSelector"]).and_then(Selector::of_object);
    let shown = selector.map_or_else(String::new, |selector| selector.to_string());
    vec![name(object).into(), or_none(&shown), age(object, clock)]
}

/// Returns the cells of a RuntimeClass.
pub(crate) fn runtime_class(object: &Value, clock: Clock) -> Vec<Value> {
    vec![name(object).into(), text(object, &["handler"]).into(), age(object, clock)]
}

/// Returns the cells of a RoleBinding or ClusterRoleBinding.
pub(crate) fn role_binding(object: &Value, clock: Clock) -> Vec<Value> {
    let role =
        format!("{}/{}", text(object, &["roleRef", "kind"]), text(object, &["roleRef", "name"]));
    let subjects = |kind: &str| {
        let subjects = list(object, &["subjects"]).iter();
        let of_kind = subjects.filter(|subject| text(subject, &["kind"]) == kind);
        let names: Vec<String> = of_kind
            .map(|subject| match text(subject, &["namespace"]) {
                "" => name_of(subject),
                namespace => format!("{namespace}/{}", name_of(subject)),
            })
            .collect();
        Value::from(names.join(", "))
    };
    vec![
        name(object).into(),
        role.into(),
        age(object, clock),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

fn name_of(subject: &Value) -> String {
    text(subject, &["name"]).to_owned()
}

/// Returns the cells of a HorizontalPodAutoscaler. No controller scales, so current values are unknown.
pub(crate) fn autoscaler(object: &Value, clock: Clock) -> Vec<Value> {
    let target = |what: &str| text(object, &["spec", "scaleTargetRef", what]);
    let metrics = list(object, &["spec", "metrics"]).iter();
    let targets: Vec<String> = metrics
        .map(|metric| {
            let name = text(metric, &["resource", "name"]);
            match int(metric, &["resource", "target", "averageUtilization"]) {
                Some(percent) => format!("{name}: <unknown>/{percent}%"),
                None => format!("{name}: <unknown>"),
            }
        })
        .collect();
    let count =
        |path: &[&str]| int(object, path).map_or_else(|| "<unset>".to_owned(), |n| n.to_string());
    vec![
        name(object).into(),
        format!("{}/{}", target("kind"), target("name")).into(),
        or_none(&targets.join(", ")),
        count(&["spec", "minReplicas"]).into(),
        count(&["spec", "maxReplicas"]).into(),
        int(object, &["status", "currentReplicas"]).unwrap_or(0).into(),
        age(object, clock),
    ]
}
