//! Sets of fields, in the form of `FieldsV1`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::json::members;
use crate::kinds::Kind;
use crate::patch::lists::{self, Merging};

/// Fields that nobody manages.
const NOBODYS: &[&str] = &["apiVersion", "kind"];
const NOBODYS_METADATA: &[&str] = &[
    "name",
    "namespace",
    "generateName",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];

/// A set of fields as a tree. Steps are those of `FieldsV1`: `f:name`, `k:{keys}`, `v:value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    /// Whether the place itself is a member.
    here: bool,
    inner: BTreeMap<String, Fields>,
}

/// The kinds of steps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// A member of an object.
    Field,
    /// A member of a set.
    Value,
    /// A member of a list that has keys.
    Key,
    /// None of those, such as a place in a list: nothing is there.
    Other,
}

/// The kind of a step, and what follows it.
fn parts(step: &str) -> (Step, &str) {
    [("f:", Step::Field), ("v:", Step::Value), ("k:", Step::Key)]
        .into_iter()
        .find_map(|(head, kind)| Some((kind, step.strip_prefix(head)?)))
        .unwrap_or((Step::Other, step))
}

/// Whether a value is `FieldsV1`: objects all the way down, and steps that can be read.
pub(super) fn is_readable(value: &Value) -> bool {
    value.as_object().is_some_and(|members| {
        members.iter().all(|(step, inner)| {
            let good = match parts(step) {
                (Step::Field, _) => true,
                (Step::Value, value) => serde_json::from_str::<Value>(value).is_ok(),
                (Step::Key, keys) => serde_json::from_str::<Map<String, Value>>(keys).is_ok(),
                (Step::Other, ".") => true,
                (Step::Other, step) => {
                    step.strip_prefix("i:").is_some_and(|place| place.parse::<u64>().is_ok())
                }
            };
            good && is_readable(inner)
        })
    })
}

/// A path of steps.
pub(super) type Steps = Vec<String>;

impl Fields {
    /// The fields of an object that somebody can manage.
    pub(super) fn of(kind: &Kind, object: &Value) -> Self {
        let mut fields = Self::default();
        for (name, member) in object.as_object().into_iter().flatten() {
            if NOBODYS.contains(&&**name) {
                continue;
            }
            let mut path = vec![name.clone()];
            let mut inner = tree(kind, member, &mut path);
            if name == "metadata" {
                for gone in NOBODYS_METADATA {
                    inner.inner.remove(&format!("f:{gone}"));
                }
                if inner.inner.is_empty() {
                    continue;
                }
            }
            fields.inner.insert(format!("f:{name}"), inner);
        }
        fields
    }

    pub(super) fn remove(&mut self, step: &str) {
        self.inner.remove(step);
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.here && self.inner.is_empty()
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        sum.here |= other.here;
        for (step, inner) in &other.inner {
            let own = sum.inner.entry(step.clone()).or_default();
            *own = own.plus(inner);
        }
        sum
    }

    pub(super) fn minus(&self, other: &Self) -> Self {
        self.keep(&mut |path| !other.contains(path), &mut Vec::new())
    }

    pub(super) fn common(&self, other: &Self) -> Self {
        self.keep(&mut |path| other.contains(path), &mut Vec::new())
    }

    /// The members for which something holds.
    pub(super) fn leaves_where(&self, holds: &mut dyn FnMut(&[String]) -> bool) -> Self {
        self.keep(holds, &mut Vec::new())
    }

    fn keep(&self, holds: &mut dyn FnMut(&[String]) -> bool, path: &mut Steps) -> Self {
        let mut kept = Self { here: self.here && holds(path), inner: BTreeMap::new() };
        for (step, inner) in &self.inner {
            path.push(step.clone());
            let inner = inner.keep(holds, path);
            path.pop();
            if !inner.is_empty() {
                kept.inner.insert(step.clone(), inner);
            }
        }
        kept
    }

    fn contains(&self, path: &[String]) -> bool {
        match path.split_first() {
            None => self.here,
            Some((step, rest)) => self.inner.get(step).is_some_and(|inner| inner.contains(rest)),
        }
    }

    /// All members.
    pub(super) fn paths(&self) -> Vec<Steps> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, path: &mut Steps, paths: &mut Vec<Steps>) {
        if self.here {
            paths.push(path.clone());
        }
        for (step, inner) in &self.inner {
            path.push(step.clone());
            inner.collect(path, paths);
            path.pop();
        }
    }

    /// Reads `FieldsV1`.
    pub(super) fn read(value: &Value) -> Self {
        let mut fields = Self::default();
        let Some(members) = value.as_object() else { return fields };
        fields.here = members.is_empty() || members.contains_key(".");
        for (step, inner) in members.iter().filter(|(step, _)| *step != ".") {
            fields.inner.insert(step.clone(), Self::read(inner));
        }
        fields
    }

    /// Writes `FieldsV1`.
    pub(super) fn write(&self) -> Value {
        let mut value = Map::new();
        if self.here && !self.inner.is_empty() {
            value.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (step, inner) in &self.inner {
            value.insert(step.clone(), inner.write());
        }
        Value::Object(value)
    }
}

fn tree(kind: &Kind, value: &Value, path: &mut Vec<String>) -> Fields {
    let leaf = || Fields { here: true, inner: BTreeMap::new() };
    match value {
        Value::Object(members) if !members.is_empty() && !lists::atomic_map(kind, path) => {
            let mut fields = Fields::default();
            for (name, member) in members {
                path.push(name.clone());
                fields.inner.insert(format!("f:{name}"), tree(kind, member, path));
                path.pop();
            }
            fields
        }
        Value::Array(items) if !items.is_empty() => match lists::apply(kind, path) {
            Merging::Atomic => leaf(),
            Merging::Set => {
                let mut fields = Fields::default();
                for item in items {
                    fields.inner.insert(format!("v:{item}"), leaf());
                }
                fields
            }
            Merging::Keyed(keys) => {
                let mut fields = Fields::default();
                for item in items {
                    let mut inner = tree(kind, item, path);
                    inner.here = true;
                    fields.inner.insert(format!("k:{}", key(item, &keys)), inner);
                }
                fields
            }
        },
        _ => leaf(),
    }
}

/// The keys of a member of a list, as text.
pub(super) fn key(item: &Value, keys: &[String]) -> String {
    let mut members = Map::new();
    for key in keys {
        let value = match item.get(key) {
            Some(value) => value.clone(),
            None if key == "protocol" => "TCP".into(),
            None => continue,
        };
        members.insert(key.clone(), value);
    }
    Value::Object(members).to_string()
}

fn matches(item: &Value, keys: &Value) -> bool {
    keys.as_object().into_iter().flatten().all(|(name, value)| match item.get(name) {
        Some(own) => own == value,
        None => name == "protocol" && value == "TCP",
    })
}

/// The value at a path. What is only a place (a member of a list as such) counts as present.
pub(super) fn get<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    static PRESENT: Value = Value::Bool(true);
    let mut at = value;
    let mut last_is_item = false;
    for step in path {
        let (kind, name) = parts(step);
        last_is_item = kind == Step::Key;
        at = match kind {
            Step::Field => at.get(name)?,
            Step::Value => {
                let wanted: Value = serde_json::from_str(name).ok()?;
                at.as_array()?.iter().find(|item| **item == wanted)?
            }
            Step::Key => {
                let keys: Value = serde_json::from_str(name).ok()?;
                at.as_array()?.iter().find(|item| matches(item, &keys))?
            }
            Step::Other => return None,
        };
    }
    Some(if last_is_item { &PRESENT } else { at })
}

/// Takes away what is at a path.
pub(super) fn delete(value: &mut Value, path: &[String]) {
    let Some((step, rest)) = path.split_first() else { return };
    let (kind, name) = parts(step);
    let keys: Value = match kind {
        Step::Value | Step::Key => serde_json::from_str(name).unwrap_or_default(),
        Step::Field | Step::Other => Value::Null,
    };
    match (value, kind) {
        (value @ Value::Object(_), Step::Field) => {
            let object = members(value);
            if rest.is_empty() {
                object.remove(name);
            } else if let Some(inner) = object.get_mut(name) {
                delete(inner, rest);
                if inner.as_object().is_some_and(Map::is_empty)
                    || inner.as_array().is_some_and(Vec::is_empty)
                {
                    object.remove(name);
                }
            }
        }
        (Value::Array(items), Step::Value | Step::Key) => {
            let found = items.iter().position(|item| {
                if kind == Step::Value { *item == keys } else { matches(item, &keys) }
            });
            match found {
                Some(place) if rest.is_empty() => drop(items.remove(place)),
                Some(place) => delete(&mut items[place], rest),
                None => {}
            }
        }
        _ => {}
    }
}

/// A path for people.
pub(super) fn shown(path: &[String]) -> String {
    let mut text = String::new();
    for step in path {
        let (kind, name) = parts(step);
        match kind {
            Step::Field => {
                text.push('.');
                text.push_str(name);
            }
            Step::Key => {
                let keys: Value = serde_json::from_str(name).unwrap_or_default();
                let parts: Vec<String> = keys
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                let _ = write!(text, "[{}]", parts.join(","));
            }
            Step::Value | Step::Other => drop(write!(text, "[={name}]")),
        }
    }
    text
}
