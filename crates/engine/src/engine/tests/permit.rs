//! Pods that wait at Permit: allowed, denied, timed out.

use crate::engine::testing::*;
use crate::queue::QueueStage;

#[test]
fn a_pod_that_waits_at_permit_keeps_its_place_and_is_shown_as_nominated() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.wait_at("PermitA", "p", MINUTE);
    assert_eq!(harness.place(pending("p", 600)), ["nominate p for n1"]);
    assert_eq!(
        (harness.stage("p"), harness.node_of("p")),
        (Some(QueueStage::InFlight), Some("n1"))
    );
    assert_eq!(harness.nominated("p"), None, "it counts on the node as an assumed pod");
    assert_eq!(harness.place(pending("q", 600)), ["Unschedulable q, nominate for none"]);
    assert_eq!(harness.tell(allowed("p", "PermitA")), ["bind p to n1"]);
    assert_eq!(harness.stage("p"), Some(QueueStage::Binding));
}

#[test]
fn all_plugins_that_made_a_pod_wait_must_allow_it_in_any_order() {
    for order in [["PermitA", "PermitB"], ["PermitB", "PermitA"]] {
        let mut harness = Harness::new(&[("n1", 1000)]);
        for plugin in order {
            harness.wait_at(plugin, "p", MINUTE);
        }
        harness.place(pending("p", 600));
        assert_eq!(harness.tell(allowed("p", order[0])), [""; 0]);
        assert_eq!(harness.tell(allowed("p", order[0])), [""; 0], "twice the same is not both");
        assert_eq!(harness.tell(allowed("p", "Fit")), [""; 0], "it does not wait for this one");
        assert_eq!(harness.tell(allowed("p", order[1])), ["bind p to n1"]);
        assert_eq!(harness.tell(denied("p", order[1], "too late")), [""; 0]);
        assert_eq!(harness.node_of("p"), Some("n1"));
    }
}

#[test]
fn a_denial_gives_the_place_back_and_wakes_others_but_not_the_pod_itself() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.wait_at("PermitA", "p", MINUTE);
    harness.wait_at("PermitB", "p", MINUTE);
    harness.place(pending("p", 600));
    harness.place(pending("q", 600));
    let commands = harness.tell(denied("p", "PermitB", "quota exceeded"));
    assert_eq!(commands, ["Unschedulable p, nominate for none"]);
    assert_eq!(harness.message(), "0/1 nodes are available: 1 quota exceeded.");
    assert_eq!(harness.blockers("p"), (vec!["PermitB"], vec![]));
    assert_eq!(harness.stage("p"), Some(QueueStage::Unschedulable), "its own failure is no event");
    assert_eq!(harness.schedule(), ["bind q to n1"]);
    assert_eq!(harness.tell(allowed("p", "PermitA")), [""; 0], "it does not wait any more");
}

#[test]
fn a_wait_ends_at_the_earliest_timeout_and_names_the_plugin() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.wait_at("PermitA", "p", 90 * SECOND);
    harness.wait_at("PermitB", "p", 60 * SECOND);
    harness.place(pending("p", 600));
    assert_eq!(harness.engine.next_deadline(), Some(harness.now + 60 * SECOND));
    assert_eq!(harness.after(60 * SECOND - 1), [""; 0]);
    harness.now += 1;
    let commands = harness.tick();
    assert_eq!(commands, ["Unschedulable p, nominate for none"]);
    let timeout = "1 rejected due to timeout after waiting at plugin PermitB";
    assert_eq!(harness.message(), format!("0/1 nodes are available: {timeout}."));
    assert_eq!(harness.blockers("p").0, ["PermitB"]);
    assert_eq!(harness.node_of("p"), None);
    assert_eq!(harness.tell(allowed("p", "PermitB")), [""; 0]);
}

#[test]
fn a_plugin_that_allowed_does_not_time_out() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.wait_at("PermitA", "p", 20 * SECOND);
    harness.wait_at("PermitB", "p", 60 * SECOND);
    harness.place(pending("p", 600));
    harness.tell(allowed("p", "PermitA"));
    assert_eq!(harness.after(59 * SECOND), [""; 0]);
    assert_eq!(harness.tell(allowed("p", "PermitB")), ["bind p to n1"]);
    assert_eq!(harness.after(MINUTE), [""; 0], "the bind has no deadline here");
}

#[test]
fn a_wait_is_capped_at_15_minutes() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.wait_at("PermitA", "p", i64::MAX);
    harness.place(pending("p", 600));
    assert_eq!(harness.engine.next_deadline(), Some(harness.now + 15 * MINUTE));
    harness.now += 15 * MINUTE;
    let commands = harness.tick();
    assert_eq!(commands, ["Unschedulable p, nominate for none"]);
}

#[test]
fn several_waits_that_end_at_once_are_all_rejected() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    for (pod, timeout) in [("a", 10), ("b", 20), ("c", 30)] {
        harness.wait_at("PermitA", pod, timeout * SECOND);
        harness.place(pending(pod, 100));
    }
    harness.now += 20 * SECOND;
    let commands = harness.tick();
    assert_eq!(
        commands,
        ["Unschedulable a, nominate for none", "Unschedulable b, nominate for none"]
    );
    assert_eq!(harness.node_of("c"), Some("n1"));
    assert_eq!(harness.engine.permit_deadline(), Some(harness.now + 10 * SECOND));
}

#[test]
fn events_during_the_wait_are_replayed_when_the_pod_is_denied() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.wait_at("PermitA", "p", MINUTE);
    harness.place(pending("p", 600));
    harness.add_node("n2", 1000);
    harness.tell(denied("p", "PermitA", "no"));
    assert_eq!(harness.stage("p"), Some(QueueStage::Backoff), "the plugin subscribed to new nodes");
}

#[test]
fn permission_for_an_unknown_pod_or_one_that_is_not_waiting_is_ignored() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    assert_eq!(harness.tell(allowed("p", "PermitA")), [""; 0]);
    harness.show(pending("p", 600));
    assert_eq!(harness.tell(denied("p", "PermitA", "no")), [""; 0]);
    assert_eq!(harness.schedule(), ["bind p to n1"]);
    assert_eq!(harness.tell(denied("p", "PermitA", "no")), [""; 0]);
    assert_eq!(harness.stage("p"), Some(QueueStage::Binding));
}
