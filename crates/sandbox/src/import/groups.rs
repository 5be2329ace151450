//! Node groups from a file.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};

use super::ImportError;
use crate::actors::nodes;
use crate::json::{int, text};
use crate::limits::NODES_MAX;
use crate::quantity::Quantity;

/// Fields of a group.
const GROUP_FIELDS: &[&str] = &["name", "count", "zones", "labels", "taints", "capacity"];

/// Fields of a group whose values are strings. They are parsed as strings, so that `true`, `1.10` and
/// `007` keep their spelling, although they are a boolean and numbers in YAML.
#[derive(Deserialize)]
struct Texts {
    name: String,
    #[serde(default)]
    zones: Vec<String>,
    #[serde(default)]
    labels: BTreeMap<String, Option<String>>,
    #[serde(default)]
    taints: Vec<BTreeMap<String, Option<String>>>,
    #[serde(default)]
    capacity: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct File {
    groups: Vec<Texts>,
}

/// Returns the nodes of a file of node groups.
///
/// ```yaml
/// groups:
/// - name: gpu
///   count: 8
///   zones: [a, b]
///   labels: {accelerator: h100}
///   taints: [{key: gpu, effect: NoSchedule}]
///   capacity: {cpu: 96, memory: 1Ti, nvidia.com/gpu: 8}
/// ```
pub fn node_groups(text_of_file: &str) -> Result<Vec<Value>, ImportError> {
    let syntax = |error: serde_saphyr::Error| ImportError::Syntax(error.to_string());
    let wrong = ImportError::Form;
    let options = || serde_saphyr::options! { with_snippet: false };
    let file: Value =
        serde_saphyr::from_str_with_options(text_of_file, options()).map_err(syntax)?;
    let groups = file.get("groups").and_then(Value::as_array).ok_or_else(|| {
        wrong("a list `groups` with `name` and `count` of each group is required".to_owned())
    })?;
    for (index, group) in groups.iter().enumerate() {
        let members = group.as_object().ok_or_else(|| {
            wrong(format!("groups[{index}]: a map with `name` and `count` is required"))
        })?;
        if let Some(key) = members.keys().find(|key| !GROUP_FIELDS.contains(&&***key)) {
            let known = GROUP_FIELDS.join(", ");
            return Err(wrong(format!("groups[{index}].{key}: unknown field; known are {known}")));
        }
        if text(group, &["name"]).is_empty() && group.get("name").is_none_or(Value::is_null) {
            return Err(wrong(format!("groups[{index}].name: a name is required")));
        }
    }
    let texts: File =
        serde_saphyr::from_str_with_options(text_of_file, options()).map_err(syntax)?;
    let mut all: Vec<Value> = Vec::new();
    let mut names: BTreeSet<String> = BTreeSet::new();
    for (index, (group, texts)) in groups.iter().zip(texts.groups).enumerate() {
        crate::names::label(&texts.name)
            .map_err(|why| wrong(format!("groups[{index}].name: {why}")))?;
        let count = int(group, &["count"]).filter(|count| (0..=NODES_MAX as i64).contains(count));
        let count = count.ok_or_else(|| {
            wrong(format!("groups[{index}].count: a number from 0 to {NODES_MAX} is required"))
        })?;
        if all.len() + count as usize > NODES_MAX {
            return Err(wrong(format!(
                "groups[{index}].count: all groups together have more than {NODES_MAX} nodes"
            )));
        }
        for (resource, amount) in &texts.capacity {
            if Quantity::parse(amount).is_none() {
                return Err(wrong(format!(
                    "groups[{index}].capacity.{resource}: {amount:?} is not a quantity"
                )));
            }
        }
        let filled = |map: &BTreeMap<String, Option<String>>| -> Value {
            map.iter()
                .map(|(key, value)| (key.clone(), value.clone().unwrap_or_default()))
                .collect()
        };
        let mut group = json!({"labels": filled(&texts.labels), "capacity": texts.capacity});
        if !texts.taints.is_empty() {
            group["taints"] = texts.taints.iter().map(filled).collect();
        }
        for number in 0..count {
            let name = format!("{}-{number}", texts.name);
            if !names.insert(name.clone()) {
                return Err(wrong(format!(
                    "groups[{index}].name: an earlier group also has a node {name:?}; rename one of the groups"
                )));
            }
            let mut node = nodes::group_node(&name, &group);
            if let Some(zone) = texts.zones.get(number as usize % texts.zones.len().max(1)) {
                node["metadata"]["labels"]["topology.kubernetes.io/zone"] = zone.as_str().into();
            }
            all.push(node);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_become_nodes() {
        let nodes = node_groups("groups: [{name: gpu, count: 3, zones: [a, b], labels: {x: y}, taints: [{key: k, effect: NoSchedule}], capacity: {nvidia.com/gpu: 8, cpu: 96}}]").unwrap();
        assert_eq!(nodes.len(), 3);
        assert_eq!(nodes[2]["metadata"]["name"], "gpu-2");
        assert_eq!(nodes[2]["metadata"]["labels"]["topology.kubernetes.io/zone"], "a");
        assert_eq!(nodes[0]["status"]["capacity"]["nvidia.com/gpu"], "8");
        assert_eq!(nodes[0]["spec"]["taints"][0]["key"], "k");
    }

    #[test]
    fn invalid_groups_are_rejected_with_a_reason() {
        for (file, error) in [
            ("nodes: 3", "a list `groups` with `name` and `count` of each group is required"),
            (
                "groups: [{name: a, count: 1, colour: red}]",
                "groups[0].colour: unknown field; known are name, count, zones, labels, taints, capacity",
            ),
            ("groups: [{name: a}]", "groups[0].count: a number from 0 to 100000 is required"),
            (
                "groups: [{name: a, count: 1, capacity: {cpu: much}}]",
                "groups[0].capacity.cpu: \"much\" is not a quantity",
            ),
        ] {
            assert_eq!(node_groups(file).unwrap_err().to_string(), error);
        }
        assert!(node_groups("groups: [{name: A, count: 1}]").is_err());
        assert!(node_groups("{").is_err());
    }

    #[test]
    fn values_that_look_like_booleans_and_numbers_are_strings() {
        let file = "groups:\n- name: 7\n  count: 1\n  zones: [1]\n  labels: {gpu: true, rack: 012, version: 1.10, empty: , yes: no}\n  taints: [{key: gpu, value: true, effect: NoSchedule}]\n  capacity: {cpu: 1.5, nvidia.com/gpu: 8}\n";
        let nodes = node_groups(file).unwrap();
        let labels = &nodes[0]["metadata"]["labels"];
        for (key, value) in [
            ("gpu", "true"),
            ("rack", "012"),
            ("version", "1.10"),
            ("empty", ""),
            ("yes", "no"),
            ("topology.kubernetes.io/zone", "1"),
        ] {
            assert_eq!(labels[key], value, "{key}");
        }
        assert_eq!(nodes[0]["metadata"]["name"], "7-0");
        assert_eq!(nodes[0]["spec"]["taints"][0]["value"], "true");
        assert_eq!(nodes[0]["status"]["capacity"]["cpu"], "1.5");
        // The API server accepts them.
        let cluster = crate::testing::cluster();
        let resource = cluster.resource("", "nodes");
        cluster
            .create(&resource, "", nodes[0].clone(), &crate::cluster::WriteOptions::default())
            .unwrap();
    }

    #[test]
    fn groups_with_equal_node_names_are_rejected() {
        for file in [
            "groups: [{name: a, count: 1}, {name: a, count: 2}]",
            "groups: [{name: a, count: 2}, {name: b, count: 1}, {name: a, count: 1}]",
        ] {
            let error = node_groups(file).unwrap_err().to_string();
            assert!(error.contains("an earlier group also has a node \"a-0\""), "{error}");
        }
        let many = "groups: [{name: a, count: 60000}, {name: b, count: 60000}]";
        assert!(node_groups(many).unwrap_err().to_string().contains("more than 100000 nodes"));
    }
}
