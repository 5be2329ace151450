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

/// Only Jindou refuses the configuration, for arguments of a plugin that upstream checks late.
fn is_about_unused_args(_case: &Value, difference: &Difference) -> bool {
    let late = ".pluginConfig[";
    difference.aspect == Aspect::Error
        && difference.oracle.is_empty()
        && difference.ours.contains(late)
        && difference.ours.contains(".args.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_and_code_list_the_same_exceptions() {
        let document = include_str!("../../../conformance/EXCEPTIONS.md");
        let documented: BTreeSet<&str> =
            document.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(documented, EXCEPTIONS.iter().map(|exception| exception.id).collect());
    }
}
