//! The bind command and its outcomes.

use crate::command::Command;
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
    for answer in [bound("p"), bind_failed("p", "timeout")] {
        let mut harness = Harness::new(&[("n1", 1000)]);
        harness.place(pending("p", 600));
        assert_eq!(harness.show(running("p", "n1", 600)), [""; 0]);
        assert_eq!((harness.stage("p"), harness.node_of("p")), (None, Some("n1")));
        assert_eq!(harness.tell(answer), [""; 0]);
        assert_eq!(harness.node_of("p"), Some("n1"), "the API server has the last word");
    }
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
    let version = |resource_version| Pod { resource_version, ..pending("p", 600) };
    harness.place(version(7));
    harness.show(version(9));
    harness.tell(allowed("p", "PermitA"));
    let [Command::Bind { resource_version, extender, pod, .. }] = &*harness.commands else {
        panic!("{:?}", harness.commands)
    };
    assert_eq!((*resource_version, *extender, &*pod.namespace), (9, None, "default"));
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
