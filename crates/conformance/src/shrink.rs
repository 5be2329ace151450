//! Reduces a case while it still shows its difference.

use serde_json::Value;

/// Fields that are never removed, since most objects are invalid without them.
const FIELDS_REQUIRED: [&str; 34] = [
    "apiVersion",
    "kind",
    "metadata",
    "name",
    "namespace",
    "uid",
    "spec",
    "status",
    "containers",
    "image",
    "nodeName",
    "phase",
    "startTime",
    "id",
    "objects",
    "pod",
    "config",
    "key",
    "operator",
    "values",
    "topologyKey",
    "maxSkew",
    "whenUnsatisfiable",
    "weight",
    "effect",
    "containerPort",
    "protocol",
    "claimName",
    "provisioner",
    "driver",
    "volumeHandle",
    "type",
    "volumeBindingMode",
    "schedulerName",
];

/// Returns the smallest case found for which `shows` returns `true`, after at most `budget` calls of it.
pub(crate) fn shrink<E>(
    case: &Value,
    budget: usize,
    mut shows: impl FnMut(&Value) -> Result<bool, E>,
) -> Result<Value, E> {
    let mut work = Shrinker { best: case.clone(), budget, shows: &mut shows };
    loop {
        let before = work.best.clone();
        work.drop_objects()?;
        if !work.best["config"].is_null() {
            work.attempt(|case| case["config"] = Value::Null)?;
        }
        work.reduce(&["config".to_owned()])?;
        work.reduce(&["pod".to_owned()])?;
        for index in 0..work.best["objects"].as_array().map_or(0, Vec::len) {
            work.reduce(&["objects".to_owned(), index.to_string()])?;
        }
        if work.best == before || work.budget == 0 {
            return Ok(work.best);
        }
    }
}

/// Like [`shrink`], but only removes objects.
pub(crate) fn drop_objects<E>(
    case: &Value,
    budget: usize,
    mut shows: impl FnMut(&Value) -> Result<bool, E>,
) -> Result<Value, E> {
    let mut work = Shrinker { best: case.clone(), budget, shows: &mut shows };
    work.drop_objects()?;
    Ok(work.best)
}

struct Shrinker<'a, F> {
    best: Value,
    budget: usize,
    shows: &'a mut F,
}

impl<E, F: FnMut(&Value) -> Result<bool, E>> Shrinker<'_, F> {
    /// Applies a change and keeps it if the case still shows the difference. Returns `true` if it was kept.
    fn attempt(&mut self, change: impl FnOnce(&mut Value)) -> Result<bool, E> {
        if self.budget == 0 {
            return Ok(false);
        }
        let mut candidate = self.best.clone();
        change(&mut candidate);
        self.budget -= 1;
        let shows = (self.shows)(&candidate)?;
        if shows {
            self.best = candidate;
        }
        Ok(shows)
    }

    /// Removes runs of objects, halving their length until single objects are tried.
    fn drop_objects(&mut self) -> Result<(), E> {
        let mut size = self.best["objects"].as_array().map_or(0, Vec::len);
        while size > 0 {
            let mut start = 0;
            while start < self.best["objects"].as_array().map_or(0, Vec::len) {
                let dropped = self.attempt(|case| {
                    if let Some(objects) = case["objects"].as_array_mut() {
                        objects.drain(start..(start + size).min(objects.len()));
                    }
                })?;
                if !dropped {
                    start += size;
                }
            }
            size /= 2;
        }
        Ok(())
    }

    /// Removes children of the value at `path`, and reduces those that cannot be removed.
    fn reduce(&mut self, path: &[String]) -> Result<(), E> {
        let Some(value) = value_at(&mut self.best, path) else { return Ok(()) };
        let keys: Vec<String> = match value {
            Value::Object(map) => map.keys().cloned().collect(),
            Value::Array(list) => (0..list.len()).rev().map(|index| index.to_string()).collect(),
            _ => return Ok(()),
        };
        let is_list = value.is_array();
        for key in keys {
            let containers = path.last().is_some_and(|name| name == "containers");
            let alone = value_at(&mut self.best, path)
                .and_then(|value| value.as_array())
                .is_some_and(|list| list.len() == 1);
            let removable = if is_list {
                !(containers && alone)
            } else {
                !FIELDS_REQUIRED.contains(&key.as_str())
            };
            if removable && self.attempt(|case| remove(case, path, &key))? {
                continue;
            }
            let child: Vec<String> = path.iter().cloned().chain([key]).collect();
            self.reduce(&child)?;
        }
        Ok(())
    }
}

fn value_at<'a>(value: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, key| match value {
        Value::Object(map) => map.get_mut(key),
        Value::Array(list) => key.parse::<usize>().ok().and_then(|index| list.get_mut(index)),
        _ => None,
    })
}

fn remove(case: &mut Value, path: &[String], key: &str) {
    match value_at(case, path) {
        Some(Value::Object(map)) => {
            map.remove(key);
        }
        Some(Value::Array(list)) => {
            if let Ok(index) = key.parse::<usize>()
                && index < list.len()
            {
                list.remove(index);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_the_difference_needs_is_left() {
        let objects: Vec<Value> = (0..20).map(|index| json!({"kind": "Node", "metadata": {"name": format!("n{index}"), "labels": {"a": "b"}}})).collect();
        let case = json!({"id": "x", "config": {"profiles": [1]}, "objects": objects, "pod": {"metadata": {"labels": {"x": "1", "y": "2"}}, "spec": {"containers": [{}, {}]}}});
        let small = shrink(&case, 1000, |case| {
            let named = case["objects"].as_array().is_some_and(|objects| {
                objects.iter().any(|object| object["metadata"]["name"] == "n7")
            });
            Ok::<_, Infallible>(named && case["pod"]["metadata"]["labels"]["y"] == "2")
        });
        let Ok(small) = small;
        let want = json!({"id": "x", "config": null, "objects": [{"kind": "Node", "metadata": {"name": "n7"}}], "pod": {"metadata": {"labels": {"y": "2"}}, "spec": {"containers": [{}]}}});
        assert_eq!(small, want);
    }

    #[test]
    fn no_more_cases_are_tried_than_the_budget_allows() {
        let case =
            json!({"objects": [1, 2, 3, 4], "pod": {"spec": {"a": 1, "b": 2}}, "config": null});
        let mut tried = 0;
        let Ok(small) = shrink(&case, 3, |_| {
            tried += 1;
            Ok::<_, Infallible>(false)
        });
        assert_eq!((tried, small), (3, case));
    }

    #[test]
    fn fields_without_which_objects_are_invalid_stay() {
        let container = json!({"name": "app", "image": "i"});
        let case = json!({"objects": [], "config": null, "pod": {"kind": "Pod", "spec": {"containers": [container]}}});
        let Ok(small) = shrink(&case, 1000, |_| Ok::<_, Infallible>(true));
        assert_eq!(small, case);
    }
}
