//! Stored objects: encoded JSON, and the values that selectors and indexes need.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::collection::ChangeKind;
use crate::selector::Attributes;

/// A field that field selectors support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectableField {
    /// Name in selectors, such as `spec.nodeName`.
    pub name: &'static str,
    /// Value of objects without the field.
    pub default: &'static str,
}

/// An owner reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Uid of the owner.
    pub uid: Box<str>,
    /// `true` if the owner is the controller of the object.
    pub controller: bool,
    /// `true` if the foreground deletion of the owner waits for the object (`blockOwnerDeletion`).
    pub blocks_deletion: bool,
    /// `apiVersion` of the owner.
    pub api_version: Box<str>,
    /// Kind of the owner.
    pub kind: Box<str>,
    /// Name of the owner.
    pub name: Box<str>,
}

/// An immutable version of an object.
#[derive(Debug)]
pub struct Object {
    /// Key in the collection.
    pub key: Arc<str>,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// Uid.
    pub uid: Box<str>,
    /// Version, its resourceVersion.
    pub version: u64,
    /// `true` if it has a deletion timestamp.
    pub deleting: bool,
    /// `true` if its condition `Ready` is `True`.
    pub ready: bool,
    /// Owner references.
    pub owners: Box<[Owner]>,
    /// The object as JSON.
    pub json: Bytes,
    /// Approximate memory in bytes.
    pub bytes: usize,
    /// Encoded watch event of this version; `json` is a slice of it.
    line: Bytes,
    /// Type of that event.
    kind: ChangeKind,
    labels: Box<[(Box<str>, Box<str>)]>,
    fields: Fields,
}

/// Values of the selectable fields.
#[derive(Clone, Debug)]
struct Fields {
    paths: &'static [SelectableField],
    values: Box<[Box<str>]>,
}

/// An encoded object that has no version yet.
#[derive(Debug)]
pub struct Draft {
    object: Object,
    /// The JSON up to the version.
    head: Vec<u8>,
}

/// Returns the key of an object in its collection.
pub fn key_of(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

impl Object {
    /// Parses the object.
    pub fn value(&self) -> Value {
        // The JSON was encoded by this module.
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// Returns the watch event of this version. It is copied unless `kind` is not the type of the change.
    pub fn line(&self, kind: ChangeKind) -> Bytes {
        if kind == self.kind { self.line.clone() } else { frame(kind.name(), &self.json) }
    }

    /// Returns its labels.
    pub fn labels(&self) -> &impl Attributes {
        &self.labels
    }

    /// Returns the value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.value_of(key)
    }

    /// Returns its selectable fields.
    pub fn fields(&self) -> &impl Attributes {
        &self.fields
    }

    /// Returns the value of a selectable field, by position.
    pub fn field(&self, index: usize) -> &str {
        self.fields.values.get(index).map_or("", |value| value)
    }

    /// Returns the value of a selectable field, by name.
    pub fn field_named(&self, name: &str) -> &str {
        self.fields.value_of(name).unwrap_or_default()
    }

    /// Returns its controller.
    pub fn controller(&self) -> Option<&Owner> {
        self.owners.iter().find(|owner| owner.controller)
    }
}

impl Attributes for Box<[(Box<str>, Box<str>)]> {
    fn value_of(&self, key: &str) -> Option<&str> {
        self.iter().find(|(name, _)| &**name == key).map(|(_, value)| &**value)
    }
}

impl Attributes for Fields {
    fn value_of(&self, key: &str) -> Option<&str> {
        let index = self.paths.iter().position(|path| path.name == key)?;
        self.values.get(index).map(|value| &**value)
    }
}

impl Draft {
    /// Encodes an object. Its resourceVersion is replaced.
    pub fn new(value: &Value, paths: &'static [SelectableField]) -> Self {
        let empty = Map::new();
        let metadata = value.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
        let labels = metadata.get("labels").and_then(Value::as_object).into_iter().flatten();
        let labels =
            labels.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())));
        let owners = metadata.get("ownerReferences").and_then(Value::as_array);
        let owners = owners.into_iter().flatten().map(|owner| {
            let text =
                |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default().into();
            let truth = |name: &str| owner.get(name).and_then(Value::as_bool).unwrap_or(false);
            Owner {
                uid: text("uid"),
                controller: truth("controller"),
                blocks_deletion: truth("blockOwnerDeletion"),
                api_version: text("apiVersion"),
                kind: text("kind"),
                name: text("name"),
            }
        });
        let values = paths.iter().map(|path| field_of(value, path).into()).collect();
        let head = head_of(value, metadata);
        let object = Object {
            key: key_of(text("namespace"), text("name")).into(),
            namespace: text("namespace").into(),
            name: text("name").into(),
            uid: text("uid").into(),
            version: 0,
            deleting: metadata.contains_key("deletionTimestamp"),
            ready: crate::json::holds(value, "Ready"),
            owners: owners.collect(),
            json: Bytes::new(),
            bytes: 0,
            line: Bytes::new(),
            kind: ChangeKind::Added,
            labels: labels.collect(),
            fields: Fields { paths, values },
        };
        Self { object, head }
    }

    /// Returns the key under which it will be stored.
    pub fn key(&self) -> &Arc<str> {
        &self.object.key
    }

    /// Returns the object with a version, created by a change of this type.
    pub fn seal(self, version: u64, kind: ChangeKind) -> Object {
        let Self { mut object, head } = self;
        let version_text = version.to_string();
        let before = LINE_HEAD.len() + kind.name().len() + LINE_MIDDLE.len();
        let json_len = head.len() + version_text.len() + TAIL.len();
        let mut line = Vec::with_capacity(before + json_len + LINE_TAIL.len());
        for part in [
            LINE_HEAD,
            kind.name().as_bytes(),
            LINE_MIDDLE,
            &head,
            version_text.as_bytes(),
            TAIL,
            LINE_TAIL,
        ] {
            line.extend_from_slice(part);
        }
        object.line = line.into();
        object.json = object.line.slice(before..before + json_len);
        object.version = version;
        object.kind = kind;
        object.bytes = bytes_of(&object);
        object
    }
}

/// Parts of a watch event around type and object.
const LINE_HEAD: &[u8] = b"{\"type\":\"";
const LINE_MIDDLE: &[u8] = b"\",\"object\":";
const LINE_TAIL: &[u8] = b"}\n";

/// End of the JSON of an object, after the version.
const TAIL: &[u8] = b"\"}}";

/// Encodes a watch event.
pub(crate) fn frame(kind: &str, json: &[u8]) -> Bytes {
    [LINE_HEAD, kind.as_bytes(), LINE_MIDDLE, json, LINE_TAIL].concat().into()
}

/// Approximate overhead of an allocation, in bytes.
const ALLOCATION_BYTES: usize = 16;

/// Returns the approximate memory of an object, in bytes.
fn bytes_of(object: &Object) -> usize {
    let text = |text: &str| text.len() + ALLOCATION_BYTES;
    let owner = |owner: &Owner| {
        size_of::<Owner>()
            + [&owner.uid, &owner.api_version, &owner.kind, &owner.name]
                .map(|one| text(one))
                .iter()
                .sum::<usize>()
    };
    let label = |(key, value): &(Box<str>, Box<str>)| 32 + text(key) + text(value);
    size_of::<Object>()
        + 4 * ALLOCATION_BYTES
        + object.line.len()
        + text(&object.key)
        + text(&object.namespace)
        + text(&object.name)
        + text(&object.uid)
        + object.owners.iter().map(owner).sum::<usize>()
        + object.labels.iter().map(label).sum::<usize>()
        + object.fields.values.iter().map(|value| 16 + text(value)).sum::<usize>()
}

fn field_of(value: &Value, path: &SelectableField) -> String {
    let mut at = value;
    for part in path.name.split('.') {
        match at.get(part) {
            Some(next) => at = next,
            None => return path.default.to_owned(),
        }
    }
    match at {
        Value::String(text) if text.is_empty() => path.default.to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => number.to_string(),
        _ => path.default.to_owned(),
    }
}

/// Encodes an object up to its version, which comes last, so that the encoding needs neither a lock nor the
/// version.
fn head_of(value: &Value, metadata: &Map<String, Value>) -> Vec<u8> {
    let mut head = Vec::with_capacity(2048);
    head.push(b'{');
    let members = value.as_object().into_iter().flatten();
    for (name, member) in members.filter(|(name, _)| *name != "metadata") {
        write_member(&mut head, name, member);
        head.push(b',');
    }
    head.extend_from_slice(b"\"metadata\":{");
    for (name, member) in metadata.iter().filter(|(name, _)| *name != "resourceVersion") {
        write_member(&mut head, name, member);
        head.push(b',');
    }
    head.extend_from_slice(b"\"resourceVersion\":\"");
    head
}

fn write_member(text: &mut Vec<u8>, name: &str, value: &Value) {
    // Writing to a vector cannot fail.
    let _ = serde_json::to_writer(&mut *text, name);
    text.push(b':');
    let _ = serde_json::to_writer(text, value);
}
