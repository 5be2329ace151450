//! Changes of pods: the events of each aspect, and which pods they wake.

use std::collections::BTreeMap;

use crate::engine::testing::*;
use crate::framework::Extender;
use crate::object::{Pod, PodFacts, Toleration, TolerationOperator};
use crate::queue::QueueStage;
use crate::testing::labels;

fn tolerating(mut pod: Pod) -> Pod {
    let (key, value, operator) = ("k".into(), "".into(), TolerationOperator::Exists);
    pod.spec_mut().tolerations = [Toleration { key, operator, value, effect: None }].into();
    pod
}

fn gated(pod: Pod) -> Pod {
    Pod { gates: ["later".into()].into(), ..pod }
}

fn labelled(pod: Pod) -> Pod {
    Pod { labels: labels(&[("a", "b")]), ..pod }
}

/// The events that a pod causes when it is shown.
fn events(harness: &mut Harness, pod: Pod) -> Vec<String> {
    let counts = |harness: &Harness| -> BTreeMap<String, u64> {
        let moves = harness.engine.queue.counters.moves.iter();
        moves.map(|(label, counts)| (label.to_string(), counts.events)).collect()
    };
    let before = counts(harness);
    harness.show(pod);
    let raised =
        counts(harness).into_iter().filter(|(label, count)| before.get(label) != Some(count));
    raised.map(|(label, _)| label).collect()
}

#[test]
fn each_changed_aspect_of_an_assigned_pod_is_an_event_of_its_own() {
    let base = || running("p", "n1", 1000);
    let cases: [(Pod, &[&str]); 6] = [
        (base(), &[]),
        (labelled(base()), &["AssignedPodUpdatePodLabel"]),
        (running("p", "n1", 900), &["AssignedPodUpdatePodScaleDown"]),
        (running("p", "n1", 1100), &[]),
        (tolerating(base()), &["AssignedPodUpdatePodToleration"]),
        (
            labelled(tolerating(running("p", "n1", 900))),
            &[
                "AssignedPodUpdatePodLabel",
                "AssignedPodUpdatePodScaleDown",
                "AssignedPodUpdatePodToleration",
            ],
        ),
    ];
    for (changed, want) in cases {
        let extenders = vec![Extender { filters: true, ..Extender::default() }];
        let mut harness = Harness::with_extenders(extenders, &[("n1", 4000)]);
        assert_eq!(events(&mut harness, base()), ["AssignedPodAdd"]);
        assert_eq!(events(&mut harness, changed), want);
    }
}

#[test]
fn an_extended_resource_that_is_requested_less_is_a_scale_down() {
    let with = |amount: i64| {
        let mut pod = running("p", "n1", 1000);
        pod.spec_mut().requests_on_node.scalars = [("e/r".into(), amount)].into();
        pod
    };
    let extenders = vec![Extender { filters: true, ..Extender::default() }];
    let mut harness = Harness::with_extenders(extenders, &[("n1", 4000)]);
    harness.show(with(2));
    assert_eq!(events(&mut harness, with(3)), [""; 0]);
    assert_eq!(events(&mut harness, with(1)), ["AssignedPodUpdatePodScaleDown"]);
    let none = running("p", "n1", 1000);
    assert_eq!(events(&mut harness, none), ["AssignedPodUpdatePodScaleDown"]);
}

#[test]
fn changes_of_a_waiting_pod_reach_only_the_pod_itself() {
    let mut harness = Harness::new(&[("n1", 50)]);
    harness.place(pending("p", 100));
    harness.place(pending("q", 200));
    harness.show(pending("p", 90));
    assert_eq!(harness.stage("p"), Some(QueueStage::Backoff));
    assert_eq!(harness.stage("q"), Some(QueueStage::Unschedulable));
}

#[test]
fn a_changed_priority_reorders_the_queue() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    harness.show(important("a", 100, 5));
    harness.show(important("b", 100, 1));
    harness.show(important("b", 100, 9));
    assert_eq!(harness.schedule(), ["bind b to n1", "bind a to n1"]);
}

#[test]
fn a_pod_in_any_place_of_the_queue_can_be_assigned_elsewhere_or_deleted() {
    let wanted = [
        ("active", QueueStage::Active),
        ("gated", QueueStage::Gated),
        ("rejected", QueueStage::Unschedulable),
        ("failed", QueueStage::ErrorBackoff),
        ("woken", QueueStage::Backoff),
    ];
    for assign in [true, false] {
        let mut harness = Harness::new(&[("n1", 1000)]);
        harness.show(running("r", "n1", 900));
        harness.show(labelled_as_failing(pending("failed", 10)));
        harness.show(pending("woken", 5000));
        harness.schedule();
        harness.add_node("n2", 10);
        harness.script.deaf.set(true);
        harness.show(gated(pending("gated", 10)));
        harness.show(pending("rejected", 5000));
        // Active pods are tried before those that back off.
        harness.attempt(1);
        harness.show(pending("active", 10));
        for (pod, stage) in wanted {
            assert_eq!(harness.stage(pod), Some(stage), "{pod}");
        }
        for (pod, _) in wanted {
            if assign {
                harness.show(running(pod, "n2", 1));
                assert_eq!((harness.stage(pod), harness.node_of(pod)), (None, Some("n2")));
            } else {
                assert_eq!(harness.tell(gone(pod)), [""; 0]);
                assert_eq!(harness.find(pod), None);
            }
        }
        assert_eq!(harness.engine.queue().counts().total(), 0);
        assert_eq!(harness.engine.next_deadline(), None);
    }
}

fn labelled_as_failing(pod: Pod) -> Pod {
    Pod { labels: labels(&[("fails", "")]), ..pod }
}

#[test]
fn the_deletion_of_an_unknown_pod_changes_nothing() {
    let mut harness = Harness::new(&[("n1", 50)]);
    harness.place(pending("p", 100));
    assert_eq!(harness.tell(gone("other")), [""; 0]);
    assert_eq!(harness.stage("p"), Some(QueueStage::Unschedulable));
}

#[test]
fn a_pod_with_the_name_of_a_deleted_one_and_another_uid_is_a_new_pod() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    harness.place(pending("p", 100));
    let second = Pod { uid: "second".into(), ..pending("p", 100) };
    // The watch shows the new one before the deletion of the old one.
    harness.show(second);
    assert_eq!(harness.tell(bound("p")), ["scheduled p on n1"]);
    assert_eq!(harness.schedule(), ["bind p to n1"]);
    harness.tell(gone("p"));
    assert_eq!(harness.stage("second"), Some(QueueStage::Binding));
    assert_eq!(harness.node_of("second"), Some("n1"));
}

#[test]
fn classes_of_earlier_versions_of_a_pod_are_released() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    for changed in [labelled(pending("p", 100)), pending("p", 50), tolerating(pending("p", 50))] {
        harness.show(pending("p", 100));
        harness.show(changed);
        assert!(harness.engine.core.classes.next_from(0).is_some());
        harness.tell(gone("p"));
        assert_eq!(harness.engine.core.classes.next_from(0), None);
    }
}

#[test]
fn readiness_and_restarts_are_stored_and_are_no_event() {
    // Extenders subscribe to every event.
    let extender = Extender { filters: true, ..Extender::default() };
    let mut harness = Harness::with_extenders(vec![extender], &[("n1", 1000)]);
    harness.show(running("a", "n1", 100));
    let record = |harness: &Harness| {
        let state = &harness.engine.core.state;
        state.pods.get(state.find_pod("default", "a").unwrap()).clone()
    };
    let (spec, moves) = (record(&harness).spec, harness.engine.queue.counters.moves.clone());
    let ready = PodFacts { ready: true, restarts: 3, ..PodFacts::default() };
    let protected = PodFacts { mirror: true, safe_to_evict: Some(false), ..ready };
    for facts in [ready, protected] {
        harness.show(Pod { facts, ..running("a", "n1", 100) });
        assert_eq!((record(&harness).facts, record(&harness).spec), (facts, spec));
    }
    assert_eq!(harness.engine.queue.counters.moves, moves);
}
