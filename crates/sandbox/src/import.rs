//! Clusters from files: node groups, snapshots of real clusters, and manifests.

mod groups;
mod manifests;

use std::collections::HashSet;

use serde_json::{Value, json};
use thiserror::Error;

use crate::actors::daemon_set::{GENERATION, TEMPLATE_GENERATION};
use crate::actors::gc;
use crate::actors::revision::REVISION;
use crate::cluster::{
    Cluster, FieldValidation, WriteOptions, decode, default_and_validate, seconds,
};
use crate::json::{at, members, name, namespace, slot, text, uid};
use crate::kinds::{Verbs, type_of};
use crate::limits::DEPTH_MAX;
use crate::store::Draft;

pub use groups::node_groups;
pub use manifests::{ApplyError, Manifest, apply};

/// Kinds whose controllers create and delete other objects.
const WORKLOADS: &[(&str, &str)] = &[
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("", "replicationcontrollers"),
    ("apps", "statefulsets"),
    ("apps", "daemonsets"),
    ("batch", "jobs"),
];

/// Reason why a file is rejected.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ImportError {
    /// It is neither YAML nor JSON.
    #[error("it is neither YAML nor JSON: {0}")]
    Syntax(String),
    /// Its structure is wrong.
    #[error("{0}")]
    Form(String),
    /// One of its objects is invalid.
    #[error("{kind} {name:?}: {message}")]
    Object {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// Reason.
        message: String,
    },
}

/// Result of the import of a snapshot.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Number of imported objects.
    pub objects: usize,
    /// Types that the cluster does not have; their objects were skipped.
    pub unknown: Vec<String>,
    /// Number of objects whose owner is not in the snapshot. Garbage collection keeps them.
    pub without_owner: usize,
    /// Number of workloads that their controllers leave unchanged until the workload or its pods change.
    pub held: usize,
}

/// Imports the objects of a snapshot, such as the output of `kubectl get nodes,pods,… -A -o yaml`, with
/// their uids, their status, and the nodes of pods.
pub fn snapshot(cluster: &Cluster, text_of_file: &str) -> Result<Imported, ImportError> {
    let documents = documents(text_of_file)?;
    let mut objects = Vec::new();
    for document in documents {
        flatten(document, &mut objects);
    }
    // Dependencies first.
    objects.sort_by_key(|object| match type_of(object).1 {
        "CustomResourceDefinition" => 0,
        "Namespace" => 1,
        "Node" | "PriorityClass" | "StorageClass" => 2,
        "Pod" => 4,
        _ => 3,
    });
    // Objects from a cluster have a uid; manifests have none and are reconciled normally.
    let uids: HashSet<String> =
        objects.iter().map(|object| uid(object).to_owned()).filter(|uid| !uid.is_empty()).collect();
    let mut imported = Imported::default();
    for object in objects {
        import_object(cluster, object, &mut imported)?;
    }
    hold_workloads(cluster, &uids, &mut imported);
    imported.unknown.sort();
    imported.unknown.dedup();
    Ok(imported)
}

/// Parses all documents of a file. JSON is tried first, since its parser is much faster.
fn documents(text_of_file: &str) -> Result<Vec<Value>, ImportError> {
    if let Ok(document) = serde_json::from_str(text_of_file) {
        return Ok(vec![document]);
    }
    // Input size bounds all but aliases, so only depth is limited and the other budgets are lifted.
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

fn import_object(
    cluster: &Cluster,
    mut object: Value,
    imported: &mut Imported,
) -> Result<(), ImportError> {
    let (api_version, kind) = type_of(&object);
    let Some(resource) = cluster.kinds.of_object(api_version, kind) else {
        imported.unknown.push(format!("{api_version} {kind}"));
        return Ok(());
    };
    if resource.kind.strategy.verbs != Verbs::All {
        return Ok(());
    }
    let error = |object: &Value, message: String| ImportError::Object {
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
    decode(&resource, &mut object, FieldValidation::Ignore)
        .map_err(|failure| error(&object, failure.message))?;
    crate::events::to_stored(&resource, &mut object);
    default_and_validate(&resource, &mut object, None)
        .map_err(|failure| error(&object, failure.message))?;
    if resource.kind.namespaced {
        ensure_namespace(cluster, namespace(&object)).map_err(|message| error(&object, message))?;
    }
    let draft = Draft::new(&object, resource.objects.fields());
    // System objects exist already and stay unchanged.
    if resource.objects.create(draft).is_ok() {
        imported.objects += 1;
        if is_definition(&object) {
            crate::custom::establish(cluster, &object);
        }
    }
    Ok(())
}

/// Records which workloads and owners of the snapshot controllers must leave unchanged.
fn hold_workloads(cluster: &Cluster, uids: &HashSet<String>, imported: &mut Imported) {
    for (group, plural) in WORKLOADS {
        for object in cluster.resource(group, plural).objects.list("").objects {
            if uids.contains(&*object.uid) {
                let workload = object.value();
                cluster.snapshot_state.hold(&workload, revision_of(cluster, &workload));
                imported.held += 1;
            }
        }
    }
    let mut without_owner: HashSet<String> = HashSet::new();
    for resource in cluster.kinds.all() {
        for object in resource.objects.list("").objects {
            for owner in &object.owners {
                if !gc::exists(cluster, &object.namespace, owner) {
                    cluster.snapshot_state.hold_owner(owner);
                    without_owner.insert(object.uid.to_string());
                }
            }
        }
    }
    imported.without_owner = without_owner.len();
    cluster.snapshot_state.imported_at(cluster.store.version());
}

/// Returns the revision label of up-to-date pods of a stateful set or daemon set.
fn revision_of(cluster: &Cluster, workload: &Value) -> String {
    if type_of(workload).1 == "StatefulSet" {
        return text(workload, &["status", "updateRevision"]).to_owned();
    }
    let newest = text(workload, &["metadata", "annotations", TEMPLATE_GENERATION]);
    let pods = cluster.resource("", "pods").objects.owned_by(uid(workload));
    let pod = pods.iter().find(|pod| pod.label(GENERATION).is_some_and(|one| one == newest));
    pod.and_then(|pod| pod.label(REVISION)).unwrap_or_default().to_owned()
}

fn is_definition(object: &Value) -> bool {
    type_of(object).1 == "CustomResourceDefinition" && at(object, &["spec", "versions"]).is_some()
}

/// Creates a namespace that the snapshot does not contain.
fn ensure_namespace(cluster: &Cluster, wanted: &str) -> Result<(), String> {
    let namespaces = cluster.resource("", "namespaces");
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
    fn snapshots_are_imported_unchanged() {
        let cluster = crate::testing::cluster();
        let file = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: team, uid: u1, resourceVersion: '5'}, spec: {nodeName: n1, containers: [{name: c, image: i}]}, status: {phase: Running}}\n- {apiVersion: v1, kind: Node, metadata: {name: n1}}\n---\napiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\n";
        let imported = snapshot(&cluster, file).unwrap();
        assert_eq!(
            imported,
            Imported {
                objects: 2,
                unknown: vec!["example.com/v1 Thing".to_owned()],
                ..Imported::default()
            }
        );
        let pod = cluster.value(&cluster.resource("", "pods"), "team", "p").unwrap();
        assert_eq!(
            (&pod["metadata"]["uid"], &pod["status"]["phase"]),
            (&json!("u1"), &json!("Running"))
        );
        let error =
            snapshot(&cluster, "{apiVersion: v1, kind: Pod, metadata: {name: q}, spec: {}}")
                .unwrap_err();
        assert!(error.to_string().contains("spec.containers: Required value"), "{error}");
    }
}
