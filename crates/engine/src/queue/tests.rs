//! What the queue does, case by case.

mod model;

use crate::index::{ClassIdx, PodIdx};

use super::testing::*;
use super::waking::FLUSH_BATCH;
use super::*;

fn label(kind: (crate::framework::Resource, crate::framework::Action)) -> EventLabel {
    EventLabel::of(kind.0, kind.1)
}

#[test]
fn pods_are_popped_by_priority_then_age_then_arrival() {
    let mut bench = Bench::new();
    // (pod, priority, added at)
    for (pod, priority, milliseconds) in
        [(1, 0, 1), (2, 5, 3), (3, 5, 2), (4, 0, 1), (5, 0, 0), (6, 5, 2)]
    {
        bench.at(milliseconds).add_pod(&PendingPod { priority, ..pending(pod) });
    }
    let order: Vec<_> = std::iter::from_fn(|| bench.pop()).collect();
    assert_eq!(order, [3, 6, 2, 5, 1, 4]);
    assert_eq!(bench.queue.counts(), QueueCounts { in_flight: 6, ..QueueCounts::default() });
}

#[test]
fn order_is_by_the_last_failure_not_by_creation() {
    let mut bench = Bench::new();
    bench.at(0).add(1);
    bench.pop();
    bench.at(1000).add(2);
    bench.at(2000).fail(1, &[FIT]);
    bench.at(9000).event(POD_GONE);
    assert_eq!(bench.stage(1), Some(QueueStage::Active));
    assert_eq!(bench.pop(), Some(2));
    assert_eq!(bench.pop(), Some(1));
}

#[test]
fn a_rejected_pod_waits_and_backs_off_when_woken() {
    let mut bench = Bench::new();
    assert_eq!(bench.at(10_700).add_failed(1, &[FIT]), QueueStage::Unschedulable);
    assert_eq!(bench.event(POD_GONE), 1);
    assert_eq!(bench.stage(1), Some(QueueStage::Backoff));
    assert_eq!(bench.queue.next_deadline(), Some(12 * SECOND));
    bench.at(11_999).tick();
    assert_eq!(bench.stage(1), Some(QueueStage::Backoff));
    bench.at(12_000).tick();
    assert_eq!(bench.stage(1), Some(QueueStage::Active));
    assert_eq!(bench.queue.next_deadline(), None);
}

#[test]
fn a_pod_whose_backoff_passed_while_it_waited_becomes_active() {
    let mut bench = Bench::new();
    bench.at(10_700).add_failed(1, &[FIT]);
    bench.at(11_999).add_failed(2, &[FIT]);
    bench.at(12_000).event(NODE_ADDED);
    assert_eq!(bench.stage(1), Some(QueueStage::Active));
    assert_eq!(bench.stage(2), Some(QueueStage::Backoff));
}

#[test]
fn backoff_grows_with_failures_and_errors_count_apart() {
    let mut bench = Bench::new();
    bench.add(1);
    // (plugins, rejections, errors, seconds of backoff, place)
    let fit: &[usize] = &[FIT];
    let table = [
        (fit, 1, 0, 1, QueueStage::Unschedulable),
        (fit, 2, 0, 2, QueueStage::Unschedulable),
        (&[], 2, 1, 1, QueueStage::ErrorBackoff),
        (&[], 2, 2, 2, QueueStage::ErrorBackoff),
        (fit, 3, 0, 4, QueueStage::Unschedulable),
        (&[], 3, 1, 1, QueueStage::ErrorBackoff),
    ];
    for (attempt, (plugins, rejections, errors, seconds, stage)) in table.into_iter().enumerate() {
        bench.activate(1);
        assert_eq!(bench.pop(), Some(1));
        assert_eq!(bench.fail(1, plugins), Some(stage), "attempt {attempt}");
        let info = bench.info(1);
        assert_eq!(info.attempts, attempt as u32 + 1);
        assert_eq!((info.unschedulable_count, info.consecutive_errors), (rejections, errors));
        assert_eq!(info.backoff_expiration, bench.now + seconds * SECOND);
    }
    assert_eq!(bench.info(1).initial_attempt(), Some(10 * SECOND));
}

#[test]
fn without_backoff_errors_are_tried_again_at_once() {
    let mut bench = Bench::new();
    let config = QueueConfig { max_backoff: 0, ..QueueConfig::default() };
    bench.queue = Queue::new(config, Subscriptions { profiles: vec![subscriptions()] });
    assert_eq!(bench.add_failed(1, &[]), QueueStage::Active);
    assert_eq!(bench.pop(), Some(1));
    assert_eq!(bench.fail(1, &[FIT]), Some(QueueStage::Unschedulable));
    bench.event(POD_GONE);
    assert_eq!(bench.stage(1), Some(QueueStage::Active));
}

#[test]
fn only_rejected_pods_are_popped_out_of_backoff() {
    let mut bench = Bench::new();
    bench.add_failed(1, &[]);
    bench.add_failed(2, &[FIT]);
    bench.add_failed(3, &[FIT]);
    bench.event(POD_GONE);
    bench.add(4);
    assert_eq!(bench.pop(), Some(4), "active ones first");
    assert!(bench.queue.has_next());
    assert_eq!(bench.pop(), Some(2));
    assert_eq!(bench.pop(), Some(3));
    assert!(!bench.queue.has_next());
    assert_eq!(bench.pop(), None);
    assert_eq!(bench.stage(1), Some(QueueStage::ErrorBackoff));
    let popped = (SubQueue::Active, EventLabel::PopFromBackoffQ);
    assert_eq!(bench.queue.counters.incoming[&popped], 2);
}

#[test]
fn backoff_is_popped_by_its_end_then_by_priority() {
    let mut bench = Bench::new();
    // (pod, priority, failed at): the first three end within one second.
    for (pod, priority, milliseconds) in
        [(1, 0, 10_100), (2, 0, 10_050), (3, 7, 10_900), (4, 9, 11_000)]
    {
        bench.at(milliseconds).add_pod(&PendingPod { priority, ..pending(pod) });
        assert_eq!(bench.pop(), Some(pod));
        bench.fail(pod, &[FIT]);
    }
    bench.event(POD_GONE);
    let order: Vec<_> = std::iter::from_fn(|| bench.pop()).collect();
    assert_eq!(order, [3, 2, 1, 4]);
}

#[test]
fn only_plugins_that_rejected_are_asked_and_once_per_group() {
    let mut bench = Bench::new();
    for pod in [1, 11, 21, 2] {
        bench.add_failed(pod, &[FIT]);
    }
    bench.add_failed(31, &[FIT, TAINTS]);
    bench.add_failed(3, &[CLAIMS]);
    bench.plugins.willing.set(|_, class, _| class == ClassIdx(2));
    assert_eq!(bench.event(POD_GONE), 1);
    let own = false;
    let (one, two) = (ClassIdx(1), ClassIdx(2));
    let mut asked = bench.asked();
    asked.sort_unstable();
    assert_eq!(asked, [(FIT, one, own), (FIT, one, own), (FIT, two, own)]);
    assert_eq!(bench.stage(2), Some(QueueStage::Backoff));
    assert_eq!(bench.queue.counts().unschedulable, 5);
    assert_eq!(bench.queue.pool.set_count(), 3);
    let moves = bench.queue.counters.moves[&label(POD_GONE)];
    assert_eq!(moves, WakeCounts { events: 1, sets_asked: 3, pods_moved: 1 });
}

#[test]
fn one_willing_plugin_is_enough() {
    let mut bench = Bench::new();
    bench.add_failed(1, &[FIT, TAINTS]);
    bench.plugins.willing.set(|plugin, _, _| plugin == TAINTS);
    assert_eq!(bench.event(POD_GONE), 0, "taints are not asked about pods");
    assert_eq!(bench.event(NODE_ADDED), 1);
}

#[test]
fn profiles_are_told_apart() {
    let mut bench = Bench::new();
    let mut profiles = vec![subscriptions(), subscriptions()];
    profiles[1][FIT].clear();
    bench.queue = Queue::new(QueueConfig::default(), Subscriptions { profiles });
    for profile in [0, 1] {
        let pod = profile as u32 + 1;
        bench.add_pod(&PendingPod { profile, ..pending(pod) });
        bench.pop();
        bench.fail(pod, &[FIT]);
    }
    bench.event(POD_GONE);
    assert_eq!(bench.stage(1), Some(QueueStage::Backoff));
    assert_eq!(bench.stage(2), Some(QueueStage::Unschedulable));
    assert_eq!(bench.queue.blocked_by(0, FIT), 1);
    assert_eq!(bench.queue.blocked_by(1, FIT), 1);
}

#[test]
fn an_event_that_nobody_subscribed_to_does_nothing() {
    let mut bench = Bench::new();
    bench.add_failed(1, &[FIT]);
    bench.add(2);
    bench.pop();
    let kind = (crate::framework::Resource::CsiDriver, crate::framework::Action::UPDATE);
    assert_eq!(bench.event(kind), 0);
    assert_eq!(bench.queue.in_flight_events().count(), 0);
    assert!(!bench.queue.counters.moves.contains_key(&label(kind)));
}

#[test]
fn a_pending_plugin_that_is_willing_skips_the_backoff() {
    let mut bench = Bench::new();
    bench.add(1);
    bench.pop();
    bench.fail_pending(1, &[FIT], &[CLAIMS]);
    bench.event(POD_GONE);
    assert_eq!(bench.stage(1), Some(QueueStage::Backoff), "another plugin does not");
    bench.pop();
    bench.fail_pending(1, &[FIT], &[CLAIMS]);
    bench.event(CLAIM_ADDED);
    assert_eq!(bench.stage(1), Some(QueueStage::Active));
}

#[test]
fn taint_updates_wake_subscribers_to_new_nodes_unasked() {
    let mut bench = Bench::new();
    bench.plugins.willing.set(|_, _, _| false);
    bench.add_failed(1, &[FIT]);
    bench.add_failed(2, &[TAINTS]);
    bench.add_failed(3, &[CLAIMS]);
    assert_eq!(bench.event(TAINTED), 1);
    assert_eq!(bench.asked(), [(TAINTS, ClassIdx(2), false)]);
    assert_eq!(bench.stage(1), Some(QueueStage::Backoff));
}

#[test]
fn events_during_an_attempt_are_replayed_with_the_hints() {
    // (event, rejectors, pending, willing, place after the failure)
    let everyone: fn(usize, ClassIdx, &Event) -> bool = |_, _, _| true;
    let nobody: fn(usize, ClassIdx, &Event) -> bool = |_, _, _| false;
    let none: &[usize] = &[];
    let table = [
        (POD_GONE, &[FIT][..], none, everyone, QueueStage::Backoff),
        (POD_GONE, &[FIT], none, nobody, QueueStage::Unschedulable),
        (POD_GONE, &[TAINTS], none, everyone, QueueStage::Unschedulable),
        (POD_GONE, none, none, nobody, QueueStage::ErrorBackoff),
        (POD_GONE, &[FIT], &[CLAIMS], everyone, QueueStage::Backoff),
        (CLAIM_ADDED, &[FIT], &[CLAIMS], everyone, QueueStage::Active),
        (CLAIM_ADDED, none, &[CLAIMS], everyone, QueueStage::Active),
        (TAINTED, &[FIT], none, nobody, QueueStage::Backoff),
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
    assert_eq!(labels, [label(TOLERATES)], "nobody subscribed to plain updates");
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
            PluginSet::one(FIT),
            PluginSet::EMPTY,
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
fn a_gated_pod_is_left_alone_by_foreign_events() {
    let mut bench = Bench::new();
    bench.gate(1, GATES);
    assert_eq!(bench.add(1), QueueStage::Gated);
    bench.plugins.pre_enqueue_calls.take();
    for kind in [POD_GONE, NODE_ADDED, TAINTED, CLAIM_ADDED] {
        assert_eq!(bench.event(kind), 0);
    }
    assert!(bench.asked().is_empty());
    assert!(bench.plugins.pre_enqueue_calls.take().is_empty());
    assert_eq!(bench.queue.counts(), QueueCounts { gated: 1, ..QueueCounts::default() });
    assert_eq!(bench.queue.blocked_by(0, GATES), 1);
    let info = bench.info(1);
    assert_eq!((info.attempts, info.initial_attempt()), (0, None));
    assert_eq!(info.gating(), Some(GATES));
}

#[test]
fn a_pod_that_loses_its_gates_becomes_active() {
    let mut bench = Bench::new();
    bench.gate(1, GATES).add(1);
    assert_eq!(bench.update(1, &[UPDATED]), QueueStage::Gated);
    assert_eq!(bench.open(1).at(20_000).update(1, &[UNGATED]), QueueStage::Active);
    assert_eq!(bench.asked(), [(GATES, ClassIdx(1), true)]);
    assert_eq!(bench.info(1).timestamp, 10 * SECOND);
    assert_eq!(bench.info(1).initial_attempt(), Some(20 * SECOND));
    assert_eq!(bench.pop(), Some(1));
    assert_eq!(bench.queue.blocked_by(0, GATES), 0);
}

#[test]
fn a_gate_that_events_may_open_is_asked_first() {
    let mut bench = Bench::new();
    bench.add(1);
    bench.pop();
    bench.gate(1, PREEMPTION);
    bench.event(NODE_ADDED);
    assert_eq!(bench.fail(1, &[FIT]), Some(QueueStage::Gated), "woken by replay, then held back");
    assert_eq!(bench.event(NODE_ADDED), 0, "only the gate counts now");
    bench.plugins.pre_enqueue_calls.take();
    assert_eq!(bench.event(POD_GONE), 1, "gated again, but asked");
    assert_eq!(bench.plugins.pre_enqueue_calls.take(), [(PodIdx(1), Some(PREEMPTION))]);
    assert_eq!(bench.stage(1), Some(QueueStage::Gated));
    let came = (SubQueue::Unschedulable, label(POD_GONE));
    assert_eq!(bench.queue.counters.incoming[&came], 1);
    bench.open(1).event(POD_GONE);
    assert_eq!(bench.stage(1), Some(QueueStage::Backoff));
    assert_eq!(bench.info(1).gating(), None);
}

#[test]
fn a_pod_that_comes_out_of_backoff_is_not_gated_any_more() {
    let mut bench = Bench::new();
    bench.add_failed(1, &[]);
    bench.gate(1, GATES);
    bench.at(60_000).tick();
    assert_eq!(bench.stage(1), Some(QueueStage::Active));
    bench.open(1);
    bench.pop();
    bench.fail(1, &[FIT]);
    bench.event(POD_GONE);
    bench.gate(1, GATES).activate(1);
    assert_eq!(bench.stage(1), Some(QueueStage::Active));
}

#[test]
fn pods_that_wait_too_long_are_flushed() {
    let mut bench = Bench::new();
    bench.at(10_000).add_failed(1, &[CLAIMS]);
    // Due later than 310 s; looked for every 30 s.
    assert_eq!(bench.queue.next_deadline(), Some(330 * SECOND));
    bench.at(310_000);
    assert!(bench.queue.flush_unschedulable(&bench.plugins, bench.now));
    assert_eq!(bench.stage(1), Some(QueueStage::Unschedulable), "five minutes are not too long");
    bench.at(329_999).tick();
    assert_eq!(bench.stage(1), Some(QueueStage::Unschedulable), "nobody looks");
    bench.at(329_999);
    assert!(bench.queue.flush_unschedulable(&bench.plugins, bench.now));
    assert_eq!(bench.stage(1), Some(QueueStage::Active), "unless told to");
    bench.pop();
    assert!(bench.info(1).was_flushed);
    assert_eq!(bench.info(1).flush_timestamp, bench.now);
    bench.fail(1, &[CLAIMS]);
    assert!(!bench.info(1).was_flushed);
    assert_eq!(bench.info(1).flush_timestamp, NEVER);
    assert_eq!(bench.queue.next_deadline(), Some(630 * SECOND));
    bench.at(630_000).tick();
    assert_eq!(bench.stage(1), Some(QueueStage::Active));
}

#[test]
fn the_queue_looks_for_waiting_pods_once_in_thirty_seconds() {
    let mut bench = Bench::new();
    bench.at(0).add_failed(1, &[CLAIMS]);
    bench.at(1_000).add_failed(2, &[CLAIMS]);
    assert_eq!(bench.queue.next_deadline(), Some(330 * SECOND));
    bench.at(300_000).tick();
    assert_eq!(bench.stage(1), Some(QueueStage::Unschedulable));
    bench.at(329_000).tick();
    assert_eq!(bench.stage(1), Some(QueueStage::Unschedulable));
    bench.at(330_000).tick();
    assert_eq!(bench.queue.counts().active, 2);
}

#[test]
fn a_late_look_finds_what_one_in_time_would_have_found() {
    let mut bench = Bench::new();
    bench.at(0).add_failed(1, &[CLAIMS]);
    bench.at(40_000).add_failed(2, &[CLAIMS]);
    bench.at(350_000).tick();
    assert_eq!(bench.stage(1), Some(QueueStage::Active));
    assert_eq!(bench.stage(2), Some(QueueStage::Unschedulable));
    assert_eq!(bench.queue.next_deadline(), Some(360 * SECOND));
}

#[test]
fn a_clock_that_is_set_back_does_not_stop_the_flush() {
    let mut bench = Bench::new();
    bench.at(1_000_000).tick();
    bench.at(0).add_failed(1, &[CLAIMS]);
    bench.at(30_000).tick();
    bench.at(330_000).tick();
    assert_eq!(bench.stage(1), Some(QueueStage::Active));
}

#[test]
fn gated_pods_are_flushed_too_but_stay_gated() {
    let mut bench = Bench::new();
    bench.gate(1, GATES).at(0).add(1);
    bench.at(330_000).tick();
    assert_eq!(bench.stage(1), Some(QueueStage::Gated));
    assert!(!bench.info(1).was_flushed);
    assert_eq!(bench.info(1).flush_timestamp, 330 * SECOND);
    assert_eq!(bench.queue.next_deadline(), Some(660 * SECOND));
    bench.open(1).at(660_000).tick();
    assert_eq!(bench.stage(1), Some(QueueStage::Active));
}

#[test]
fn a_flush_counts_as_an_event_for_pods_in_flight() {
    let mut bench = Bench::new();
    bench.at(0).add_failed(1, &[CLAIMS]);
    bench.add(2);
    bench.pop();
    bench.at(330_000).tick();
    assert_eq!(bench.fail(2, &[FIT]), Some(QueueStage::Backoff));
}

#[test]
fn many_pods_are_flushed_in_batches() {
    let mut bench = Bench::new();
    let count = FLUSH_BATCH as u32 + 10;
    for pod in 0..count {
        bench.plugins.gates.borrow_mut().insert(PodIdx(pod), GATES);
        bench.queue.add(&bench.plugins, &pending(pod), 0);
    }
    bench.plugins.gates.borrow_mut().clear();
    assert_eq!(bench.queue.pool.set_count(), 10);
    bench.at(330_000).tick();
    assert_eq!(bench.queue.counts().active, FLUSH_BATCH);
    assert!(bench.queue.next_deadline().is_some_and(|deadline| deadline <= bench.now));
    bench.tick();
    assert_eq!(bench.queue.counts().active, FLUSH_BATCH + 10);
    assert_eq!(bench.queue.next_deadline(), None);
}

#[test]
fn activation_ignores_backoff_but_not_gates() {
    let mut bench = Bench::new();
    bench.add_failed(1, &[FIT]);
    bench.activate(1);
    assert_eq!(bench.stage(1), Some(QueueStage::Active), "out of the pool");
    bench.pop();
    bench.event(POD_GONE);
    bench.fail(1, &[FIT]);
    assert_eq!(bench.stage(1), Some(QueueStage::Backoff));
    bench.activate(1);
    assert_eq!(bench.stage(1), Some(QueueStage::Active), "out of backoff");
    bench.pop();
    bench.fail(1, &[]);
    bench.activate(1);
    assert_eq!(bench.stage(1), Some(QueueStage::Active), "out of error backoff");
    bench.activate(1);
    bench.activate(99);
    bench.gate(2, GATES).add(2);
    bench.activate(2);
    assert_eq!(bench.stage(2), Some(QueueStage::Gated));
    let incoming = &bench.queue.counters.incoming;
    assert_eq!(incoming[&(SubQueue::Active, EventLabel::ForceActivate)], 3);
    assert!(!incoming.contains_key(&(SubQueue::Unschedulable, EventLabel::ForceActivate)));
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

#[test]
fn events_can_be_meant_for_some_pods_only() {
    let mut bench = Bench::new();
    for (pod, priority) in [(1, -1), (11, 5), (21, 6)] {
        bench.add_pod(&PendingPod { priority, ..pending(pod) });
        bench.pop();
        bench.fail(pod, &[FIT]);
    }
    assert_eq!(bench.event_for(POD_GONE, WakeScope::UpToPriority(5)), 2);
    assert_eq!(bench.stage(21), Some(QueueStage::Unschedulable));
    assert_eq!(bench.event_for(POD_GONE, WakeScope::AllExcept(PodIdx(21))), 0);
    assert_eq!(bench.event_for(POD_GONE, WakeScope::AllExcept(PodIdx(1))), 1);
}

#[test]
fn a_wildcard_event_wakes_all_but_waits_for_backoff() {
    let mut bench = Bench::new();
    bench.plugins.willing.set(|_, _, _| false);
    bench.gate(2, GATES).add(2);
    bench.add_failed(1, &[CLAIMS]);
    bench.open(2);
    let wildcard = (crate::framework::Resource::Wildcard, crate::framework::Action::ALL);
    assert_eq!(bench.event(wildcard), 2);
    assert_eq!(bench.stage(1), Some(QueueStage::Backoff));
    assert_eq!(bench.stage(2), Some(QueueStage::Active));
}

#[test]
fn pods_can_be_deleted_wherever_they_are() {
    let mut bench = Bench::new();
    bench.add_failed(1, &[FIT]);
    bench.add_failed(2, &[FIT]);
    bench.event(POD_GONE);
    bench.add_failed(3, &[]);
    bench.add_failed(4, &[CLAIMS]);
    bench.gate(5, GATES).add(5);
    bench.add(6);
    bench.add(7);
    bench.pop();
    bench.pop();
    bench.done(7);
    bench.add(8);
    let stages: Vec<_> = (1..=8).map(|pod| bench.stage(pod).unwrap()).collect();
    assert_eq!(
        stages,
        [
            QueueStage::Backoff,
            QueueStage::Backoff,
            QueueStage::ErrorBackoff,
            QueueStage::Unschedulable,
            QueueStage::Gated,
            QueueStage::InFlight,
            QueueStage::Binding,
            QueueStage::Active,
        ]
    );
    for pod in 1..=8 {
        assert!(bench.delete(pod), "{pod}");
        assert!(!bench.delete(pod), "{pod}");
    }
    assert_eq!(bench.queue.counts(), QueueCounts::default());
    assert_eq!(bench.queue.next_deadline(), None);
    for plugin in [GATES, FIT, CLAIMS] {
        assert_eq!(bench.queue.blocked_by(0, plugin), 0);
    }
    assert_eq!(bench.queue.pool.set_count(), 0);
}

#[test]
fn the_slot_of_a_deleted_pod_starts_afresh() {
    let mut bench = Bench::new();
    bench.add(1);
    bench.pop();
    bench.event(POD_GONE);
    bench.delete(1);
    assert_eq!(bench.queue.in_flight_events().count(), 0);
    assert_eq!(bench.add(1), QueueStage::Active);
    assert_eq!(bench.info(1).attempts, 0);
    assert_eq!(bench.pop(), Some(1));
}

#[test]
fn an_update_reorders_active_pods() {
    let mut bench = Bench::new();
    bench.add(1);
    bench.add(2);
    let first = PendingPod { priority: 1, ..pending(2) };
    assert_eq!(bench.update_pod(&first, &[UPDATED]), QueueStage::Active);
    assert_eq!(bench.pop(), Some(2));
}

#[test]
fn an_update_reorders_backoff() {
    let mut bench = Bench::new();
    bench.add_failed(1, &[FIT]);
    bench.add_failed(2, &[FIT]);
    bench.event(POD_GONE);
    let first = PendingPod { priority: 1, ..pending(2) };
    assert_eq!(bench.update_pod(&first, &[TOLERATES]), QueueStage::Backoff);
    assert_eq!(bench.pop(), Some(2));
}

#[test]
fn an_update_wakes_a_waiting_pod_if_its_plugins_say_so() {
    let mut bench = Bench::new();
    bench.add_failed(1, &[FIT]);
    assert_eq!(bench.update(1, &[UPDATED, TOLERATES]), QueueStage::Unschedulable);
    assert!(bench.asked().is_empty(), "the plugin in its way did not subscribe");
    bench.add_failed(2, &[TAINTS]);
    bench.plugins.willing.set(|_, class, _| class == ClassIdx(7));
    assert_eq!(bench.update(2, &[TOLERATES]), QueueStage::Unschedulable);
    let other_class = PendingPod { class: ClassIdx(7), ..pending(2) };
    assert_eq!(bench.update_pod(&other_class, &[TOLERATES]), QueueStage::Backoff);
    let came = (SubQueue::Backoff, label(TOLERATES));
    assert_eq!(bench.queue.counters.incoming[&came], 1);
}

#[test]
fn an_update_of_an_unknown_pod_takes_it_in() {
    let mut bench = Bench::new();
    assert_eq!(bench.update(1, &[TOLERATES]), QueueStage::Active);
    let came = (SubQueue::Active, EventLabel::POD_UPDATE);
    assert_eq!(bench.queue.counters.incoming[&came], 1);
    bench.pop();
    bench.done(1);
    assert_eq!(bench.update(1, &[TOLERATES]), QueueStage::Active, "done with and not assumed");
    assert_eq!(bench.info(1).attempts, 0);
    assert_eq!(bench.add(1), QueueStage::Active);
    assert_eq!(bench.queue.counts().total(), 1);
}

#[test]
fn an_update_moves_a_waiting_pod_to_its_new_group() {
    let mut bench = Bench::new();
    bench.add_failed(1, &[FIT]);
    bench.add_failed(11, &[FIT]);
    bench.update_pod(&PendingPod { class: ClassIdx(5), ..pending(1) }, &[UPDATED]);
    bench.plugins.willing.set(|_, class, _| class == ClassIdx(5));
    assert_eq!(bench.event(POD_GONE), 1);
    assert_eq!(bench.stage(1), Some(QueueStage::Backoff));
}

#[test]
fn incoming_pods_are_counted_by_queue_and_event() {
    let mut bench = Bench::new();
    bench.gate(2, GATES).add(2);
    bench.add_failed(1, &[FIT]);
    bench.event(POD_GONE);
    bench.at(60_000).tick();
    let counted: Vec<_> = bench
        .queue
        .counters
        .incoming
        .iter()
        .map(|((queue, label), count)| format!("{} {label} {count}", queue.name()))
        .collect();
    assert_eq!(
        counted,
        [
            "active UnschedulablePodAdd 1",
            "active BackoffComplete 1",
            "backoff AssignedPodDelete 1",
            "unschedulable UnschedulablePodAdd 1",
            "unschedulable ScheduleAttemptFailure 1",
        ]
    );
    assert_eq!(bench.queue.counters.pops, 1);
}
