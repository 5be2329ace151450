//! Arguments of NodeAffinity.

use serde::Serialize;

use super::super::fields::Fields;
use super::super::names::{label_value_errors, qualified_name_errors};
use super::super::problem::{index, invalid, invalid_text, quoted, unsupported};

/// Node affinity added to every pod.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeAffinityArgs {
    /// Applied to all pods in addition to their own node affinity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_affinity: Option<NodeAffinity>,
}

/// Node affinity.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct NodeAffinity {
    /// Terms that a node must match.
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "Option::is_none"
    )]
    pub required: Option<NodeSelector>,
    /// Terms that add to the score of a matching node.
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub preferred: Vec<PreferredSchedulingTerm>,
}

/// A list of terms, at least one of which must match the node.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelector {
    /// The terms; an empty term matches no node.
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// A list of requirements, all of which the node must meet.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelectorTerm {
    /// Requirements on labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
    /// Requirements on fields, with one value each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_fields: Vec<NodeSelectorRequirement>,
}

/// A requirement on a label or field.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct NodeSelectorRequirement {
    /// The label or field.
    pub key: String,
    /// The relation between the key's value and the values.
    pub operator: Operator,
    /// The values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// A term with the weight it adds to the score of a matching node.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct PreferredSchedulingTerm {
    /// The weight; zero disables the term.
    pub weight: i32,
    /// The term.
    pub preference: NodeSelectorTerm,
}

/// The relation between a label's value and the values of a requirement.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum Operator {
    /// The value is one of the values.
    In,
    /// The value is none of the values, or the label is absent.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The value is an integer greater than the operand.
    Gt,
    /// The value is an integer less than the operand.
    Lt,
}

impl NodeAffinityArgs {
    pub(super) fn read(mut fields: Fields<'_>) -> Self {
        let added_affinity = fields.object("addedAffinity").map(read_affinity);
        fields.finish();
        Self { added_affinity }
    }
}

fn read_affinity(mut fields: Fields<'_>) -> NodeAffinity {
    let required =
        fields.object("requiredDuringSchedulingIgnoredDuringExecution").map(|mut fields| {
            let terms = fields.objects("nodeSelectorTerms").unwrap_or_default();
            fields.finish();
            NodeSelector { node_selector_terms: terms.into_iter().map(read_term).collect() }
        });
    let preferred =
        fields.objects("preferredDuringSchedulingIgnoredDuringExecution").unwrap_or_default();
    fields.finish();
    NodeAffinity { required, preferred: preferred.into_iter().map(read_preferred).collect() }
}

fn read_preferred(mut fields: Fields<'_>) -> PreferredSchedulingTerm {
    let weight = fields.number("weight").unwrap_or_default();
    let preference = match fields.object("preference") {
        Some(preference) => read_term(preference),
        None => NodeSelectorTerm { match_expressions: Vec::new(), match_fields: Vec::new() },
    };
    fields.finish();
    PreferredSchedulingTerm { weight, preference }
}

fn read_term(mut fields: Fields<'_>) -> NodeSelectorTerm {
    let mut read = |key, on_label| {
        let requirements = fields.objects(key).unwrap_or_default();
        requirements.into_iter().map(|fields| read_requirement(fields, on_label)).collect()
    };
    let term = NodeSelectorTerm {
        match_expressions: read("matchExpressions", true),
        match_fields: read("matchFields", false),
    };
    fields.finish();
    term
}

fn read_requirement(mut fields: Fields<'_>, on_label: bool) -> NodeSelectorRequirement {
    let key = fields.text("key").unwrap_or_default();
    let operator = fields.text("operator").unwrap_or_default();
    let values = fields.texts("values").unwrap_or_default();
    let operator = read_operator(&operator, on_label, &fields);
    let requirement =
        NodeSelectorRequirement { key, operator: operator.unwrap_or(Operator::In), values };
    match operator {
        None => {}
        Some(_) if on_label => check_label_requirement(&requirement, &fields),
        Some(_) if requirement.values.len() != 1 => {
            fields.sink.report(
                fields.child("values"),
                invalid(list(&requirement.values), "must have one element"),
            );
        }
        Some(_) => {}
    }
    fields.finish();
    requirement
}

fn read_operator(text: &str, on_label: bool, fields: &Fields<'_>) -> Option<Operator> {
    let operator = match text {
        "In" => Some(Operator::In),
        "NotIn" => Some(Operator::NotIn),
        "Exists" if on_label => Some(Operator::Exists),
        "DoesNotExist" if on_label => Some(Operator::DoesNotExist),
        "Gt" if on_label => Some(Operator::Gt),
        "Lt" if on_label => Some(Operator::Lt),
        _ => None,
    };
    if operator.is_none() {
        let supported = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
        let supported = if on_label { &supported[..] } else { &supported[..2] };
        fields.sink.report(fields.child("operator"), unsupported(text, supported));
    }
    operator
}

fn check_label_requirement(requirement: &NodeSelectorRequirement, fields: &Fields<'_>) {
    let NodeSelectorRequirement { key, operator, values } = requirement;
    let errors = qualified_name_errors(key);
    if !errors.is_empty() {
        fields.sink.report(fields.child("key"), invalid_text(key, &errors.join("; ")));
    }
    let path = fields.child("values");
    let wrong_count =
        match operator {
            Operator::In | Operator::NotIn => values
                .is_empty()
                .then_some("for 'in', 'notin' operators, values set can't be empty"),
            Operator::Exists | Operator::DoesNotExist => (!values.is_empty())
                .then_some("values set must be empty for exists and does not exist"),
            Operator::Gt | Operator::Lt => (values.len() != 1)
                .then_some("for 'Gt', 'Lt' operators, exactly one value is required"),
        };
    if let Some(detail) = wrong_count {
        fields.sink.report(&path, invalid(list(values), detail));
    }
    for (position, value) in values.iter().enumerate() {
        let path = index(&path, position);
        if matches!(operator, Operator::Gt | Operator::Lt) && value.parse::<i64>().is_err() {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            fields.sink.report(&path, invalid_text(value, detail));
        }
        let errors = label_value_errors(value);
        if !errors.is_empty() {
            fields.sink.report(path, invalid_text(value, &errors.join("; ")));
        }
    }
}

fn list(values: &[String]) -> String {
    let values: Vec<String> = values.iter().take(5).map(|value| quoted(value)).collect();
    format!("[{}]", values.join(","))
}
