//! Lowering of label selectors and node selector terms.

use engine::object::resources::{is_label_value, is_qualified_name};
use engine::object::{Labels, NodeTerm, Operator, Requirement, Selector, Text};
use serde::Deserialize;

use super::problem::{FieldPath, ProblemReport, quoted};
use super::raw::{List, Str, StrMap};

/// `LabelSelector`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawSelector {
    match_labels: StrMap,
    match_expressions: List<RawExpression>,
}

/// A requirement on a label or a field.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawExpression {
    key: Str,
    operator: Str,
    values: List<Str>,
}

/// `NodeSelector`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawNodeSelector {
    node_selector_terms: List<RawNodeTerm>,
}

/// `NodeSelectorTerm`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawNodeTerm {
    match_expressions: List<RawExpression>,
    match_fields: List<RawExpression>,
}

/// `TopologySelectorTerm`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawTopologyTerm {
    match_label_expressions: List<RawTopologyExpression>,
}

/// `TopologySelectorLabelRequirement`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawTopologyExpression {
    key: Str,
    values: List<Str>,
}

impl RawSelector {
    /// Returns the selector, or reports that it is invalid and returns `None`, which matches
    /// nothing.
    pub(super) fn lower(
        &self,
        path: &FieldPath<'_>,
        report: &mut ProblemReport,
    ) -> Option<Selector> {
        let mut requirements = Vec::new();
        let mut valid =
            report.check_entries(&path.field("matchExpressions"), &self.match_expressions);
        let labels = path.field("matchLabels");
        for (key, value) in self.match_labels.iter() {
            valid &= check_key(&labels, key, report);
            valid &= check_value(&labels.key(key), value, report);
            requirements.push(equals(key, value));
        }
        let expressions = path.field("matchExpressions");
        for (index, expression) in self.match_expressions.iter().enumerate() {
            match expression.label_requirement(&expressions.index(index), report) {
                Some(requirement) => requirements.push(requirement),
                None => valid = false,
            }
        }
        valid.then(|| selector(requirements))
    }
}

/// Returns a selector for objects that have all of the labels.
pub(super) fn all_of(labels: &Labels) -> Selector {
    selector(labels.iter().map(|(key, value)| equals(key, value)).collect())
}

/// Adds to a selector the pod's own value of each key that the pod has (`matchLabelKeys`).
pub(super) fn with_own_values(selector: Selector, keys: &[Str], labels: &Labels) -> Selector {
    let mut requirements = Vec::from(selector.requirements);
    for key in keys {
        if let Some(value) = labels.get(key) {
            requirements.push(equals(key, value));
        }
    }
    self::selector(requirements)
}

/// Lowers the terms of a node selector, at least one of which must match.
pub(super) fn node_terms(
    path: &FieldPath<'_>,
    raw: &RawNodeSelector,
    report: &mut ProblemReport,
) -> Box<[NodeTerm]> {
    let path = path.field("nodeSelectorTerms");
    if !report.check_entries(&path, &raw.node_selector_terms) {
        return Box::default();
    }
    if raw.node_selector_terms.is_empty() {
        report.error(&path, "found none, expected at least one term: this matches no node");
    }
    let terms = raw.node_selector_terms.iter().enumerate();
    terms.map(|(index, term)| term.lower(&path.index(index), report)).collect()
}

impl RawNodeTerm {
    pub(super) fn lower(&self, path: &FieldPath<'_>, report: &mut ProblemReport) -> NodeTerm {
        let mut malformed = false;
        let mut lower_all = |name, raw: &[RawExpression], lower: LowerExpression| {
            let path = path.field(name);
            malformed |= !report.check_entries(&path, raw);
            let mut lowered = Vec::with_capacity(raw.len());
            for (index, expression) in raw.iter().enumerate() {
                let (requirement, valid) = lower(expression, &path.index(index), report);
                malformed |= !valid;
                lowered.extend(requirement);
            }
            lowered.into_boxed_slice()
        };
        let expressions =
            lower_all("matchExpressions", &self.match_expressions, RawExpression::node_requirement);
        let fields = lower_all("matchFields", &self.match_fields, RawExpression::field_requirement);
        NodeTerm { expressions, fields, malformed }
    }
}

/// Returns the requirement, unless it is meaningless, and `true` if it is valid.
type LowerExpression =
    fn(&RawExpression, &FieldPath<'_>, &mut ProblemReport) -> (Option<Requirement>, bool);

impl RawTopologyTerm {
    pub(super) fn lower(&self, path: &FieldPath<'_>, report: &mut ProblemReport) -> NodeTerm {
        let path = path.field("matchLabelExpressions");
        let mut malformed = !report.check_entries(&path, &self.match_label_expressions);
        let mut expressions = Vec::new();
        for (index, raw) in self.match_label_expressions.iter().enumerate() {
            let path = path.index(index);
            malformed |= !check_key(&path.field("key"), &raw.key, report);
            malformed |= !check_values(&path, Operator::In, &raw.values, report);
            expressions.push(requirement(&raw.key, Operator::In, &raw.values));
        }
        NodeTerm { expressions: expressions.into(), fields: Box::default(), malformed }
    }
}

impl RawExpression {
    fn label_requirement(
        &self,
        path: &FieldPath<'_>,
        report: &mut ProblemReport,
    ) -> Option<Requirement> {
        let operator = match operator(&self.operator) {
            Some(Operator::Gt | Operator::Lt) | None => {
                let found = quoted(&self.operator);
                let expected = "expected In, NotIn, Exists or DoesNotExist";
                report.error(&path.field("operator"), format!("found {found}, {expected}"));
                return None;
            }
            Some(operator) => operator,
        };
        let mut valid = check_key(&path.field("key"), &self.key, report);
        valid &= check_values(path, operator, &self.values, report);
        valid.then(|| requirement(&self.key, operator, &self.values))
    }

    fn node_requirement(
        &self,
        path: &FieldPath<'_>,
        report: &mut ProblemReport,
    ) -> (Option<Requirement>, bool) {
        let Some(operator) = operator(&self.operator) else {
            let found = quoted(&self.operator);
            let expected = "expected In, NotIn, Exists, DoesNotExist, Gt or Lt";
            report.error(&path.field("operator"), format!("found {found}, {expected}"));
            return (None, false);
        };
        let mut valid = check_key(&path.field("key"), &self.key, report);
        valid &= check_values(path, operator, &self.values, report);
        (Some(requirement(&self.key, operator, &self.values)), valid)
    }

    fn field_requirement(
        &self,
        path: &FieldPath<'_>,
        report: &mut ProblemReport,
    ) -> (Option<Requirement>, bool) {
        let known = &**self.key == "metadata.name";
        if !known {
            let found = quoted(&self.key);
            report.error(&path.field("key"), format!("found {found}, expected metadata.name"));
        }
        let Some(operator @ (Operator::In | Operator::NotIn)) = operator(&self.operator) else {
            let found = quoted(&self.operator);
            report.error(&path.field("operator"), format!("found {found}, expected In or NotIn"));
            return (None, false);
        };
        let single = self.values.len() == 1;
        if !single {
            let found = self.values.len();
            report.error(&path.field("values"), format!("found {found} values, expected one"));
        }
        (known.then(|| requirement(&self.key, operator, &self.values)), known && single)
    }
}

fn operator(text: &str) -> Option<Operator> {
    Some(match text {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        _ => return None,
    })
}

fn check_key(path: &FieldPath<'_>, key: &str, report: &mut ProblemReport) -> bool {
    let valid = is_qualified_name(key);
    if !valid {
        let found = quoted(key);
        report.error(
            path,
            format!("found {found}, expected a label key such as app or example.com/app"),
        );
    }
    valid
}

fn check_value(path: &FieldPath<'_>, value: &str, report: &mut ProblemReport) -> bool {
    let valid = is_label_value(value);
    if !valid {
        let found = quoted(value);
        report.error(
            path,
            format!(
                "found {found}, expected a label value: at most 63 letters, digits, '-', '_' or '.'"
            ),
        );
    }
    valid
}

fn check_values(
    path: &FieldPath<'_>,
    operator: Operator,
    values: &[Str],
    report: &mut ProblemReport,
) -> bool {
    let path = path.field("values");
    let mut valid = report.check_entries(&path, values);
    let found = values.len();
    let expected = match operator {
        Operator::In | Operator::NotIn if found == 0 => "expected at least one",
        Operator::Exists | Operator::DoesNotExist if found != 0 => "expected none",
        Operator::Gt | Operator::Lt if found != 1 => "expected one",
        _ => "",
    };
    if !expected.is_empty() {
        report.error(&path, format!("found {found} values for {operator:?}, {expected}"));
        valid = false;
    }
    for (index, value) in values.iter().enumerate() {
        valid &= check_value(&path.index(index), value, report);
        if matches!(operator, Operator::Gt | Operator::Lt) && value.parse::<i64>().is_err() {
            // The API server accepts this value, and the term never matches.
            let found = quoted(value);
            report.warning(
                &path.index(index),
                format!("found {found}, expected an integer: the term matches no node"),
            );
            valid = false;
        }
    }
    valid
}

fn equals(key: &str, value: &str) -> Requirement {
    Requirement { key: key.into(), operator: Operator::In, values: [value.into()].into() }
}

fn requirement(key: &str, operator: Operator, values: &[Str]) -> Requirement {
    let mut values: Vec<Text> = values.iter().map(|value| value.0.clone()).collect();
    values.sort_unstable();
    values.dedup();
    Requirement { key: key.into(), operator, values: values.into() }
}

fn selector(mut requirements: Vec<Requirement>) -> Selector {
    requirements.sort_unstable();
    requirements.dedup();
    Selector { requirements: requirements.into() }
}
