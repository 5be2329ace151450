//! Properties derived from the spec of a pod.

use serde_json::Value;

use crate::json::{list, map, quantity};
use crate::quantity::Quantity;

/// Returns the QoS class.
pub(crate) fn qos_class(pod: &Value) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    let containers = list(pod, &["spec", "containers"]).iter();
    for container in containers.chain(list(pod, &["spec", "initContainers"])) {
        let amount = |kind: &str, resource: &str| {
            quantity(container, &["resources", kind, resource]).filter(|q| *q != Quantity::ZERO)
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

/// Returns the total of one resource, with init containers and overhead; `kind` is `requests` or `limits`.
pub(crate) fn amount(pod: &Value, kind: &str, resource: &str) -> Quantity {
    let of = |container: &Value| {
        quantity(container, &["resources", kind, resource]).unwrap_or(Quantity::ZERO)
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
    // Pod-level resources replace those of the containers.
    let most = quantity(pod, &["spec", "resources", kind, resource]).unwrap_or(most);
    most.plus(quantity(pod, &["spec", "overhead", resource]).unwrap_or(Quantity::ZERO))
}

/// Returns the resources that the containers of a pod name.
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

/// Returns `true` if the phase of a pod is `Succeeded` or `Failed`.
pub(crate) fn is_finished(pod: &Value) -> bool {
    is_terminal(crate::json::text(pod, &["status", "phase"]))
}

/// Returns `true` for the phases `Succeeded` and `Failed`.
pub(crate) fn is_terminal(phase: &str) -> bool {
    ["Succeeded", "Failed"].contains(&phase)
}
