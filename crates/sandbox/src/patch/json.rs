//! JSON patches, RFC 6902.

use serde_json::Value;

/// Operations in one patch, as upstream has it.
const OPERATIONS_MAX: usize = 10_000;

/// Applies a patch. What is wrong with it, if anything; the value is then half changed.
pub(super) fn patch(value: &mut Value, patch: &Value) -> Result<(), String> {
    let operations = patch.as_array().ok_or("a JSON patch is a list of operations")?;
    if operations.len() > OPERATIONS_MAX {
        return Err(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.len()
        ));
    }
    operations.iter().try_for_each(|operation| apply(value, operation))
}

fn apply(value: &mut Value, operation: &Value) -> Result<(), String> {
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let path = text("path").ok_or("an operation without a path")?;
    let given = || {
        operation
            .get("value")
            .cloned()
            .ok_or_else(|| format!("an operation on {path:?} without a value"))
    };
    let source = || text("from").ok_or_else(|| format!("an operation on {path:?} without `from`"));
    match text("op").unwrap_or_default() {
        "add" => add(value, path, given()?),
        "remove" => remove(value, path).map(drop),
        "replace" => {
            let slot = find_mut(value, path)?;
            *slot = given()?;
            Ok(())
        }
        "move" => {
            let moved = remove(value, source()?)?;
            add(value, path, moved)
        }
        "copy" => {
            let copied = value.pointer(source()?).cloned().ok_or_else(|| missing(path))?;
            add(value, path, copied)
        }
        "test" => match value.pointer(path) {
            found if found.unwrap_or(&Value::Null) == &given()? => Ok(()),
            _ => Err(format!("testing value {path} failed")),
        },
        other => Err(format!("unexpected kind of operation: {other:?}")),
    }
}

fn missing(path: &str) -> String {
    format!("doc is missing path: {path}")
}

fn find_mut<'a>(value: &'a mut Value, path: &str) -> Result<&'a mut Value, String> {
    value.pointer_mut(path).ok_or_else(|| missing(path))
}

/// The parent of a path and its last step.
fn split(path: &str) -> Result<(&str, String), String> {
    let (parent, last) =
        path.rsplit_once('/').ok_or_else(|| format!("{path:?} must begin with a slash"))?;
    Ok((parent, last.replace("~1", "/").replace("~0", "~")))
}

fn add(value: &mut Value, path: &str, new: Value) -> Result<(), String> {
    if path.is_empty() {
        *value = new;
        return Ok(());
    }
    let (parent, last) = split(path)?;
    match find_mut(value, parent)? {
        Value::Object(members) => {
            members.insert(last, new);
            Ok(())
        }
        Value::Array(items) => {
            let place = if last == "-" { items.len() } else { place(&last)? };
            if place > items.len() {
                return Err(format!("index out of bounds: {path}"));
            }
            items.insert(place, new);
            Ok(())
        }
        _ => Err(missing(path)),
    }
}

fn remove(value: &mut Value, path: &str) -> Result<Value, String> {
    let (parent, last) = split(path)?;
    let removed = match find_mut(value, parent)? {
        Value::Object(members) => members.remove(&last),
        Value::Array(items) => {
            let place = place(&last)?;
            (place < items.len()).then(|| items.remove(place))
        }
        _ => None,
    };
    removed.ok_or_else(|| format!("unable to remove nonexistent key: {last}: missing value"))
}

fn place(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text:?} is no place in a list"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_do_what_they_say() {
        for (operations, after) in [
            (
                json!([{"op": "add", "path": "/b", "value": 2}]),
                Some(json!({"a": [1, 2], "x/y": 1, "b": 2})),
            ),
            (
                json!([{"op": "add", "path": "/a/1", "value": 9}]),
                Some(json!({"a": [1, 9, 2], "x/y": 1})),
            ),
            (
                json!([{"op": "add", "path": "/a/-", "value": 9}]),
                Some(json!({"a": [1, 2, 9], "x/y": 1})),
            ),
            (json!([{"op": "remove", "path": "/x~1y"}]), Some(json!({"a": [1, 2]}))),
            (
                json!([{"op": "replace", "path": "/a/0", "value": 5}]),
                Some(json!({"a": [5, 2], "x/y": 1})),
            ),
            (
                json!([{"op": "move", "from": "/a/0", "path": "/c"}]),
                Some(json!({"a": [2], "x/y": 1, "c": 1})),
            ),
            (
                json!([{"op": "copy", "from": "/a", "path": "/c"}]),
                Some(json!({"a": [1, 2], "x/y": 1, "c": [1, 2]})),
            ),
            (
                json!([{"op": "test", "path": "/a/0", "value": 1}]),
                Some(json!({"a": [1, 2], "x/y": 1})),
            ),
            (json!([{"op": "test", "path": "/a/0", "value": 2}]), None),
            (json!([{"op": "remove", "path": "/none"}]), None),
            (json!([{"op": "add", "path": "/a/7", "value": 1}]), None),
            (json!([{"op": "nonsense", "path": "/a"}]), None),
            (json!([{"op": "add", "path": "a", "value": 1}]), None),
            (json!({}), None),
        ] {
            let mut value = json!({"a": [1, 2], "x/y": 1});
            let done = patch(&mut value, &operations);
            assert_eq!(done.is_ok().then_some(value), after, "{operations}");
        }
    }
}
