//! Intended differences from upstream, each explained in `conformance/EXCEPTIONS.md`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::compare::{Aspect, Difference, compare};

/// One listed exception.
pub(crate) struct Exception {
    /// Heading of its section in `conformance/EXCEPTIONS.md`.
    pub(crate) id: &'static str,
    /// Returns `true` if the difference, found in the case, is this one.
    applies: fn(case: &Value, difference: &Difference) -> bool,
}

/// All exceptions.
pub(crate) const EXCEPTIONS: [Exception; 2] = [
    Exception { id: "narrowed-search-order", applies: is_narrowed_tie },
    Exception { id: "args-of-an-unused-plugin", applies: is_about_unused_args },
];

/// Returns the differences between two answers to a case that no exception covers.
pub(crate) fn unlisted_differences(case: &Value, oracle: &Value, ours: &Value) -> Vec<Difference> {
    let mut differences = compare(oracle, ours);
    differences.retain(|difference| find(case, difference).is_none());
    differences
}

/// Returns the id of the exception that covers a difference.
pub(crate) fn find(case: &Value, difference: &Difference) -> Option<&'static str> {
    EXCEPTIONS
        .iter()
        .find(|exception| (exception.applies)(case, difference))
        .map(|exception| exception.id)
}

/// Returns `true` if the pod names two or more nodes and the sides selected different ones of equal total.
fn is_narrowed_tie(case: &Value, difference: &Difference) -> bool {
    let required = &case["pod"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let names: BTreeSet<&str> = required["nodeSelectorTerms"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|term| term["matchFields"].as_array().into_iter().flatten())
        .filter(|field| field["operator"] == "In")
        .filter_map(|field| field["values"][0].as_str())
        .collect();
    difference.aspect == Aspect::Tie && names.len() > 1
}

/// Returns `true` if only Jindou rejects the configuration, and only for arguments of NodeResourcesFit.
fn is_about_unused_args(case: &Value, difference: &Difference) -> bool {
    let profiles = case["config"]["profiles"].as_array().into_iter().flatten().enumerate();
    let late = profiles.flat_map(|(profile, value)| {
        let all = value["pluginConfig"].as_array().into_iter().flatten().enumerate();
        let late = all.filter(|(_, one)| one["name"] == "NodeResourcesFit");
        late.map(move |(at, _)| format!("profiles[{profile}].pluginConfig[{at}].args."))
    });
    let others = late.fold(difference.ours.clone(), |text, path| text.replace(&path, ""));
    // Both sides are JSON texts: upstream has no error, and Jindou none about other fields.
    difference.aspect == Aspect::Error
        && difference.oracle == r#""""#
        && others != difference.ours
        && !others.contains("profiles[")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_of_an_unused_plugin_may_be_rejected_by_jindou_alone() {
        let excepted = |plugin: &str, errors: &[&str]| {
            let case = json!({"config": {"profiles": [{}, {"pluginConfig": [{"name": plugin}]}]}});
            let found = compare(&json!({"feasible": []}), &json!({"configErrors": errors}));
            found.iter().map(|difference| find(&case, difference)).collect::<Vec<_>>()
        };
        let id = Some("args-of-an-unused-plugin");
        let late = "profiles[1].pluginConfig[0].args.x: Invalid value";
        assert_eq!(excepted("NodeResourcesFit", &[late, late]), [id]);
        assert_eq!(excepted("InterPodAffinity", &[late]), [None]);
        let other = "profiles[0].schedulerName: Required value";
        assert_eq!(excepted("NodeResourcesFit", &[late, other]), [None]);
    }

    #[test]
    fn document_and_code_list_the_same_exceptions() {
        let document = include_str!("../../../conformance/EXCEPTIONS.md");
        let documented: BTreeSet<&str> =
            document.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(documented, EXCEPTIONS.iter().map(|exception| exception.id).collect());
    }
}
