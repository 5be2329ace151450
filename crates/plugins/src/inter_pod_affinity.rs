//! InterPodAffinity: applies required and preferred affinity and anti-affinity between pods.

mod filter;
mod score;
mod terms;
#[cfg(test)]
mod tests;

use api::config::PluginArgs;
use engine::framework::event::Object;
use engine::framework::{
    Action, Class, Event, KeyPart, Plugin, PodView, Point, PreFilterResult, Preparation, Resource,
    Scorer, Subscription,
};
use engine::object::{Node, PodTerm};
use engine::state::terms::TermKind;
use engine::state::{Areas, State};

use terms::{ExistingTerms, may_match};

pub(crate) const NAME: &str = "InterPodAffinity";
pub(crate) const POINTS: &[Point] =
    &[Point::PreFilter, Point::Filter, Point::PreScore, Point::Score];
pub(crate) const DOC: &str =
    "Applies required and preferred affinity and anti-affinity between pods.";

pub(crate) fn build(args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    Box::new(match args {
        Some(PluginArgs::InterPodAffinity(args)) => InterPodAffinity {
            hard_affinity_weight: i64::from(args.hard_pod_affinity_weight),
            ignores_existing_preferences: args.ignore_preferred_terms_of_existing_pods,
        },
        _ => InterPodAffinity { hard_affinity_weight: 1, ignores_existing_preferences: false },
    })
}

struct InterPodAffinity {
    /// Weight of the required affinity of existing pods in scores; 0 excludes it.
    hard_affinity_weight: i64,
    /// `true` if preferred terms of existing pods do not count: pods without preferred terms are not scored.
    ignores_existing_preferences: bool,
}

impl Plugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        NAME
    }

    fn points(&self) -> &'static [Point] {
        POINTS
    }

    fn score_without_pre_score(&self) -> Option<&'static str> {
        Some("failed to read \"PreScoreInterPodAffinity\" from cycleState: not found")
    }

    fn filter_without_pre_filter(&self) -> Option<&'static str> {
        Some("error reading \"PreFilterInterPodAffinity\" from cycleState: not found")
    }

    fn evaluation_key(&self, class: &Class, state: &State) -> KeyPart {
        let labels = state.namespace_labels(&class.namespace);
        let terms = state.terms.matching(&class.namespace, &class.labels, labels);
        let mut fields = vec![filter::matches_itself(class, state).into()];
        fields.extend(terms.iter().map(|term| term.0));
        KeyPart::Fields(fields)
    }

    fn prepare_filter(&self, class: &Class, preparation: &mut Preparation) -> PreFilterResult {
        preparation.depends_on(Areas::NAMESPACES);
        PreFilterResult::Filter(Box::new(filter::AffinityFilter::new(class, preparation.state)))
    }

    fn prepare_score(
        &self,
        class: &Class,
        preparation: &mut Preparation,
    ) -> Option<Box<dyn Scorer>> {
        let own = &class.spec.pod_affinity;
        let has_preferences = !own.preferred.is_empty() || !own.preferred_anti.is_empty();
        if self.ignores_existing_preferences && !has_preferences {
            return None;
        }
        preparation.depends_on(Areas::NAMESPACES);
        let scorer =
            score::AffinityScorer::new(class, self.hard_affinity_weight, preparation.state);
        Some(Box::new(scorer))
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        let pods = Action::ADD.with(Action::DELETE).with(Action::UPDATE_POD_LABEL);
        let nodes = Action::ADD.with(Action::DELETE).with(Action::UPDATE_NODE_LABEL);
        vec![
            Subscription { resource: Resource::Pod, action: pods },
            Subscription { resource: Resource::Node, action: nodes },
        ]
    }

    /// Wider than upstream's hint, which misses namespace selectors, pods that match only some of several
    /// anti-affinity terms, nodes that anti-affinity of existing pods closes, and pods of deleted nodes.
    fn hint(&self, state: &State, class: &Class, event: &Event) -> bool {
        match event.object {
            Object::Pod { .. } if event.own => true,
            Object::Pod { old, new } => pod_may_help(state, class, old, new),
            Object::Node { old: Some(gone), new: None } => pods_may_help(state, class, gone),
            Object::Node { old, new } => node_may_help(state, class, old, new),
            _ => true,
        }
    }
}

fn pod_may_help(state: &State, class: &Class, old: Option<PodView>, new: Option<PodView>) -> bool {
    let placed = |pod: PodView| pod.assigned || pod.nominated;
    if !old.is_none_or(placed) || !new.is_none_or(placed) {
        return false;
    }
    let own = &class.spec.pod_affinity;
    let matches = |term: &PodTerm, pod: PodView| {
        may_match(term, pod.namespace, pod.labels, state.namespace_labels(pod.namespace))
    };
    let matches_affinity = |pod: Option<PodView>| {
        let all = |pod| own.required.iter().all(|term| matches(term, pod));
        !own.required.is_empty() && pod.is_some_and(all)
    };
    let no_longer_matches = |term: &PodTerm| {
        old.is_some_and(|pod| matches(term, pod)) && !new.is_some_and(|pod| matches(term, pod))
    };
    // A pod that appears may satisfy the affinity; when the last one goes, the class may be the first match.
    if matches_affinity(old) != matches_affinity(new)
        || own.required_anti.iter().any(no_longer_matches)
    {
        return true;
    }
    let class_labels = state.namespace_labels(&class.namespace);
    let avoids = |pod: PodView| {
        let terms = &pod.spec.pod_affinity.required_anti;
        terms.iter().any(|term| may_match(term, &class.namespace, &class.labels, class_labels))
    };
    old.is_some_and(avoids) && !new.is_some_and(avoids)
}

/// Returns `true` if the pods of a deleted node may have been in the way.
fn pods_may_help(state: &State, class: &Class, gone: &Node) -> bool {
    let Some(node) = state.nodes.find(&gone.name) else { return true };
    let views = state.nodes.pods(node).iter().map(|pod| PodView::of(state, *pod));
    views.into_iter().any(|pod| pod_may_help(state, class, Some(pod), None))
}

fn node_may_help(state: &State, class: &Class, old: Option<&Node>, new: Option<&Node>) -> bool {
    let own = &class.spec.pod_affinity;
    let (Some(old), Some(new)) = (old, new) else {
        let in_domain = |term: &PodTerm| {
            old.or(new).is_none_or(|node| node.labels.get(&term.topology_key).is_some())
        };
        // A node outside of all domains of the required affinity cannot help.
        return own.required.is_empty()
            || !own.required_anti.is_empty()
            || own.required.iter().any(in_domain);
    };
    let moved = |key: &str| old.labels.get(key) != new.labels.get(key);
    let own_terms = own.required.iter().chain(&own.required_anti);
    own_terms.into_iter().any(|term| moved(&term.topology_key))
        || ExistingTerms::new(class, |kind| kind == TermKind::RequiredAnti, state)
            .terms()
            .iter()
            .any(|term| moved(&state.terms.get(*term).term.topology_key))
}
