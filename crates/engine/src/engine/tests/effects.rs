//! Effects of plugins: pods that are bound together, activations, wake-ups and reports.

use crate::engine::testing::*;
use crate::framework::{
    Action, BindContext, Class, Effects, Event, Permit, Plugin, Point, Rejection, Report,
    Reservation, Resource, Subscription,
};
use crate::index::PodIdx;
use crate::object::Pod;
use crate::queue::QueueStage;
use crate::state::State;
use crate::testing::labels;

/// Holds pods back until another pod with the same label `pair` waits, too.
struct Pairs;

/// Returns the pods that wait with the same pair.
fn partners(state: &State, pod: PodIdx) -> Vec<PodIdx> {
    let pair = |pod| state.labels(pod).get("pair");
    let partners = state.waiting_on_permit().filter(|other| *other != pod);
    partners.filter(|other| pair(*other).is_some() && pair(*other) == pair(pod)).collect()
}

impl Plugin for Pairs {
    fn name(&self) -> &'static str {
        "Pairs"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::Reserve, Point::Permit, Point::PostBind]
    }

    fn unreserve(&self, reservation: &mut Reservation) {
        for partner in partners(reservation.state, reservation.pod) {
            reservation.effects.reject(partner, Rejection::unschedulable("the partner left"));
        }
    }

    fn permit(&self, context: &mut BindContext) -> Permit {
        if context.state.labels(context.pod).get("pair").is_none() {
            return Permit::Allow;
        }
        let partners = partners(context.state, context.pod);
        if partners.is_empty() {
            return Permit::Wait { timeout: MINUTE };
        }
        for partner in partners {
            context.effects.allow(partner);
        }
        Permit::Allow
    }

    fn post_bind(&self, context: &mut BindContext) {
        let (reason, note) = ("Paired".into(), "bound with its partner".to_owned());
        context.effects.report(context.pod, Report { warning: false, reason, note });
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        vec![Subscription { resource: Resource::Node, action: Action::ADD }]
    }

    fn hint_with_effects(
        &self,
        state: &State,
        _class: &Class,
        event: &Event,
        effects: &mut Effects,
    ) -> bool {
        let time = state.now() + 5 * SECOND;
        let waits = |pod: &PodIdx| !state.pods.get(*pod).node.is_some();
        let pods = state.pods.iter().map(|(pod, _)| pod).filter(waits);
        for pod in pods {
            effects.wake_at(pod, time);
        }
        event.own
    }
}

fn harness() -> Harness {
    Harness::with_plugin(Box::new(Pairs), &[("n1", 4000)])
}

fn paired(name: &str, cpu: i64) -> Pod {
    Pod { labels: labels(&[("pair", "x")]), ..pending(name, cpu) }
}

#[test]
fn a_permit_that_allows_the_waiting_partner_releases_both_at_once() {
    let mut harness = harness();
    assert_eq!(harness.place(paired("a", 100)), ["nominate a for n1"]);
    assert_eq!(harness.place(pending("other", 100)), ["bind other to n1"]);
    assert_eq!(harness.place(paired("b", 100)), ["bind b to n1", "bind a to n1"]);
    assert_eq!(harness.engine.state().waiting_on_permit().count(), 0);
    assert_eq!(
        harness.tell(bound("a")),
        ["scheduled a on n1", "Pairs reports about a: Paired, bound with its partner"]
    );
}

#[test]
fn unreserving_a_pod_may_reject_those_that_wait_for_it() {
    let mut harness = harness();
    harness.place(paired("a", 100));
    let rejection = Rejection::unschedulable("taken");
    harness.script.refusals.lock().insert(("ReserveB", "b".to_owned()), rejection);
    assert_eq!(
        harness.place(paired("b", 100)),
        ["Unschedulable b, nominate for none", "Unschedulable a, nominate for none"]
    );
    assert_eq!(harness.blockers("a").0, ["Pairs"]);
    assert_eq!(harness.message(), "0/1 nodes are available: 1 the partner left.");
    assert_eq!(harness.node_of("a"), None);
}

#[test]
fn effects_on_pods_that_do_not_wait_are_ignored() {
    let mut harness = harness();
    harness.wait_at("PermitA", "a", MINUTE);
    harness.place(paired("a", 100));
    harness.tell(allowed("a", "Pairs"));
    assert_eq!(
        harness.place(paired("b", 100)),
        ["bind b to n1"],
        "a waits on another plugin, which b cannot allow"
    );
    assert_eq!(harness.tell(allowed("a", "PermitA")), ["bind a to n1"]);
}

#[test]
fn a_hint_may_wake_pods_at_a_time() {
    let mut harness = harness();
    harness.place(paired("a", 100));
    harness.tell(denied("a", "Pairs", "not now"));
    assert_eq!(harness.stage("a"), Some(QueueStage::Unschedulable));
    harness.add_node("n2", 4000);
    assert_eq!(harness.stage("a"), Some(QueueStage::Unschedulable));
    assert_eq!(harness.after(4 * SECOND), [""; 0]);
    assert_eq!(harness.after(SECOND), ["nominate a for n1"]);
}
