//! Measures what the cases test: removes a field from a case wherever it occurs and counts how often upstream's answer
//! changes.
//!
//! That is how often a run would detect a scheduler that ignores the field. Of a list one element is removed.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use serde_json::Value;

use crate::compare::compare;
use crate::generate::Case;
use crate::oracle::Oracle;
use crate::rng::Rng;

/// Number of fields removed, one at a time, from each case.
const FIELDS_PER_CASE: usize = 8;

/// Parts of the names of fields that are not removed: the scheduler does not read them, or cannot do without them.
const FIELDS_SKIPPED: [&str; 17] = [
    "apiVersion",
    "kind",
    "metadata.name",
    "metadata.uid",
    ".capacity.",
    "status.capacity",
    "conditions[]",
    "limits",
    "containerPort",
    "exitCodes",
    "restartPolicy",
    "volumeClaimTemplate",
    "runtimeClassName",
    "GracePeriod",
    "nodeID",
    "topologyKeys",
    "Expressions[]",
];

/// Writes to `out` how often each field was removed and how often that changed the answer, the fewest changes first.
pub(crate) fn measure(
    oracle: &mut Oracle,
    seed: u64,
    cases: impl Iterator<Item = Case>,
    out: &mut impl Write,
) -> Result<()> {
    let mut rng = Rng::new(seed, u64::MAX);
    let mut counts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    // The unchanged case comes first, followed by its variants.
    let variants = cases.flat_map(|case| {
        let mut fields: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
        collect(&case.value, &mut Vec::new(), "", &mut fields);
        let names: Vec<String> = fields.keys().cloned().collect();
        let mut variants = vec![Case { value: case.value.clone(), topics: Vec::new() }];
        for name in rng.some(&names, FIELDS_PER_CASE) {
            let mut value = case.value.clone();
            if name.ends_with(']') {
                remove(&mut value, &rng.pick(&fields[&name]));
            } else {
                fields[&name].iter().for_each(|path| remove(&mut value, path));
            }
            variants.push(Case { value, topics: vec![name] });
        }
        variants
    });
    let mut original = Value::Null;
    oracle.stream(variants, |case, answer| {
        if let Some(name) = case.topics.first() {
            let count = counts.entry(name.clone()).or_default();
            count.0 += 1;
            count.1 += u64::from(!compare(&original, &answer).is_empty());
        } else {
            original = answer;
        }
        Ok(())
    })?;
    let mut rows: Vec<(&String, &(u64, u64))> = counts.iter().collect();
    rows.sort_by_key(|(_, (_, changed))| *changed);
    writeln!(out, "{:>8}{:>9}  field", "changed", "removed")?;
    for (name, (removed, changed)) in rows {
        writeln!(out, "{changed:>8}{removed:>9}  {name}")?;
    }
    Ok(())
}

/// Collects the paths of all fields by a name without list positions, label keys and the like.
fn collect(
    value: &Value,
    path: &mut Vec<String>,
    name: &str,
    found: &mut BTreeMap<String, Vec<Vec<String>>>,
) {
    let children: Vec<(String, &Value, String)> = match value {
        Value::Object(map) => {
            map.iter().map(|(key, child)| (key.clone(), child, field_name(name, key))).collect()
        }
        Value::Array(list) => list
            .iter()
            .enumerate()
            .map(|(index, child)| (index.to_string(), child, element_name(name, child)))
            .collect(),
        _ => return,
    };
    for (key, child, name) in children {
        path.push(key);
        if path.len() > 1 && !FIELDS_SKIPPED.iter().any(|part| name.contains(part)) {
            found.entry(name.clone()).or_default().push(path.clone());
        }
        collect(child, path, &name, found);
        path.pop();
    }
}

/// Returns the name of a field; keys that users choose become `*`.
fn field_name(parent: &str, key: &str) -> String {
    let maps =
        ["labels", "matchLabels", "annotations", "nodeSelector", "disruptedPods", "selector"];
    let chosen = maps.iter().any(|map| parent.ends_with(map))
        && !["matchLabels", "matchExpressions"].contains(&key);
    format!("{parent}.{}", if chosen { "*" } else { key })
}

/// Returns the name of a list element; objects are named by their kind, arguments by their plugin.
fn element_name(parent: &str, child: &Value) -> String {
    let known = |key: &str| child[key].as_str().unwrap_or_default().to_owned();
    match parent {
        ".objects" => known("kind"),
        _ if parent.ends_with("pluginConfig") => format!("{parent}[{}]", known("name")),
        _ => format!("{parent}[]"),
    }
}

fn remove(value: &mut Value, path: &[String]) {
    let Some((last, parents)) = path.split_last() else { return };
    let parent = parents.iter().try_fold(value, |value, key| match value {
        Value::Object(map) => map.get_mut(key),
        Value::Array(list) => key.parse::<usize>().ok().and_then(|index| list.get_mut(index)),
        _ => None,
    });
    match (parent, last.parse::<usize>()) {
        (Some(Value::Object(map)), _) => {
            map.remove(last);
        }
        (Some(Value::Array(list)), Ok(index)) if index < list.len() => {
            list.remove(index);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_fields_have_no_list_positions_and_no_keys_that_users_choose() {
        let case = json!({
            "objects": [{"kind": "Node", "metadata": {"labels": {"disk": "ssd", "rack": "a"}}}],
            "pod": {"spec": {"tolerations": [{"key": "k"}, {"key": "l"}]}},
        });
        let mut found = BTreeMap::new();
        collect(&case, &mut Vec::new(), "", &mut found);
        assert_eq!(found["Node.metadata.labels.*"].len(), 2);
        assert_eq!(found[".pod.spec.tolerations[].key"].len(), 2);
        assert_eq!(found[".pod.spec.tolerations[]"][1], ["pod", "spec", "tolerations", "1"]);
    }

    #[test]
    fn a_removed_list_element_leaves_the_others() {
        let mut value = json!({"list": [1, 2, 3], "field": 4});
        remove(&mut value, &["list".to_owned(), "1".to_owned()]);
        remove(&mut value, &["field".to_owned()]);
        remove(&mut value, &["absent".to_owned(), "x".to_owned()]);
        assert_eq!(value, json!({"list": [1, 3]}));
    }
}
