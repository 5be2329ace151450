//! Strategic merge patch.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::lists::{Strategic, strategic};
use crate::json::members;
use crate::kinds::Kind;

const ORDER: &str = "$setElementOrder/";
const DELETE_VALUES: &str = "$deleteFromPrimitiveList/";
const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";

/// Applies a patch. After an error, the value may be partly changed.
pub(super) fn patch(kind: &Kind, value: &mut Value, patch: &Value) -> Result<(), String> {
    let changes = patch.as_object().ok_or("a strategic merge patch is an object")?;
    merge(kind, value, changes, &mut Vec::new())
}

fn merge(
    kind: &Kind,
    value: &mut Value,
    changes: &Map<String, Value>,
    path: &mut Vec<String>,
) -> Result<(), String> {
    match changes.get(DIRECTIVE).and_then(Value::as_str) {
        Some("replace") => {
            *value = Value::Object(
                changes
                    .iter()
                    .filter(|(name, _)| *name != DIRECTIVE)
                    .map(|(n, v)| (n.clone(), v.clone()))
                    .collect(),
            );
            return Ok(());
        }
        Some("delete") => {
            *value = Value::Object(Map::new());
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => return Err(format!("unknown patch type: {other}")),
    }
    let target = members(value);
    if let Some(kept) = changes.get(RETAIN).and_then(Value::as_array) {
        let kept: HashSet<&str> = kept.iter().filter_map(Value::as_str).collect();
        target.retain(|name, _| kept.contains(&**name));
    }
    for (name, gone) in changes {
        if let Some(list) = name.strip_prefix(DELETE_VALUES)
            && let (Some(Value::Array(items)), Some(gone)) = (target.get_mut(list), gone.as_array())
        {
            let gone: HashSet<&Value> = gone.iter().collect();
            items.retain(|item| !gone.contains(item));
        }
    }
    for (name, change) in changes {
        if name.starts_with('$') {
            continue;
        }
        path.push(name.clone());
        let done = member(kind, target, name, change, path);
        path.pop();
        done?;
    }
    for (name, order) in changes {
        if let Some(list) = name.strip_prefix(ORDER)
            && let (Some(Value::Array(items)), Some(order)) =
                (target.get_mut(list), order.as_array())
        {
            path.push(list.to_owned());
            let key =
                if let Strategic::Keyed(key) = strategic(kind, path) { Some(key) } else { None };
            reorder(items, order, key);
            path.pop();
        }
    }
    Ok(())
}

fn member(
    kind: &Kind,
    target: &mut Map<String, Value>,
    name: &str,
    change: &Value,
    path: &mut Vec<String>,
) -> Result<(), String> {
    match change {
        Value::Null => drop(target.remove(name)),
        Value::Object(changes) => {
            if changes.get(DIRECTIVE).and_then(Value::as_str) == Some("delete") {
                target.remove(name);
                return Ok(());
            }
            let slot = target.entry(name.to_owned()).or_insert(Value::Null);
            merge(kind, slot, changes, path)?;
        }
        Value::Array(changes) => {
            let merging = strategic(kind, path);
            if merging == Strategic::Replaced {
                target.insert(name.to_owned(), without_directives(changes).into());
                return Ok(());
            }
            let slot = target.entry(name.to_owned()).or_insert_with(|| Value::Array(Vec::new()));
            if !slot.is_array() {
                *slot = Value::Array(Vec::new());
            }
            let Value::Array(items) = slot else { return Ok(()) };
            match merging {
                Strategic::Keyed(key) => items_by_key(kind, items, changes, key, path)?,
                _ => add_values(items, changes),
            }
        }
        other => drop(target.insert(name.to_owned(), other.clone())),
    }
    Ok(())
}

fn without_directives(changes: &[Value]) -> Vec<Value> {
    changes.iter().filter(|item| item.get(DIRECTIVE).is_none()).cloned().collect()
}

fn add_values(items: &mut Vec<Value>, changes: &[Value]) {
    let mut present: HashSet<Value> = items.iter().cloned().collect();
    for change in changes {
        if present.insert(change.clone()) {
            items.push(change.clone());
        }
    }
}

fn items_by_key(
    kind: &Kind,
    items: &mut Vec<Value>,
    changes: &[Value],
    key: &str,
    path: &mut Vec<String>,
) -> Result<(), String> {
    if changes.iter().any(|item| item.get(DIRECTIVE).and_then(Value::as_str) == Some("replace")) {
        *items = without_directives(changes);
        return Ok(());
    }
    // Position of the first item with each key. Deleted items keep their positions until the end.
    let mut positions: HashMap<Value, usize> = HashMap::new();
    for (index, item) in items.iter().enumerate() {
        if let Some(own) = item.get(key) {
            positions.entry(own.clone()).or_insert(index);
        }
    }
    let mut deleted: HashSet<usize> = HashSet::new();
    for change in changes {
        let changed = change
            .as_object()
            .ok_or_else(|| format!("{}: items must be objects", path.join(".")))?;
        let Some(wanted) = changed.get(key) else {
            return Err(format!("map: {change} does not contain declared merge key: {key}"));
        };
        let found = positions.get(wanted).copied();
        let delete = changed.get(DIRECTIVE).and_then(Value::as_str) == Some("delete");
        match (found, delete) {
            (Some(index), true) => {
                deleted.insert(index);
                positions.remove(wanted);
            }
            (None, true) => {}
            (Some(index), false) => merge(kind, &mut items[index], changed, path)?,
            (None, false) => {
                let mut item = Value::Object(Map::new());
                merge(kind, &mut item, changed, path)?;
                positions.insert(wanted.clone(), items.len());
                items.push(item);
            }
        }
    }
    if !deleted.is_empty() {
        let mut index = 0..;
        items.retain(|_| index.next().is_none_or(|index| !deleted.contains(&index)));
    }
    Ok(())
}

/// Sorts items as `$setElementOrder` requires; others stay behind the item that they followed.
fn reorder(items: &mut [Value], order: &[Value], key: Option<&str>) {
    let own = |item: &Value| key.map_or(Some(item), |key| item.get(key)).cloned();
    let mut positions: HashMap<Value, usize> = HashMap::new();
    for (index, wanted) in order.iter().enumerate() {
        if let Some(wanted) = own(wanted) {
            positions.entry(wanted).or_insert(index);
        }
    }
    let position_of = |item: &Value| own(item).and_then(|own| positions.get(&own).copied());
    let mut last = None;
    let mut keyed: Vec<(Option<usize>, Value)> = items
        .iter()
        .map(|item| {
            last = position_of(item).or(last);
            (last, item.clone())
        })
        .collect();
    keyed.sort_by_key(|(index, _)| *index);
    for (slot, (_, item)) in items.iter_mut().zip(keyed) {
        *slot = item;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::Cluster;

    fn check(before: Value, change: &Value, after: &Value) {
        let cluster = Cluster::new();
        let mut value = before;
        patch(&cluster.resource("", "pods").kind, &mut value, change).unwrap();
        assert_eq!(value, *after, "{change}");
    }

    #[test]
    fn lists_are_merged_by_key() {
        let pod = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}});
        check(
            pod.clone(),
            &json!({"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "c"}]}}),
            &json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c"}]}}),
        );
        check(
            pod.clone(),
            &json!({"spec": {"containers": [{"$patch": "delete", "name": "a"}]}}),
            &json!({"spec": {"containers": [{"name": "b", "image": "1"}]}}),
        );
        check(
            pod.clone(),
            &json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}}),
            &json!({"spec": {"containers": [{"name": "z"}]}}),
        );
        check(
            pod,
            &json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}),
            &json!({"spec": {"containers": [{"name": "b", "image": "1"}, {"name": "a", "image": "1"}]}}),
        );
    }

    #[test]
    fn other_lists_are_replaced() {
        check(
            json!({"spec": {"tolerations": [{"key": "a"}]}, "metadata": {"finalizers": ["x/y"]}}),
            &json!({"spec": {"tolerations": [{"key": "b"}]}, "metadata": {"finalizers": ["x/z"]}}),
            &json!({"spec": {"tolerations": [{"key": "b"}]}, "metadata": {"finalizers": ["x/y", "x/z"]}}),
        );
        check(
            json!({"metadata": {"finalizers": ["x/y", "x/z"], "labels": {"a": "1", "b": "2"}}}),
            &json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/y"], "labels": {"a": null}}}),
            &json!({"metadata": {"finalizers": ["x/z"], "labels": {"b": "2"}}}),
        );
    }

    #[test]
    fn keys_can_be_retained() {
        check(
            json!({"spec": {"volumes": [{"name": "a", "emptyDir": {}}]}}),
            &json!({"spec": {"volumes": [{"name": "a", "hostPath": {"path": "/"}, "$retainKeys": ["name", "hostPath"]}]}}),
            &json!({"spec": {"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}}),
        );
    }

    #[test]
    fn long_lists_are_merged_in_one_pass() {
        let count = 200_000;
        let names = |from: usize| -> Vec<Value> {
            (from..from + count).map(|n| json!(format!("example.com/{n}"))).collect()
        };
        let before = json!({"metadata": {"finalizers": names(0)}});
        let change = json!({"metadata": {"finalizers": names(count / 2), "$setElementOrder/finalizers": names(count / 2),
            "$deleteFromPrimitiveList/finalizers": names(0)}});
        check(before, &change, &json!({"metadata": {"finalizers": names(count / 2)}}));
        let containers = |image: &str| -> Vec<Value> {
            (0..count).map(|n| json!({"name": format!("c{n}"), "image": image})).collect()
        };
        let gone: Vec<Value> =
            (0..count).map(|n| json!({"name": format!("c{n}"), "$patch": "delete"})).collect();
        let before = json!({"spec": {"containers": containers("a")}});
        check(
            before.clone(),
            &json!({"spec": {"containers": containers("b")}}),
            &json!({"spec": {"containers": containers("b")}}),
        );
        check(before, &json!({"spec": {"containers": gone}}), &json!({"spec": {"containers": []}}));
    }
}
