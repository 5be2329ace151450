//! `addedAffinity` of the configuration in the engine's form.

use api::config::args;
use engine::object::{NodeAffinity, NodeTerm, Operator, Requirement, Text};

/// Returns the engine's form of validated arguments.
pub(super) fn lower(affinity: &args::NodeAffinity) -> NodeAffinity {
    let required = affinity.required.as_ref();
    let required =
        required.map(|selector| selector.node_selector_terms.iter().map(lower_term).collect());
    let preferred = affinity.preferred.iter();
    let preferred: Box<[_]> =
        preferred.map(|term| (term.weight, lower_term(&term.preference))).collect();
    // Unlike in pods, an empty list of preferences here means the same as none.
    NodeAffinity { required, preferred: (!preferred.is_empty()).then_some(preferred) }
}

fn lower_term(term: &args::NodeSelectorTerm) -> NodeTerm {
    NodeTerm {
        expressions: term.match_expressions.iter().map(lower_requirement).collect(),
        fields: term.match_fields.iter().map(lower_requirement).collect(),
        malformed: false,
    }
}

fn lower_requirement(requirement: &args::NodeSelectorRequirement) -> Requirement {
    let mut values: Vec<Text> = requirement.values.iter().map(|v| v.as_str().into()).collect();
    values.sort_unstable();
    values.dedup();
    let operator = match requirement.operator {
        args::Operator::In => Operator::In,
        args::Operator::NotIn => Operator::NotIn,
        args::Operator::Exists => Operator::Exists,
        args::Operator::DoesNotExist => Operator::DoesNotExist,
        args::Operator::Gt => Operator::Gt,
        args::Operator::Lt => Operator::Lt,
    };
    Requirement { key: requirement.key.as_str().into(), operator, values: values.into() }
}
