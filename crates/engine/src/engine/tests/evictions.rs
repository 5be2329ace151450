//! Victims of preemption: the answers to their deletion and the watch come in any order.

use crate::change::Change;
use crate::engine::testing::*;
use crate::object::Pod;
use crate::queue::QueueStage;

/// The full node `n1` with the pod `v`, and `p`, which has it evicted.
fn preempting() -> Harness {
    let mut harness = Harness::new(&[("n1", 4000)]);
    harness.show(running("v", "n1", 4000));
    let commands = harness.place(important("p", 4000, 10));
    assert_eq!(commands, ["delete v on n1 for p", "Unschedulable p, nominate for n1"]);
    harness
}

#[test]
fn a_preemptor_waits_for_its_victim_whichever_connection_answers_first() {
    let shown = || {
        let victim = Pod { preempted: true, ..terminating(running("v", "n1", 4000)) };
        Change::Pod(Box::new(victim))
    };
    for order in [[shown(), evicted("p", "v")], [evicted("p", "v"), shown()]] {
        let mut harness = preempting();
        for change in order {
            harness.tell(change);
            assert_eq!(harness.after(20 * SECOND), [""; 0]);
            assert_eq!((harness.nominated("p"), harness.attempts("p")), (Some("n1"), 1));
        }
        assert_eq!(harness.stage("p"), Some(QueueStage::Unschedulable));
        harness.tell(gone("v"));
        assert_eq!(harness.after(20 * SECOND), ["bind p to n1"]);
    }
}

#[test]
fn a_preemptor_whose_victims_are_gone_before_the_answer_is_tried_at_once() {
    let mut harness = preempting();
    harness.tell(gone("v"));
    assert_eq!(harness.stage("p"), Some(QueueStage::Gated));
    assert_eq!(harness.after(20 * SECOND), [""; 0], "the deletion is not answered yet");
    harness.tell(evicted("p", "v"));
    assert_eq!(harness.stage("p"), Some(QueueStage::Active), "without a backoff");
    assert_eq!(harness.schedule(), ["bind p to n1"]);
}

#[test]
fn a_preemptor_that_is_retried_while_its_victim_terminates_evicts_no_others() {
    let mut harness = preempting();
    harness.add_node("n2", 4000);
    harness.show(running("w", "n2", 4000));
    harness.tell(evicted("p", "v"));
    // Neither the terminating victim nor the nomination was shown by the watch yet.
    for _ in 0..3 {
        let commands = harness.after(400 * SECOND);
        assert_eq!(commands, ["Unschedulable p, nominate for n1"], "written until it is shown");
    }
    harness.show(Pod { nominated_node: "n1".into(), ..important("p", 4000, 10) });
    assert_eq!(harness.after(400 * SECOND), ["Unschedulable p"]);
    // A version of the victim from before the deletion says nothing about it.
    harness.show(Pod { preempted: true, ..running("v", "n1", 4000) });
    assert_eq!(harness.after(400 * SECOND), ["Unschedulable p"]);
    harness.tell(gone("v"));
    assert_eq!(harness.after(20 * SECOND), ["bind p to n1"]);
}

#[test]
fn all_deletions_are_answered_before_the_next_attempt() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    harness.show(running("a", "n1", 2000));
    harness.show(running("b", "n1", 2000));
    let commands = harness.place(important("p", 4000, 10));
    assert_eq!(commands[..2], ["delete a on n1 for p", "delete b on n1 for p"]);
    harness.tell(eviction_failed("p", "a"));
    assert_eq!(harness.after(20 * SECOND), [""; 0], "b is being deleted");
    harness.tell(evicted("p", "b"));
    assert_eq!(harness.schedule(), ["Unschedulable p, nominate for n1"], "b still leaves");
    assert_eq!(harness.attempts("p"), 2);
    harness.tell(gone("b"));
    assert_eq!(harness.after(20 * SECOND)[0], "delete a on n1 for p");
    harness.tell(evicted("p", "a"));
    harness.tell(gone("a"));
    assert_eq!(harness.after(20 * SECOND), ["bind p to n1"]);
}

#[test]
fn a_failed_deletion_lets_the_preemptor_try_again_at_once() {
    let mut harness = preempting();
    harness.tell(eviction_failed("p", "v"));
    assert_eq!(harness.stage("p"), Some(QueueStage::Active));
    let commands = harness.schedule();
    assert_eq!(commands, ["delete v on n1 for p", "Unschedulable p, nominate for n1"]);
}

#[test]
fn an_answer_to_an_earlier_attempt_does_not_stand_for_another_victim() {
    let mut harness = Harness::new(&[("n1", 4000), ("n2", 4000)]);
    harness.show(running("a", "n1", 4000));
    harness.show(Pod { priority: 20, ..running("x", "n2", 4000) });
    assert_eq!(harness.place(important("p", 4000, 10))[0], "delete a on n1 for p");
    harness.tell(eviction_failed("p", "a"));
    harness.remove_node("n1");
    harness.tell(gone("x"));
    harness.show(running("b", "n2", 2000));
    harness.show(running("c", "n2", 2000));
    let commands = harness.after(20 * SECOND);
    assert_eq!(commands[..2], ["delete b on n2 for p", "delete c on n2 for p"]);
    for victim in ["a", "b", "b"] {
        harness.tell(evicted("p", victim));
    }
    assert_eq!(harness.after(20 * SECOND), [""; 0], "the deletion of c is not answered");
    assert_eq!(harness.attempts("p"), 2);
    harness.tell(evicted("p", "c"));
    assert_eq!(harness.nominated("p"), Some("n2"));
}

#[test]
fn a_victim_that_terminates_already_is_waited_for_but_not_deleted_again() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    harness.show(terminating(running("a", "n1", 2000)));
    harness.show(running("b", "n1", 2000));
    let commands = harness.place(important("p", 4000, 10));
    assert_eq!(commands, ["delete b on n1 for p", "Unschedulable p, nominate for n1"]);
    harness.tell(gone("b"));
    harness.tell(evicted("p", "b"));
    assert_eq!(harness.stage("p"), Some(QueueStage::Backoff), "a is still on the node");
    harness.tell(gone("a"));
    assert_eq!(harness.after(20 * SECOND), ["bind p to n1"]);
}

#[test]
fn the_answer_for_a_preemptor_that_was_deleted_is_ignored() {
    let mut harness = preempting();
    harness.tell(gone("p"));
    assert_eq!(harness.tell(evicted("p", "v")), [""; 0]);
    let record = harness.engine.state().pods.get(harness.find("v").unwrap());
    assert!(record.terminating && record.preempted, "the deletion of the victim did happen");
    // The same name and index again: nothing is left of the earlier preemption.
    harness.show(important("p", 100, 10));
    assert_eq!(harness.stage("p"), Some(QueueStage::Active));
}

#[test]
fn a_preemptor_that_finds_room_elsewhere_gives_the_room_it_made_to_others() {
    let mut harness = preempting();
    harness.place(important("small", 1000, 5));
    assert_eq!(harness.stage("small"), Some(QueueStage::Unschedulable));
    harness.tell(evicted("p", "v"));
    harness.tell(gone("v"));
    harness.show(Pod { priority: 20, ..running("y", "n1", 1000) });
    harness.add_node("n2", 4000);
    let commands = harness.schedule();
    assert!(commands.contains(&"bind p to n2".to_owned()), "{commands:?}");
    assert!(commands.contains(&"bind small to n1".to_owned()), "{commands:?}");
}

#[test]
fn the_backoff_of_a_preemptor_is_skipped_only_when_all_victims_are_gone() {
    for (is_gone, stage) in [(true, QueueStage::Active), (false, QueueStage::Backoff)] {
        let mut harness = Harness::new(&[("n1", 4000)]);
        harness.show(running("a", "n1", 2000));
        harness.show(running("b", "n1", 2000));
        harness.place(important("p", 4000, 10));
        harness.tell(gone("a"));
        if is_gone {
            harness.tell(gone("b"));
        }
        harness.tell(evicted("p", "a"));
        assert_eq!(harness.stage("p"), Some(QueueStage::Gated));
        harness.tell(evicted("p", "b"));
        assert_eq!(harness.stage("p"), Some(stage));
    }
}
