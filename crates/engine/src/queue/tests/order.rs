//! The order in which pods are popped.

use crate::queue::testing::*;
use crate::queue::{EventLabel, PendingPod, QueueCounts, QueueStage, SubQueue};

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
