//! Access to members of JSON objects.

use serde_json::{Map, Value};

use crate::quantity::Quantity;

/// Returns the value at a path.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

/// Returns the text at a path, or an empty one.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the integer at a path.
pub(crate) fn int(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path).and_then(Value::as_i64)
}

/// Parses the quantity at a path.
pub(crate) fn quantity(value: &Value, path: &[&str]) -> Option<Quantity> {
    at(value, path).and_then(Value::as_str).and_then(Quantity::parse)
}

/// Returns `true` if the value at a path is `true`.
pub(crate) fn truth(value: &Value, path: &[&str]) -> bool {
    at(value, path).and_then(Value::as_bool).unwrap_or(false)
}

/// Returns the items of the list at a path.
pub(crate) fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the members of the object at a path.
pub(crate) fn map<'a>(
    value: &'a Value,
    path: &[&str],
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    at(value, path).and_then(Value::as_object).into_iter().flatten()
}

/// Returns the object under a name; any other value is replaced by an empty object.
pub(crate) fn object<'a>(value: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    let slot = members(value).entry(name).or_insert(Value::Null);
    members(slot)
}

/// Returns the members of an object; any other value is replaced by an empty object.
pub(crate) fn members(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(members) => members,
        _ => unreachable!("replaced by an object above"),
    }
}

/// Returns the value at a path, creating objects on the way.
pub(crate) fn slot<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Value {
    path.iter().fold(value, |value, name| members(value).entry(*name).or_insert(Value::Null))
}

/// Sets a member if it is absent or null.
pub(crate) fn default(value: &mut Value, name: &str, with: impl Into<Value>) {
    let slot = members(value).entry(name).or_insert(Value::Null);
    if slot.is_null() {
        *slot = with.into();
    }
}

/// Sets a member if it is absent, null or empty.
pub(crate) fn default_text(value: &mut Value, name: &str, with: &str) {
    let slot = members(value).entry(name).or_insert(Value::Null);
    if slot.is_null() || slot.as_str() == Some("") {
        *slot = with.into();
    }
}

/// Removes a text from the list at a path, such as a finalizer.
pub(crate) fn remove_text(value: &mut Value, path: &[&str], text: &str) {
    let items: Vec<Value> =
        list(value, path).iter().filter(|item| *item != text).cloned().collect();
    *slot(value, path) = items.into();
}

/// Returns the nesting depth of a value; that of a scalar is 1.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 1,
    }
}

/// Returns the condition of a type.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, &["status", "conditions"]).iter().find(|one| text(one, &["type"]) == kind)
}

/// Returns `true` if the status of a condition is `True`.
pub(crate) fn holds(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| text(condition, &["status"]) == "True")
}

/// Returns the name of an object.
pub(crate) fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

/// Returns the namespace of an object.
pub(crate) fn namespace(object: &Value) -> &str {
    text(object, &["metadata", "namespace"])
}

/// Returns the uid of an object.
pub(crate) fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"])
}
