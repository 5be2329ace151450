//! DefaultBinder: binds a pod to its node by creating a Binding.

use api::config::PluginArgs;
use engine::framework::{Plugin, Point};
use engine::index::{NodeIdx, PodIdx};
use engine::state::State;

pub(crate) const NAME: &str = "DefaultBinder";
pub(crate) const POINTS: &[Point] = &[Point::Bind];
pub(crate) const DOC: &str = "Binds a pod to its node by creating a Binding.";

pub(crate) fn build(_args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    Box::new(DefaultBinder)
}

struct DefaultBinder;

impl Plugin for DefaultBinder {
    fn name(&self) -> &'static str {
        NAME
    }

    fn points(&self) -> &'static [Point] {
        POINTS
    }

    fn binds(&self, _state: &State, _pod: PodIdx, _node: NodeIdx) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::testing::{node, pod, state};

    #[test]
    fn every_pod_is_bound() {
        let state = state([node("a")], [pod("p")]);
        let (pod, node) = (state.find_pod("default", "p"), state.nodes.find("a"));
        assert!(build(None).binds(&state, pod.unwrap(), node.unwrap()));
    }
}
