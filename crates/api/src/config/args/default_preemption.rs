//! Arguments of DefaultPreemption.

use serde::Serialize;

use super::super::fields::Fields;
use super::super::problem::invalid;

/// Limits on the number of preemption candidates.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DefaultPreemptionArgs {
    /// The minimum number of candidates as a percentage of all nodes, 0 to 100.
    pub min_candidate_nodes_percentage: i32,
    /// The minimum number of candidates; not negative, and not zero together with the percentage.
    pub min_candidate_nodes_absolute: i32,
}

impl DefaultPreemptionArgs {
    pub(super) fn read(mut fields: Fields<'_>) -> Self {
        let args = Self {
            min_candidate_nodes_percentage: fields
                .number("minCandidateNodesPercentage")
                .unwrap_or(10),
            min_candidate_nodes_absolute: fields.number("minCandidateNodesAbsolute").unwrap_or(100),
        };
        args.validate(&fields);
        fields.finish();
        args
    }

    fn validate(&self, fields: &Fields<'_>) {
        let (percentage, absolute) =
            (self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute);
        let report = |key: &str, value: i32, detail: &str| {
            fields.sink.report(fields.child(key), invalid(value, detail));
        };
        if !(0..=100).contains(&percentage) {
            report("minCandidateNodesPercentage", percentage, "not in valid range [0, 100]");
        }
        if absolute < 0 {
            report("minCandidateNodesAbsolute", absolute, "not in valid range [0, inf)");
        }
        if percentage == 0 && absolute == 0 {
            let at_once = "cannot be zero at the same time as";
            report(
                "minCandidateNodesPercentage",
                0,
                &format!("{at_once} minCandidateNodesAbsolute"),
            );
            report(
                "minCandidateNodesAbsolute",
                0,
                &format!("{at_once} minCandidateNodesPercentage"),
            );
        }
    }
}
