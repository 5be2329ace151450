//! Outcomes of one scheduling attempt.

use crate::engine::testing::*;
use crate::framework::{Code, Rejection};
use crate::object::{Node, Pod};
use crate::queue::QueueStage;
use crate::testing::labels;

fn labelled(name: &str, pairs: &[(&str, &str)]) -> Pod {
    Pod { labels: labels(pairs), ..pending(name, 100) }
}

#[test]
fn a_pod_goes_to_the_feasible_node_with_the_highest_score() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    for (name, cpu, score) in [("n2", 4000, "70"), ("n3", 50, "90"), ("n4", 4000, "60")] {
        harness.set_node(Node { labels: labels(&[("score", score)]), ..node_with(name, cpu) });
    }
    assert_eq!(harness.place(pending("p", 100)), ["bind p to n2"]);
    assert_eq!(harness.node_of("p"), Some("n2"));
}

#[test]
fn attempts_end_at_the_limit_and_continue_with_the_next_change() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    for (name, priority) in [("low", 1), ("high", 3), ("middle", 2)] {
        harness.show(important(name, 100, priority));
    }
    assert_eq!(harness.attempt(0), [""; 0]);
    assert_eq!(harness.attempt(2), ["bind high to n1", "bind middle to n1"]);
    assert_eq!(harness.stage("low"), Some(QueueStage::Active));
    assert_eq!(harness.schedule(), ["bind low to n1"]);
}

#[test]
fn an_assumed_pod_counts_before_the_bind_is_answered() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    assert_eq!(harness.place(pending("p", 600)), ["bind p to n1"]);
    assert_eq!(harness.place(pending("q", 600)), ["Unschedulable q, nominate for none"]);
    assert_eq!(harness.message(), "0/1 nodes are available: 1 Insufficient cpu. no victims");
}

#[test]
fn without_nodes_an_attempt_fails_as_unschedulable_and_is_retried_after_a_backoff() {
    let mut harness = Harness::new(&[]);
    assert_eq!(harness.place(pending("p", 100)), ["Unschedulable p, nominate for none"]);
    assert_eq!(harness.message(), "no nodes available to schedule pods");
    assert_eq!(harness.stage("p"), Some(QueueStage::ErrorBackoff));
    assert_eq!(harness.blockers("p"), (vec![], vec![]));
    harness.add_node("n1", 4000);
    assert_eq!(harness.schedule(), [""; 0]);
    assert_eq!(harness.after(2 * SECOND), ["bind p to n1"]);
}

#[test]
fn a_rejected_pod_waits_for_an_event_of_the_plugin_that_rejected_it() {
    let mut harness = Harness::new(&[("n1", 50)]);
    harness.place(pending("p", 100));
    assert_eq!(harness.stage("p"), Some(QueueStage::Unschedulable));
    assert_eq!(harness.blockers("p"), (vec!["Fit"], vec![]));
    assert_eq!(harness.after(MINUTE), [""; 0]);
    assert_eq!(harness.set_node(node_with("n1", 100)), [""; 0]);
    assert_eq!(harness.schedule(), ["bind p to n1"]);
    assert_eq!(harness.attempts("p"), 2);
}

#[test]
fn a_filter_error_fails_the_attempt_and_the_pod_is_retried_after_a_backoff() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    let failed = harness.place(labelled("p", &[("fails", "")]));
    assert_eq!(failed, ["SchedulerError p, nominate for none"]);
    assert_eq!(harness.message(), "running \"Fit\" filter plugin: the filter broke");
    assert_eq!(harness.stage("p"), Some(QueueStage::ErrorBackoff));
    assert_eq!(harness.schedule(), [""; 0], "pods that failed by error are not popped early");
    assert_eq!(harness.after(2 * SECOND), ["SchedulerError p, nominate for none"]);
}

#[test]
fn pre_filter_rejections_end_the_attempt_by_their_code() {
    let table = [
        (
            Rejection::unresolvable("never"),
            "Unschedulable",
            "0/1 nodes are available: never. no victims",
            QueueStage::Unschedulable,
        ),
        (
            Rejection::unschedulable("not now"),
            "Unschedulable",
            "0/1 nodes are available: not now. no victims",
            QueueStage::Unschedulable,
        ),
        (
            Rejection::error("broken"),
            "SchedulerError",
            "running PreFilter plugin \"Fit\": broken",
            QueueStage::ErrorBackoff,
        ),
    ];
    for (rejection, reason, message, stage) in table {
        let mut harness = Harness::new(&[("n1", 4000)]);
        harness.script.pre_filters.lock().insert("x".to_owned(), rejection);
        let commands = harness.place(labelled("p", &[("prefilter", "x")]));
        assert_eq!(commands, [format!("{reason} p, nominate for none")]);
        assert_eq!(harness.message(), message);
        assert_eq!(harness.stage("p"), Some(stage), "{message}");
    }
}

#[test]
fn a_pod_that_is_being_deleted_is_skipped() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    assert_eq!(harness.place(terminating(pending("p", 100))), ["warn about p"]);
    assert_eq!(harness.message(), "skip schedule deleting pod: default/p");
    assert_eq!(harness.stage("p"), Some(QueueStage::Binding));
    harness.add_node("n2", 4000);
    assert_eq!(harness.after(10 * MINUTE), [""; 0], "it is not tried again");
    harness.tell(gone("p"));
    assert_eq!(harness.engine.queue().counts().total(), 0);
}

#[test]
fn a_pod_of_another_scheduler_is_not_queued_but_counts_once_it_is_on_a_node() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    let of_other = |node: &str| {
        let mut pod = running("other", node, 800);
        pod.spec_mut().scheduler_name = "another".into();
        pod
    };
    assert_eq!(harness.place(of_other("")), [""; 0]);
    assert_eq!(harness.find("other"), None);
    harness.show(of_other("n1"));
    harness.place(pending("p", 400));
    assert_eq!(harness.stage("p"), Some(QueueStage::Unschedulable));
    harness.tell(gone("other"));
    assert_eq!(harness.schedule(), ["bind p to n1"]);
}

#[test]
fn reasons_of_post_filter_plugins_follow_those_of_the_filters() {
    let mut harness = Harness::new(&[("n1", 50)]);
    harness.show(Pod { nominated_node: "n1".into(), ..important("p", 100, 1) });
    harness.script.post_filters.lock().insert("p".to_owned(), "no luck");
    assert_eq!(harness.schedule(), ["Unschedulable p"]);
    assert_eq!(harness.message(), "0/1 nodes are available: 1 Insufficient cpu. no luck");
    assert_eq!(harness.nominated("p"), Some("n1"), "the plugin left the nomination as it was");
    harness.script.post_filters.lock().insert("p".to_owned(), "error");
    harness.set_node(node_with("n1", 60));
    assert_eq!(harness.schedule(), ["Unschedulable p"]);
    assert_eq!(harness.message(), "0/1 nodes are available: 1 Insufficient cpu. PostFilter broke");
    assert_eq!(harness.stage("p"), Some(QueueStage::Unschedulable));
}

#[test]
fn equal_pods_share_one_evaluation() {
    let mut harness = Harness::new(&[("n1", 200), ("n2", 200), ("n3", 200)]);
    let mut calls = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        harness.show(pending(name, 100));
    }
    for _ in 0..5 {
        let mut commands = Vec::new();
        // Without the checks of the harness, which call the filter as well.
        let before = harness.script.filter_calls.get();
        harness.engine.schedule(harness.now, &mut commands);
        assert_eq!(commands.len(), 1);
        calls.push(harness.script.filter_calls.get() - before);
    }
    assert_eq!(calls[1..], [1; 4], "one node changed since the attempt before: {calls:?}");
}

#[test]
fn what_a_rejection_on_the_chosen_node_leads_to_depends_on_its_code() {
    // (code, reason, stage, plugins that rejected, plugins that are pending)
    let table = [
        (Code::Unschedulable, "Unschedulable", QueueStage::Unschedulable, vec!["ReserveB"], vec![]),
        (
            Code::UnschedulableAndUnresolvable,
            "Unschedulable",
            QueueStage::Unschedulable,
            vec!["ReserveB"],
            vec![],
        ),
        (Code::Pending, "Unschedulable", QueueStage::Unschedulable, vec![], vec!["ReserveB"]),
        (Code::Error, "SchedulerError", QueueStage::ErrorBackoff, vec![], vec![]),
    ];
    for (code, reason, stage, rejectors, pending_plugins) in table {
        let mut harness = Harness::new(&[("n1", 4000)]);
        let rejection = Rejection::new(code, vec!["taken".into(), "late".into()]);
        harness.script.refusals.lock().insert(("ReserveB", "p".to_owned()), rejection);
        let commands = harness.place(pending("p", 100));
        assert_eq!(commands, [format!("{reason} p, nominate for none")], "{code:?}");
        let message = match code {
            Code::Error => "running Reserve plugin \"ReserveB\": taken, late",
            _ => "0/1 nodes are available: 1 taken, 1 late.",
        };
        assert_eq!(harness.message(), message);
        assert_eq!(harness.stage("p"), Some(stage), "{code:?}");
        assert_eq!(harness.blockers("p"), (rejectors, pending_plugins), "{code:?}");
    }
}
