//! Victims that are not bound yet: they go back to the queue instead of being deleted.

use crate::change::Change;
use crate::engine::testing::*;
use crate::queue::QueueStage;

#[test]
fn a_victim_whose_volumes_are_prepared_is_requeued() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    harness.place(with_claim(pending("slow", 4000)));
    let first = harness.tickets["slow"];
    harness.log();
    let commands = harness.place(important("p", 4000, 10));
    assert_eq!(
        commands,
        [
            "preempted slow on n1 for p",
            "SchedulerError slow, nominate for none",
            "Unschedulable p, nominate for n1",
            // No other pod is active, so the backoff of a rejected pod is cut short.
            "bind p to n1",
        ]
    );
    assert_eq!(
        harness.log()[..2],
        ["ReserveB unreserves slow on n1", "ReserveA unreserves slow on n1"]
    );
    assert_eq!(harness.stage("slow"), Some(QueueStage::ErrorBackoff));
    harness.add_node("n2", 4000);
    let commands = harness.after(20 * SECOND);
    assert_eq!(commands, ["nominate slow for n2", "prepare volumes of slow on n2"]);
    let late = Change::VolumesReady { uid: "slow".into(), ticket: first, failure: None };
    assert_eq!(harness.tell(late), [""; 0], "these were prepared for another node");
    assert_eq!(harness.volumes("slow", None), ["bind slow to n2"]);
}

#[test]
fn the_message_of_a_requeued_victim_depends_on_its_stage() {
    for (waits_at_permit, message) in [(true, "preempted"), (false, "preempted by Preempt")] {
        let mut harness = Harness::new(&[("n1", 4000)]);
        if waits_at_permit {
            harness.wait_at("PermitA", "slow", MINUTE);
        }
        harness.place(with_claim(pending("slow", 4000)));
        harness.place(important("p", 4000, 10));
        let messages = harness.commands.iter().filter_map(|command| match command {
            crate::command::Command::ReportFailure { pod, message, .. } if *pod.name == *"slow" => {
                Some(&**message)
            }
            _ => None,
        });
        assert_eq!(messages.collect::<Vec<_>>(), [message]);
    }
}

#[test]
fn a_victim_that_waits_at_permit_is_requeued_while_others_are_deleted() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    harness.wait_at("PermitA", "slow", 10 * MINUTE);
    harness.show(running("v", "n1", 2000));
    harness.place(pending("slow", 2000));
    let commands = harness.place(important("p", 4000, 10));
    assert_eq!(
        commands,
        [
            "delete v on n1 for p",
            "preempted slow on n1 for p",
            "SchedulerError slow, nominate for none",
            "Unschedulable p, nominate for n1",
        ]
    );
    assert_eq!(harness.stage("slow"), Some(QueueStage::ErrorBackoff));
    assert_eq!(harness.stage("p"), Some(QueueStage::Gated), "the deletion of v is not answered");
    assert_eq!(harness.tell(allowed("slow", "PermitA")), [""; 0], "it does not wait any more");
    harness.tell(evicted("p", "v"));
    harness.tell(gone("v"));
    let commands = harness.after(20 * SECOND);
    assert!(commands.contains(&"bind p to n1".to_owned()), "{commands:?}");
}

#[test]
fn a_victim_that_is_being_bound_is_deleted() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    assert_eq!(harness.place(pending("slow", 4000)), ["bind slow to n1"]);
    let commands = harness.place(important("p", 4000, 10));
    assert_eq!(commands, ["delete slow on n1 for p", "Unschedulable p, nominate for n1"]);
    harness.tell(bind_failed("slow", "gone"));
    harness.tell(evicted("p", "slow"));
    assert_eq!(harness.nominated("p"), Some("n1"));
    harness.tell(gone("slow"));
    assert_eq!(harness.after(20 * SECOND), ["bind p to n1"]);
}

#[test]
fn a_victim_that_was_bound_but_not_shown_yet_is_deleted() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    harness.place(pending("slow", 4000));
    harness.tell(bound("slow"));
    let commands = harness.place(important("p", 4000, 10));
    assert_eq!(commands, ["delete slow on n1 for p", "Unschedulable p, nominate for n1"]);
}
