//! NodeName: rejects all nodes but the one that `spec.nodeName` names.

use api::config::PluginArgs;
use engine::framework::{
    Action, Class, Filter, KeyPart, NodeVerdict, Plugin, Point, PreFilterResult, Preparation,
    Rejection, Resource, Subscription,
};
use engine::index::NodeIdx;
use engine::state::State;

pub(crate) const NAME: &str = "NodeName";
pub(crate) const POINTS: &[Point] = &[Point::Filter];
pub(crate) const DOC: &str = "Rejects all nodes but the one that `spec.nodeName` names.";

pub(crate) fn build(_args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    Box::new(NodeName)
}

struct NodeName;

impl Plugin for NodeName {
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
        if class.node_name.is_empty() {
            return PreFilterResult::Skip;
        }
        let named = preparation.state.nodes.find(&class.node_name);
        PreFilterResult::Filter(Box::new(NamedNode(named)))
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        vec![Subscription { resource: Resource::Node, action: Action::ADD }]
    }
}

/// The named node, if it exists.
struct NamedNode(Option<NodeIdx>);

impl Filter for NamedNode {
    fn check(&mut self, _state: &State, node: NodeIdx) -> NodeVerdict {
        if self.0 == Some(node) { NodeVerdict::PASS } else { NodeVerdict(1) }
    }

    fn rejection(&self, _state: &State, _node: NodeIdx, _verdict: NodeVerdict) -> Rejection {
        Rejection::unresolvable("node(s) didn't match the requested node name")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::object::PodSpec;
    use engine::testing::{class, node, state, verdicts};

    #[test]
    fn only_the_named_node_passes() {
        let mut state = state([node("a"), node("b")], []);
        let class = Class { node_name: "b".into(), ..class(PodSpec::default()) };
        assert_eq!(
            verdicts(build(None), class, &mut state),
            [
                "a: UnschedulableAndUnresolvable node(s) didn't match the requested node name",
                "b: ok",
            ]
        );
    }
}
