//! Short ways to look into objects.

use serde_json::{Map, Value};

/// The value at a path of names.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

/// The text at a path; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// The number at a path.
pub(crate) fn int(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path).and_then(Value::as_i64)
}

/// Whether there is `true` at a path.
pub(crate) fn truth(value: &Value, path: &[&str]) -> bool {
    at(value, path).and_then(Value::as_bool).unwrap_or(false)
}

/// The members of the list at a path.
pub(crate) fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The members of the map at a path.
pub(crate) fn map<'a>(
    value: &'a Value,
    path: &[&str],
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    at(value, path).and_then(Value::as_object).into_iter().flatten()
}

/// The object under a name, made if it is absent or no object.
pub(crate) fn object<'a>(value: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    let slot = members(value).entry(name).or_insert(Value::Null);
    members(slot)
}

/// The members of an object, which it is turned into if it is none.
pub(crate) fn members(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(members) => members,
        _ => unreachable!("it was made an object above"),
    }
}

/// The value at a path of names, made on the way.
pub(crate) fn slot<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Value {
    path.iter().fold(value, |value, name| members(value).entry(*name).or_insert(Value::Null))
}

/// Sets what is absent.
pub(crate) fn default(value: &mut Value, name: &str, with: impl Into<Value>) {
    let slot = members(value).entry(name).or_insert(Value::Null);
    if slot.is_null() {
        *slot = with.into();
    }
}

/// Sets what is absent or empty.
pub(crate) fn default_text(value: &mut Value, name: &str, with: &str) {
    let slot = members(value).entry(name).or_insert(Value::Null);
    if slot.is_null() || slot.as_str() == Some("") {
        *slot = with.into();
    }
}

/// A condition of a status, by its type.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, &["status", "conditions"]).iter().find(|one| text(one, &["type"]) == kind)
}

/// Whether a condition is true.
pub(crate) fn holds(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| text(condition, &["status"]) == "True")
}

/// The name of an object.
pub(crate) fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

/// The namespace of an object.
pub(crate) fn namespace(object: &Value) -> &str {
    text(object, &["metadata", "namespace"])
}

/// The uid of an object.
pub(crate) fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"])
}
