//! Deletions and updates of a pod and of its node, at every stage between the chosen node and the watch.

use crate::change::Change;
use crate::engine::testing::*;
use crate::object::Pod;
use crate::queue::QueueStage;
use crate::testing::labels;

/// How far the pod `p` has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Permit,
    Volumes,
    Bind,
    /// The bind is answered; the watch did not show it yet.
    Answered,
}

const STAGES: [Stage; 4] = [Stage::Permit, Stage::Volumes, Stage::Bind, Stage::Answered];
/// Stages at which the attempt can still fail.
const OPEN: [Stage; 3] = [Stage::Permit, Stage::Volumes, Stage::Bind];

/// A pod that fills its node.
fn large(name: &str) -> Pod {
    with_claim(pending(name, 4000))
}

/// The answer that the pod waits for at a stage.
fn answer(harness: &Harness, stage: Stage, failure: Option<&str>) -> Option<Change> {
    let (uid, failure) = ("p".into(), failure.map(Into::into));
    match stage {
        Stage::Permit => {
            Some(Change::Permission { uid, plugin: "PermitA".into(), denied: failure })
        }
        Stage::Volumes => {
            let ticket = harness.tickets.get("p").copied().unwrap_or(0);
            Some(Change::VolumesReady { uid, ticket, failure })
        }
        Stage::Bind => Some(Change::Bound { uid, failure }),
        Stage::Answered => None,
    }
}

/// Takes the pod from one stage to another.
fn advance(harness: &mut Harness, from: Stage, to: Stage) {
    for stage in STAGES.iter().skip_while(|stage| **stage != from) {
        if *stage == to {
            return;
        }
        let change = answer(harness, *stage, None).unwrap();
        assert_ne!(harness.tell(change), [""; 0], "{stage:?}");
    }
}

/// A node, and the pod `p` that has come this far on its way to it.
fn at(stage: Stage) -> Harness {
    let mut harness = Harness::new(&[("n1", 4000)]);
    harness.wait_at("PermitA", "p", 10 * MINUTE);
    assert_eq!(harness.place(large("p")), ["nominate p for n1"]);
    advance(&mut harness, Stage::Permit, stage);
    harness
}

#[test]
fn a_deleted_pod_leaves_its_place_to_others_and_late_answers_are_ignored() {
    for stage in STAGES {
        for failure in [None, Some("not found")] {
            let mut harness = at(stage);
            assert_eq!(
                harness.place(pending("next", 4000)),
                ["Unschedulable next, nominate for none"]
            );
            harness.log();
            let commands = harness.tell(gone("p"));
            if stage == Stage::Answered {
                assert_eq!((commands.len(), harness.log().len()), (0, 0), "{stage:?}");
            } else {
                assert_eq!(commands, ["SchedulerError p, nominate for none"], "{stage:?}");
                assert_eq!(harness.message(), "the pod was deleted");
                assert_eq!(harness.log().len(), 2, "{stage:?}: both plugins unreserve");
            }
            assert_eq!(harness.find("p"), None);
            assert_eq!(harness.schedule(), ["bind next to n1"], "{stage:?}");
            if let Some(late) = answer(&harness, stage, failure) {
                assert_eq!(harness.tell(late), [""; 0], "{stage:?}");
            }
            assert_eq!(harness.engine.next_deadline(), None, "{stage:?}: nothing is left of it");
        }
    }
}

#[test]
fn a_pod_that_starts_to_terminate_is_not_bound_any_more() {
    for stage in OPEN {
        let mut harness = at(stage);
        harness.place(pending("next", 4000));
        let commands = harness.show(terminating(large("p")));
        assert_eq!(commands, ["SchedulerError p, nominate for none"], "{stage:?}");
        assert_eq!(harness.message(), "the pod is being deleted");
        assert_eq!(harness.node_of("p"), None, "{stage:?}");
        assert_eq!(harness.schedule(), ["bind next to n1"], "{stage:?}");
        let late = answer(&harness, stage, None).unwrap();
        assert_eq!(harness.tell(late), [""; 0], "{stage:?}");
        assert_eq!(harness.after(MINUTE), ["warn about p"], "{stage:?}");
    }
}

#[test]
fn a_pod_that_the_watch_shows_on_its_node_is_confirmed() {
    for stage in STAGES {
        let mut harness = at(stage);
        harness.log();
        let shown = with_claim(running("p", "n1", 4000));
        assert_eq!(harness.show(shown), [""; 0], "{stage:?}");
        assert_eq!((harness.stage("p"), harness.node_of("p")), (None, Some("n1")), "{stage:?}");
        assert_eq!(harness.log(), [""; 0], "{stage:?}: reservations are kept");
        for failure in [None, Some("late")] {
            if let Some(late) = answer(&harness, stage, failure) {
                let in_flight = stage == Stage::Bind && failure.is_none();
                let expected: &[&str] = if in_flight { &["scheduled p on n1"] } else { &[] };
                assert_eq!(harness.tell(late), expected, "{stage:?}");
            }
        }
        assert_eq!(harness.after(20 * MINUTE), [""; 0], "{stage:?}: no timeout is left");
        assert_eq!(harness.node_of("p"), Some("n1"), "{stage:?}");
    }
}

#[test]
fn a_pod_that_the_watch_shows_on_another_node_frees_its_place() {
    for stage in STAGES {
        let mut harness = at(stage);
        harness.add_node("n2", 100);
        harness.place(pending("next", 4000));
        harness.show(with_claim(running("p", "n2", 4000)));
        assert_eq!((harness.stage("p"), harness.node_of("p")), (None, Some("n2")), "{stage:?}");
        assert_eq!(harness.schedule(), ["bind next to n1"], "{stage:?}");
    }
}

#[test]
fn an_update_changes_the_class_under_which_a_failed_pod_is_retried() {
    for stage in OPEN {
        let mut harness = at(stage);
        harness.add_node("n2", 4000);
        let mut selects = large("p");
        selects.labels = labels(&[("a", "b")]);
        selects.spec_mut().node_selector = Some(labels(&[("disk", "ssd")]));
        assert_eq!(harness.show(selects), [""; 0], "{stage:?}");
        assert_eq!(harness.node_of("p"), Some("n1"), "{stage:?}: the decision stands");
        let failed = answer(&harness, stage, Some("no")).unwrap();
        harness.tell(failed);
        let ssd =
            crate::object::Node { labels: labels(&[("disk", "ssd")]), ..node_with("n3", 4000) };
        harness.set_node(ssd);
        harness.after(2 * SECOND);
        assert_eq!(harness.node_of("p"), Some("n3"), "{stage:?}");
    }
}

#[test]
fn an_update_that_requests_less_makes_room_for_others() {
    for stage in STAGES {
        let mut harness = at(stage);
        harness.place(pending("next", 3000));
        assert_eq!(harness.stage("next"), Some(QueueStage::Unschedulable));
        assert_eq!(harness.show(with_claim(pending("p", 1000))), [""; 0]);
        assert_eq!(harness.schedule(), ["bind next to n1"], "{stage:?}");
        assert_eq!(harness.node_of("p"), Some("n1"), "{stage:?}");
    }
}

#[test]
fn a_pod_whose_node_is_removed_is_tried_elsewhere_when_the_attempt_fails() {
    for stage in OPEN {
        let mut harness = at(stage);
        assert_eq!(harness.remove_node("n1"), [""; 0], "{stage:?}: an answer is still to come");
        assert_eq!(harness.node_of("p"), Some("n1"), "{stage:?}");
        harness.add_node("n2", 4000);
        let failed = answer(&harness, stage, Some("no such node")).unwrap();
        harness.tell(failed);
        harness.after(2 * SECOND);
        assert_eq!(harness.node_of("p"), Some("n2"), "{stage:?}");
    }
}

#[test]
fn a_pod_that_is_bound_although_its_node_was_removed_keeps_the_place_on_it() {
    for stage in STAGES {
        // An update in between moves the pod to another label set on the same ghost of a node.
        for update in [false, true] {
            let mut harness = at(stage);
            harness.remove_node("n1");
            if update {
                harness.show(Pod { labels: labels(&[("a", "b")]), ..large("p") });
            }
            advance(&mut harness, stage, Stage::Answered);
            assert_eq!(harness.node_of("p"), Some("n1"), "{stage:?}");
            assert_eq!(harness.place(pending("q", 4000)), ["Unschedulable q, nominate for none"]);
            harness.add_node("n1", 4000);
            harness.after(2 * SECOND);
            assert_eq!(harness.node_of("q"), None, "{stage:?}: the place is taken");
            harness.tell(gone("p"));
            harness.after(10 * SECOND);
            assert_eq!(harness.node_of("q"), Some("n1"), "{stage:?}");
        }
    }
}

#[test]
fn a_failure_at_any_stage_can_happen_again_and_again() {
    for stage in OPEN {
        let mut harness = at(stage);
        for round in 0..4 {
            let failed = answer(&harness, stage, Some("500")).unwrap();
            let commands = harness.tell(failed);
            assert_eq!(commands.len(), 1, "{stage:?}");
            assert_eq!(harness.node_of("p"), None, "{stage:?}");
            // A pod that was denied permission waits for a node.
            harness.add_node(&format!("small-{round}"), 1);
            harness.after(20 * SECOND);
            assert_eq!(harness.node_of("p"), Some("n1"), "{stage:?}");
            assert_eq!(harness.attempts("p"), round + 2);
            advance(&mut harness, Stage::Permit, stage);
        }
    }
}

#[test]
fn a_pod_that_requests_less_when_it_is_shown_on_its_node_makes_room_for_others() {
    for stage in STAGES {
        let mut harness = at(stage);
        harness.place(pending("next", 3000));
        harness.show(with_claim(running("p", "n1", 1000)));
        assert_eq!(harness.schedule(), ["bind next to n1"], "{stage:?}");
    }
}

#[test]
fn a_bound_pod_that_is_shown_as_terminating_without_a_node_leaves_its_place() {
    let mut harness = at(Stage::Answered);
    harness.place(pending("next", 4000));
    // Plugins release what a bound pod holds by their own watches.
    harness.script.reserved.lock().clear();
    assert_eq!(harness.show(terminating(large("p"))), [""; 0]);
    assert_eq!((harness.stage("p"), harness.node_of("p")), (None, None));
    assert_eq!(harness.schedule(), ["bind next to n1"]);
}
