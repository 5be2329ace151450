//! The filter: node selector, required node affinity and the affinity that the configuration adds.

use engine::bitset::NodeSet;
use engine::framework::{Filter, NodeVerdict, PreFilterResult, Rejection};
use engine::index::NodeIdx;
use engine::object::{NodeTerm, Operator, PodSpec, Text};
use engine::state::State;

use super::nodes::{allowed_nodes, nodes_of_terms};

/// Prepares the filter of a spec and of the required terms that the configuration adds.
pub(super) fn prepare(
    added: Option<&[NodeTerm]>,
    spec: &PodSpec,
    state: &mut State,
) -> PreFilterResult {
    let required = spec.node_affinity.required.as_deref();
    if required.is_none() && added.is_none() && spec.node_selector.is_none() {
        return PreFilterResult::Skip;
    }
    let named = required.and_then(named_nodes);
    if named.as_ref().is_some_and(Vec::is_empty) {
        return PreFilterResult::Reject(Rejection::unresolvable("pod affinity terms conflict"));
    }
    let enforced = added.map(|terms| nodes_of_terms(state, terms));
    let allowed = allowed_nodes(state, spec);
    let filter = Box::new(AllowedNodes { enforced, allowed });
    let Some(named) = named else { return PreFilterResult::Filter(filter) };
    let mut nodes = NodeSet::new(state.nodes.slots());
    for node in named.into_iter().filter_map(|name| state.nodes.find(name)) {
        nodes.insert(node);
    }
    PreFilterResult::Narrow(nodes, Some(filter))
}

/// Returns the node names that the terms allow, possibly with duplicates; `None` unless every term names
/// nodes.
fn named_nodes(terms: &[NodeTerm]) -> Option<Vec<&Text>> {
    let mut names = Vec::new();
    for term in terms {
        let mut lists = term.fields.iter().filter(|field| field.operator == Operator::In);
        let first = lists.next()?;
        let in_all = |name: &&Text| lists.clone().all(|list| list.values.contains(name));
        names.extend(first.values.iter().filter(in_all));
    }
    // No terms name no nodes, which is not a conflict.
    (!terms.is_empty()).then_some(names)
}

/// Nodes that the configuration (`enforced`) and the pod allow; `None` means all nodes.
struct AllowedNodes {
    enforced: Option<NodeSet>,
    allowed: Option<NodeSet>,
}

impl AllowedNodes {
    const NOT_ENFORCED: NodeVerdict = NodeVerdict(1);
    const NOT_ALLOWED: NodeVerdict = NodeVerdict(2);
}

impl Filter for AllowedNodes {
    fn check(&mut self, _state: &State, node: NodeIdx) -> NodeVerdict {
        let lacks = |nodes: &Option<NodeSet>| nodes.as_ref().is_some_and(|n| !n.contains(node));
        if lacks(&self.enforced) {
            Self::NOT_ENFORCED
        } else if lacks(&self.allowed) {
            Self::NOT_ALLOWED
        } else {
            NodeVerdict::PASS
        }
    }

    fn rejection(&self, _state: &State, _node: NodeIdx, verdict: NodeVerdict) -> Rejection {
        Rejection::unresolvable(if verdict == Self::NOT_ENFORCED {
            "node(s) didn't match scheduler-enforced node affinity"
        } else {
            "node(s) didn't match Pod's node affinity/selector"
        })
    }

    fn filter(&mut self, _state: &State, nodes: &mut NodeSet) {
        for allowed in self.enforced.iter().chain(&self.allowed) {
            nodes.intersect(allowed);
        }
    }
}
