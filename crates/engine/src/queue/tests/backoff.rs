//! Backoff after failed attempts.

use crate::queue::testing::*;
use crate::queue::{Queue, QueueConfig, QueueStage, Subscriptions};

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
