//! Parts shared by the arguments of scoring plugins.

use serde::Serialize;

use super::super::fields::Fields;
use super::super::problem::{ProblemSink, child, index, invalid, required};

/// A resource with its weight in the score.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct ResourceSpec {
    /// The resource.
    pub name: String,
    /// Its weight, one by default.
    pub weight: i64,
}

/// A point of the function from utilization to score.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct UtilizationShapePoint {
    /// The utilization in percent, 0 to 100.
    pub utilization: i32,
    /// The score at this utilization, 0 to 10.
    pub score: i32,
}

/// Reads resources. An empty list defaults to cpu and memory, a weight of zero to one.
pub(super) fn read_resources(resources: Option<Vec<Fields<'_>>>) -> Vec<ResourceSpec> {
    let resources = resources.unwrap_or_default();
    if resources.is_empty() {
        return ["cpu", "memory"]
            .map(|name| ResourceSpec { name: name.to_owned(), weight: 1 })
            .into();
    }
    let read = |mut fields: Fields<'_>| {
        let name = fields.text("name").unwrap_or_default();
        let weight = match fields.number("weight") {
            None | Some(0) => 1,
            Some(weight) => weight,
        };
        fields.finish();
        ResourceSpec { name, weight }
    };
    resources.into_iter().map(read).collect()
}

/// Reads the points of a shape.
pub(super) fn read_shape(points: Vec<Fields<'_>>) -> Vec<UtilizationShapePoint> {
    let read = |mut fields: Fields<'_>| {
        let point = UtilizationShapePoint {
            utilization: fields.number("utilization").unwrap_or_default(),
            score: fields.number("score").unwrap_or_default(),
        };
        fields.finish();
        point
    };
    points.into_iter().map(read).collect()
}

/// Checks that a shape has points, in increasing order and within their ranges.
pub(super) fn validate_shape(shape: &[UtilizationShapePoint], path: &str, sink: &ProblemSink) {
    if shape.is_empty() {
        sink.report(path, required("at least one point must be specified"));
    }
    let unsorted = shape.windows(2).position(|pair| pair[0].utilization >= pair[1].utilization);
    if let Some(position) = unsorted {
        let path = child(&index(path, position + 1), "utilization");
        let found = shape[position + 1].utilization;
        sink.report(path, invalid(found, "values must be sorted in increasing order"));
    }
    for (position, point) in shape.iter().enumerate() {
        let path = index(path, position);
        if !(0..=100).contains(&point.utilization) {
            sink.report(
                child(&path, "utilization"),
                invalid(point.utilization, "not in valid range [0, 100]"),
            );
        }
        if !(0..=10).contains(&point.score) {
            sink.report(child(&path, "score"), invalid(point.score, "not in valid range [0, 10]"));
        }
    }
}
