//! Events that arrive while a pod is in flight, and how they are replayed.

use crate::framework::Event;
use crate::index::{ClassIdx, PodIdx};
use crate::queue::testing::*;
use crate::queue::{
    FailedAttempt, IN_FLIGHT_EVENTS_MAX, PendingPod, PluginSet, QueueCounts, QueueStage, WakeScope,
};

use super::label;

#[test]
fn events_during_an_attempt_are_replayed_with_the_hints() {
    // (event, rejectors, pending, willing, place after the failure)
    let everyone: fn(usize, ClassIdx, &Event) -> bool = |_, _, _| true;
    let never: fn(usize, ClassIdx, &Event) -> bool = |_, _, _| false;
    let none: &[usize] = &[];
    let table = [
        (POD_GONE, &[FIT][..], none, everyone, QueueStage::Backoff),
        (POD_GONE, &[FIT], none, never, QueueStage::Unschedulable),
        (POD_GONE, &[TAINTS], none, everyone, QueueStage::Unschedulable),
        (POD_GONE, none, none, never, QueueStage::ErrorBackoff),
        (POD_GONE, &[FIT], &[CLAIMS], everyone, QueueStage::Backoff),
        (CLAIM_ADDED, &[FIT], &[CLAIMS], everyone, QueueStage::Active),
        (CLAIM_ADDED, none, &[CLAIMS], everyone, QueueStage::Active),
        (TAINTED, &[FIT], none, never, QueueStage::Backoff),
    ];
    for (row, (kind, rejectors, pending, willing, want)) in table.into_iter().enumerate() {
        let mut bench = Bench::new();
        bench.plugins.willing.set(willing);
        bench.add(1);
        bench.pop();
        bench.event(kind);
        let stage = bench.fail_pending(1, rejectors, pending);
        assert_eq!(stage, Some(want), "row {row}");
        assert_eq!(bench.queue.in_flight_events().count(), 0, "row {row}");
    }
}

#[test]
fn events_before_an_attempt_are_not_replayed() {
    let mut bench = Bench::new();
    bench.add(1);
    bench.add(2);
    bench.pop();
    bench.event(POD_GONE);
    bench.pop();
    assert_eq!(bench.fail(2, &[FIT]), Some(QueueStage::Unschedulable));
    assert_eq!(bench.fail(1, &[FIT]), Some(QueueStage::Backoff));
}

#[test]
fn a_later_event_can_outweigh_an_earlier_one_for_a_pending_plugin() {
    let mut bench = Bench::new();
    bench.add(1);
    bench.pop();
    bench.event(POD_GONE);
    bench.event(CLAIM_ADDED);
    bench.event(POD_GONE);
    assert_eq!(bench.fail_pending(1, &[FIT], &[CLAIMS]), Some(QueueStage::Active));
}

#[test]
fn changes_of_a_pod_in_flight_are_its_own_events() {
    let mut bench = Bench::new();
    bench.plugins.willing.set(|_, _, event| event.own);
    bench.add(1);
    bench.add(2);
    bench.pop();
    bench.pop();
    assert_eq!(bench.update(1, &[UPDATED, TOLERATES]), QueueStage::InFlight);
    let labels: Vec<_> = bench.queue.in_flight_events().collect();
    assert_eq!(labels, [label(TOLERATES)], "plain updates have no subscriber");
    assert_eq!(bench.fail(2, &[TAINTS]), Some(QueueStage::Unschedulable), "another pod's change");
    assert_eq!(bench.fail(1, &[TAINTS]), Some(QueueStage::Backoff));
}

#[test]
fn a_pod_in_flight_is_requeued_as_it_is_now() {
    let mut bench = Bench::new();
    bench.add(1);
    bench.pop();
    bench.update_pod(&PendingPod { class: ClassIdx(9), priority: 4, ..pending(1) }, &[UPDATED]);
    bench.fail(1, &[FIT]);
    let info = bench.info(1);
    assert_eq!((info.class, info.priority), (ClassIdx(9), 4));
    bench.event(POD_GONE);
    assert_eq!(bench.asked(), [(FIT, ClassIdx(9), false)]);
}

#[test]
fn a_pod_that_missed_events_is_tried_again() {
    let mut bench = Bench::new();
    bench.plugins.willing.set(|_, _, _| false);
    bench.add(1);
    bench.pop();
    for _ in 0..IN_FLIGHT_EVENTS_MAX {
        bench.queue.move_all(&bench.plugins, &event(POD_GONE, false), WakeScope::All, bench.now);
    }
    bench.add(2);
    bench.pop();
    assert_eq!(
        bench.queue.clone().add_unschedulable(
            &bench.plugins,
            PodIdx(1),
            FailedAttempt { rejectors: PluginSet::one(FIT), ..FailedAttempt::default() },
            bench.now,
        ),
        Some(QueueStage::Unschedulable),
        "all are kept"
    );
    bench.event(POD_GONE);
    assert_eq!(bench.fail(1, &[FIT]), Some(QueueStage::Backoff));
    assert_eq!(bench.fail(2, &[FIT]), Some(QueueStage::Unschedulable));
}

#[test]
fn after_done_there_is_nothing_to_replay() {
    let mut bench = Bench::new();
    bench.add(1);
    bench.pop();
    bench.event(POD_GONE);
    bench.done(1);
    assert_eq!(bench.queue.counts(), QueueCounts { binding: 1, ..QueueCounts::default() });
    assert_eq!(bench.queue.in_flight_events().count(), 0);
    assert_eq!(bench.fail(1, &[]), Some(QueueStage::ErrorBackoff), "binding failed");
    assert_eq!(bench.info(1).attempts, 1);
    bench.done(1);
    assert_eq!(bench.stage(1), Some(QueueStage::ErrorBackoff), "it is not in flight any more");
}

#[test]
fn a_pod_taken_back_twice_stays_where_it_is() {
    let mut bench = Bench::new();
    bench.add_failed(1, &[FIT]);
    assert_eq!(bench.fail(1, &[]), Some(QueueStage::Unschedulable));
    assert_eq!(bench.info(1).consecutive_errors, 0);
    assert_eq!(bench.fail(2, &[FIT]), None);
}

#[test]
fn activation_of_a_pod_in_flight_counts_when_it_fails() {
    let mut bench = Bench::new();
    bench.add(1);
    bench.add(2);
    bench.pop();
    bench.pop();
    bench.activate(1);
    assert_eq!(bench.fail(2, &[CLAIMS]), Some(QueueStage::Unschedulable), "it was for another pod");
    assert_eq!(bench.fail(1, &[CLAIMS]), Some(QueueStage::Backoff));
}
