//! Pods that are retried at a time, since their rejection ends without an event.

use crate::index::PodIdx;
use crate::queue::testing::*;
use crate::queue::{EventLabel, FailedAttempt, PluginSet, QueueStage, SubQueue};

/// Pops a pod and lets it fail until a time, in seconds.
fn fail_until(bench: &mut Bench, pod: u32, seconds: i64) {
    bench.pop();
    let (rejectors, retry_at) = (PluginSet::one(FIT), Some(seconds * SECOND));
    let failed = FailedAttempt { rejectors, retry_at, ..FailedAttempt::default() };
    let Bench { queue, plugins, now } = bench;
    queue.add_unschedulable(plugins, PodIdx(pod), failed, *now);
    queue.check(plugins).unwrap();
}

#[test]
fn a_pod_is_retried_at_the_time_at_which_its_rejection_ends() {
    let mut bench = Bench::new();
    bench.at(0).add(1);
    fail_until(&mut bench, 1, 100);
    assert_eq!(bench.queue.next_deadline(), Some(100 * SECOND));
    bench.at(99_999).tick();
    assert_eq!(bench.stage(1), Some(QueueStage::Unschedulable));
    bench.at(100_000).tick();
    assert_eq!(bench.stage(1), Some(QueueStage::Active));
    let label = (SubQueue::Active, EventLabel::RejectionExpired);
    assert_eq!(bench.queue.counters.incoming.get(&label), Some(&1));
}

#[test]
fn the_end_of_a_rejection_cuts_a_backoff_short() {
    let mut bench = Bench::new();
    bench.at(0).add(1);
    fail_until(&mut bench, 1, 60);
    bench.at(59_900).event(POD_GONE);
    bench.at(59_900);
    fail_until(&mut bench, 1, 60);
    bench.event(POD_GONE);
    assert_eq!(bench.stage(1), Some(QueueStage::Backoff));
    bench.at(60_000).tick();
    assert_eq!(bench.stage(1), Some(QueueStage::Active));
}

#[test]
fn each_failure_replaces_the_time_of_the_last_one() {
    let mut bench = Bench::new();
    bench.at(0).add(1);
    fail_until(&mut bench, 1, 100);
    bench.at(50_000).event(POD_GONE);
    assert_eq!(bench.stage(1), Some(QueueStage::Active));
    bench.pop();
    bench.fail(1, &[FIT]);
    bench.at(100_000).tick();
    assert_eq!(bench.stage(1), Some(QueueStage::Unschedulable), "this rejection does not end");
    assert_eq!(bench.queue.timers.len(), 0);
}

#[test]
fn a_time_that_has_passed_is_ignored() {
    let mut bench = Bench::new();
    bench.at(70_000).add(1);
    fail_until(&mut bench, 1, 70);
    bench.at(71_000).tick();
    assert_eq!(bench.stage(1), Some(QueueStage::Unschedulable));
}

#[test]
fn gates_that_end_by_time_are_asked_again() {
    let mut bench = Bench::new();
    bench.gate_until(1, GATES, 100 * SECOND).at(0).add(1);
    assert_eq!(bench.stage(1), Some(QueueStage::Gated));
    bench.gate_until(1, GATES, 200 * SECOND).at(100_000).tick();
    assert_eq!(bench.stage(1), Some(QueueStage::Gated));
    assert_eq!(bench.queue.next_deadline(), Some(200 * SECOND));
    bench.open(1).at(200_000).tick();
    assert_eq!(bench.stage(1), Some(QueueStage::Active));
    assert_eq!(bench.queue.timers.len(), 0);
}

#[test]
fn a_plugin_may_wake_a_pod_earlier_but_not_later() {
    let mut bench = Bench::new();
    bench.at(0).add_failed(1, &[FIT]);
    for (time, deadline) in [(90, 90), (120, 90), (60, 60)] {
        let now = bench.now;
        bench.queue.wake_at(PodIdx(1), time * SECOND, now);
        assert_eq!(bench.queue.next_deadline(), Some(deadline * SECOND));
    }
    bench.delete(1);
    assert_eq!(bench.queue.next_deadline(), None);
}
