//! NodeUnschedulable: rejects cordoned nodes, except for pods that tolerate the cordon's taint.

use api::config::PluginArgs;
use engine::bitset::NodeSet;
use engine::framework::event::Object;
use engine::framework::{
    Action, Class, Event, Filter, KeyPart, NodeVerdict, Plugin, Point, PreFilterResult,
    Preparation, Rejection, Resource, Subscription,
};
use engine::index::NodeIdx;
use engine::object::{PodSpec, Taint, TaintEffect};
use engine::state::State;

use crate::tolerations::tolerates;

pub(crate) const NAME: &str = "NodeUnschedulable";
pub(crate) const POINTS: &[Point] = &[Point::Filter];
pub(crate) const DOC: &str =
    "Rejects cordoned nodes, except for pods that tolerate the cordon's taint.";

pub(crate) fn build(_args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    Box::new(NodeUnschedulable)
}

struct NodeUnschedulable;

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        NAME
    }

    fn points(&self) -> &'static [Point] {
        POINTS
    }

    fn evaluation_key(&self, _class: &Class, _state: &State) -> KeyPart {
        KeyPart::NOTHING
    }

    fn prepare_filter(&self, class: &Class, preparation: &mut Preparation) -> PreFilterResult {
        let passes_everywhere = preparation.state.nodes.unschedulable().is_empty()
            || tolerates_unschedulable(&class.spec);
        if passes_everywhere {
            PreFilterResult::Skip
        } else {
            PreFilterResult::Filter(Box::new(CordonFilter))
        }
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        vec![
            Subscription {
                resource: Resource::Node,
                action: Action::ADD.with(Action::UPDATE_NODE_TAINT),
            },
            Subscription { resource: Resource::Pod, action: Action::UPDATE_POD_TOLERATION },
        ]
    }

    fn hint(&self, _state: &State, _class: &Class, event: &Event) -> bool {
        match event.object {
            Object::Node { old, new: Some(new) } => {
                !new.unschedulable && old.is_none_or(|old| old.unschedulable)
            }
            Object::Pod { new: Some(new), .. } => event.own && tolerates_unschedulable(new.spec),
            _ => true,
        }
    }
}

/// Rejects cordoned nodes.
struct CordonFilter;

impl Filter for CordonFilter {
    fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict {
        NodeVerdict(state.nodes.unschedulable().contains(node).into())
    }

    fn rejection(&self, _state: &State, _node: NodeIdx, _verdict: NodeVerdict) -> Rejection {
        Rejection::unresolvable("node(s) were unschedulable")
    }

    fn filter(&mut self, state: &State, nodes: &mut NodeSet) {
        nodes.subtract(state.nodes.unschedulable());
    }
}

/// Returns `true` if a pod tolerates the taint of cordoned nodes, and therefore the cordon itself.
fn tolerates_unschedulable(spec: &PodSpec) -> bool {
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        value: "".into(),
        effect: TaintEffect::NoSchedule,
    };
    tolerates(&spec.tolerations, &taint)
}

#[cfg(test)]
mod tests {
    use super::*;

    use engine::object::{Node, Toleration, TolerationOperator};
    use engine::testing::{class, node, node_event, pod, pod_event, state, verdicts};

    fn cordoned(name: &str) -> Node {
        Node { unschedulable: true, ..node(name) }
    }

    fn tolerating(key: &str, operator: TolerationOperator, value: &str) -> PodSpec {
        let toleration = Toleration {
            key: key.into(),
            operator,
            value: value.into(),
            effect: Some(TaintEffect::NoSchedule),
        };
        PodSpec { tolerations: [toleration].into(), ..PodSpec::default() }
    }

    #[test]
    fn cordoned_nodes_accept_only_pods_that_tolerate_the_taint() {
        use TolerationOperator::{Equal, Exists};
        let key = "node.kubernetes.io/unschedulable";
        let rejected = "b: UnschedulableAndUnresolvable node(s) were unschedulable";
        for (spec, expected) in [
            (PodSpec::default(), rejected),
            (tolerating(key, Exists, ""), "b: ok"),
            (tolerating(key, Equal, ""), "b: ok"),
            (tolerating(key, Equal, "x"), rejected),
            (tolerating("", Exists, ""), "b: ok"),
            (tolerating("other", Exists, ""), rejected),
        ] {
            let mut state = state([node("a"), cordoned("b")], []);
            let found = verdicts(build(None), class(spec.clone()), &mut state);
            assert_eq!(found, ["a: ok", expected], "{:?}", spec.tolerations);
        }
    }

    #[test]
    fn an_uncordoned_node_helps() {
        let state = state([], []);
        let plugin = build(None);
        let (open, closed) = (node("a"), cordoned("a"));
        for (old, new, expected) in [
            (None, &open, true),
            (None, &closed, false),
            (Some(&closed), &open, true),
            (Some(&open), &open, false),
            (Some(&open), &closed, false),
            (Some(&closed), &closed, false),
        ] {
            let event = node_event(Action::UPDATE_NODE_TAINT, old, new);
            let class = class(PodSpec::default());
            assert_eq!(plugin.hint(&state, &class, &event), expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn a_toleration_of_the_pod_itself_helps() {
        let state = state([], []);
        let plugin = build(None);
        let helpful = tolerating("", TolerationOperator::Exists, "");
        let useless = tolerating("other", TolerationOperator::Exists, "");
        for (spec, own, expected) in
            [(&helpful, true, true), (&helpful, false, false), (&useless, true, false)]
        {
            let pod = engine::object::Pod { spec: spec.clone().into(), ..pod("p") };
            let event = pod_event(Action::UPDATE_POD_TOLERATION, None, Some(&pod), own);
            assert_eq!(plugin.hint(&state, &class(PodSpec::default()), &event), expected);
        }
    }
}
