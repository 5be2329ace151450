//! JSON patch, RFC 6902.

use serde_json::Value;

use crate::json::depth;
use crate::limits::DEPTH_MAX;

/// Maximum number of operations in a patch, as upstream.
const OPERATIONS_MAX: usize = 10_000;

/// Maximum number of bytes that all `copy` operations of a patch may add, as upstream: each can double
/// the object.
const COPIED_BYTES_MAX: usize = 3 << 20;

/// Maximum number of list items that all insertions and removals of a patch may shift. It bounds the time
/// of patches that change the start of a long list repeatedly.
const SHIFTED_MAX: usize = 1 << 26;

/// Work done so far, compared with the limits.
#[derive(Default)]
struct Work {
    copied: usize,
    shifted: usize,
}

impl Work {
    fn copy(&mut self, value: &Value) -> Result<(), String> {
        self.copied += size_of_json(value);
        if self.copied > COPIED_BYTES_MAX {
            return Err(format!(
                "copy operations add {} bytes; at most {COPIED_BYTES_MAX} are allowed",
                self.copied
            ));
        }
        Ok(())
    }

    fn shift(&mut self, members: usize) -> Result<(), String> {
        self.shifted += members;
        if self.shifted > SHIFTED_MAX {
            return Err(format!(
                "the operations shift more than {SHIFTED_MAX} list items; replace the lists as a whole"
            ));
        }
        Ok(())
    }
}

/// Returns the length of a value as JSON, in bytes.
fn size_of_json(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // The writer never fails.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// Applies a patch. After an error, the value may be partly changed.
pub(super) fn patch(value: &mut Value, patch: &Value) -> Result<(), String> {
    let operations = patch.as_array().ok_or("a JSON patch is a list of operations")?;
    if operations.len() > OPERATIONS_MAX {
        return Err(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.len()
        ));
    }
    let mut work = Work::default();
    operations.iter().try_for_each(|operation| apply(value, operation, &mut work))
}

fn apply(value: &mut Value, operation: &Value, work: &mut Work) -> Result<(), String> {
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
        "add" => add(value, path, given()?, work),
        "remove" => remove(value, path, work).map(drop),
        "replace" => {
            let new = given()?;
            check_depth(path, &new)?;
            let slot = find_mut(value, path)?;
            *slot = new;
            Ok(())
        }
        "move" => {
            let moved = remove(value, source()?, work)?;
            add(value, path, moved, work)
        }
        "copy" => {
            let copied = value.pointer(source()?).ok_or_else(|| missing(path))?;
            work.copy(copied)?;
            let copied = copied.clone();
            add(value, path, copied, work)
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

/// Splits a path into its parent and its last segment.
fn split(path: &str) -> Result<(&str, String), String> {
    let (parent, last) =
        path.rsplit_once('/').ok_or_else(|| format!("{path:?} must begin with a slash"))?;
    Ok((parent, last.replace("~1", "/").replace("~0", "~")))
}

/// Rejects a value that would exceed [`DEPTH_MAX`] at its position. Checked for each operation, so that
/// recursive functions cannot overflow the stack.
fn check_depth(path: &str, new: &Value) -> Result<(), String> {
    let depth = path.matches('/').count() + depth(new);
    if depth > DEPTH_MAX {
        return Err(format!("{path}: nested {depth} deep; at most {DEPTH_MAX} are allowed"));
    }
    Ok(())
}

fn add(value: &mut Value, path: &str, new: Value, work: &mut Work) -> Result<(), String> {
    check_depth(path, &new)?;
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
            let index = if last == "-" { items.len() } else { list_index(&last)? };
            if index > items.len() {
                return Err(format!("index out of bounds: {path}"));
            }
            work.shift(items.len() - index)?;
            items.insert(index, new);
            Ok(())
        }
        _ => Err(missing(path)),
    }
}

fn remove(value: &mut Value, path: &str, work: &mut Work) -> Result<Value, String> {
    let (parent, last) = split(path)?;
    let removed = match find_mut(value, parent)? {
        Value::Object(members) => members.remove(&last),
        Value::Array(items) => {
            let index = list_index(&last)?;
            work.shift(items.len().saturating_sub(index))?;
            (index < items.len()).then(|| items.remove(index))
        }
        _ => None,
    };
    removed.ok_or_else(|| format!("unable to remove nonexistent key: {last}: missing value"))
}

fn list_index(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text:?} is not a list index"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_change_the_value_as_rfc_6902_defines() {
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

    #[test]
    fn copies_are_limited_to_the_size_of_a_request() {
        let mut value = json!({"a": "x".repeat(1000)});
        // 1002 bytes, doubled by each operation.
        let doublings: Vec<Value> =
            (0..40).map(|n| json!({"op": "copy", "from": "", "path": format!("/{n}")})).collect();
        let error = patch(&mut value, &doublings.into()).unwrap_err();
        assert!(error.contains("at most 3145728 are allowed"), "{error}");
        assert!(size_of_json(&value) < 2 * COPIED_BYTES_MAX);
        let mut value = json!({"a": "x".repeat(1 << 20), "b": {}});
        let two = json!([{"op": "copy", "from": "/a", "path": "/b/c"}, {"op": "copy", "from": "/a", "path": "/b/d"}]);
        patch(&mut value, &two).unwrap();
    }

    #[test]
    fn patches_cannot_exceed_the_nesting_depth() {
        let mut value = json!({"x": {}});
        let nest = json!({"op": "copy", "from": "/x", "path": "/x/a"});
        let error = patch(&mut value, &vec![nest; 10_000].into()).unwrap_err();
        assert!(error.contains("at most 120 are allowed"), "{error}");
        assert!(depth(&value) <= DEPTH_MAX);
        let mut value = json!({"x": {"a": {}}, "y": 1});
        let mut deep = json!(1);
        for _ in 0..DEPTH_MAX - 2 {
            deep = json!({"a": deep});
        }
        for (op, path) in [("add", "/x/a/b"), ("replace", "/x/a")] {
            let operations = json!([{"op": op, "path": path, "value": deep}]);
            assert!(patch(&mut value, &operations).unwrap_err().contains("nested"), "{op}");
        }
    }

    #[test]
    fn shifts_of_long_lists_are_limited() {
        let mut value = json!({"list": vec![0; 100_000]});
        let first = json!({"op": "add", "path": "/list/0", "value": 1});
        let error = patch(&mut value, &vec![first; 10_000].into()).unwrap_err();
        assert!(error.contains("replace the lists as a whole"), "{error}");
        let last = json!({"op": "add", "path": "/list/-", "value": 1});
        patch(&mut value, &vec![last; 10_000].into()).unwrap();
    }
}
