//! PodTopologySpread: spreads matching pods evenly over nodes, zones or other topology domains.

mod constraints;
mod filter;
mod score;
#[cfg(test)]
mod tests;

use api::config::PluginArgs;
use api::config::args::{DefaultingType, NodeInclusionPolicy, TopologySpreadConstraint};
use engine::framework::event::Object;
use engine::framework::{
    Action, Class, Event, KeyPart, Plugin, PodView, Point, PreFilterResult, Preparation, Resource,
    Scorer, Subscription,
};
use engine::object::{Labels, Node, SpreadConstraint, WhenUnsatisfiable};
use engine::state::State;

use constraints::DefaultConstraints;

pub(crate) const NAME: &str = "PodTopologySpread";
pub(crate) const POINTS: &[Point] =
    &[Point::PreFilter, Point::Filter, Point::PreScore, Point::Score];
pub(crate) const DOC: &str =
    "Spreads matching pods evenly over nodes, zones or other topology domains.";

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

pub(crate) fn build(args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    let defaults = match args {
        Some(PluginArgs::PodTopologySpread(args))
            if args.defaulting_type == DefaultingType::List =>
        {
            DefaultConstraints {
                system: false,
                constraints: args.default_constraints.iter().map(configured).collect(),
            }
        }
        _ => DefaultConstraints {
            system: true,
            constraints: vec![system_default(HOSTNAME, 3), system_default(ZONE, 5)],
        },
    };
    Box::new(PodTopologySpread { defaults })
}

struct PodTopologySpread {
    defaults: DefaultConstraints,
}

impl Plugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        NAME
    }

    fn points(&self) -> &'static [Point] {
        POINTS
    }

    fn score_without_pre_score(&self) -> Option<&'static str> {
        Some("error reading \"PreScorePodTopologySpread\" from cycleState: not found")
    }

    fn filter_without_pre_filter(&self) -> Option<&'static str> {
        Some("reading \"PreFilterPodTopologySpread\" from cycleState: not found")
    }

    fn evaluation_key(&self, class: &Class, state: &State) -> KeyPart {
        KeyPart::nothing_if(
            self.defaults
                .resolve(class, WhenUnsatisfiable::DoNotSchedule, state)
                .constraints
                .is_empty()
                && self
                    .defaults
                    .resolve(class, WhenUnsatisfiable::ScheduleAnyway, state)
                    .constraints
                    .is_empty(),
        )
    }

    fn prepare_filter(&self, class: &Class, preparation: &mut Preparation) -> PreFilterResult {
        let hard =
            self.defaults.resolve(class, WhenUnsatisfiable::DoNotSchedule, preparation.state);
        preparation.depends_on(hard.areas);
        if hard.constraints.is_empty() {
            return PreFilterResult::Skip;
        }
        PreFilterResult::Filter(Box::new(filter::SpreadFilter::new(
            class,
            &hard.constraints,
            preparation.state,
        )))
    }

    fn prepare_score(
        &self,
        class: &Class,
        preparation: &mut Preparation,
    ) -> Option<Box<dyn Scorer>> {
        let soft =
            self.defaults.resolve(class, WhenUnsatisfiable::ScheduleAnyway, preparation.state);
        preparation.depends_on(soft.areas);
        if soft.constraints.is_empty() {
            return None;
        }
        let all_keys_needed = !class.spec.spread.is_empty() || !self.defaults.system;
        let scorer =
            score::SpreadScorer::new(class, &soft.constraints, all_keys_needed, preparation.state);
        Some(Box::new(scorer))
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        let pods = Action::ADD
            .with(Action::DELETE)
            .with(Action::UPDATE_POD_LABEL)
            .with(Action::UPDATE_POD_TOLERATION);
        let nodes = Action::ADD
            .with(Action::DELETE)
            .with(Action::UPDATE_NODE_LABEL)
            .with(Action::UPDATE_NODE_TAINT);
        vec![
            Subscription { resource: Resource::Pod, action: pods },
            Subscription { resource: Resource::Node, action: nodes },
        ]
    }

    fn hint(&self, state: &State, class: &Class, event: &Event) -> bool {
        let hard =
            self.defaults.resolve(class, WhenUnsatisfiable::DoNotSchedule, state).constraints;
        match event.object {
            Object::Pod { old, new } => pod_may_help(class, &hard, old, new, event.own),
            Object::Node { old, new } => node_may_help(class, &hard, old, new),
            _ => true,
        }
    }
}

/// Returns a default constraint of the arguments. Its `matchLabelKeys` have no effect, since the selector
/// comes from services and controllers.
fn configured(constraint: &TopologySpreadConstraint) -> SpreadConstraint {
    use api::config::args::WhenUnsatisfiable as Listed;
    let honors = |policy: Option<NodeInclusionPolicy>, default| {
        policy.map_or(default, |policy| policy == NodeInclusionPolicy::Honor)
    };
    SpreadConstraint {
        max_skew: constraint.max_skew,
        topology_key: constraint.topology_key.as_str().into(),
        when_unsatisfiable: match constraint.when_unsatisfiable {
            Listed::DoNotSchedule => WhenUnsatisfiable::DoNotSchedule,
            Listed::ScheduleAnyway => WhenUnsatisfiable::ScheduleAnyway,
        },
        selector: None,
        min_domains: constraint.min_domains.unwrap_or(1),
        honor_affinity: honors(constraint.node_affinity_policy, true),
        honor_taints: honors(constraint.node_taints_policy, false),
    }
}

fn system_default(topology_key: &str, max_skew: i32) -> SpreadConstraint {
    SpreadConstraint {
        max_skew,
        topology_key: topology_key.into(),
        when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
        selector: None,
        min_domains: 1,
        honor_affinity: true,
        honor_taints: false,
    }
}

fn pod_may_help(
    class: &Class,
    hard: &[SpreadConstraint],
    old: Option<PodView>,
    new: Option<PodView>,
    own: bool,
) -> bool {
    let involved =
        |pod: PodView| own || (pod.assigned || pod.nominated) && *pod.namespace == *class.namespace;
    if !old.is_none_or(involved) || !new.is_none_or(involved) {
        return false;
    }
    let counts = |constraint: &SpreadConstraint, labels: &Labels| {
        constraint.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    };
    match (old, new) {
        (Some(old), Some(new)) => {
            let tolerates_more = own
                && old.spec.tolerations != new.spec.tolerations
                && hard.iter().any(|constraint| constraint.honor_taints);
            let counting_changes =
                || hard.iter().any(|c| counts(c, old.labels) != counts(c, new.labels));
            tolerates_more || counting_changes()
        }
        (Some(pod), None) | (None, Some(pod)) => hard.iter().any(|c| counts(c, pod.labels)),
        (None, None) => true,
    }
}

fn node_may_help(
    class: &Class,
    hard: &[SpreadConstraint],
    old: Option<&Node>,
    new: Option<&Node>,
) -> bool {
    let in_all_domains =
        |node: &Node| hard.iter().all(|c| node.labels.get(&c.topology_key).is_some());
    match (old, new) {
        (Some(old), Some(new)) => {
            let (before, after) = (in_all_domains(old), in_all_domains(new));
            let domain_changes = || {
                hard.iter()
                    .any(|c| old.labels.get(&c.topology_key) != new.labels.get(&c.topology_key))
            };
            // Upstream overlooks that other labels decide whether a node is counted at all.
            let inclusion_changes = || {
                constraints::constrains_nodes(class)
                    && hard.iter().any(|c| c.honor_affinity)
                    && old.labels != new.labels
            };
            before != after
                || after && (domain_changes() || old.taints != new.taints || inclusion_changes())
        }
        (Some(node), None) | (None, Some(node)) => in_all_domains(node),
        (None, None) => true,
    }
}
