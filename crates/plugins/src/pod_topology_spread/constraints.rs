//! The constraints of a class, and the nodes and pods that they count.

use std::collections::BTreeMap;

use engine::bitset::NodeSet;
use engine::framework::Class;
use engine::object::{
    Operator, Owner, Requirement, Selector, SpreadConstraint, Text, WhenUnsatisfiable, Workload,
    WorkloadKind,
};
use engine::state::tallies::{Matcher, NamespaceScope, TallySource};
use engine::state::{Areas, State};

use crate::node_affinity::RequiredNodeAffinity;
use crate::tolerations::tolerates_all_hard;

/// The constraints of pods without constraints of their own.
pub(super) struct DefaultConstraints {
    /// `true` for Kubernetes' own defaults, which score nodes without the label, too.
    pub(super) system: bool,
    /// The constraints, without selectors.
    pub(super) constraints: Vec<SpreadConstraint>,
}

/// The constraints of one kind for a class, and the areas that they depend on besides nodes.
pub(super) struct ResolvedConstraints {
    pub(super) constraints: Vec<SpreadConstraint>,
    pub(super) areas: Areas,
}

impl DefaultConstraints {
    /// Returns the class's own constraints of this kind, or the defaults if it has none of any kind.
    pub(super) fn resolve(
        &self,
        class: &Class,
        kind: WhenUnsatisfiable,
        state: &State,
    ) -> ResolvedConstraints {
        let own = &class.spec.spread;
        let given = if own.is_empty() { &self.constraints[..] } else { own };
        let mut constraints: Vec<SpreadConstraint> =
            given.iter().filter(|c| c.when_unsatisfiable == kind).cloned().collect();
        if !own.is_empty() || constraints.is_empty() {
            return ResolvedConstraints { constraints, areas: Areas::NONE };
        }
        let selector = deduced_selector(class, state);
        if selector.is_empty() {
            constraints.clear();
        }
        for constraint in &mut constraints {
            constraint.selector = Some(selector.clone());
        }
        ResolvedConstraints { constraints, areas: Areas::WORKLOADS }
    }
}

/// Returns `true` if the class has a node selector or required node affinity.
pub(super) fn constrains_nodes(class: &Class) -> bool {
    class.spec.node_selector.is_some() || class.spec.node_affinity.required.is_some()
}

/// Returns the nodes that have the topology keys of all constraints.
pub(super) fn nodes_with_all_keys(constraints: &[SpreadConstraint], state: &mut State) -> NodeSet {
    let mut nodes = state.nodes.present().clone();
    for constraint in constraints {
        let key = state.label_column(&constraint.topology_key);
        let domains = state.topology.column(key).domains();
        nodes.retain(|node| domains[node.at()].is_some());
    }
    nodes
}

/// Returns those of the nodes whose pods a constraint counts.
pub(super) fn counted_nodes(
    constraint: &SpreadConstraint,
    class: &Class,
    mut nodes: NodeSet,
    state: &State,
) -> NodeSet {
    if constraint.honor_affinity && constrains_nodes(class) {
        let demands = RequiredNodeAffinity::new(&class.spec);
        nodes.retain(|node| demands.matches(state.nodes.object(node)));
    }
    if constraint.honor_taints {
        let tainted = state.nodes.hard_tainted();
        nodes.retain(|node| {
            !tainted.contains(node)
                || tolerates_all_hard(&class.spec.tolerations, &state.nodes.object(node).taints)
        });
    }
    nodes
}

/// Returns the pods that a constraint counts. An empty selector counts none, although it matches all.
pub(super) fn counted_pods(constraint: &SpreadConstraint, class: &Class) -> Option<TallySource> {
    let selector = constraint.selector.clone().filter(|selector| !selector.is_empty())?;
    let scope = NamespaceScope::Names(Box::new([class.namespace.clone()]));
    let matchers = Box::new([Matcher { scope, selector }]);
    Some(TallySource::Matching { matchers, live_only: true })
}

/// Returns the conjunction of the selectors of the class's controller and of the services that match it.
fn deduced_selector(class: &Class, state: &State) -> Selector {
    let mut equalities: BTreeMap<Text, Requirement> = BTreeMap::new();
    let mut others: Vec<Requirement> = Vec::new();
    let owner = class.spec.owner.as_ref();
    for workload in state.workloads(&class.namespace) {
        let Some(selector) = &workload.selector else { continue };
        match workload.kind {
            WorkloadKind::Service => {
                if !selector.matches(&class.labels) {
                    continue;
                }
            }
            _ => {
                if !owner.is_some_and(|owner| owns(workload, owner)) {
                    continue;
                }
            }
        }
        match workload.kind {
            // Plain label maps: of two values for a key the later one wins, which is the controller's.
            WorkloadKind::Service | WorkloadKind::ReplicationController => {
                let pairs = selector.requirements.iter().map(|r| (r.key.clone(), r.clone()));
                equalities.extend(pairs);
            }
            WorkloadKind::ReplicaSet | WorkloadKind::StatefulSet => {
                others.extend_from_slice(&selector.requirements);
            }
        }
    }
    debug_assert!(equalities.values().all(|r| r.operator == Operator::In));
    others.extend(equalities.into_values());
    others.sort_unstable();
    others.dedup();
    Selector { requirements: others.into() }
}

fn owns(workload: &Workload, owner: &Owner) -> bool {
    let (api_version, kind) = match workload.kind {
        WorkloadKind::Service => return false,
        WorkloadKind::ReplicationController => ("v1", "ReplicationController"),
        WorkloadKind::ReplicaSet => ("apps/v1", "ReplicaSet"),
        WorkloadKind::StatefulSet => ("apps/v1", "StatefulSet"),
    };
    workload.name == owner.name && *owner.api_version == *api_version && *owner.kind == *kind
}
