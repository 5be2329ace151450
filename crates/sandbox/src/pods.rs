//! What follows from the spec of a pod.

use serde_json::Value;

use crate::json::{list, map};
use crate::quantity::Quantity;

/// The quality of service that its requests and limits make.
pub(crate) fn qos_class(pod: &Value) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    let containers = list(pod, &["spec", "containers"]).iter();
    for container in containers.chain(list(pod, &["spec", "initContainers"])) {
        let amount = |kind: &str, resource: &str| {
            let value = crate::json::at(container, &["resources", kind, resource]);
            value.and_then(Value::as_str).and_then(Quantity::parse).filter(|q| *q != Quantity::ZERO)
        };
        for resource in ["cpu", "memory"] {
            let (request, limit) = (amount("requests", resource), amount("limits", resource));
            any |= request.is_some() || limit.is_some();
            let request = request.or(limit);
            guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// What a pod asks for of one resource; `kind` is `requests` or `limits`.
pub(crate) fn amount(pod: &Value, kind: &str, resource: &str) -> Quantity {
    let of = |container: &Value| {
        let value = crate::json::at(container, &["resources", kind, resource]);
        value.and_then(Value::as_str).and_then(Quantity::parse).unwrap_or(Quantity::ZERO)
    };
    let mut sum = Quantity::ZERO;
    for container in list(pod, &["spec", "containers"]) {
        sum = sum.plus(of(container));
    }
    let mut sidecars = Quantity::ZERO;
    let mut highest = Quantity::ZERO;
    for container in list(pod, &["spec", "initContainers"]) {
        if crate::json::text(container, &["restartPolicy"]) == "Always" {
            sidecars = sidecars.plus(of(container));
            sum = sum.plus(of(container));
        } else {
            let together = sidecars.plus(of(container));
            if together > highest {
                highest = together;
            }
        }
    }
    let most = if highest > sum { highest } else { sum };
    // What the pod says for all its containers counts instead of what they say.
    let whole = crate::json::at(pod, &["spec", "resources", kind, resource]);
    let most = whole.and_then(Value::as_str).and_then(Quantity::parse).unwrap_or(most);
    let overhead = crate::json::at(pod, &["spec", "overhead", resource]);
    most.plus(overhead.and_then(Value::as_str).and_then(Quantity::parse).unwrap_or(Quantity::ZERO))
}

/// The resources that any container of a pod names.
pub(crate) fn resources(pod: &Value, kind: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let containers = list(pod, &["spec", "containers"]).iter();
    for container in containers.chain(list(pod, &["spec", "initContainers"])) {
        for (name, _) in map(container, &["resources", kind]) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    names
}

/// Whether a pod has come to its end.
pub(crate) fn ended(pod: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&crate::json::text(pod, &["status", "phase"]))
}
