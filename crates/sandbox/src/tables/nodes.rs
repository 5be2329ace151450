//! Table cells of nodes.

use serde_json::Value;

use super::{Clock, age, or_none};
use crate::json::{condition, list, map, name, text, truth};

/// Returns the cells of a Node.
pub(crate) fn cells(node: &Value, clock: Clock) -> Vec<Value> {
    let ready = condition(node, "Ready").map(|ready| text(ready, &["status"]));
    let mut status = match ready {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if truth(node, &["spec", "unschedulable"]) {
        status += ",SchedulingDisabled";
    }
    let info = |what: &str| {
        let text = text(node, &["status", "nodeInfo", what]);
        Value::from(if text.is_empty() { "<unknown>" } else { text })
    };
    let address = |kind: &str| {
        let addresses = list(node, &["status", "addresses"]);
        let found = addresses.iter().find(|one| text(one, &["type"]) == kind);
        or_none(found.map_or("", |one| text(one, &["address"])))
    };
    vec![
        name(node).into(),
        status.into(),
        or_none(&roles(node).join(",")),
        age(node, clock),
        text(node, &["status", "nodeInfo", "kubeletVersion"]).into(),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

fn roles(node: &Value) -> Vec<&str> {
    let labels = map(node, &["metadata", "labels"]);
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => Some(role),
            None if key == "kubernetes.io/role" => value.as_str().filter(|role| !role.is_empty()),
            _ => None,
        })
        .collect();
    roles.sort_unstable();
    roles.dedup();
    roles
}
