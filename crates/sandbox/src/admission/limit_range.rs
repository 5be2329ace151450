//! Admission by LimitRange: defaults and bounds of container resources.

use serde_json::Value;

use crate::cluster::Cluster;
use crate::json::{at, list, map, name, namespace, quantity, slot, text};
use crate::quantity::Quantity;
use crate::status_error::{ApiResult, GroupResource, StatusError};

/// Applies the limit ranges of its namespace to a pod.
pub(super) fn pod(cluster: &Cluster, pod: &mut Value) -> ApiResult<()> {
    let ranges = cluster.resource("", "limitranges");
    if ranges.objects.is_empty() {
        return Ok(());
    }
    let prefix = ranges.prefix(Some(namespace(pod)));
    let ranges: Vec<Value> =
        ranges.objects.list(&prefix).objects.iter().map(|range| range.value()).collect();
    let limits = || ranges.iter().flat_map(|range| list(range, &["spec", "limits"]));
    for limit in limits().filter(|limit| text(limit, &["type"]) == "Container") {
        set_defaults(pod, limit);
    }
    let mut wrong = Vec::new();
    for limit in limits() {
        match text(limit, &["type"]) {
            "Container" => {
                let containers = list(pod, &["spec", "containers"]).iter();
                for container in containers.chain(list(pod, &["spec", "initContainers"])) {
                    let of = |kind: &str, resource: &str| {
                        quantity(container, &["resources", kind, resource])
                    };
                    check(limit, "Container", of, &mut wrong);
                }
            }
            "Pod" => {
                let of = |kind: &str, resource: &str| {
                    let named = crate::pods::resources(pod, kind).iter().any(|one| one == resource);
                    named.then(|| crate::pods::amount(pod, kind, resource))
                };
                check(limit, "Pod", of, &mut wrong);
            }
            _ => {}
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let why = if let [one] = &*wrong { one.clone() } else { format!("[{}]", wrong.join(", ")) };
    Err(StatusError::forbidden(GroupResource { group: "", resource: "pods" }, name(pod), &why))
}

fn set_defaults(pod: &mut Value, limit: &Value) {
    let Some(spec) = pod.get_mut("spec") else { return };
    for kind in ["containers", "initContainers"] {
        let Some(containers) = spec.get_mut(kind).and_then(Value::as_array_mut) else { continue };
        for container in containers {
            for (part, defaults) in [("limits", "default"), ("requests", "defaultRequest")] {
                for (resource, amount) in map(limit, &[defaults]) {
                    let own_limit = at(container, &["resources", "limits", resource]).cloned();
                    let value = match own_limit {
                        // A container with a limit and no request requests its limit.
                        Some(own)
                            if part == "requests"
                                && at(limit, &["default", resource]) != Some(&own) =>
                        {
                            own
                        }
                        _ => amount.clone(),
                    };
                    crate::json::default(slot(container, &["resources", part]), resource, value);
                }
            }
        }
    }
}

fn check(
    limit: &Value,
    of_what: &str,
    amount: impl Fn(&str, &str) -> Option<Quantity>,
    wrong: &mut Vec<String>,
) {
    let parse = |value: &Value| value.as_str().and_then(Quantity::parse);
    for (resource, bound) in map(limit, &["min"]) {
        let Some(min) = parse(bound) else { continue };
        match amount("requests", resource) {
            None => wrong.push(format!(
                "minimum {resource} usage per {of_what} is {min}.  No request is specified"
            )),
            Some(request) if request < min => wrong.push(format!(
                "minimum {resource} usage per {of_what} is {min}, but request is {request}"
            )),
            Some(_) => {}
        }
    }
    for (resource, bound) in map(limit, &["max"]) {
        let Some(max) = parse(bound) else { continue };
        match amount("limits", resource) {
            None => wrong.push(format!(
                "maximum {resource} usage per {of_what} is {max}.  No limit is specified"
            )),
            Some(given) if given > max => wrong.push(format!(
                "maximum {resource} usage per {of_what} is {max}, but limit is {given}"
            )),
            Some(_) => {}
        }
    }
    for (resource, ratio) in map(limit, &["maxLimitRequestRatio"]) {
        let (Some(max), Some(request), Some(given)) =
            (parse(ratio), amount("requests", resource), amount("limits", resource))
        else {
            continue;
        };
        if request.milli() > 0 {
            let have = given.milli() as f64 / request.milli() as f64;
            if have > max.milli() as f64 / 1000.0 {
                wrong.push(format!("{resource} max limit to request ratio per {of_what} is {max}, but provided ratio is {have:.6}"));
            }
        }
    }
}
