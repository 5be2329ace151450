//! Matching of nodes by a pod's node selector, node affinity and tolerations.

use serde_json::Value;

use crate::json::{at, list, map, name, text};

/// Returns `true` if a node matches a pod's `nodeSelector` and its required node affinity.
pub(super) fn matches(pod: &Value, node: &Value) -> bool {
    let term = |term: &Value| {
        let (fields, labels) = (list(term, &["matchFields"]), list(term, &["matchExpressions"]));
        // An empty term matches no node.
        !(fields.is_empty() && labels.is_empty())
            && fields.iter().all(|one| field_holds(one, node))
            && labels.iter().all(|one| label_holds(one, node))
    };
    selected(pod, node) && terms(pod).is_none_or(|terms| terms.iter().any(term))
}

/// Returns the same as [`matches()`] but ignores `matchFields`, which daemon sets use to name the node of
/// each pod.
pub(super) fn labels_match(pod: &Value, node: &Value) -> bool {
    let term =
        |term: &Value| list(term, &["matchExpressions"]).iter().all(|one| label_holds(one, node));
    selected(pod, node) && terms(pod).is_none_or(|terms| terms.is_empty() || terms.iter().any(term))
}

/// Returns `true` if a pod tolerates all taints of a node that have one of the given effects.
pub(super) fn tolerates_all(pod: &Value, node: &Value, effects: &[&str]) -> bool {
    list(node, &["spec", "taints"])
        .iter()
        .filter(|taint| effects.contains(&text(taint, &["effect"])))
        .all(|taint| tolerations(pod, taint).next().is_some())
}

/// Returns the tolerations of a pod that tolerate a taint.
pub(super) fn tolerations<'a>(pod: &'a Value, taint: &'a Value) -> impl Iterator<Item = &'a Value> {
    list(pod, &["spec", "tolerations"]).iter().filter(|toleration| {
        let of = |name: &str| text(toleration, &[name]);
        let effect = of("effect").is_empty() || of("effect") == text(taint, &["effect"]);
        let key = of("key").is_empty() || of("key") == text(taint, &["key"]);
        effect && key && (of("operator") == "Exists" || of("value") == text(taint, &["value"]))
    })
}

fn selected(pod: &Value, node: &Value) -> bool {
    let labels = at(node, &["metadata", "labels"]).unwrap_or(&Value::Null);
    map(pod, &["spec", "nodeSelector"]).all(|(key, value)| labels.get(key) == Some(value))
}

fn terms(pod: &Value) -> Option<&Vec<Value>> {
    let path = [
        "spec",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    ];
    at(pod, &path).and_then(Value::as_array)
}

/// Evaluates a field requirement; `metadata.name` is the only field that upstream supports.
fn field_holds(requirement: &Value, node: &Value) -> bool {
    let known = text(requirement, &["key"]) == "metadata.name";
    let listed = list(requirement, &["values"]).iter().any(|value| value == name(node));
    match text(requirement, &["operator"]) {
        "In" => known && listed,
        "NotIn" => known && !listed,
        _ => false,
    }
}

fn label_holds(requirement: &Value, node: &Value) -> bool {
    let labels = at(node, &["metadata", "labels"]).unwrap_or(&Value::Null);
    let value = labels.get(text(requirement, &["key"]));
    let listed = value.is_some_and(|value| list(requirement, &["values"]).contains(value));
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<i64>().ok());
    let bound = list(requirement, &["values"]).first().and_then(number);
    match text(requirement, &["operator"]) {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => value.and_then(number).zip(bound).is_some_and(|(value, bound)| value > bound),
        "Lt" => value.and_then(number).zip(bound).is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node() -> Value {
        json!({"metadata": {"name": "a", "labels": {"zone": "z", "size": "8"}}})
    }

    fn asks(terms: &Value) -> Value {
        json!({"spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}})
    }

    #[test]
    fn a_term_matches_when_all_its_requirements_hold_and_one_term_is_enough() {
        let label = |operator: &str, values: Value| json!({"key": "size", "operator": operator, "values": values});
        let field = |operator: &str, name: &str| json!({"key": "metadata.name", "operator": operator, "values": [name]});
        for (terms, matched) in [
            (json!([]), false),
            (json!([{}]), false),
            (json!([{"matchExpressions": [label("Gt", json!(["7"]))]}]), true),
            (json!([{"matchExpressions": [label("Lt", json!(["8"]))]}]), false),
            (
                json!([{"matchExpressions": [label("NotIn", json!(["8"]))]}, {"matchFields": [field("In", "a")]}]),
                true,
            ),
            (
                json!([{"matchExpressions": [label("Exists", json!([]))], "matchFields": [field("NotIn", "a")]}]),
                false,
            ),
        ] {
            assert_eq!(matches(&asks(&terms), &node()), matched, "{terms}");
        }
        assert!(matches(&json!({"spec": {"nodeSelector": {"zone": "z"}}}), &node()));
        assert!(!matches(&json!({"spec": {"nodeSelector": {"zone": "y"}}}), &node()));
        assert!(labels_match(&asks(&json!([{"matchFields": [field("In", "b")]}])), &node()));
    }
}
