//! Reading a cluster from text: any mix of Kubernetes objects and lists, as YAML or JSON.
//!
//! Objects are lowered one by one while the text is read, so a large list never exists as a whole in any other form.

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

mod document;
mod text;

/// Objects in the order in which they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// Nodes; their order decides ties.
    pub nodes: Vec<Node>,
    /// Pods that have not finished.
    pub pods: Vec<Pod>,
    /// Namespaces.
    pub namespaces: Vec<Namespace>,
    /// Services, replication controllers, replica sets and stateful sets.
    pub workloads: Vec<Workload>,
    /// Disruption budgets.
    pub disruption_budgets: Vec<DisruptionBudget>,
    /// Persistent volumes.
    pub persistent_volumes: Vec<PersistentVolume>,
    /// Claims on persistent volumes.
    pub persistent_volume_claims: Vec<PersistentVolumeClaim>,
    /// Storage classes.
    pub storage_classes: Vec<StorageClass>,
    /// What drivers say of nodes.
    pub csi_nodes: Vec<CsiNode>,
    /// Drivers.
    pub csi_drivers: Vec<CsiDriver>,
    /// How much drivers can still provision.
    pub csi_storage_capacities: Vec<CsiStorageCapacity>,
    /// Attachments of volumes to nodes.
    pub volume_attachments: Vec<VolumeAttachment>,
    /// Classes of devices.
    pub device_classes: Vec<DeviceClass>,
    /// Claims on devices.
    pub resource_claims: Vec<ResourceClaim>,
}

/// What a text says about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Objects that scheduling reads.
    pub objects: Objects,
    /// Everything that is wrong, in the order of the text.
    pub problems: Vec<Problem>,
    /// How many objects were not read, by kind as `Deployment.apps`; finished pods are `Pod (finished)`.
    pub ignored: BTreeMap<String, usize>,
}

/// Reads YAML or JSON: an object, a list, several YAML documents, an array, or one JSON value after the other.
pub fn read(text: &str) -> Snapshot {
    let mut reader = Reader::default();
    text::read(text, &mut reader);
    reader.finish()
}

/// Takes objects and lists that are parsed already.
pub fn from_values(values: impl IntoIterator<Item = Value>) -> Snapshot {
    let mut reader = Reader::default();
    for value in values {
        reader.document += 1;
        reader.take(&value, &Inherited::default(), 0, Position::default());
    }
    reader.finish()
}

/// A kind that scheduling reads.
struct Kind {
    name: &'static str,
    group: &'static str,
    namespaced: bool,
    take: fn(&mut Reader, &Value, Option<usize>) -> Taken,
}

/// Where an object was put, or why it was not.
enum Taken {
    At(usize),
    Finished,
    Unusable,
}

/// All kinds that scheduling reads, the most frequent first.
const KINDS: &[Kind] = &[
    Kind {
        name: "Pod",
        group: "",
        namespaced: true,
        take: |reader, value, at| reader.put(lower::pod(value), at, |o| &mut o.pods),
    },
    Kind {
        name: "Node",
        group: "",
        namespaced: false,
        take: |reader, value, at| reader.put(lower::node(value), at, |o| &mut o.nodes),
    },
    Kind {
        name: "ReplicaSet",
        group: "apps",
        namespaced: true,
        take: |reader, value, at| reader.put(lower::replica_set(value), at, |o| &mut o.workloads),
    },
    Kind {
        name: "Service",
        group: "",
        namespaced: true,
        take: |reader, value, at| reader.put(lower::service(value), at, |o| &mut o.workloads),
    },
    Kind {
        name: "StatefulSet",
        group: "apps",
        namespaced: true,
        take: |reader, value, at| reader.put(lower::stateful_set(value), at, |o| &mut o.workloads),
    },
    Kind {
        name: "ReplicationController",
        group: "",
        namespaced: true,
        take: |reader, value, at| {
            reader.put(lower::replication_controller(value), at, |o| &mut o.workloads)
        },
    },
    Kind {
        name: "Namespace",
        group: "",
        namespaced: false,
        take: |reader, value, at| reader.put(lower::namespace(value), at, |o| &mut o.namespaces),
    },
    Kind {
        name: "PodDisruptionBudget",
        group: "policy",
        namespaced: true,
        take: |reader, value, at| {
            reader.put(lower::disruption_budget(value), at, |o| &mut o.disruption_budgets)
        },
    },
    Kind {
        name: "PersistentVolumeClaim",
        group: "",
        namespaced: true,
        take: |reader, value, at| {
            let lowered = lower::persistent_volume_claim(value);
            reader.put(lowered, at, |o| &mut o.persistent_volume_claims)
        },
    },
    Kind {
        name: "PersistentVolume",
        group: "",
        namespaced: false,
        take: |reader, value, at| {
            reader.put(lower::persistent_volume(value), at, |o| &mut o.persistent_volumes)
        },
    },
    Kind {
        name: "StorageClass",
        group: "storage.k8s.io",
        namespaced: false,
        take: |reader, value, at| {
            reader.put(lower::storage_class(value), at, |o| &mut o.storage_classes)
        },
    },
    Kind {
        name: "CSINode",
        group: "storage.k8s.io",
        namespaced: false,
        take: |reader, value, at| reader.put(lower::csi_node(value), at, |o| &mut o.csi_nodes),
    },
    Kind {
        name: "CSIDriver",
        group: "storage.k8s.io",
        namespaced: false,
        take: |reader, value, at| reader.put(lower::csi_driver(value), at, |o| &mut o.csi_drivers),
    },
    Kind {
        name: "CSIStorageCapacity",
        group: "storage.k8s.io",
        namespaced: true,
        take: |reader, value, at| {
            reader.put(lower::csi_storage_capacity(value), at, |o| &mut o.csi_storage_capacities)
        },
    },
    Kind {
        name: "VolumeAttachment",
        group: "storage.k8s.io",
        namespaced: false,
        take: |reader, value, at| {
            reader.put(lower::volume_attachment(value), at, |o| &mut o.volume_attachments)
        },
    },
    Kind {
        name: "DeviceClass",
        group: "resource.k8s.io",
        namespaced: false,
        take: |reader, value, at| {
            reader.put(lower::device_class(value), at, |o| &mut o.device_classes)
        },
    },
    Kind {
        name: "ResourceClaim",
        group: "resource.k8s.io",
        namespaced: true,
        take: |reader, value, at| {
            reader.put(lower::resource_claim(value), at, |o| &mut o.resource_claims)
        },
    },
];

/// What items of a list of one kind (`PodList`) leave out, because the list says it.
#[derive(Clone, Default)]
struct Inherited {
    api_version: Option<String>,
    kind: Option<String>,
}

impl Inherited {
    /// From the head of a list: a plain `List` passes nothing on.
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

/// Which object of a document.
#[derive(Clone, Copy, Default)]
struct Position {
    item: Option<usize>,
}

/// Collects objects.
#[derive(Default)]
struct Reader {
    snapshot: Snapshot,
    /// Number of the document, from one.
    document: usize,
    /// Where objects are, by kind, namespace and name.
    places: BTreeMap<(&'static str, Text, Text), usize>,
    /// Problems beyond the limit.
    left_out: usize,
}

impl Reader {
    /// Takes an object or a list of them.
    fn take(&mut self, value: &Value, inherited: &Inherited, depth: usize, position: Position) {
        if !value.is_object() {
            let message = format!("found {}, expected an object", type_name(value));
            return self.problem(position, "", message);
        }
        let text = |field| value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
        let api_version = text("apiVersion").or(inherited.api_version.as_deref());
        let Some(kind) = text("kind").or(inherited.kind.as_deref()) else {
            let message = "found none, expected one such as Pod: is the file cut off?";
            return self.problem(position, "kind", message);
        };
        if kind.ends_with("List")
            && let Some(items) =
                value.get("items").filter(|items| items.is_array() || items.is_null())
        {
            let inherited = Inherited::from_list(api_version, Some(kind));
            return self.take_items(items, &inherited, depth, position);
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
        inherited: &Inherited,
        depth: usize,
        position: Position,
    ) {
        if depth >= LIST_DEPTH_MAX {
            let message = format!("found lists more than {LIST_DEPTH_MAX} deep");
            return self.problem(position, "items", message);
        }
        for (index, item) in items.as_array().into_iter().flatten().enumerate() {
            let position = Position { item: position.item.or(Some(index)) };
            self.take(item, inherited, depth + 1, position);
        }
    }

    fn take_object(&mut self, kind: &Kind, value: &Value) {
        let text = |field| value.pointer(field).and_then(Value::as_str).unwrap_or("");
        let namespace = match text("/metadata/namespace") {
            _ if !kind.namespaced => "",
            "" => "default",
            namespace => namespace,
        };
        let key = (kind.name, Text::from(namespace), Text::from(text("/metadata/name")));
        let earlier = self.places.get(&key).copied();
        match (kind.take)(self, value, earlier) {
            Taken::At(_) if earlier.is_some() => {
                let (kind, namespace, name) = key;
                let separator = if namespace.is_empty() { "" } else { "/" };
                self.add_problem(Problem {
                    severity: Severity::Warning,
                    object: format!("{kind} {namespace}{separator}{name}"),
                    path: String::new(),
                    message: "found it more than once: the last one counts".into(),
                });
            }
            Taken::At(place) => {
                self.places.insert(key, place);
            }
            Taken::Finished => self.ignore(format!("{} (finished)", kind.name)),
            Taken::Unusable => {}
        }
    }

    /// Keeps a lowered object, in the place of an earlier one of the same name.
    fn put<T>(
        &mut self,
        (object, problems): Lowered<T>,
        earlier: Option<usize>,
        list: fn(&mut Objects) -> &mut Vec<T>,
    ) -> Taken {
        let has_problems = !problems.is_empty();
        for problem in problems {
            self.add_problem(problem);
        }
        let list = list(&mut self.snapshot.objects);
        match (object, earlier) {
            (Some(object), Some(place)) => {
                list[place] = object;
                Taken::At(place)
            }
            (Some(object), None) => {
                list.push(object);
                Taken::At(list.len() - 1)
            }
            (None, _) if has_problems => Taken::Unusable,
            (None, _) => Taken::Finished,
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
            self.left_out += 1;
        }
    }

    fn finish(mut self) -> Snapshot {
        self.tell_pods_apart();
        if self.left_out > 0 {
            self.snapshot.problems.push(Problem {
                severity: Severity::Error,
                object: "snapshot".into(),
                path: String::new(),
                message: format!("{} more problems are left out", self.left_out),
            });
        }
        self.snapshot
    }

    /// Scheduling knows pods by uid, so a uid that was copied along with a pod must not stay.
    fn tell_pods_apart(&mut self) {
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
