//! NodeAffinity: filters nodes by node selector and required node affinity, and scores them by preferred
//! node affinity.

mod added;
mod filter;
pub(crate) mod nodes;
mod score;

use api::config::PluginArgs;
use engine::framework::event::Object;
use engine::framework::{
    Action, Class, Event, KeyPart, Plugin, Point, PreFilterResult, Preparation, Resource, Scorer,
    Subscription,
};
use engine::object::{Labels, Node, NodeTerm, PodSpec};
use engine::state::State;

pub(crate) const NAME: &str = "NodeAffinity";
pub(crate) const POINTS: &[Point] =
    &[Point::PreFilter, Point::Filter, Point::PreScore, Point::Score];
pub(crate) const DOC: &str = "Filters nodes by node selector and required node affinity, and scores by preferred node affinity.";

pub(crate) fn build(args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    let added = match args {
        Some(PluginArgs::NodeAffinity(args)) => args.added_affinity.as_ref(),
        _ => None,
    };
    Box::new(NodeAffinity { added: added.map(added::lower).unwrap_or_default() })
}

struct NodeAffinity {
    /// `addedAffinity` of the configuration, which applies to every pod.
    added: engine::object::NodeAffinity,
}

impl Plugin for NodeAffinity {
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
        filter::prepare(self.added.required.as_deref(), &class.spec, preparation.state)
    }

    fn prepare_score(
        &self,
        class: &Class,
        preparation: &mut Preparation,
    ) -> Option<Box<dyn Scorer>> {
        score::prepare(&self.added, &class.spec.node_affinity, preparation.state)
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        vec![Subscription {
            resource: Resource::Node,
            action: Action::ADD.with(Action::UPDATE_NODE_LABEL),
        }]
    }

    /// Wider than upstream's hint: a node that begins to match the added affinity helps, too.
    fn hint(&self, _state: &State, class: &Class, event: &Event) -> bool {
        let Object::Node { old, new: Some(new) } = event.object else { return true };
        let required = RequiredNodeAffinity::new(&class.spec);
        let enforced = |node: &Node| {
            self.added.required.as_deref().is_none_or(|terms| any_matches(terms, node))
        };
        let fitted = |old: &Node| enforced(old) && required.matches(old);
        enforced(new)
            && (required.is_undecidable(new) || required.matches(new) && !old.is_some_and(fitted))
    }
}

/// Node selector and required node affinity of a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequiredNodeAffinity<'a> {
    selector: Option<&'a Labels>,
    terms: Option<&'a [NodeTerm]>,
}

impl<'a> RequiredNodeAffinity<'a> {
    /// Returns the requirements of a spec.
    pub(crate) fn new(spec: &'a PodSpec) -> Self {
        let selector = spec.node_selector.as_ref();
        Self { selector, terms: spec.node_affinity.required.as_deref() }
    }

    /// Returns `true` if a node matches both.
    pub(crate) fn matches(&self, node: &Node) -> bool {
        self.selects(node) && self.terms.is_none_or(|terms| any_matches(terms, node))
    }

    /// Returns `true` if upstream returns an error: no term matches, and one is malformed.
    fn is_undecidable(&self, node: &Node) -> bool {
        let fails = |terms: &[NodeTerm]| {
            terms.iter().any(|term| term.malformed) && !any_matches(terms, node)
        };
        self.terms.is_some_and(fails) && self.selects(node)
    }

    fn selects(&self, node: &Node) -> bool {
        self.selector.is_none_or(|selector| {
            selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        })
    }
}

fn any_matches(terms: &[NodeTerm], node: &Node) -> bool {
    terms.iter().any(|term| term.matches(&node.name, &node.labels))
}

#[cfg(test)]
mod tests;
