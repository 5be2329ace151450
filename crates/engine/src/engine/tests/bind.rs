//! The bind command and its outcomes.

use crate::change::Change;
use crate::command::{AttemptHistory, Command, PodRef};
use crate::engine::testing::*;
use crate::object::Pod;
use crate::queue::QueueStage;

#[test]
fn a_bound_pod_is_reported_and_assumed_until_the_watch_shows_it() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.place(pending("p", 600));
    harness.log();
    assert_eq!(harness.tell(bound("p")), ["scheduled p on n1"]);
    assert_eq!(harness.log(), ["ReserveA post-binds p on n1", "ReserveB post-binds p on n1"]);
    assert_eq!((harness.stage("p"), harness.node_of("p")), (None, Some("n1")));
    let is_assumed =
        |harness: &Harness| harness.engine.state().pods.get(harness.find("p").unwrap()).assumed;
    assert!(is_assumed(&harness));
    harness.show(running("p", "n1", 600));
    assert!(!is_assumed(&harness));
    assert_eq!(harness.tell(bound("p")), [""; 0], "an answer counts once");
}

#[test]
fn a_refused_bind_gives_the_place_back_and_the_pod_is_retried_after_a_backoff() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.place(pending("p", 600));
    harness.place(pending("q", 600));
    let commands = harness.tell(bind_failed("p", "409 Conflict"));
    assert_eq!(commands, ["SchedulerError p, nominate for none"]);
    assert_eq!(harness.message(), "409 Conflict");
    assert_eq!(harness.stage("p"), Some(QueueStage::ErrorBackoff));
    assert_eq!(harness.schedule(), ["bind q to n1"], "its place was given to a pod that waited");
    harness.tell(bind_failed("q", "409 Conflict"));
    assert_eq!(harness.after(2 * SECOND), ["bind p to n1", "Unschedulable q, nominate for none"]);
}

#[test]
fn a_bind_without_an_answer_keeps_its_place() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.place(pending("p", 600));
    harness.place(pending("q", 600));
    assert_eq!(harness.after(60 * MINUTE), ["Unschedulable q, nominate for none"]);
    assert_eq!((harness.stage("p"), harness.node_of("p")), (Some(QueueStage::Binding), Some("n1")));
    // A read shows that it was never bound: the executor answers with a failure then.
    harness.tell(bind_failed("p", "timeout"));
    assert_eq!(harness.schedule(), ["bind q to n1"]);
}

#[test]
fn a_watch_event_that_overtakes_the_answer_confirms_the_pod() {
    for succeeds in [true, false] {
        let mut harness = Harness::new(&[("n1", 1000)]);
        harness.place(pending("p", 600));
        harness.log();
        assert_eq!(harness.show(running("p", "n1", 600)), [""; 0]);
        assert_eq!((harness.stage("p"), harness.node_of("p")), (None, Some("n1")));
        if succeeds {
            assert_eq!(harness.tell(bound("p")), ["scheduled p on n1"]);
            assert_eq!(
                harness.log(),
                ["ReserveA post-binds p on n1", "ReserveB post-binds p on n1"]
            );
        } else {
            assert_eq!(harness.tell(bind_failed("p", "timeout")), [""; 0]);
        }
        assert_eq!(harness.node_of("p"), Some("n1"), "the API server has the last word");
    }
}

#[test]
fn every_successful_bind_is_reported_once_in_every_order_of_events() {
    let shown = || Change::Pod(Box::new(running("p", "n1", 600)));
    let orders = [
        vec![bound("p"), shown(), shown(), gone("p")],
        vec![bound("p"), gone("p")],
        vec![shown(), bound("p"), shown(), gone("p")],
        vec![shown(), shown(), bound("p"), gone("p")],
        vec![shown(), gone("p"), bound("p")],
        vec![bound("p"), bound("p"), shown(), bound("p"), gone("p"), bound("p")],
        vec![shown(), bound("p"), bound("p"), gone("p"), bound("p")],
    ];
    for order in orders {
        let mut harness = Harness::new(&[("n1", 1000)]);
        harness.place(pending("p", 600));
        let commands: Vec<String> =
            order.iter().flat_map(|change| harness.tell(change.clone())).collect();
        assert_eq!(commands, ["scheduled p on n1"], "{order:?}");
        assert!(harness.engine.confirmed_binds.is_empty());
    }
}

#[test]
fn pods_that_others_bound_are_not_reported() {
    for node in ["n1", "n2"] {
        for held in [false, true] {
            let mut harness = Harness::new(&[("n1", 1000)]);
            if held {
                harness.wait_at("PermitA", "p", MINUTE);
            }
            harness.place(pending("p", 600));
            harness.add_node("n2", 1000);
            let mut commands = harness.show(running("p", node, 600));
            // Of the bind in flight, if there is one.
            commands.extend(harness.tell(bind_failed("p", "409 Conflict")));
            commands.extend(harness.tell(gone("p")));
            assert_eq!(commands, [""; 0], "on {node}, held: {held}");
            assert!(harness.engine.confirmed_binds.is_empty());
        }
    }
}

#[test]
fn a_pod_that_is_deleted_before_its_bind_is_answered_has_failed() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.place(pending("p", 600));
    assert_eq!(harness.tell(gone("p")), ["SchedulerError p, nominate for none"]);
    assert_eq!(harness.tell(bound("p")), [""; 0]);
}

#[test]
fn a_pod_that_another_scheduler_bound_elsewhere_frees_its_place() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.place(pending("p", 600));
    harness.add_node("n2", 100);
    harness.place(pending("q", 600));
    harness.log();
    harness.show(running("p", "n2", 600));
    assert_eq!(harness.log(), ["ReserveB unreserves p on n1", "ReserveA unreserves p on n1"]);
    assert_eq!(harness.node_of("p"), Some("n2"));
    assert_eq!(harness.schedule(), ["bind q to n1"]);
    assert_eq!(harness.tell(bind_failed("p", "409 Conflict")), [""; 0]);
    assert_eq!(harness.node_of("p"), Some("n2"));
}

#[test]
fn a_pod_that_was_bound_and_then_shown_elsewhere_frees_its_place() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.place(pending("p", 600));
    harness.tell(bound("p"));
    harness.place(pending("q", 600));
    harness.add_node("n2", 100);
    harness.show(running("p", "n2", 600));
    assert_eq!(harness.node_of("p"), Some("n2"));
    assert_eq!(harness.schedule(), ["bind q to n1"]);
}

#[test]
fn the_bind_carries_the_resource_version_that_was_shown_last() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.wait_at("PermitA", "p", MINUTE);
    let version = |resource_version| Pod { resource_version, generation: 3, ..pending("p", 600) };
    harness.place(version(7));
    harness.show(version(9));
    harness.tell(allowed("p", "PermitA"));
    let [Command::Bind { extender: None, pod, .. }] = &*harness.commands else {
        panic!("{:?}", harness.commands)
    };
    let expected = PodRef {
        namespace: "default".into(),
        name: "p".into(),
        uid: "p".into(),
        resource_version: 9,
        generation: 3,
        scheduler: "default-scheduler".into(),
    };
    assert_eq!(*pod, expected);
}

#[test]
fn the_bind_carries_the_attempts_of_its_pod() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    let begun = harness.now;
    harness.show(pending("p", 600));
    harness.now += SECOND;
    for attempts in 1..4 {
        assert_eq!(harness.schedule(), ["bind p to n1"]);
        let [Command::Bind { history, .. }] = &*harness.commands else { panic!() };
        let expected = AttemptHistory { attempts, initial_attempt: begun, was_flushed: false };
        assert_eq!(*history, expected);
        harness.tell(bind_failed("p", "409 Conflict"));
        harness.now += 20 * SECOND;
        harness.tick();
    }
}

#[test]
fn answers_about_pods_that_are_not_being_bound_are_ignored() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    for answer in [bound("p"), bind_failed("p", "no")] {
        assert_eq!(harness.tell(answer.clone()), [""; 0], "unknown");
        harness.show(pending("p", 2000));
        assert_eq!(harness.tell(answer.clone()), [""; 0], "active");
        harness.schedule();
        assert_eq!(harness.tell(answer), [""; 0], "unschedulable");
        assert_eq!(harness.stage("p"), Some(QueueStage::Unschedulable));
        harness.tell(gone("p"));
    }
}
