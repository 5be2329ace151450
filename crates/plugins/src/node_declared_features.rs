//! NodeDeclaredFeatures: rejects nodes that do not declare the features the pod requires.

use api::config::PluginArgs;
use engine::framework::event::Object;
use engine::framework::{
    Action, Class, Event, Filter, KeyPart, NodeVerdict, Plugin, Point, PreFilterResult,
    Preparation, Rejection, Resource, Subscription,
};
use engine::index::NodeIdx;
use engine::object::Text;
use engine::state::State;

pub(crate) const NAME: &str = "NodeDeclaredFeatures";
pub(crate) const POINTS: &[Point] = &[Point::PreFilter, Point::Filter];
pub(crate) const DOC: &str = "Rejects nodes that do not declare the features the pod requires.";

pub(crate) fn build(_args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    Box::new(NodeDeclaredFeatures)
}

struct NodeDeclaredFeatures;

impl Plugin for NodeDeclaredFeatures {
    fn name(&self) -> &'static str {
        NAME
    }

    fn points(&self) -> &'static [Point] {
        POINTS
    }

    fn filter_without_pre_filter(&self) -> Option<&'static str> {
        Some("error reading \"PreFilterNodeDeclaredFeatures\" from cycle-state: not found")
    }

    fn evaluation_key(&self, _class: &Class, _state: &State) -> KeyPart {
        KeyPart::NOTHING
    }

    fn prepare_filter(&self, class: &Class, _preparation: &mut Preparation) -> PreFilterResult {
        if class.spec.required_features.is_empty() {
            return PreFilterResult::Skip;
        }
        PreFilterResult::Filter(Box::new(RequiredFeatures(class.spec.required_features.clone())))
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        vec![
            Subscription {
                resource: Resource::Node,
                action: Action::ADD.with(Action::UPDATE_NODE_DECLARED_FEATURE),
            },
            Subscription { resource: Resource::Pod, action: Action::UPDATE },
        ]
    }

    fn hint(&self, _state: &State, _class: &Class, event: &Event) -> bool {
        match event.object {
            Object::Node { old: Some(old), new: Some(new) } => {
                old.declared_features != new.declared_features
            }
            Object::Pod { old: Some(old), new: Some(new) } => {
                event.own && old.spec.required_features != new.spec.required_features
            }
            Object::Pod { .. } => event.own,
            _ => true,
        }
    }
}

/// Features that a node must declare.
struct RequiredFeatures(Box<[Text]>);

impl Filter for RequiredFeatures {
    fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict {
        let declared = &state.nodes.object(node).declared_features;
        let missing = self.0.iter().any(|feature| declared.binary_search(feature).is_err());
        NodeVerdict(missing.into())
    }

    fn rejection(&self, _state: &State, _node: NodeIdx, _verdict: NodeVerdict) -> Rejection {
        Rejection::unresolvable("node(s) didn't match Pod's required features")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use engine::object::{Node, Pod, PodSpec};
    use engine::testing::{class, node, node_event, pod, pod_event, state, verdicts};

    fn declaring(name: &str, features: &[&str]) -> Node {
        let declared_features = features.iter().map(|feature| (*feature).into()).collect();
        Node { declared_features, ..node(name) }
    }

    fn requiring(features: &[&str]) -> PodSpec {
        let required_features = features.iter().map(|feature| (*feature).into()).collect();
        PodSpec { required_features, ..PodSpec::default() }
    }

    #[test]
    fn a_node_must_declare_every_feature() {
        let nodes = || {
            [declaring("none", &[]), declaring("one", &["A"]), declaring("all", &["A", "B", "C"])]
        };
        let text = "UnschedulableAndUnresolvable node(s) didn't match Pod's required features";
        let rejected = |name| format!("{name}: {text}");
        for (features, expected) in [
            (&[][..], ["none: ok".into(), "one: ok".into(), "all: ok".into()]),
            (&["A"], [rejected("none"), "one: ok".into(), "all: ok".into()]),
            (&["A", "B"], [rejected("none"), rejected("one"), "all: ok".into()]),
            (&["A", "D"], ["none", "one", "all"].map(rejected)),
        ] {
            let class = class(requiring(features));
            let found = verdicts(build(None), class, &mut state(nodes(), []));
            assert_eq!(found, expected, "{features:?}");
        }
    }

    #[test]
    fn changed_features_of_a_node_help() {
        let state = state([], []);
        let (less, more) = (declaring("a", &[]), declaring("a", &["A"]));
        for (old, new, expected) in
            [(None, &less, true), (Some(&less), &more, true), (Some(&more), &more, false)]
        {
            let event = node_event(Action::UPDATE_NODE_DECLARED_FEATURE, old, new);
            assert_eq!(build(None).hint(&state, &class(requiring(&["A"])), &event), expected);
        }
    }

    #[test]
    fn changed_requirements_of_the_pod_itself_help() {
        let state = state([], []);
        let requires = |features| Pod { spec: requiring(features).into(), ..pod("p") };
        let (more, less) = (requires(&["A", "B"]), requires(&["A"]));
        for (old, new, own, expected) in
            [(&more, &less, true, true), (&more, &less, false, false), (&less, &less, true, false)]
        {
            let event = pod_event(Action::UPDATE_POD_LABEL, Some(old), Some(new), own);
            assert!(build(None).subscriptions().iter().any(|s| s.covers(&event)));
            assert_eq!(build(None).hint(&state, &class(requiring(&["A"])), &event), expected);
        }
    }
}
