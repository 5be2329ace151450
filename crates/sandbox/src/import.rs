//! Clusters from files: groups of nodes, and snapshots of real clusters.

use serde_json::{Value, json};
use thiserror::Error;

use crate::actors::nodes;
use crate::cluster::{Cluster, Strictness, WriteOptions, complete, decode, seconds};
use crate::json::{at, int, list, members, name, namespace, slot, text};
use crate::kinds::{Verbs, type_of};
use crate::limits::{DEPTH_MAX, NODES_MAX};
use crate::store::Draft;

/// Why a file cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ImportError {
    /// It is not YAML or JSON.
    #[error("it is neither YAML nor JSON: {0}")]
    Syntax(String),
    /// It has the wrong members.
    #[error("{0}")]
    Form(String),
    /// An object of it is not accepted.
    #[error("{kind} {name:?}: {message}")]
    Object {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// What is wrong with it.
        message: String,
    },
}

/// What was taken from a snapshot.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// How many objects.
    pub objects: usize,
    /// Kinds that were left out, since nobody knows them here.
    pub unknown: Vec<String>,
}

/// The nodes of a file of groups.
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
    const KNOWN: &[&str] = &["name", "count", "zones", "labels", "taints", "capacity"];
    let file: Value = serde_saphyr::from_str(text_of_file)
        .map_err(|error| ImportError::Syntax(error.to_string()))?;
    let wrong = |message: String| ImportError::Form(message);
    let groups = file.get("groups").and_then(Value::as_array).ok_or_else(|| {
        wrong("a list `groups` is needed, each with `name` and `count`".to_owned())
    })?;
    let mut all = Vec::new();
    for (place, group) in groups.iter().enumerate() {
        let unknown =
            group.as_object().into_iter().flatten().find(|(key, _)| !KNOWN.contains(&&***key));
        if let Some((key, _)) = unknown {
            return Err(wrong(format!(
                "groups[{place}].{key} is not known; known are {}",
                KNOWN.join(", ")
            )));
        }
        let group_name = text(group, &["name"]);
        crate::names::label(group_name)
            .map_err(|why| wrong(format!("groups[{place}].name: {why}")))?;
        let count = int(group, &["count"]).filter(|count| (0..=NODES_MAX as i64).contains(count));
        let count = count.ok_or_else(|| {
            wrong(format!("groups[{place}].count: a number from 0 to {NODES_MAX} is needed"))
        })?;
        for (resource, amount) in crate::json::map(group, &["capacity"]) {
            let shown = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
            if crate::quantity::Quantity::parse(&shown).is_none() {
                return Err(wrong(format!(
                    "groups[{place}].capacity.{resource}: {shown:?} is no quantity"
                )));
            }
        }
        let zones: Vec<&str> = list(group, &["zones"]).iter().filter_map(Value::as_str).collect();
        for number in 0..count {
            let mut node = nodes::group_node(&format!("{group_name}-{number}"), group);
            if let Some(zone) = zones.get(number as usize % zones.len().max(1)) {
                node["metadata"]["labels"]["topology.kubernetes.io/zone"] = (*zone).into();
            }
            all.push(node);
        }
    }
    Ok(all)
}

/// Takes the objects of a snapshot, such as `kubectl get nodes,pods,… -A -o yaml` prints it, as they are:
/// with their uids, their states, and the nodes that pods were on.
pub fn snapshot(cluster: &Cluster, text_of_file: &str) -> Result<Imported, ImportError> {
    let documents = documents(text_of_file)?;
    let mut objects = Vec::new();
    for document in documents {
        flatten(document, &mut objects);
    }
    // What others need comes first.
    objects.sort_by_key(|object| match type_of(object).1 {
        "CustomResourceDefinition" => 0,
        "Namespace" => 1,
        "Node" | "PriorityClass" | "StorageClass" => 2,
        "Pod" => 4,
        _ => 3,
    });
    let mut imported = Imported::default();
    for object in objects {
        take(cluster, object, &mut imported)?;
    }
    imported.unknown.sort();
    imported.unknown.dedup();
    Ok(imported)
}

/// All documents of a file. JSON is read as such, since that is much faster.
fn documents(text_of_file: &str) -> Result<Vec<Value>, ImportError> {
    if let Ok(document) = serde_json::from_str(text_of_file) {
        return Ok(vec![document]);
    }
    // Sizes are bounded by the text, which is in memory already; only aliases can make it grow.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
            max_depth: DEPTH_MAX,
        },
        with_snippet: false,
    };
    serde_saphyr::from_multiple_with_options(text_of_file, options)
        .map_err(|error| ImportError::Syntax(error.to_string()))
}

fn flatten(document: Value, into: &mut Vec<Value>) {
    let is_list = type_of(&document).1.ends_with("List");
    match document {
        Value::Object(mut members) if is_list && members.contains_key("items") => {
            if let Some(Value::Array(items)) = members.remove("items") {
                for item in items {
                    flatten(item, into);
                }
            }
        }
        Value::Null => {}
        other => into.push(other),
    }
}

fn take(cluster: &Cluster, mut object: Value, imported: &mut Imported) -> Result<(), ImportError> {
    let (api_version, kind) = type_of(&object);
    let Some(resource) = cluster.kinds.of_object(api_version, kind) else {
        imported.unknown.push(format!("{api_version} {kind}"));
        return Ok(());
    };
    if resource.kind.behaviour.verbs != Verbs::All {
        return Ok(());
    }
    let refuse = |object: &Value, message: String| ImportError::Object {
        kind: type_of(object).1.to_owned(),
        name: name(object).to_owned(),
        message,
    };
    let now = seconds(cluster.now());
    let metadata = slot(&mut object, &["metadata"]);
    for gone in ["resourceVersion", "managedFields", "selfLink"] {
        members(metadata).remove(gone);
    }
    crate::json::default(metadata, "uid", uuid::Uuid::new_v4().to_string());
    crate::json::default(metadata, "creationTimestamp", now);
    if resource.kind.namespaced && text(metadata, &["namespace"]).is_empty() {
        metadata["namespace"] = "default".into();
    }
    decode(&resource, &mut object, Strictness::Ignore)
        .map_err(|failure| refuse(&object, failure.message))?;
    crate::events::to_stored(&resource, &mut object);
    complete(&resource, &mut object, None).map_err(|failure| refuse(&object, failure.message))?;
    if resource.kind.namespaced {
        house(cluster, namespace(&object)).map_err(|message| refuse(&object, message))?;
    }
    let draft = Draft::new(&object, resource.objects.fields());
    // What every cluster has is there already, and stays as it is.
    if resource.objects.create(draft).is_ok() {
        imported.objects += 1;
        if kind_is_definition(&object) {
            crate::custom::establish(cluster, &object);
        }
    }
    Ok(())
}

fn kind_is_definition(object: &Value) -> bool {
    type_of(object).1 == "CustomResourceDefinition" && at(object, &["spec", "versions"]).is_some()
}

/// Makes a namespace that the snapshot does not hold.
fn house(cluster: &Cluster, wanted: &str) -> Result<(), String> {
    let namespaces = cluster.kind("", "namespaces");
    if namespaces.objects.get(wanted).is_some() {
        return Ok(());
    }
    let object = json!({"metadata": {"name": wanted}});
    cluster
        .create(&namespaces, "", object, &WriteOptions::default())
        .map(drop)
        .map_err(|failure| failure.message)
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
    fn wrong_groups_are_told() {
        for (file, told) in [
            ("nodes: 3", "a list `groups` is needed, each with `name` and `count`"),
            (
                "groups: [{name: a, count: 1, colour: red}]",
                "groups[0].colour is not known; known are name, count, zones, labels, taints, capacity",
            ),
            ("groups: [{name: a}]", "groups[0].count: a number from 0 to 100000 is needed"),
            (
                "groups: [{name: a, count: 1, capacity: {cpu: much}}]",
                "groups[0].capacity.cpu: \"much\" is no quantity",
            ),
        ] {
            assert_eq!(node_groups(file).unwrap_err().to_string(), told);
        }
        assert!(node_groups("groups: [{name: A, count: 1}]").is_err());
        assert!(node_groups("{").is_err());
    }

    #[test]
    fn snapshots_are_taken_as_they_are() {
        let cluster = crate::testing::cluster();
        let file = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: team, uid: u1, resourceVersion: '5'}, spec: {nodeName: n1, containers: [{name: c, image: i}]}, status: {phase: Running}}\n- {apiVersion: v1, kind: Node, metadata: {name: n1}}\n---\napiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\n";
        let imported = snapshot(&cluster, file).unwrap();
        assert_eq!(
            imported,
            Imported { objects: 2, unknown: vec!["example.com/v1 Thing".to_owned()] }
        );
        let pod = cluster.value(&cluster.kind("", "pods"), "team", "p").unwrap();
        assert_eq!(
            (&pod["metadata"]["uid"], &pod["status"]["phase"]),
            (&json!("u1"), &json!("Running"))
        );
        let refused =
            snapshot(&cluster, "{apiVersion: v1, kind: Pod, metadata: {name: q}, spec: {}}")
                .unwrap_err();
        assert!(refused.to_string().contains("spec.containers: Required value"), "{refused}");
    }
}
