//! Pairs: binds a pod only together with its partner, the pod with the same annotation.

use jindou::object::PodSpec;
use jindou::{
    Action, AnnotationKeys, Args, Class, Effects, Event, NodePlugin, Object, OtherPod, Permit,
    PodOnNode, Point, Rejection, Resource, Subscription,
};
use serde::Deserialize;

/// Pod annotation with the name of a pair, in its namespace.
const PAIR: &str = "example.com/pair";

const SECOND: i64 = 1_000_000_000;

/// Arguments in `pluginConfig`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Pairs {
    /// How long a pod waits for its partner before it gives up its node.
    timeout_seconds: u16,
}

impl Default for Pairs {
    fn default() -> Self {
        Self { timeout_seconds: 60 }
    }
}

fn pair_of(spec: &PodSpec) -> Option<&str> {
    spec.annotations.get(PAIR)
}

/// Returns the partners of a pod that has the annotation.
fn partners<'a>(pod: &PodOnNode<'a>) -> Vec<OtherPod<'a>> {
    let (namespace, Some(pair)) = (pod.namespace(), pair_of(pod.spec())) else {
        return Vec::new();
    };
    let is_partner =
        |other: &OtherPod| other.namespace() == namespace && pair_of(other.spec()) == Some(pair);
    pod.all_pods().filter(is_partner).collect()
}

impl NodePlugin for Pairs {
    const NAME: &'static str = "Pairs";
    const POINTS: &'static [Point] = &[Point::Reserve, Point::Permit];

    fn new(args: Option<&Args>) -> Result<Self, String> {
        jindou::args(args)
    }

    fn annotations(&self) -> AnnotationKeys {
        AnnotationKeys { pods: [PAIR.into()].into(), ..AnnotationKeys::default() }
    }

    fn permit(&self, pod: &mut PodOnNode) -> Permit {
        if pair_of(pod.spec()).is_none() {
            return Permit::Allow;
        }
        let partners = partners(pod);
        if partners.iter().any(OtherPod::has_node) {
            // Those that are bound already do not wait and are left alone.
            for partner in &partners {
                pod.allow(partner);
            }
            return Permit::Allow;
        }
        // A partner that gave up earlier tries again.
        for partner in &partners {
            pod.activate(partner);
        }
        Permit::Wait { timeout: i64::from(self.timeout_seconds) * SECOND }
    }

    fn unreserve(&self, pod: &mut PodOnNode) {
        for partner in partners(pod) {
            pod.reject(&partner, Rejection::unschedulable("the partner of the pod has no node"));
        }
    }

    /// Room for the partner is room for the pair.
    fn events(&self) -> Vec<Subscription> {
        let nodes = Action::ADD.with(Action::UPDATE);
        [(Resource::Node, nodes), (Resource::Pod, Action::ALL)]
            .map(|(resource, action)| Subscription { resource, action })
            .into()
    }

    /// A pod that timed out is not retried because its own status changed.
    fn hint(&self, _pod: &Class, event: &Event, _effects: &mut Effects) -> bool {
        match event.object {
            Object::Pod { old: Some(old), new: Some(new) } if event.own => {
                pair_of(old.spec) != pair_of(new.spec)
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CONFIG, node, pod, scheduler};
    use jindou::testing::TestScheduler;
    use std::time::Duration;

    fn half(name: &str) -> String {
        pod(name, "default-scheduler", &[(PAIR, "p")])
    }

    fn bound(scheduler: &TestScheduler) -> Vec<String> {
        scheduler.bound().into_iter().map(|(pod, _)| pod).collect()
    }

    #[test]
    fn both_pods_of_a_pair_are_bound_at_once() {
        let mut scheduler = scheduler(CONFIG);
        scheduler.apply(&node("n1"));
        scheduler.apply(&half("a"));
        assert_eq!(scheduler.reason("a").as_deref(), Some("waits on Permit plugins for n1"));
        let objections = scheduler.explain("a").objections;
        assert_eq!((&*objections[0].plugin, objections[0].code), ("Pairs", "Wait"));
        scheduler.apply(&pod("single", "default-scheduler", &[]));
        scheduler.apply(&pod("q", "default-scheduler", &[(PAIR, "q")]));
        assert_eq!(bound(&scheduler), ["single"]);
        scheduler.apply(&half("b"));
        assert_eq!(bound(&scheduler), ["a", "b", "single"]);
    }

    #[test]
    fn a_pod_whose_partner_runs_already_does_not_wait() {
        let mut scheduler = scheduler(CONFIG);
        scheduler.apply(&node("n1"));
        scheduler.apply(&format!("{}\n---\n{}", half("a"), half("b")));
        scheduler.delete("a");
        scheduler.apply(&half("a"));
        assert_eq!(bound(&scheduler), ["a", "b"]);
    }

    #[test]
    fn a_pod_that_timed_out_is_activated_by_its_partner() {
        let mut scheduler = scheduler(CONFIG);
        scheduler.apply(&node("n1"));
        scheduler.apply(&half("a"));
        scheduler.advance(Duration::from_secs(61));
        let reason = scheduler.reason("a").expect("it waits");
        assert!(
            reason.contains("rejected due to timeout after waiting at plugin Pairs"),
            "{reason}"
        );
        scheduler.apply(&half("b"));
        assert_eq!(bound(&scheduler), ["a", "b"]);
    }

    #[test]
    fn a_pair_waits_until_both_have_room() {
        let mut scheduler = scheduler(CONFIG);
        scheduler.apply(&node("n1").replace("pods: 10", "pods: 1"));
        scheduler.apply(&format!("{}\n---\n{}", half("a"), half("b")));
        scheduler.advance(Duration::from_mins(2));
        assert_eq!(bound(&scheduler), [""; 0]);
        scheduler.apply(&node("n2"));
        scheduler.advance(Duration::from_secs(10));
        assert_eq!(bound(&scheduler), ["a", "b"]);
    }

    #[test]
    fn a_pod_that_loses_its_node_rejects_its_partner() {
        let mut scheduler = scheduler(CONFIG);
        scheduler.apply(&node("n1"));
        scheduler.apply(&half("a"));
        scheduler.delete("a");
        scheduler.apply(&half("b"));
        assert_eq!(scheduler.reason("b").as_deref(), Some("waits on Permit plugins for n1"));
    }
}
