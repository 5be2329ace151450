//! Reserve and Unreserve: order, and what a refusal undoes.

use crate::engine::testing::*;
use crate::framework::{Permit, Rejection};
use crate::queue::QueueStage;

fn refuse(harness: &Harness, plugin: &'static str, pod: &str) {
    let rejection = Rejection::unschedulable("taken");
    harness.script.refusals.lock().insert((plugin, pod.to_owned()), rejection);
}

const UNRESERVED: [&str; 2] = ["ReserveB unreserves p on n1", "ReserveA unreserves p on n1"];

#[test]
fn plugins_reserve_in_order_before_the_bind() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    assert_eq!(harness.place(pending("p", 100)), ["bind p to n1"]);
    assert_eq!(harness.log(), ["ReserveA reserves p on n1", "ReserveB reserves p on n1"]);
}

#[test]
fn a_refusal_unreserves_every_plugin_in_reverse_order() {
    let all_before = ["ReserveA reserves p on n1", "ReserveB reserves p on n1"];
    for (plugin, reserved) in [("ReserveA", 0), ("ReserveB", 1)] {
        let mut harness = Harness::new(&[("n1", 4000)]);
        refuse(&harness, plugin, "p");
        assert_eq!(harness.place(pending("p", 100)), ["Unschedulable p, nominate for none"]);
        assert_eq!(harness.log(), [&all_before[..reserved], &UNRESERVED].concat());
        assert_eq!(harness.node_of("p"), None);
        assert_eq!(harness.blockers("p").0, [plugin]);
    }
}

#[test]
fn a_denial_at_permit_unreserves_every_plugin_in_reverse_order() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    harness.permit("PermitA", "p", Permit::Deny(Rejection::unschedulable("no")));
    assert_eq!(harness.place(pending("p", 100)), ["Unschedulable p, nominate for none"]);
    assert_eq!(harness.message(), "0/1 nodes are available: 1 no.");
    assert_eq!(harness.log()[2..], UNRESERVED);
    assert_eq!(harness.blockers("p").0, ["PermitA"]);
    assert_eq!(harness.stage("p"), Some(QueueStage::Unschedulable));
    harness.permit("PermitA", "p", Permit::Deny(Rejection::error("broken")));
    harness.add_node("n2", 50);
    assert_eq!(harness.schedule(), ["SchedulerError p, nominate for none"]);
    assert_eq!(harness.message(), "running Permit plugin \"PermitA\": broken");
}

#[test]
fn a_later_denial_ends_the_wait_at_an_earlier_permit_plugin() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    harness.wait_at("PermitA", "p", MINUTE);
    harness.permit("PermitB", "p", Permit::Deny(Rejection::unschedulable("no")));
    assert_eq!(harness.place(pending("p", 100)), ["Unschedulable p, nominate for none"]);
    assert_eq!(harness.engine.next_deadline(), Some(1320 * SECOND), "only the flush is left");
    assert_eq!(harness.tell(allowed("p", "PermitA")), [""; 0]);
}

#[test]
fn every_failure_after_reserve_unreserves_in_reverse_order() {
    for step in 0..3 {
        let mut harness = Harness::new(&[("n1", 4000)]);
        harness.wait_at("PermitA", "p", MINUTE);
        harness.place(with_claim(pending("p", 100)));
        assert_eq!(harness.log().len(), 2);
        match step {
            0 => {
                harness.tell(denied("p", "PermitA", "no"));
            }
            1 => {
                harness.tell(allowed("p", "PermitA"));
                harness.volumes("p", Some("no volume"));
            }
            _ => {
                harness.tell(allowed("p", "PermitA"));
                harness.volumes("p", None);
                harness.tell(bind_failed("p", "conflict"));
            }
        }
        assert_eq!(harness.log(), UNRESERVED, "step {step}");
        assert_eq!(harness.node_of("p"), None, "step {step}");
    }
}
