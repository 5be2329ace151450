//! PreEnqueue gates and activation.

use crate::index::{ClassIdx, PodIdx};
use crate::queue::testing::*;
use crate::queue::{EventLabel, QueueCounts, QueueStage, SubQueue};

use super::label;

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
