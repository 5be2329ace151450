//! Nodes that selectors and terms match, found by label columns instead of node by node.

use engine::bitset::NodeSet;
use engine::object::{Labels, NodeTerm, Operator, PodSpec, Requirement};
use engine::state::State;
use engine::state::topology::LabelColumn;

/// Returns the nodes that a pod's node selector and required affinity allow; `None` means all nodes.
pub(crate) fn allowed_nodes(state: &mut State, spec: &PodSpec) -> Option<NodeSet> {
    let selector = spec.node_selector.as_ref().filter(|selector| !selector.is_empty());
    let terms = spec.node_affinity.required.as_deref();
    if selector.is_none() && terms.is_none() {
        return None;
    }
    let mut nodes = match terms {
        Some(terms) => nodes_of_terms(state, terms),
        None => state.nodes.present().clone(),
    };
    for (key, value) in selector.into_iter().flat_map(Labels::iter) {
        let values = [value.into()].into();
        retain_matching(
            state,
            &mut nodes,
            &Requirement { key: key.into(), operator: Operator::In, values },
        );
    }
    Some(nodes)
}

/// Returns the nodes that at least one of the terms matches.
pub(super) fn nodes_of_terms(state: &mut State, terms: &[NodeTerm]) -> NodeSet {
    let mut nodes = NodeSet::new(state.nodes.slots());
    for term in terms {
        nodes.unite(&nodes_of_term(state, term));
    }
    nodes
}

/// Returns the nodes that a term matches.
pub(super) fn nodes_of_term(state: &mut State, term: &NodeTerm) -> NodeSet {
    if term.malformed || term.is_empty() {
        return NodeSet::new(state.nodes.slots());
    }
    let mut nodes = state.nodes.present().clone();
    // Names come first: they leave few nodes, which then need no label column.
    for field in &term.fields {
        retain_named(state, &mut nodes, field);
    }
    for expression in &term.expressions {
        retain_matching(state, &mut nodes, expression);
    }
    nodes
}

/// Removes the nodes whose name a requirement does not accept.
fn retain_named(state: &State, nodes: &mut NodeSet, field: &Requirement) {
    let mut listed = NodeSet::new(state.nodes.slots());
    for node in field.values.iter().filter_map(|name| state.nodes.find(name)) {
        listed.insert(node);
    }
    match field.operator {
        Operator::In => nodes.intersect(&listed),
        Operator::NotIn => nodes.subtract(&listed),
        _ => nodes.clear(),
    }
}

/// Removes the nodes whose labels a requirement does not accept.
fn retain_matching(state: &mut State, nodes: &mut NodeSet, requirement: &Requirement) {
    /// Up to this many nodes are tested one by one, without building a label column.
    const LABEL_READS_MAX: usize = 8;
    if nodes.count() <= LABEL_READS_MAX {
        let labels = |node| &state.nodes.object(node).labels;
        nodes.retain(|node| requirement.accepts(labels(node).get(&requirement.key)));
        return;
    }
    let key = state.label_column(&requirement.key);
    let column = state.topology.column(key);
    match requirement.operator {
        Operator::In => nodes.intersect(&listed_nodes(column, requirement, state.nodes.slots())),
        Operator::NotIn => nodes.subtract(&listed_nodes(column, requirement, state.nodes.slots())),
        Operator::Exists => nodes.retain(|node| column.domain(node).is_some()),
        Operator::DoesNotExist => nodes.retain(|node| !column.domain(node).is_some()),
        Operator::Gt | Operator::Lt => {
            let accepted = accepted_domains(column, requirement);
            nodes.retain(|node| accepted.get(column.domain(node).at()).copied().unwrap_or(false));
        }
    }
}

/// Returns the nodes with one of the values of a requirement.
fn listed_nodes(column: &LabelColumn, requirement: &Requirement, slots: usize) -> NodeSet {
    let mut listed = NodeSet::new(slots);
    for domain in requirement.values.iter().filter_map(|value| column.find(value)) {
        for node in column.nodes(domain) {
            listed.insert(*node);
        }
    }
    listed
}

/// Returns, for each value of a label, `true` if a requirement accepts it.
fn accepted_domains(column: &LabelColumn, requirement: &Requirement) -> Vec<bool> {
    let domains = (0..column.domain_count()).map(engine::index::DomainIdx::from);
    domains.map(|domain| requirement.accepts(Some(column.value(domain)))).collect()
}
