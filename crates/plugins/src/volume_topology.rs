//! Node labels that volumes and storage classes require, as tests of label columns.

use engine::index::{DomainIdx, KeyIdx, NodeIdx};
use engine::object::{NodeTerm, Operator, Requirement, Selector};
use engine::state::State;

/// Alternative lists of label tests, one of which a node must pass. Without alternatives, no node passes.
pub(crate) struct NodeLabels(Vec<Vec<LabelTest>>);

struct LabelTest {
    key: KeyIdx,
    accepts: LabelValues,
}

enum LabelValues {
    /// One of these values. The usual case, and the only one that can be looked up by value.
    Values(Vec<DomainIdx>),
    /// The result for each value, and for nodes without the label.
    Table { values: Vec<bool>, absent: bool },
}

impl NodeLabels {
    /// Builds the tests of node selector terms.
    ///
    /// Fields are ignored: upstream matches a node without a name, which passes all of them.
    pub(crate) fn of_terms(terms: &[NodeTerm], state: &mut State) -> Self {
        let terms = terms.iter().filter(|term| !term.malformed && !term.is_empty());
        Self(terms.map(|term| tests(&term.expressions, state)).collect())
    }

    /// Builds the tests of selectors, one of which must match.
    pub(crate) fn of_selectors(selectors: &[Selector], state: &mut State) -> Self {
        Self(selectors.iter().map(|selector| tests(&selector.requirements, state)).collect())
    }

    /// Returns `true` if a node passes.
    pub(crate) fn accept(&self, state: &State, node: NodeIdx) -> bool {
        self.0.iter().any(|tests| tests.iter().all(|test| test.accepts(state, node)))
    }

    /// Returns the nodes that pass, sorted; `None` if more than `limit` nodes would have to be tested.
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
