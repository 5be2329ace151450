//! Reading of a whole cluster from text: any mix of Kubernetes objects and lists, in YAML or JSON.
//!
//! Objects are lowered one at a time while the text is parsed, so a large list is never held in
//! memory in another form.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use engine::change::Change;
use engine::object::{AnnotationKeys, ClusterObject, Node, Pod, Text, Uid};
use serde_json::Value;

use crate::kinds::{KINDS, Kind};
use crate::lower::limits::{LIST_DEPTH_MAX, SNAPSHOT_PROBLEMS_MAX};
use crate::lower::{LoweringCache, Problem, Severity, Source};

mod changes;
mod document;
mod text;

/// The objects of a snapshot, in the order in which they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// Nodes; their order breaks ties.
    pub nodes: Vec<Arc<Node>>,
    /// Pods that have not finished.
    pub pods: Vec<Pod>,
    /// Objects of all other kinds.
    pub others: Vec<ClusterObject>,
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
    read_with(text, Arc::default())
}

/// Reads YAML or JSON as [`read`], with the annotations of these keys.
pub fn read_with(text: &str, keys: Arc<AnnotationKeys>) -> Snapshot {
    let mut reader = SnapshotReader::new(keys);
    text::read(text, &mut reader);
    reader.finish()
}

/// Reads objects and lists that are already parsed.
pub fn from_values(values: impl IntoIterator<Item = Value>) -> Snapshot {
    from_values_with(values, Arc::default())
}

/// Reads objects as [`from_values`], with the annotations of these keys.
pub fn from_values_with(
    values: impl IntoIterator<Item = Value>,
    keys: Arc<AnnotationKeys>,
) -> Snapshot {
    let mut reader = SnapshotReader::new(keys);
    for value in values {
        reader.document += 1;
        reader.take(&value, &ListDefaults::default(), 0, Position::default());
    }
    reader.finish()
}

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
    cache: LoweringCache,
    /// Number of the current document, from one.
    document: usize,
    /// Index of each object in its list, by kind, namespace and name.
    indexes: BTreeMap<(&'static str, Text, Text), usize>,
    /// Number of problems beyond `SNAPSHOT_PROBLEMS_MAX`.
    omitted: usize,
}

impl SnapshotReader {
    fn new(keys: Arc<AnnotationKeys>) -> Self {
        Self { cache: LoweringCache::new(keys), ..Self::default() }
    }

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
            KINDS.iter().find(|k| k.name == kind && group.is_none_or(|group| group == k.group()));
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

    fn take_object(&mut self, kind: &Kind, value: &Value) {
        let text = |field| value.pointer(field).and_then(Value::as_str).unwrap_or("");
        let namespace = match text("/metadata/namespace") {
            _ if !kind.namespaced => "",
            "" => "default",
            namespace => namespace,
        };
        let key = (kind.name, Text::from(namespace), Text::from(text("/metadata/name")));
        let (change, problems) = (kind.lower)(Source::Json(value), &mut self.cache);
        let has_problems = !problems.is_empty();
        for problem in problems {
            self.add_problem(problem);
        }
        let Some(change) = change else {
            if !has_problems {
                self.ignore(format!("{} (finished)", kind.name));
            }
            return;
        };
        let earlier = self.indexes.get(&key).copied();
        let objects = &mut self.snapshot.objects;
        let index = match change {
            Change::Node(node) => put(&mut objects.nodes, earlier, node),
            Change::Pod(pod) => put(&mut objects.pods, earlier, *pod),
            Change::Object(object) => put(&mut objects.others, earlier, object),
            _ => unreachable!("an object is lowered to a change of an object"),
        };
        if earlier.is_none() {
            self.indexes.insert(key, index);
            return;
        }
        let (kind, namespace, name) = key;
        let separator = if namespace.is_empty() { "" } else { "/" };
        self.add_problem(Problem {
            severity: Severity::Warning,
            object: format!("{kind} {namespace}{separator}{name}"),
            path: String::new(),
            message: "found more than once; the last occurrence counts".into(),
        });
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

/// Adds an object to a list or replaces an earlier one of the same name. Returns its index.
fn put<T>(list: &mut Vec<T>, earlier: Option<usize>, object: T) -> usize {
    if let Some(index) = earlier {
        list[index] = object;
        return index;
    }
    list.push(object);
    list.len() - 1
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
