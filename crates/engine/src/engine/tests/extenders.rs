//! Attempts that wait for an extender's verdict about nodes or victims.

use crate::change::{Change, ExtenderVerdict};
use crate::engine::testing::*;
use crate::framework::Extender;
use crate::object::{ClusterObject, CsiDriver, Pod, Text};
use crate::queue::QueueStage;

const GPU: &str = "example.com/gpu";

/// An extender that filters and scores for pods that request GPUs.
fn filtering() -> Extender {
    Extender { managed: vec![GPU.into()], filters: true, scores: true, ..Extender::default() }
}

/// An extender with a say about victims only.
fn preempting() -> Extender {
    Extender { managed: vec![GPU.into()], preempts: true, ..Extender::default() }
}

/// A pod that concerns the extenders.
fn with_gpu(mut pod: Pod) -> Pod {
    pod.spec_mut().requests.scalars = [(Text::from(GPU), 1)].into();
    pod
}

#[test]
fn scores_of_extenders_add_to_those_of_plugins() {
    let nodes = [("n1", 4000), ("n2", 4000), ("n3", 4000)];
    let mut harness = Harness::with_extenders(vec![filtering()], &nodes);
    assert_eq!(harness.place(with_gpu(pending("p", 100))), ["ask [0] about p: n1 n2 n3"]);
    assert_eq!(harness.stage("p"), Some(QueueStage::InFlight));
    let verdict = passed(&[("n1", 0), ("n2", 10), ("n3", 0)]);
    assert_eq!(harness.answer("p", Ok(verdict)), ["bind p to n2"]);
}

#[test]
fn an_extender_is_asked_about_feasible_nodes_only() {
    let nodes = [("n1", 50), ("n2", 4000), ("n3", 50)];
    let mut harness = Harness::with_extenders(vec![filtering()], &nodes);
    assert_eq!(harness.place(with_gpu(pending("p", 100))), ["ask [0] about p: n2"]);
    let full = Harness::with_extenders(vec![filtering()], &[("n1", 50)]);
    let mut harness = full;
    let commands = harness.place(with_gpu(pending("p", 100)));
    assert_eq!(commands, ["Unschedulable p, nominate for none"], "without a feasible node none is");
}

#[test]
fn only_extenders_that_are_interested_are_asked_and_in_their_order() {
    let all_pods = Extender { filters: true, ..Extender::default() };
    let only_binds = Extender { binds: true, managed: vec![GPU.into()], ..Extender::default() };
    let extenders = vec![filtering(), only_binds, all_pods];
    let mut harness = Harness::with_extenders(extenders, &[("n1", 4000)]);
    assert_eq!(harness.place(with_gpu(pending("p", 100))), ["ask [0, 2] about p: n1"]);
    assert_eq!(harness.place(pending("q", 100)), ["ask [2] about q: n1"]);
    assert_eq!(harness.answer("p", Ok(passed(&[("n1", 0)]))), ["bind p to n1 by extender 1"]);
    assert_eq!(harness.answer("q", Ok(passed(&[("n1", 0)]))), ["bind q to n1"]);
}

#[test]
fn nodes_that_an_extender_rejects_are_not_taken() {
    let mut harness = Harness::with_extenders(vec![filtering()], &[("n1", 4000), ("n2", 4000)]);
    harness.place(with_gpu(pending("p", 100)));
    let verdict = ExtenderVerdict {
        passed: passed(&[("n2", 0)]).passed,
        ..failed(&[("n1", "gpu is hot", false)])
    };
    assert_eq!(harness.answer("p", Ok(verdict)), ["bind p to n2"]);
}

#[test]
fn a_pod_that_extenders_reject_everywhere_waits_for_any_event() {
    let mut harness = Harness::with_extenders(vec![filtering()], &[("n1", 4000), ("n2", 4000)]);
    harness.place(with_gpu(pending("p", 100)));
    let verdict = failed(&[("n1", "gpu is hot", true), ("n2", "gpu is gone", true)]);
    assert_eq!(harness.answer("p", Ok(verdict)), ["Unschedulable p, nominate for none"]);
    let reasons = "1 gpu is gone, 1 gpu is hot";
    assert_eq!(harness.message(), format!("0/2 nodes are available: {reasons}. no victims"));
    assert_eq!(harness.blockers("p"), (vec!["Extender"], vec![]));
    assert_eq!(harness.stage("p"), Some(QueueStage::Unschedulable));
    let driver = CsiDriver { name: "d".into(), ..CsiDriver::default() };
    harness.tell(Change::Object(ClusterObject::CsiDriver(driver.into())));
    assert_eq!(harness.schedule(), ["ask [0] about p: n1 n2"]);
}

#[test]
fn a_pod_whose_extender_fails_is_retried_after_a_backoff() {
    let mut harness = Harness::with_extenders(vec![filtering()], &[("n1", 4000)]);
    harness.place(with_gpu(pending("p", 100)));
    let commands = harness.answer("p", Err("no answer from the extender"));
    assert_eq!(commands, ["SchedulerError p, nominate for none"]);
    assert_eq!(harness.message(), "no answer from the extender");
    assert_eq!(harness.stage("p"), Some(QueueStage::ErrorBackoff));
    assert_eq!(harness.after(2 * SECOND), ["ask [0] about p: n1"]);
}

#[test]
fn pods_that_do_not_concern_extenders_are_placed_meanwhile() {
    let mut harness = Harness::with_extenders(vec![filtering()], &[("n1", 4000)]);
    harness.place(with_gpu(pending("p", 100)));
    assert_eq!(harness.place(pending("q", 100)), ["bind q to n1"]);
    assert_eq!(harness.stage("p"), Some(QueueStage::InFlight));
}

#[test]
fn a_node_that_no_longer_fits_is_not_taken_and_new_ones_are_asked_about() {
    let mut harness = Harness::with_extenders(vec![filtering()], &[("n1", 4000)]);
    harness.place(with_gpu(pending("p", 3000)));
    harness.add_node("n2", 4000);
    harness.show(running("q", "n1", 3000));
    assert_eq!(harness.answer("p", Ok(passed(&[("n1", 10)]))), ["ask [0] about p: n2"]);
    assert_eq!(harness.answer("p", Ok(passed(&[("n2", 0)]))), ["bind p to n2"]);
}

#[test]
fn an_attempt_ends_when_the_nodes_changed_during_three_calls() {
    let mut harness = Harness::with_extenders(vec![filtering()], &[("n1", 4000)]);
    harness.place(with_gpu(pending("p", 3000)));
    for (node, asked) in [("n2", "n1 n2"), ("n3", "n1 n2 n3")] {
        harness.add_node(node, 4000);
        let commands = harness.answer("p", Ok(ExtenderVerdict::default()));
        assert_eq!(commands, [format!("ask [0] about p: {asked}")]);
    }
    let commands = harness.answer("p", Ok(ExtenderVerdict::default()));
    assert_eq!(commands, ["SchedulerError p, nominate for none"]);
    let text = "the feasible nodes changed during each extender call";
    assert_eq!(harness.message(), text);
}

#[test]
fn late_answers_and_answers_about_deleted_pods_change_nothing() {
    let mut harness = Harness::with_extenders(vec![filtering()], &[("n1", 4000)]);
    harness.place(with_gpu(pending("p", 100)));
    let first = harness.tickets["p"];
    assert_eq!(harness.tell(gone("p")), [""; 0]);
    assert_eq!(harness.answer("p", Ok(passed(&[("n1", 0)]))), [""; 0]);
    harness.place(with_gpu(pending("p", 100)));
    assert_ne!(harness.tickets["p"], first);
    let verdict = Ok(passed(&[("n1", 0)]));
    let late = Change::ExtendersAnswered { uid: "p".into(), ticket: first, verdict };
    assert_eq!(harness.tell(late), [""; 0]);
    assert_eq!(harness.answer("p", Ok(passed(&[("n1", 0)]))), ["bind p to n1"]);
    assert_eq!(harness.answer("p", Ok(passed(&[("n1", 0)]))), [""; 0], "an answer counts once");
}

#[test]
fn a_pod_that_starts_to_terminate_during_the_call_is_not_bound() {
    let mut harness = Harness::with_extenders(vec![filtering()], &[("n1", 4000)]);
    harness.place(with_gpu(pending("p", 100)));
    harness.show(terminating(with_gpu(pending("p", 100))));
    assert_eq!(harness.answer("p", Ok(passed(&[("n1", 0)]))), ["warn about p"]);
}

#[test]
fn a_pod_that_changes_during_the_call_is_decided_on_as_it_is_now() {
    let mut harness = Harness::with_extenders(vec![filtering()], &[("n1", 4000), ("n2", 500)]);
    assert_eq!(harness.place(with_gpu(pending("p", 100))), ["ask [0] about p: n1 n2"]);
    harness.show(with_gpu(pending("p", 1000)));
    assert_eq!(harness.answer("p", Ok(passed(&[("n1", 0), ("n2", 99)]))), ["bind p to n1"]);
}

#[test]
fn a_pod_that_another_scheduler_binds_during_the_call_stays_there() {
    let mut harness = Harness::with_extenders(vec![filtering()], &[("n1", 4000), ("n2", 4000)]);
    harness.place(with_gpu(pending("p", 100)));
    harness.show(with_gpu(running("p", "n2", 100)));
    assert_eq!(harness.answer("p", Ok(passed(&[("n1", 0)]))), [""; 0]);
    assert_eq!((harness.stage("p"), harness.node_of("p")), (None, Some("n2")));
}

#[test]
fn the_nominated_node_is_asked_about_first() {
    let mut harness = Harness::with_extenders(vec![filtering()], &[("n1", 4000), ("n2", 4000)]);
    let nominated = Pod { nominated_node: "n2".into(), ..with_gpu(pending("p", 100)) };
    assert_eq!(harness.place(nominated), ["ask [0] about p: n2"]);
    let commands = harness.answer("p", Ok(failed(&[("n2", "gpu is hot", false)])));
    assert_eq!(commands, ["ask [0] about p: n1 n2"]);
    assert_eq!(harness.answer("p", Ok(passed(&[("n1", 0)]))), ["bind p to n1"]);
}

/// A full cluster, and a pod that could evict `x` or `y`.
fn full() -> Harness {
    let mut harness = Harness::with_extenders(vec![preempting()], &[("n1", 4000), ("n2", 4000)]);
    harness.show(running("x", "n1", 3000));
    harness.show(running("y", "n2", 3000));
    let commands = harness.place(with_gpu(important("p", 3000, 10)));
    assert_eq!(commands, ["ask [0] about victims of p: n1(x) n2(y)"]);
    harness
}

/// What the extender was asked about last.
fn candidates(harness: &Harness) -> Vec<crate::change::NodeVictims> {
    match &*harness.commands {
        [crate::command::Command::AskExtendersAboutVictims { candidates, .. }] => {
            candidates.clone()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn extenders_choose_among_the_candidates_of_preemption() {
    for (left, evicts) in [(0, "delete x on n1 for p"), (1, "delete y on n2 for p")] {
        let mut harness = full();
        let left = vec![candidates(&harness)[left].clone()];
        assert_eq!(harness.answer_victims("p", Ok(left))[0], evicts);
    }
}

#[test]
fn without_a_candidate_or_an_answer_no_pod_is_evicted() {
    let mut harness = full();
    let commands = harness.answer_victims("p", Ok(Vec::new()));
    assert_eq!(commands, ["Unschedulable p, nominate for none"]);
    let mut harness = full();
    let commands = harness.answer_victims("p", Err("no answer"));
    assert_eq!(commands, ["Unschedulable p"], "the nomination stays as it is");
    assert!(harness.message().ends_with("2 Insufficient cpu. no answer"), "{}", harness.message());
    assert_eq!(harness.stage("p"), Some(QueueStage::Unschedulable));
}

#[test]
fn candidates_that_are_gone_when_the_extender_answers_are_dropped() {
    type Event = fn(&mut Harness);
    let events: [(&str, Event); 3] = [
        ("the victim moved", |harness| {
            harness.tell(gone("x"));
            harness.show(running("x", "n2", 100));
            harness.show(Pod { priority: 20, ..running("z", "n1", 3000) });
        }),
        ("the victim is gone", |harness| {
            harness.tell(gone("x"));
            harness.show(Pod { priority: 20, ..running("z", "n1", 3000) });
        }),
        ("the node is gone", |harness| {
            harness.remove_node("n1");
        }),
    ];
    for (name, event) in events {
        let mut harness = full();
        let asked = candidates(&harness);
        event(&mut harness);
        let commands = harness.answer_victims("p", Ok(vec![asked[0].clone()]));
        assert_eq!(commands, ["Unschedulable p, nominate for none"], "{name}");
    }
}

#[test]
fn a_node_that_fits_by_the_time_of_the_answer_is_taken_without_eviction() {
    let mut harness = full();
    let asked = candidates(&harness);
    harness.tell(gone("y"));
    // The extender does not filter, so there is nothing to ask it about the node.
    let commands = harness.answer_victims("p", Ok(asked));
    assert_eq!(commands, ["SchedulerError p, nominate for none"]);
    let text = "a node became feasible during the extender call about victims";
    assert_eq!(harness.message(), text);
    assert_eq!(harness.after(2 * SECOND), ["bind p to n2"]);
}
