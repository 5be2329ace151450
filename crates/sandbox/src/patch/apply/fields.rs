//! Field sets: the fields that a manager owns, as `FieldsV1` writes them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::list_index::ListIndex;
use crate::kinds::Kind;
use crate::patch::lists::{self, ListType};

/// Fields without a manager, as upstream strips them.
const UNMANAGED: &[&str] = &["apiVersion", "kind"];
const UNMANAGED_METADATA: &[&str] = &[
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

/// A set of fields as a tree of path elements: `f:name`, `k:{keys}`, `v:value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    /// Set if the path to this node is itself a member.
    here: bool,
    children: BTreeMap<String, FieldSet>,
}

/// One step of a path of `FieldsV1`, without its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathElement<'a> {
    /// A member of an object.
    Field(&'a str),
    /// An item of a set, as JSON.
    Value(&'a str),
    /// An item of a keyed list: its keys as a JSON object.
    Key(&'a str),
    /// Anything else, such as an index into a list. No value has it.
    Other(&'a str),
}

impl<'a> PathElement<'a> {
    pub(super) fn parse(element: &'a str) -> Self {
        if let Some(name) = element.strip_prefix("f:") {
            Self::Field(name)
        } else if let Some(value) = element.strip_prefix("v:") {
            Self::Value(value)
        } else if let Some(keys) = element.strip_prefix("k:") {
            Self::Key(keys)
        } else {
            Self::Other(element)
        }
    }
}

/// Returns `true` if a value is valid `FieldsV1`: nested objects whose names are path elements.
pub(super) fn is_readable(value: &Value) -> bool {
    value.as_object().is_some_and(|members| {
        members.iter().all(|(element, inner)| {
            let is_valid = match PathElement::parse(element) {
                PathElement::Field(_) | PathElement::Other(".") => true,
                PathElement::Value(value) => serde_json::from_str::<Value>(value).is_ok(),
                PathElement::Key(keys) => serde_json::from_str::<Map<String, Value>>(keys).is_ok(),
                PathElement::Other(element) => {
                    element.strip_prefix("i:").is_some_and(|index| index.parse::<u64>().is_ok())
                }
            };
            is_valid && is_readable(inner)
        })
    })
}

/// A path of path elements.
pub(super) type ElementPath = Vec<String>;

impl FieldSet {
    /// Returns the fields of an object that can have a manager.
    pub(super) fn of(kind: &Kind, object: &Value) -> Self {
        let mut fields = Self::default();
        for (name, member) in object.as_object().into_iter().flatten() {
            if UNMANAGED.contains(&&**name) {
                continue;
            }
            let mut path = vec![name.clone()];
            let mut inner = tree(kind, member, &mut path);
            if name == "metadata" {
                for unmanaged in UNMANAGED_METADATA {
                    inner.children.remove(&format!("f:{unmanaged}"));
                }
                if inner.children.is_empty() {
                    continue;
                }
            }
            fields.children.insert(format!("f:{name}"), inner);
        }
        fields
    }

    /// Removes a field of the root with everything below it.
    pub(super) fn remove(&mut self, element: &str) {
        self.children.remove(element);
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.here && self.children.is_empty()
    }

    /// Adds the members of another set.
    pub(super) fn add(&mut self, other: &Self) {
        self.here |= other.here;
        for (element, theirs) in &other.children {
            match self.children.get_mut(element) {
                Some(own) => own.add(theirs),
                None => drop(self.children.insert(element.clone(), theirs.clone())),
            }
        }
    }

    /// Removes the members of another set. Takes time proportional to the smaller one at each node, since
    /// there may be many managers and one large set.
    pub(super) fn subtract(&mut self, other: &Self) {
        self.here &= !other.here;
        if other.children.len() < self.children.len() {
            for (element, theirs) in &other.children {
                if let Some(own) = self.children.get_mut(element) {
                    own.subtract(theirs);
                    if own.is_empty() {
                        self.children.remove(element);
                    }
                }
            }
        } else {
            self.children.retain(|element, own| {
                if let Some(theirs) = other.children.get(element) {
                    own.subtract(theirs);
                }
                !own.is_empty()
            });
        }
    }

    /// Returns the members that both sets have.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        if other.children.len() < self.children.len() {
            return other.intersection(self);
        }
        let mut common = Self { here: self.here && other.here, children: BTreeMap::new() };
        for (element, own) in &self.children {
            if let Some(theirs) = other.children.get(element) {
                let inner = own.intersection(theirs);
                if !inner.is_empty() {
                    common.children.insert(element.clone(), inner);
                }
            }
        }
        common
    }

    /// Returns the members whose values differ in two objects. An item of a keyed list differs only if one
    /// object lacks it: its members have paths of their own.
    pub(super) fn differing(&self, left: &Value, right: &Value) -> Self {
        self.differing_below(false, Some(left), Some(right))
    }

    fn differing_below(&self, is_item: bool, left: Option<&Value>, right: Option<&Value>) -> Self {
        let differs = || {
            if is_item { left.is_some() != right.is_some() } else { left != right }
        };
        let mut result = Self { here: self.here && differs(), children: BTreeMap::new() };
        if left.is_none() && right.is_none() {
            return result;
        }
        let (mut left, mut right) = (Children::new(left), Children::new(right));
        for (element, inner) in &self.children {
            let is_item = matches!(PathElement::parse(element), PathElement::Key(_));
            let inner = inner.differing_below(is_item, left.get(element), right.get(element));
            if !inner.is_empty() {
                result.children.insert(element.clone(), inner);
            }
        }
        result
    }

    /// Removes the members from an object, with the maps and lists that become empty by it.
    pub(super) fn remove_from(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (element, inner) in &self.children {
                    let PathElement::Field(name) = PathElement::parse(element) else { continue };
                    let Some(member) = members.get_mut(name) else { continue };
                    if !inner.here {
                        inner.remove_from(member);
                    }
                    if inner.here || is_empty_container(member) {
                        members.remove(name);
                    }
                }
            }
            Value::Array(items) => {
                let mut index = ListIndex::new(items);
                let found: Vec<(usize, &Self)> = self
                    .children
                    .iter()
                    .filter_map(|(element, inner)| Some((index.position(element)?, inner)))
                    .collect();
                let mut is_removed = vec![false; items.len()];
                for (position, inner) in found {
                    if inner.here {
                        is_removed[position] = true;
                    } else {
                        inner.remove_from(&mut items[position]);
                    }
                }
                let mut is_removed = is_removed.into_iter();
                items.retain(|_| !is_removed.next().unwrap_or(false));
            }
            _ => {}
        }
    }

    /// Returns the paths of all members.
    pub(super) fn paths(&self) -> Vec<ElementPath> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, path: &mut ElementPath, paths: &mut Vec<ElementPath>) {
        if self.here {
            paths.push(path.clone());
        }
        for (element, inner) in &self.children {
            path.push(element.clone());
            inner.collect(path, paths);
            path.pop();
        }
    }

    /// Reads `FieldsV1`.
    pub(super) fn read(value: &Value) -> Self {
        let mut fields = Self::default();
        let Some(members) = value.as_object() else { return fields };
        fields.here = members.is_empty() || members.contains_key(".");
        for (element, inner) in members.iter().filter(|(element, _)| *element != ".") {
            fields.children.insert(element.clone(), Self::read(inner));
        }
        fields
    }

    /// Writes `FieldsV1`.
    pub(super) fn write(&self) -> Value {
        let mut value = Map::new();
        if self.here && !self.children.is_empty() {
            value.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (element, inner) in &self.children {
            value.insert(element.clone(), inner.write());
        }
        Value::Object(value)
    }
}

/// The values directly below one value.
struct Children<'a> {
    value: Option<&'a Value>,
    list: ListIndex<'a>,
}

impl<'a> Children<'a> {
    fn new(value: Option<&'a Value>) -> Self {
        let items = value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        Self { value, list: ListIndex::new(items) }
    }

    /// Returns the value that a path element names.
    fn get(&mut self, element: &str) -> Option<&'a Value> {
        match PathElement::parse(element) {
            PathElement::Field(name) => self.value?.get(name),
            _ => self.value?.get(self.list.position(element)?),
        }
    }
}

fn is_empty_container(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn tree(kind: &Kind, value: &Value, path: &mut Vec<String>) -> FieldSet {
    let leaf = || FieldSet { here: true, children: BTreeMap::new() };
    match value {
        Value::Object(members) if !members.is_empty() && !lists::atomic_map(kind, path) => {
            let mut fields = FieldSet::default();
            for (name, member) in members {
                path.push(name.clone());
                fields.children.insert(format!("f:{name}"), tree(kind, member, path));
                path.pop();
            }
            fields
        }
        Value::Array(items) if !items.is_empty() => match lists::apply(kind, path) {
            ListType::Atomic => leaf(),
            ListType::Set => {
                let mut fields = FieldSet::default();
                for item in items {
                    fields.children.insert(format!("v:{item}"), leaf());
                }
                fields
            }
            ListType::Map(keys) => {
                let mut fields = FieldSet::default();
                for item in items {
                    let mut inner = tree(kind, item, path);
                    inner.here = true;
                    fields.children.insert(format!("k:{}", key_text(item, &keys)), inner);
                }
                fields
            }
        },
        _ => leaf(),
    }
}

/// Returns the keys of a list item as the JSON text that follows `k:`. `protocol` defaults to `TCP`, as
/// in upstream's schema of ports.
pub(super) fn key_text(item: &Value, keys: &[String]) -> String {
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

/// Formats a path for error messages: `.spec.containers[name="a"].image`.
pub(super) fn display(path: &[String]) -> String {
    let mut text = String::new();
    for element in path {
        match PathElement::parse(element) {
            PathElement::Field(name) => {
                text.push('.');
                text.push_str(name);
            }
            PathElement::Key(keys) => {
                let keys: Value = serde_json::from_str(keys).unwrap_or_default();
                let pairs: Vec<String> = keys
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                let _ = write!(text, "[{}]", pairs.join(","));
            }
            PathElement::Value(value) | PathElement::Other(value) => {
                let _ = write!(text, "[={value}]");
            }
        }
    }
    text
}
