//! An object as it is kept: its text, and what selectors and indexes ask of it.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::selector::Attributes;

/// A field that selectors may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldPath {
    /// Its name in selectors, such as `spec.nodeName`.
    pub name: &'static str,
    /// What it counts as when it is absent.
    pub default: &'static str,
}

/// Somebody whose end is the end of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its uid.
    pub uid: Box<str>,
    /// Whether it manages the object.
    pub controller: bool,
    /// Its `apiVersion`.
    pub api_version: Box<str>,
    /// Its kind.
    pub kind: Box<str>,
    /// Its name.
    pub name: Box<str>,
}

/// One version of an object. It never changes.
#[derive(Debug)]
pub struct Object {
    /// Its key in the collection.
    pub key: Arc<str>,
    /// Its namespace, empty for what has none.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its uid.
    pub uid: Box<str>,
    /// The version.
    pub version: u64,
    /// Whether somebody asked for its end.
    pub deleting: bool,
    /// Whether its condition `Ready` holds.
    pub ready: bool,
    /// Who owns it.
    pub owners: Box<[Owner]>,
    /// The whole object as JSON.
    pub json: Bytes,
    labels: Box<[(Box<str>, Box<str>)]>,
    fields: Fields,
}

/// The values of selectable fields.
#[derive(Clone, Debug)]
struct Fields {
    paths: &'static [FieldPath],
    values: Box<[Box<str>]>,
}

/// An object that is about to be stored and lacks its version.
#[derive(Debug)]
pub struct Draft {
    object: Object,
    /// The text before and after the version.
    head: Vec<u8>,
    tail: Vec<u8>,
}

/// The key of an object in its collection.
pub fn key_of(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

impl Object {
    /// The whole object, parsed.
    pub fn value(&self) -> Value {
        // The text was written by us; nothing else can be in it.
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// Its labels.
    pub fn labels(&self) -> &impl Attributes {
        &self.labels
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.value_of(key)
    }

    /// Its selectable fields.
    pub fn fields(&self) -> &impl Attributes {
        &self.fields
    }

    /// The value of a selectable field, by its place among them.
    pub fn field(&self, place: usize) -> &str {
        self.fields.values.get(place).map_or("", |value| value)
    }

    /// The value of a selectable field, by its name.
    pub fn field_named(&self, name: &str) -> &str {
        self.fields.value_of(name).unwrap_or_default()
    }

    /// The owner that manages it.
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
        let place = self.paths.iter().position(|path| path.name == key)?;
        self.values.get(place).map(|value| &**value)
    }
}

impl Draft {
    /// Takes an object in. What it says about its version is replaced.
    pub fn new(value: &Value, paths: &'static [FieldPath]) -> Self {
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
            Owner {
                uid: text("uid"),
                controller: owner.get("controller").and_then(Value::as_bool).unwrap_or(false),
                api_version: text("apiVersion"),
                kind: text("kind"),
                name: text("name"),
            }
        });
        let values = paths.iter().map(|path| field_of(value, path).into()).collect();
        let (head, tail) = halves(value, metadata);
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
            labels: labels.collect(),
            fields: Fields { paths, values },
        };
        Self { object, head, tail }
    }

    /// The key under which it will be stored.
    pub fn key(&self) -> &Arc<str> {
        &self.object.key
    }

    /// The object as of a version.
    pub fn seal(self, version: u64) -> Object {
        let Self { mut object, mut head, tail } = self;
        head.reserve_exact(tail.len() + 20);
        head.extend_from_slice(version.to_string().as_bytes());
        head.extend_from_slice(&tail);
        object.json = head.into();
        object.version = version;
        object
    }
}

fn field_of(value: &Value, path: &FieldPath) -> String {
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

/// The text of an object in two pieces, between which its version goes. So the text is made before
/// anybody holds a lock and before the version is known.
fn halves(value: &Value, metadata: &Map<String, Value>) -> (Vec<u8>, Vec<u8>) {
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
    (head, b"\"}}".to_vec())
}

fn write_member(text: &mut Vec<u8>, name: &str, value: &Value) {
    // Writing JSON into memory cannot fail.
    let _ = serde_json::to_writer(&mut *text, name);
    text.push(b':');
    let _ = serde_json::to_writer(text, value);
}
