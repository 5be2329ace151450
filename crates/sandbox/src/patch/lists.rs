//! Merge strategies and keys of lists.

use serde_json::Value;

use crate::json::{at, list, text};
use crate::kinds::{Kind, SchemaSource};

/// List type of server-side apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListType {
    /// The list is replaced as a whole.
    Atomic,
    /// The items are unique values.
    Set,
    /// The items are objects, identified by these keys.
    Map(Vec<String>),
}

/// List fields by name: the merge key of strategic merge patch, and the keys of server-side apply if they
/// differ.
const KEYED: &[(&str, &str, &[&str])] = &[
    ("addresses", "type", &[]),
    ("conditions", "type", &[]),
    ("containers", "name", &[]),
    ("drivers", "name", &[]),
    ("env", "name", &[]),
    ("ephemeralContainers", "name", &[]),
    ("hostAliases", "ip", &[]),
    ("hostIPs", "ip", &[]),
    ("imagePullSecrets", "name", &[]),
    ("initContainers", "name", &[]),
    ("ownerReferences", "uid", &[]),
    ("podIPs", "ip", &[]),
    ("resourceClaimStatuses", "name", &[]),
    ("resourceClaims", "name", &[]),
    ("schedulingGates", "name", &[]),
    ("secrets", "name", &[]),
    ("topologySpreadConstraints", "topologyKey", &["topologyKey", "whenUnsatisfiable"]),
    ("volumeDevices", "devicePath", &[]),
    ("volumeMounts", "mountPath", &[]),
    ("volumes", "name", &[]),
    ("webhooks", "name", &[]),
];

/// Lists of unique values.
const SETS: &[&str] = &["finalizers", "podCIDRs", "clusterIPs"];

/// Objects that server-side apply replaces as a whole.
const ATOMIC_MAPS: &[&str] = &[
    "nodeSelector",
    "selector",
    "labelSelector",
    "namespaceSelector",
    "podSelector",
    "fieldRef",
    "resourceFieldRef",
    "secretKeyRef",
    "configMapKeyRef",
    "claimRef",
    "nodeAffinity",
];

/// Merge strategy of a list in a strategic merge patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategic {
    /// The list is replaced as a whole.
    Replaced,
    /// Values are added.
    Set,
    /// Items are merged by this key.
    Keyed(&'static str),
}

/// Returns the strategy of strategic merge patch for the list at a path.
pub(super) fn strategic(kind: &Kind, path: &[String]) -> Strategic {
    let name = path.last().map_or("", String::as_str);
    if SETS.contains(&name) && name != "clusterIPs" {
        return Strategic::Set;
    }
    if name == "ports" {
        return ports(kind, path).map_or(Strategic::Replaced, Strategic::Keyed);
    }
    let known = KEYED.iter().find(|(known, ..)| *known == name);
    known.map_or(Strategic::Replaced, |(_, key, _)| Strategic::Keyed(key))
}

fn ports(kind: &Kind, path: &[String]) -> Option<&'static str> {
    let parent =
        path.len().checked_sub(2).and_then(|index| path.get(index)).map_or("", |name| name);
    match parent {
        "containers" | "initContainers" | "ephemeralContainers" => Some("containerPort"),
        "spec" if kind.kind == "Service" => Some("port"),
        _ => None,
    }
}

/// Returns the list type of server-side apply for the list at a path.
pub(super) fn apply(kind: &Kind, path: &[String]) -> ListType {
    let name = path.last().map_or("", String::as_str);
    if let SchemaSource::Custom(structure) = &kind.schema
        && path.first().is_none_or(|first| first != "metadata")
    {
        let schema = custom(&structure.schema, path).unwrap_or(&Value::Null);
        let keys = list(schema, &["x-kubernetes-list-map-keys"]);
        return match text(schema, &["x-kubernetes-list-type"]) {
            "set" => ListType::Set,
            "map" => {
                ListType::Map(keys.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            }
            _ => ListType::Atomic,
        };
    }
    if SETS.contains(&name) {
        return ListType::Set;
    }
    if name == "ports" {
        return ports(kind, path).map_or(ListType::Atomic, |key| {
            ListType::Map(vec![key.to_owned(), "protocol".to_owned()])
        });
    }
    match KEYED.iter().find(|(known, ..)| *known == name) {
        None => ListType::Atomic,
        Some((_, key, [])) => ListType::Map(vec![(*key).to_owned()]),
        Some((_, _, keys)) => ListType::Map(keys.iter().map(|&key| key.to_owned()).collect()),
    }
}

/// Returns `true` if server-side apply replaces the object at a path as a whole.
pub(super) fn atomic_map(kind: &Kind, path: &[String]) -> bool {
    if let SchemaSource::Custom(structure) = &kind.schema {
        let schema = custom(&structure.schema, path).unwrap_or(&Value::Null);
        return text(schema, &["x-kubernetes-map-type"]) == "atomic";
    }
    path.last().is_some_and(|name| ATOMIC_MAPS.contains(&&**name))
        && path.first().is_none_or(|first| first != "metadata")
}

/// Returns the schema at a path.
fn custom<'a>(schema: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(schema, |schema, name| {
        let schema = schema.get("items").unwrap_or(schema);
        at(schema, &["properties", name]).or_else(|| schema.get("additionalProperties"))
    })
}
