//! Differences from upstream that are on purpose, each explained in `conformance/EXCEPTIONS.md`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::compare::{Aspect, Difference};

/// One listed exception.
pub(crate) struct Exception {
    /// Heading of its section in the document.
    pub(crate) id: &'static str,
    /// Whether a difference found in a case is this one.
    applies: fn(case: &Value, difference: &Difference) -> bool,
}

/// All exceptions.
pub(crate) const EXCEPTIONS: [Exception; 2] = [
    Exception { id: "narrowed-search-order", applies: is_narrowed_tie },
    Exception { id: "args-of-an-unused-plugin", applies: is_about_unused_args },
];

/// The exception that covers a difference.
pub(crate) fn find(case: &Value, difference: &Difference) -> Option<&'static str> {
    EXCEPTIONS
        .iter()
        .find(|exception| (exception.applies)(case, difference))
        .map(|exception| exception.id)
}

/// The pod names two or more nodes, and the sides chose different ones of equal total.
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

/// Only Jindou refuses the configuration, for arguments of the plugin that upstream checks late.
fn is_about_unused_args(case: &Value, difference: &Difference) -> bool {
    let profiles = case["config"]["profiles"].as_array().into_iter().flatten().enumerate();
    let late = profiles.flat_map(|(profile, value)| {
        let all = value["pluginConfig"].as_array().into_iter().flatten().enumerate();
        let late = all.filter(|(_, one)| one["name"] == "NodeResourcesFit");
        late.map(move |(at, _)| format!("profiles[{profile}].pluginConfig[{at}].args."))
    });
    let others = late.fold(difference.ours.clone(), |text, path| text.replace(&path, ""));
    // Both sides are written as JSON: upstream says nothing, and we nothing of other fields.
    difference.aspect == Aspect::Error
        && difference.oracle == r#""""#
        && others != difference.ours
        && !others.contains("profiles[")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::compare::compare;
    use super::*;

    #[test]
    fn arguments_of_an_unused_plugin_may_be_refused_by_us_alone() {
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
