//! Updates and deletions of pods, and the counters.

use crate::index::ClassIdx;
use crate::queue::testing::*;
use crate::queue::{EventLabel, PendingPod, QueueCounts, QueueStage, SubQueue};

use super::label;

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
