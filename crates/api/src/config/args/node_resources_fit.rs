//! Arguments of NodeResourcesFit.

use serde::Serialize;

use super::super::fields::Fields;
use super::super::names::qualified_name_errors;
use super::super::problem::{
    Sink, child, forbidden, index, invalid, invalid_text, required, unsupported,
};
use super::scoring::{
    ResourceSpec, UtilizationShapePoint, read_resources, read_shape, validate_shape,
};

/// Which resources are filtered on, and how they are scored.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeResourcesFitArgs {
    /// Extended resources that the filter ignores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored_resources: Vec<String>,
    /// Groups, the part before the slash, whose resources the filter ignores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored_resource_groups: Vec<String>,
    /// How nodes are scored.
    pub scoring_strategy: ScoringStrategy,
}

/// How nodes are scored by the resources they have left.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScoringStrategy {
    /// The strategy.
    #[serde(rename = "type")]
    pub strategy: ScoringStrategyType,
    /// The resources that count, with weights of 1 to 100.
    pub resources: Vec<ResourceSpec>,
    /// The shape, for the strategy that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_to_capacity_ratio: Option<RequestedToCapacityRatio>,
}

/// The name of a strategy.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum ScoringStrategyType {
    /// Prefers nodes with the least requested.
    LeastAllocated,
    /// Prefers nodes with the most requested.
    MostAllocated,
    /// Scores by a function of utilisation.
    RequestedToCapacityRatio,
}

/// The function from utilisation to score.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct RequestedToCapacityRatio {
    /// Its points, in increasing order of utilisation.
    pub shape: Vec<UtilizationShapePoint>,
}

impl NodeResourcesFitArgs {
    pub(super) fn read(mut fields: Fields<'_>) -> Self {
        let resources = fields.texts("ignoredResources").unwrap_or_default();
        let groups = fields.texts("ignoredResourceGroups").unwrap_or_default();
        report_names(&resources, &fields.child("ignoredResources"), fields.sink);
        for (position, group) in groups.iter().enumerate().filter(|(_, group)| group.contains('/'))
        {
            let path = index(&fields.child("ignoredResourceGroups"), position);
            fields.sink.report(path, invalid_text(group, "resource group name can't contain '/'"));
        }
        report_names(&groups, &fields.child("ignoredResourceGroups"), fields.sink);
        let scoring_strategy = match fields.object("scoringStrategy") {
            Some(strategy) => read_strategy(strategy),
            None => ScoringStrategy {
                strategy: ScoringStrategyType::LeastAllocated,
                resources: read_resources(None),
                requested_to_capacity_ratio: None,
            },
        };
        fields.finish();
        Self { ignored_resources: resources, ignored_resource_groups: groups, scoring_strategy }
    }
}

fn read_strategy(mut fields: Fields<'_>) -> ScoringStrategy {
    let strategy = read_strategy_type(&mut fields);
    let resources = read_resources(fields.objects("resources"));
    for (position, resource) in resources.iter().enumerate() {
        if !(1..=100).contains(&resource.weight) {
            let path = child(&index(&fields.child("resources"), position), "weight");
            let detail =
                format!("resource weight of {} not in valid range (0, 100]", resource.name);
            fields.sink.report(path, invalid(resource.weight, &detail));
        }
    }
    let ratio = fields.object("requestedToCapacityRatio").map(|mut fields| {
        let shape = read_shape(fields.objects("shape").unwrap_or_default());
        fields.finish();
        RequestedToCapacityRatio { shape }
    });
    let path = fields.child("requestedToCapacityRatio");
    match (strategy, &ratio) {
        (Some(ScoringStrategyType::RequestedToCapacityRatio), Some(ratio)) => {
            validate_shape(&ratio.shape, &child(&path, "shape"), fields.sink);
        }
        (Some(ScoringStrategyType::RequestedToCapacityRatio), None) => {
            fields
                .sink
                .report(path, required("must be specified when type is RequestedToCapacityRatio"));
        }
        (Some(_), Some(_)) => {
            fields
                .sink
                .report(path, forbidden("must be nil when type is not RequestedToCapacityRatio"));
        }
        _ => {}
    }
    fields.finish();
    ScoringStrategy {
        strategy: strategy.unwrap_or(ScoringStrategyType::LeastAllocated),
        resources,
        requested_to_capacity_ratio: ratio,
    }
}

/// A strategy must have a type: upstream defaults it only if the whole strategy is left out.
fn read_strategy_type(fields: &mut Fields<'_>) -> Option<ScoringStrategyType> {
    let before = fields.sink.count();
    let text = fields.text("type").unwrap_or_default();
    if fields.sink.count() > before {
        return None;
    }
    match text.as_str() {
        "LeastAllocated" => Some(ScoringStrategyType::LeastAllocated),
        "MostAllocated" => Some(ScoringStrategyType::MostAllocated),
        "RequestedToCapacityRatio" => Some(ScoringStrategyType::RequestedToCapacityRatio),
        _ => {
            let supported = ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"];
            fields.sink.report(fields.child("type"), unsupported(&text, &supported));
            None
        }
    }
}

fn report_names(names: &[String], path: &str, sink: &Sink) {
    for (position, name) in names.iter().enumerate() {
        for error in qualified_name_errors(name) {
            sink.report(index(path, position), invalid_text(name, &error));
        }
    }
}
