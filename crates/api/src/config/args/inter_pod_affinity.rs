//! Arguments of InterPodAffinity.

use serde::Serialize;

use super::super::fields::Fields;
use super::super::problem::invalid;

/// Settings of inter-pod affinity scoring.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InterPodAffinityArgs {
    /// Score, 0 to 100, for an existing pod whose required affinity matches the incoming pod.
    pub hard_pod_affinity_weight: i32,
    /// Ignores preferred terms of existing pods unless the incoming pod has affinity terms itself.
    pub ignore_preferred_terms_of_existing_pods: bool,
}

impl InterPodAffinityArgs {
    pub(super) fn read(mut fields: Fields<'_>) -> Self {
        let weight = fields.number("hardPodAffinityWeight").unwrap_or(1);
        if !(0..=100).contains(&weight) {
            fields.sink.report(
                fields.child("hardPodAffinityWeight"),
                invalid(weight, "not in valid range [0, 100]"),
            );
        }
        let ignore = fields.flag("ignorePreferredTermsOfExistingPods").unwrap_or_default();
        fields.finish();
        Self { hard_pod_affinity_weight: weight, ignore_preferred_terms_of_existing_pods: ignore }
    }
}
