//! The queue as the engine drives it: gates, order, hints and flushes.

use crate::engine::core::Core;
use crate::engine::testing::*;
use crate::framework::{Point, QueueKey, QueueTraits};
use crate::object::Pod;
use crate::queue::{Gate, QueueContext, QueueStage};

fn gated(pod: Pod) -> Pod {
    Pod { gates: ["later".into()].into(), ..pod }
}

#[test]
fn a_gated_pod_is_not_tried_until_its_gates_are_gone() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    assert_eq!(harness.place(gated(pending("p", 100))), [""; 0]);
    assert_eq!(harness.stage("p"), Some(QueueStage::Gated));
    harness.add_node("n2", 4000);
    assert_eq!(harness.after(MINUTE), [""; 0], "node events do not open the gate");
    assert_eq!(harness.place(pending("p", 100)), ["bind p to n1"]);
}

#[test]
fn a_gate_that_is_added_to_a_rejected_pod_keeps_it_out_when_it_is_woken() {
    let mut harness = Harness::new(&[("n1", 50)]);
    harness.place(pending("p", 100));
    harness.show(gated(pending("p", 100)));
    harness.add_node("n2", 4000);
    assert_eq!(harness.stage("p"), Some(QueueStage::Gated));
    assert_eq!(harness.after(MINUTE), [""; 0]);
}

#[test]
fn a_pod_that_requests_less_than_before_is_tried_again() {
    let mut harness = Harness::new(&[("n1", 50)]);
    harness.place(pending("p", 100));
    harness.show(pending("p", 80));
    assert_eq!(harness.schedule(), ["Unschedulable p, nominate for none"]);
    harness.show(Pod { labels: crate::testing::labels(&[("a", "b")]), ..pending("p", 80) });
    assert_eq!(harness.schedule(), [""; 0], "the filter did not subscribe to labels");
    harness.show(pending("p", 50));
    assert_eq!(harness.schedule(), ["bind p to n1"]);
}

#[test]
fn an_event_that_the_hint_refuses_does_not_wake_the_pod_but_the_flush_does() {
    let mut harness = Harness::new(&[("n1", 50)]);
    harness.place(pending("p", 100));
    harness.script.deaf.set(true);
    harness.add_node("n2", 100);
    assert_eq!(harness.stage("p"), Some(QueueStage::Unschedulable));
    // 1000 s is when it failed; waits of more than 300 s are looked for every 30 s.
    assert_eq!(harness.engine.next_deadline(), Some(1320 * SECOND));
    assert_eq!(harness.after(319 * SECOND), [""; 0]);
    assert_eq!(harness.after(SECOND), ["bind p to n2"]);
}

#[test]
fn events_during_an_extender_call_are_replayed() {
    let extender = crate::framework::Extender { filters: true, ..Default::default() };
    let mut harness = Harness::with_extenders(vec![extender], &[("n1", 100)]);
    harness.show(running("x", "n1", 10));
    assert_eq!(harness.place(pending("p", 90)), ["ask [0] about p: n1"]);
    harness.tell(gone("x"));
    harness.answer("p", Ok(failed(&[("n1", "no", false)])));
    assert_eq!(harness.stage("p"), Some(QueueStage::Backoff), "a pod was deleted meanwhile");
}

#[test]
fn pods_without_a_queue_sort_plugin_are_tried_in_order_of_arrival() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    harness.profile_mut().points.retain(|(point, _)| *point != Point::QueueSort);
    for (pod, priority) in [("a", 0), ("b", 5), ("c", 1)] {
        harness.show(important(pod, 100, priority));
    }
    assert_eq!(harness.schedule(), ["bind a to n1", "bind b to n1", "bind c to n1"]);
}

#[test]
fn without_profiles_all_pods_are_equal() {
    let engine = crate::engine::Engine::new(Vec::new(), crate::engine::Settings::default());
    let context: &Core = &engine.core;
    let key =
        |priority, timestamp| QueueKey { priority, timestamp, traits: QueueTraits::default() };
    let (low, high) = (key(0, 1), key(1, 0));
    assert_eq!(context.order(&low, &high), std::cmp::Ordering::Equal);
}

#[test]
fn pre_enqueue_asks_the_plugin_that_gated_the_pod_before_first() {
    let mut harness = Harness::new(&[]);
    harness.show(gated(pending("p", 100)));
    let pod = harness.find("p").unwrap();
    let profile = harness.profile_mut();
    let (gate, second_gate) = (0, profile.plugins.len());
    profile.plugins.push(Box::new(Gate));
    let points = &mut profile.points;
    let pre_enqueue = points.iter_mut().find(|(point, _)| *point == Point::PreEnqueue);
    pre_enqueue.unwrap().1 = vec![gate, second_gate];
    let context = &harness.engine.core;
    for (first, refuses) in [(None, gate), (Some(gate), gate), (Some(second_gate), second_gate)] {
        assert_eq!(context.pre_enqueue(pod, 0, first), Err(Gate::of(refuses)), "{first:?}");
    }
    harness.show(pending("p", 100));
    assert_eq!(harness.engine.core.pre_enqueue(pod, 0, Some(gate)), Ok(()));
}

#[test]
fn a_preemptor_is_gated_by_the_plugin_that_chose_its_victims() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    harness.show(running("v", "n1", 4000));
    harness.place(important("p", 4000, 10));
    let pod = harness.find("p").unwrap();
    let preempt = 3;
    assert_eq!(harness.engine.core.profiles[0].plugin_name(preempt), "Preempt");
    assert_eq!(harness.engine.core.pre_enqueue(pod, 0, None), Err(Gate::of(preempt)));
    harness.tell(evicted("p", "v"));
    assert_eq!(harness.engine.core.pre_enqueue(pod, 0, None), Ok(()));
}

#[test]
fn the_backoff_of_a_pod_grows_with_each_rejection() {
    let mut harness = Harness::new(&[("n1", 50)]);
    harness.show(pending("p", 100));
    let mut waits = Vec::new();
    for round in 0..5 {
        harness.schedule();
        harness.add_node(&format!("small-{round}"), 50);
        assert_eq!(harness.stage("p"), Some(QueueStage::Backoff), "{round}");
        let deadline = harness.engine.next_deadline().unwrap();
        waits.push((deadline - harness.now) / SECOND);
        harness.now = deadline;
        harness.tick();
        assert_eq!(harness.stage("p"), Some(QueueStage::Active), "{round}");
    }
    // The last second of a backoff counts in full.
    assert_eq!(waits, [2, 3, 5, 9, 11]);
}
