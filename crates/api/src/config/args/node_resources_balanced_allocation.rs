//! Arguments of NodeResourcesBalancedAllocation.

use std::collections::BTreeSet;

use serde::Serialize;

use super::super::fields::Fields;
use super::super::problem::{child, duplicate, index, invalid};
use super::scoring::{ResourceSpec, read_resources};

/// The resources whose utilization is balanced.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct NodeResourcesBalancedAllocationArgs {
    /// The resources, each listed once with weight one.
    pub resources: Vec<ResourceSpec>,
}

impl NodeResourcesBalancedAllocationArgs {
    pub(super) fn read(mut fields: Fields<'_>) -> Self {
        let resources = read_resources(fields.objects("resources"));
        let mut seen = BTreeSet::new();
        for (position, resource) in resources.iter().enumerate() {
            let path = index(&fields.child("resources"), position);
            if !seen.insert(&resource.name) {
                fields.sink.report(child(&path, "name"), duplicate(&resource.name));
            }
            if resource.weight != 1 {
                fields.sink.report(child(&path, "weight"), invalid(resource.weight, "must be 1"));
            }
        }
        fields.finish();
        Self { resources }
    }
}
