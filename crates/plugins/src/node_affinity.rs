//! NodeAffinity: a pod goes to nodes that it selects, and prefers those that it favours.

use engine::object::{Labels, Node, NodeTerm, PodSpec};

/// What a pod demands of its node: node selector and required affinity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequiredNodeAffinity<'a> {
    selector: Option<&'a Labels>,
    terms: Option<&'a [NodeTerm]>,
}

impl<'a> RequiredNodeAffinity<'a> {
    /// The demands of a spec.
    pub(crate) fn new(spec: &'a PodSpec) -> Self {
        let selector = spec.node_selector.as_ref();
        Self { selector, terms: spec.node_affinity.required.as_deref() }
    }

    /// Whether a node meets them.
    pub(crate) fn matches(&self, node: &Node) -> bool {
        let selected = self.selector.is_none_or(|selector| {
            selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        });
        selected && self.terms.is_none_or(|terms| any_matches(terms, node))
    }
}

fn any_matches(terms: &[NodeTerm], node: &Node) -> bool {
    terms.iter().any(|term| term.matches(&node.name, &node.labels))
}
