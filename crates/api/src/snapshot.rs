//! Reading of a whole cluster from text: any mix of Kubernetes objects and lists, in YAML or JSON.
//!
//! Objects are lowered one at a time while the text is parsed, so a large list is never held in
//! memory in another form.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use engine::object::{
    CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass, DisruptionBudget, Namespace, Node,
    PersistentVolume, PersistentVolumeClaim, Pod, ResourceClaim, StorageClass, Text, Uid,
    VolumeAttachment, Workload,
};
use serde_json::Value;

use crate::lower::limits::{LIST_DEPTH_MAX, SNAPSHOT_PROBLEMS_MAX};
use crate::lower::{self, Lowered, Problem, Severity};

mod changes;
mod document;
mod text;

/// The objects of a snapshot, in the order in which they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// Nodes; their order breaks ties.
    pub nodes: Vec<Node>,
    /// Pods that have not finished.
    pub pods: Vec<Pod>,
    /// Namespaces.
    pub namespaces: Vec<Namespace>,
    /// Services, replication controllers, replica sets and stateful sets.
    pub workloads: Vec<Workload>,
    /// Pod disruption budgets.
    pub disruption_budgets: Vec<DisruptionBudget>,
    /// Persistent volumes.
    pub persistent_volumes: Vec<PersistentVolume>,
    /// Persistent volume claims.
    pub persistent_volume_claims: Vec<PersistentVolumeClaim>,
    /// Storage classes.
    pub storage_classes: Vec<StorageClass>,
    /// CSINodes: the CSI drivers of each node.
    pub csi_nodes: Vec<CsiNode>,
    /// CSI drivers.
    pub csi_drivers: Vec<CsiDriver>,
    /// Capacities that CSI drivers can still provision.
    pub csi_storage_capacities: Vec<CsiStorageCapacity>,
    /// Volume attachments.
    pub volume_attachments: Vec<VolumeAttachment>,
    /// Device classes.
    pub device_classes: Vec<DeviceClass>,
    /// Resource claims.
    pub resource_claims: Vec<ResourceClaim>,
}

/// A cluster read from text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The objects that scheduling reads.
    pub objects: Objects,
    /// All problems, in the order of the text.
    pub problems: Vec<Problem>,
    /// Number of objects that were ignored, by kind such as `Deployment.apps`; finished pods are
    /// counted as `Pod (finished)`.
    pub ignored: BTreeMap<String, usize>,
}

/// Reads YAML or JSON: an object, a list, several YAML documents, an array, or concatenated JSON
/// values.
pub fn read(text: &str) -> Snapshot {
    let mut reader = SnapshotReader::default();
    text::read(text, &mut reader);
    reader.finish()
}

/// Reads objects and lists that are already parsed.
pub fn from_values(values: impl IntoIterator<Item = Value>) -> Snapshot {
    let mut reader = SnapshotReader::default();
    for value in values {
        reader.document += 1;
        reader.take(&value, &ListDefaults::default(), 0, Position::default());
    }
    reader.finish()
}

/// A kind that scheduling reads.
struct SnapshotKind {
    name: &'static str,
    group: &'static str,
    namespaced: bool,
    take: fn(&mut SnapshotReader, &Value, Option<usize>) -> PutOutcome,
}

/// The outcome of storing an object.
enum PutOutcome {
    At(usize),
    Finished,
    Unusable,
}

/// All kinds that scheduling reads, the most frequent first.
const KINDS: &[SnapshotKind] = &[
    SnapshotKind {
        name: "Pod",
        group: "",
        namespaced: true,
        take: |reader, value, at| reader.put(lower::pod(value), at, |o| &mut o.pods),
    },
    SnapshotKind {
        name: "Node",
        group: "",
        namespaced: false,
        take: |reader, value, at| reader.put(lower::node(value), at, |o| &mut o.nodes),
    },
    SnapshotKind {
        name: "ReplicaSet",
        group: "apps",
        namespaced: true,
        take: |reader, value, at| reader.put(lower::replica_set(value), at, |o| &mut o.workloads),
    },
    SnapshotKind {
        name: "Service",
        group: "",
        namespaced: true,
        take: |reader, value, at| reader.put(lower::service(value), at, |o| &mut o.workloads),
    },
    SnapshotKind {
        name: "StatefulSet",
        group: "apps",
        namespaced: true,
        take: |reader, value, at| reader.put(lower::stateful_set(value), at, |o| &mut o.workloads),
    },
    SnapshotKind {
        name: "ReplicationController",
        group: "",
        namespaced: true,
        take: |reader, value, at| {
            reader.put(lower::replication_controller(value), at, |o| &mut o.workloads)
        },
    },
    SnapshotKind {
        name: "Namespace",
        group: "",
        namespaced: false,
        take: |reader, value, at| reader.put(lower::namespace(value), at, |o| &mut o.namespaces),
    },
    SnapshotKind {
        name: "PodDisruptionBudget",
        group: "policy",
        namespaced: true,
        take: |reader, value, at| {
            reader.put(lower::disruption_budget(value), at, |o| &mut o.disruption_budgets)
        },
    },
    SnapshotKind {
        name: "PersistentVolumeClaim",
        group: "",
        namespaced: true,
        take: |reader, value, at| {
            let lowered = lower::persistent_volume_claim(value);
            reader.put(lowered, at, |o| &mut o.persistent_volume_claims)
        },
    },
    SnapshotKind {
        name: "PersistentVolume",
        group: "",
        namespaced: false,
        take: |reader, value, at| {
            reader.put(lower::persistent_volume(value), at, |o| &mut o.persistent_volumes)
        },
    },
    SnapshotKind {
        name: "StorageClass",
        group: "storage.k8s.io",
        namespaced: false,
        take: |reader, value, at| {
            reader.put(lower::storage_class(value), at, |o| &mut o.storage_classes)
        },
    },
    SnapshotKind {
        name: "CSINode",
        group: "storage.k8s.io",
        namespaced: false,
        take: |reader, value, at| reader.put(lower::csi_node(value), at, |o| &mut o.csi_nodes),
    },
    SnapshotKind {
        name: "CSIDriver",
        group: "storage.k8s.io",
        namespaced: false,
        take: |reader, value, at| reader.put(lower::csi_driver(value), at, |o| &mut o.csi_drivers),
    },
    SnapshotKind {
        name: "CSIStorageCapacity",
        group: "storage.k8s.io",
        namespaced: true,
        take: |reader, value, at| {
            reader.put(lower::csi_storage_capacity(value), at, |o| &mut o.csi_storage_capacities)
        },
    },
    SnapshotKind {
        name: "VolumeAttachment",
        group: "storage.k8s.io",
        namespaced: false,
        take: |reader, value, at| {
            reader.put(lower::volume_attachment(value), at, |o| &mut o.volume_attachments)
        },
    },
    SnapshotKind {
        name: "DeviceClass",
        group: "resource.k8s.io",
        namespaced: false,
        take: |reader, value, at| {
            reader.put(lower::device_class(value), at, |o| &mut o.device_classes)
        },
    },
    SnapshotKind {
        name: "ResourceClaim",
        group: "resource.k8s.io",
        namespaced: true,
        take: |reader, value, at| {
            reader.put(lower::resource_claim(value), at, |o| &mut o.resource_claims)
        },
    },
];

/// Type fields that the items of a typed list (`PodList`) omit because the list implies them.
#[derive(Clone, Default)]
struct ListDefaults {
    api_version: Option<String>,
    kind: Option<String>,
}

impl ListDefaults {
    /// Derives them from the head of a list; a plain `List` implies nothing.
    fn from_list(api_version: Option<&str>, kind: Option<&str>) -> Self {
        let kind = kind.and_then(|kind| kind.strip_suffix("List")).filter(|kind| !kind.is_empty());
        match kind {
            Some(kind) => {
                Self { api_version: api_version.map(Into::into), kind: Some(kind.into()) }
            }
            None => Self::default(),
        }
    }
}

/// The position of an object in a document.
#[derive(Clone, Copy, Default)]
struct Position {
    item: Option<usize>,
}

/// Collects the objects and problems of a snapshot.
#[derive(Default)]
struct SnapshotReader {
    snapshot: Snapshot,
    /// Number of the current document, from one.
    document: usize,
    /// Index of each object in its list, by kind, namespace and name.
    indexes: BTreeMap<(&'static str, Text, Text), usize>,
    /// Number of problems beyond `SNAPSHOT_PROBLEMS_MAX`.
    omitted: usize,
}

impl SnapshotReader {
    /// Adds an object or a list of objects.
    fn take(
        &mut self,
        value: &Value,
        list_defaults: &ListDefaults,
        depth: usize,
        position: Position,
    ) {
        if !value.is_object() {
            let message = format!("found {}, expected an object", type_name(value));
            return self.problem(position, "", message);
        }
        let text = |field| value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
        let api_version = text("apiVersion").or(list_defaults.api_version.as_deref());
        let Some(kind) = text("kind").or(list_defaults.kind.as_deref()) else {
            let message = "found none, expected one such as Pod: is the file cut off?";
            return self.problem(position, "kind", message);
        };
        if kind.ends_with("List")
            && let Some(items) =
                value.get("items").filter(|items| items.is_array() || items.is_null())
        {
            let list_defaults = ListDefaults::from_list(api_version, Some(kind));
            return self.take_items(items, &list_defaults, depth, position);
        }
        let group =
            api_version.map(|version| version.split_once('/').map_or("", |(group, _)| group));
        let known =
            KINDS.iter().find(|k| k.name == kind && group.is_none_or(|group| group == k.group));
        match known {
            Some(known) => self.take_object(known, value),
            None => self.ignore(match group {
                None | Some("") => kind.to_owned(),
                Some(group) => format!("{kind}.{group}"),
            }),
        }
    }

    fn take_items(
        &mut self,
        items: &Value,
        list_defaults: &ListDefaults,
        depth: usize,
        position: Position,
    ) {
        if depth >= LIST_DEPTH_MAX {
            let message = format!("found lists more than {LIST_DEPTH_MAX} deep");
            return self.problem(position, "items", message);
        }
        for (index, item) in items.as_array().into_iter().flatten().enumerate() {
            let position = Position { item: position.item.or(Some(index)) };
            self.take(item, list_defaults, depth + 1, position);
        }
    }

    fn take_object(&mut self, kind: &SnapshotKind, value: &Value) {
        let text = |field| value.pointer(field).and_then(Value::as_str).unwrap_or("");
        let namespace = match text("/metadata/namespace") {
            _ if !kind.namespaced => "",
            "" => "default",
            namespace => namespace,
        };
        let key = (kind.name, Text::from(namespace), Text::from(text("/metadata/name")));
        let earlier = self.indexes.get(&key).copied();
        match (kind.take)(self, value, earlier) {
            PutOutcome::At(_) if earlier.is_some() => {
                let (kind, namespace, name) = key;
                let separator = if namespace.is_empty() { "" } else { "/" };
                self.add_problem(Problem {
                    severity: Severity::Warning,
                    object: format!("{kind} {namespace}{separator}{name}"),
                    path: String::new(),
                    message: "found more than once; the last occurrence counts".into(),
                });
            }
            PutOutcome::At(index) => {
                self.indexes.insert(key, index);
            }
            PutOutcome::Finished => self.ignore(format!("{} (finished)", kind.name)),
            PutOutcome::Unusable => {}
        }
    }

    /// Stores a lowered object, replacing an earlier object of the same name.
    fn put<T>(
        &mut self,
        (object, problems): Lowered<T>,
        earlier: Option<usize>,
        list: fn(&mut Objects) -> &mut Vec<T>,
    ) -> PutOutcome {
        let has_problems = !problems.is_empty();
        for problem in problems {
            self.add_problem(problem);
        }
        let list = list(&mut self.snapshot.objects);
        match (object, earlier) {
            (Some(object), Some(index)) => {
                list[index] = object;
                PutOutcome::At(index)
            }
            (Some(object), None) => {
                list.push(object);
                PutOutcome::At(list.len() - 1)
            }
            (None, _) if has_problems => PutOutcome::Unusable,
            (None, _) => PutOutcome::Finished,
        }
    }

    fn ignore(&mut self, kind: String) {
        *self.snapshot.ignored.entry(kind).or_default() += 1;
    }

    fn problem(&mut self, position: Position, path: impl Into<String>, message: impl Into<String>) {
        let document = self.document;
        let object = match position.item {
            Some(item) => format!("document {document}, item {}", item + 1),
            None => format!("document {document}"),
        };
        self.add_problem(Problem {
            severity: Severity::Error,
            object,
            path: path.into(),
            message: message.into(),
        });
    }

    fn add_problem(&mut self, problem: Problem) {
        if self.snapshot.problems.len() < SNAPSHOT_PROBLEMS_MAX {
            self.snapshot.problems.push(problem);
        } else {
            self.omitted += 1;
        }
    }

    fn finish(mut self) -> Snapshot {
        self.make_uids_unique();
        if self.omitted > 0 {
            self.snapshot.problems.push(Problem {
                severity: Severity::Error,
                object: "snapshot".into(),
                path: String::new(),
                message: format!("{} more problems omitted", self.omitted),
            });
        }
        self.snapshot
    }

    /// Replaces duplicate uids. Scheduling identifies pods by uid, so a uid that was copied along
    /// with a manifest must be replaced.
    fn make_uids_unique(&mut self) {
        let mut uids = BTreeSet::new();
        let mut copied = Vec::new();
        for pod in &mut self.snapshot.objects.pods {
            if uids.insert(pod.uid.clone()) {
                continue;
            }
            let made = Uid::from(format!("uid-{}-{}", pod.namespace, pod.name));
            copied.push(Problem {
                severity: Severity::Warning,
                object: format!("Pod {}/{}", pod.namespace, pod.name),
                path: "metadata.uid".into(),
                message: format!("found {:?}, which another pod has: {made:?} is used", pod.uid),
            });
            uids.insert(made.clone());
            pod.uid = made;
        }
        for problem in copied {
            self.add_problem(problem);
        }
    }
}

fn type_name(value: &Value) -> impl fmt::Display {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
