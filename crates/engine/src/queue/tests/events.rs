//! Events and queueing hints that wake unschedulable pods.

use crate::framework::{Action, Resource};
use crate::index::{ClassIdx, PodIdx};
use crate::queue::testing::*;
use crate::queue::{
    PendingPod, Queue, QueueConfig, QueueStage, Subscriptions, WakeCounts, WakeScope,
};

use super::label;

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
fn an_event_without_subscribers_does_nothing() {
    let mut bench = Bench::new();
    bench.add_failed(1, &[FIT]);
    bench.add(2);
    bench.pop();
    let kind = (Resource::CsiDriver, Action::UPDATE);
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
    let wildcard = (Resource::Wildcard, Action::ALL);
    assert_eq!(bench.event(wildcard), 2);
    assert_eq!(bench.stage(1), Some(QueueStage::Backoff));
    assert_eq!(bench.stage(2), Some(QueueStage::Active));
}
