//! TaintToleration: rejects nodes with untolerated hard taints; untolerated soft taints lower the score.

use api::config::PluginArgs;
use engine::bitset::NodeSet;
use engine::framework::event::Object;
use engine::framework::scorer::{SCORE_MAX, proportional_reversed};
use engine::framework::{
    Action, Class, Event, Extremes, Filter, KeyPart, NodeVerdict, Plugin, Point, PreFilterResult,
    Preparation, Rejection, Resource, Scorer, Subscription,
};
use engine::index::{NodeIdx, TaintsIdx};
use engine::object::{Taint, TaintEffect, Toleration};
use engine::state::State;

use crate::tolerations::{tolerates, tolerates_all_hard, untolerated_nodes};

pub(crate) const NAME: &str = "TaintToleration";
pub(crate) const POINTS: &[Point] = &[Point::Filter, Point::PreScore, Point::Score];
pub(crate) const DOC: &str = "Rejects nodes with untolerated NoSchedule or NoExecute taints; PreferNoSchedule lowers the score.";

pub(crate) fn build(_args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    Box::new(TaintToleration)
}

struct TaintToleration;

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        NAME
    }

    fn points(&self) -> &'static [Point] {
        POINTS
    }

    fn score_without_pre_score(&self) -> Option<&'static str> {
        Some("failed to read \"PreScoreTaintToleration\" from cycleState: not found")
    }

    fn evaluation_key(&self, _class: &Class, _state: &State) -> KeyPart {
        KeyPart::NOTHING
    }

    fn prepare_filter(&self, class: &Class, preparation: &mut Preparation) -> PreFilterResult {
        let untolerated = untolerated_nodes(preparation.state, &class.spec.tolerations);
        if untolerated.is_empty() {
            return PreFilterResult::Skip;
        }
        PreFilterResult::Filter(Box::new(UntoleratedNodes(untolerated)))
    }

    fn prepare_score(
        &self,
        class: &Class,
        preparation: &mut Preparation,
    ) -> Option<Box<dyn Scorer>> {
        let lists = preparation.state.nodes.taint_lists();
        let counts = lists.map_each(|taints| count_untolerated(&class.spec.tolerations, taints));
        Some(Box::new(UntoleratedSoftTaints(counts)))
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

    fn hint(&self, _state: &State, class: &Class, event: &Event) -> bool {
        let tolerated = |taints: &[Taint]| tolerates_all_hard(&class.spec.tolerations, taints);
        match event.object {
            Object::Node { old, new: Some(new) } => {
                old.is_none_or(|old| !tolerated(&old.taints)) && tolerated(&new.taints)
            }
            Object::Pod { .. } => event.own,
            _ => true,
        }
    }
}

/// Nodes with a hard taint that the pod does not tolerate.
struct UntoleratedNodes(NodeSet);

impl Filter for UntoleratedNodes {
    fn check(&mut self, _state: &State, node: NodeIdx) -> NodeVerdict {
        NodeVerdict(self.0.contains(node).into())
    }

    fn rejection(&self, _state: &State, _node: NodeIdx, _verdict: NodeVerdict) -> Rejection {
        Rejection::unresolvable("node(s) had untolerated taint(s)")
    }

    fn filter(&mut self, _state: &State, nodes: &mut NodeSet) {
        nodes.subtract(&self.0);
    }
}

/// Number of soft taints that the pod does not tolerate, for each distinct list of taints.
struct UntoleratedSoftTaints(Vec<i64>);

impl UntoleratedSoftTaints {
    fn count(&self, taints: TaintsIdx) -> i64 {
        self.0.get(taints.at()).copied().unwrap_or(0)
    }
}

impl Scorer for UntoleratedSoftTaints {
    fn score(&mut self, state: &State, node: NodeIdx) -> i64 {
        self.count(state.nodes.taint_lists().of(node))
    }

    fn score_all(&mut self, state: &State, raw: &mut [i64]) {
        for (raw, taints) in raw.iter_mut().zip(state.nodes.taint_lists().column()) {
            *raw = self.count(*taints);
        }
    }

    fn constant(&self) -> Option<i64> {
        self.0.iter().all(|count| *count == 0).then_some(SCORE_MAX)
    }

    fn normalises(&self) -> bool {
        true
    }

    fn normalise(&self, raw: i64, extremes: Extremes) -> i64 {
        proportional_reversed(raw, extremes)
    }
}

fn count_untolerated(tolerations: &[Toleration], taints: &[Taint]) -> i64 {
    let soft = taints.iter().filter(|taint| taint.effect == TaintEffect::PreferNoSchedule);
    soft.filter(|taint| !tolerates(tolerations, taint)).count() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use TaintEffect::{NoExecute, NoSchedule, PreferNoSchedule};
    use engine::object::{Node, Pod, PodSpec, TolerationOperator};
    use engine::testing::{class, node, node_event, pod, pod_event, scores, state, verdicts};

    const REASON: &str = "UnschedulableAndUnresolvable node(s) had untolerated taint(s)";

    fn tainted(name: &str, taints: &[(&str, TaintEffect)]) -> Node {
        let taint = |(key, effect): &(&str, TaintEffect)| Taint {
            key: (*key).into(),
            value: "".into(),
            effect: *effect,
        };
        Node { taints: taints.iter().map(taint).collect(), ..node(name) }
    }

    fn tolerating(tolerated: &[(&str, Option<TaintEffect>)]) -> PodSpec {
        let toleration = |(key, effect): &(&str, Option<TaintEffect>)| Toleration {
            key: (*key).into(),
            operator: TolerationOperator::Exists,
            value: "".into(),
            effect: *effect,
        };
        let tolerations = tolerated.iter().map(toleration).collect();
        PodSpec { tolerations, ..PodSpec::default() }
    }

    #[test]
    fn hard_taints_must_all_be_tolerated() {
        let nodes = || {
            [
                node("free"),
                tainted("soft", &[("a", PreferNoSchedule)]),
                tainted("hard", &[("a", NoSchedule)]),
                tainted("both", &[("a", NoSchedule), ("b", NoExecute)]),
            ]
        };
        for (spec, rejected) in [
            (tolerating(&[]), &["hard", "both"][..]),
            (tolerating(&[("a", None)]), &["both"]),
            (tolerating(&[("a", Some(NoExecute))]), &["hard", "both"]),
            (tolerating(&[("a", Some(NoSchedule)), ("b", Some(NoExecute))]), &[]),
            (tolerating(&[("", None)]), &[]),
        ] {
            let found = verdicts(build(None), class(spec), &mut state(nodes(), []));
            let expected = ["free", "soft", "hard", "both"].map(|name| {
                let verdict = if rejected.contains(&name) { REASON } else { "ok" };
                format!("{name}: {verdict}")
            });
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn fewer_soft_taints_score_better() {
        let nodes = || {
            [
                node("none"),
                tainted("hard", &[("a", NoSchedule)]),
                tainted("one", &[("a", PreferNoSchedule)]),
                tainted(
                    "three",
                    &[("a", PreferNoSchedule), ("b", PreferNoSchedule), ("c", PreferNoSchedule)],
                ),
            ]
        };
        for (spec, expected) in [
            (tolerating(&[]), [100, 100, 67, 0]),
            (tolerating(&[("a", None)]), [100, 100, 100, 0]),
            (tolerating(&[("a", Some(PreferNoSchedule))]), [100, 100, 100, 0]),
            (tolerating(&[("a", Some(NoSchedule))]), [100, 100, 67, 0]),
            (tolerating(&[("b", None)]), [100, 100, 50, 0]),
            (tolerating(&[("", None)]), [100; 4]),
        ] {
            let found = scores(&*build(None), &class(spec), &mut state(nodes(), []));
            let names = ["none", "hard", "one", "three"].iter().zip(expected);
            let expected: Vec<_> = names.map(|(name, score)| format!("{name}: {score}")).collect();
            assert_eq!(found, Some(expected));
        }
    }

    #[test]
    fn a_node_that_became_tolerable_helps() {
        let (free, hard) = (node("a"), tainted("a", &[("a", NoSchedule)]));
        let soft = tainted("a", &[("a", PreferNoSchedule)]);
        let state = state([], []);
        let class = class(PodSpec::default());
        for (old, new, expected) in [
            (None, &free, true),
            (None, &hard, false),
            (Some(&hard), &free, true),
            (Some(&hard), &soft, true),
            (Some(&hard), &hard, false),
            (Some(&soft), &free, false),
            (Some(&free), &hard, false),
        ] {
            let event = node_event(Action::UPDATE_NODE_TAINT, old, new);
            assert_eq!(build(None).hint(&state, &class, &event), expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn a_toleration_of_the_pod_itself_helps() {
        let state = state([], []);
        let pod = Pod { spec: tolerating(&[("a", None)]).into(), ..pod("p") };
        for own in [false, true] {
            let event = pod_event(Action::UPDATE_POD_TOLERATION, None, Some(&pod), own);
            assert_eq!(build(None).hint(&state, &class(PodSpec::default()), &event), own);
        }
    }
}
