//! Arguments of NodeResourcesFit.

use serde::Serialize;

use super::super::fields::Fields;
use super::super::names::qualified_name_errors;
use super::super::problem::{
    ProblemSink, child, forbidden, index, invalid, invalid_text, required, unsupported,
};
use super::scoring::{
    ResourceSpec, UtilizationShapePoint, read_resources, read_shape, validate_shape,
};

/// The resources that are filtered on, and the scoring strategy.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeResourcesFitArgs {
    /// Extended resources that the filter ignores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored_resources: Vec<String>,
    /// Resource groups (the part of the name before the slash) that the filter ignores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored_resource_groups: Vec<String>,
    /// The scoring strategy.
    pub scoring_strategy: ScoringStrategy,
}

/// A strategy that scores nodes by their allocated resources.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScoringStrategy {
    /// The type of the strategy.
    #[serde(rename = "type")]
    pub strategy: ScoringStrategyType,
    /// The resources that are scored, with weights of 1 to 100.
    pub resources: Vec<ResourceSpec>,
    /// The shape function of RequestedToCapacityRatio; absent for other types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_to_capacity_ratio: Option<RequestedToCapacityRatio>,
}

/// The type of a scoring strategy.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum ScoringStrategyType {
    /// Prefers nodes with the least requested.
    LeastAllocated,
    /// Prefers nodes with the most requested.
    MostAllocated,
    /// Scores by a function of utilization.
    RequestedToCapacityRatio,
}

/// A piecewise linear function from utilization to score.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct RequestedToCapacityRatio {
    /// Its points, in increasing order of utilization.
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

/// Reads the type of a strategy, which is required: upstream defaults it only if the whole strategy
/// is omitted.
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

fn report_names(names: &[String], path: &str, sink: &ProblemSink) {
    for (position, name) in names.iter().enumerate() {
        for error in qualified_name_errors(name) {
            sink.report(index(path, position), invalid_text(name, &error));
        }
    }
}
