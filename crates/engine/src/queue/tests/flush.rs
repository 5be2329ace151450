//! Pods that wait too long without an event.

use crate::index::PodIdx;
use crate::queue::testing::*;
use crate::queue::waking::FLUSH_BATCH;
use crate::queue::{NEVER, QueueStage};

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
    assert_eq!(bench.stage(1), Some(QueueStage::Unschedulable), "no flush has run");
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
        bench.plugins.gates.borrow_mut().insert(PodIdx(pod), crate::queue::Gate::of(GATES));
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
