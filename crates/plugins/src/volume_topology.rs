//! Which nodes the labels that volumes and storage classes ask for are on, as tests of label columns.

use engine::index::{DomainIdx, KeyIdx, NodeIdx};
use engine::object::{NodeTerm, Operator, Requirement, Selector};
use engine::state::State;

/// Alternatives, each a list of labels that a node must have. No alternative: no node.
pub(crate) struct NodeLabels(Vec<Vec<LabelTest>>);

struct LabelTest {
    key: KeyIdx,
    accepts: LabelValues,
}

enum LabelValues {
    /// These values. The usual case, and the only one that leads from values to nodes.
    Values(Vec<DomainIdx>),
    /// By value, and for nodes without the label.
    Table { values: Vec<bool>, absent: bool },
}

impl NodeLabels {
    /// The labels of node selector terms.
    ///
    /// Fields are not looked at: upstream asks about a node without a name, which passes them all.
    pub(crate) fn of_terms(terms: &[NodeTerm], state: &mut State) -> Self {
        let terms = terms.iter().filter(|term| !term.malformed && !term.is_empty());
        Self(terms.map(|term| tests(&term.expressions, state)).collect())
    }

    /// The labels of selectors, one of which must match.
    pub(crate) fn of_selectors(selectors: &[Selector], state: &mut State) -> Self {
        Self(selectors.iter().map(|selector| tests(&selector.requirements, state)).collect())
    }

    /// Whether a node will do.
    pub(crate) fn accept(&self, state: &State, node: NodeIdx) -> bool {
        self.0.iter().any(|tests| tests.iter().all(|test| test.accepts(state, node)))
    }

    /// The nodes that will do, sorted, if finding them means looking at no more than `limit`.
    pub(crate) fn matching_at_most(&self, state: &State, limit: usize) -> Option<Vec<NodeIdx>> {
        let mut nodes = Vec::new();
        for tests in &self.0 {
            let candidates = tests.iter().find_map(|test| test.nodes_at_most(state, limit))?;
            nodes.extend(candidates);
            if nodes.len() > limit {
                return None;
            }
        }
        nodes.sort_unstable();
        nodes.dedup();
        nodes.retain(|node| self.accept(state, *node));
        Some(nodes)
    }
}

impl LabelTest {
    fn accepts(&self, state: &State, node: NodeIdx) -> bool {
        let domain = state.topology.column(self.key).domain(node);
        match &self.accepts {
            LabelValues::Values(values) => values.contains(&domain),
            LabelValues::Table { absent, .. } if !domain.is_some() => *absent,
            LabelValues::Table { values, .. } => values[domain.at()],
        }
    }

    fn nodes_at_most(&self, state: &State, limit: usize) -> Option<Vec<NodeIdx>> {
        let LabelValues::Values(values) = &self.accepts else { return None };
        let column = state.topology.column(self.key);
        let count: usize = values.iter().map(|value| column.nodes(*value).len()).sum();
        let nodes = values.iter().flat_map(|value| column.nodes(*value)).copied();
        (count <= limit).then(|| nodes.collect())
    }
}

fn tests(requirements: &[Requirement], state: &mut State) -> Vec<LabelTest> {
    requirements.iter().map(|requirement| test(requirement, state)).collect()
}

fn test(requirement: &Requirement, state: &mut State) -> LabelTest {
    let key = state.label_column(&requirement.key);
    let column = state.topology.column(key);
    let accepts = if requirement.operator == Operator::In {
        LabelValues::Values(
            requirement.values.iter().filter_map(|value| column.find(value)).collect(),
        )
    } else {
        let domains = (0..column.domain_count()).map(DomainIdx::from);
        let values = domains.map(|domain| requirement.accepts(Some(column.value(domain))));
        LabelValues::Table { values: values.collect(), absent: requirement.accepts(None) }
    };
    LabelTest { key, accepts }
}
