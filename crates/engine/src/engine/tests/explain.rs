//! Explanations: what a pod's attempt would lead to, without a change of the engine.

use crate::engine::testing::*;
use crate::framework::{Permit, Rejection};
use crate::object::Pod;
use crate::queue::QueueStage;

/// Names of the feasible nodes, and the message if there are none.
fn explain(harness: &mut Harness, pod: Pod) -> Option<(Vec<String>, String)> {
    let now = harness.now;
    harness.engine.explain(pod, now, |state, _, explanation| {
        let feasible = explanation.feasible.iter();
        let names = feasible.map(|node| state.nodes.name(*node).to_owned()).collect();
        (names, explanation.message.clone())
    })
}

#[test]
fn a_pod_of_no_profile_is_not_explained() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    let mut pod = pending("p", 100);
    pod.spec_mut().scheduler_name = "another".into();
    assert_eq!(explain(&mut harness, pod), None);
}

#[test]
fn an_unknown_pod_is_explained_and_forgotten() {
    let mut harness = Harness::new(&[("n1", 1000), ("n2", 100)]);
    let (feasible, _) = explain(&mut harness, pending("p", 600)).unwrap();
    assert_eq!(feasible, ["n1"]);
    assert_eq!(harness.find("p"), None);
    assert_eq!(harness.schedule(), [""; 0]);
}

#[test]
fn a_pod_on_a_node_is_explained_as_if_it_had_left_and_stays_there() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.show(running("p", "n1", 600));
    let (feasible, _) = explain(&mut harness, running("p", "n1", 600)).unwrap();
    assert_eq!(feasible, ["n1"], "its own requests do not count against it");
    assert_eq!(harness.node_of("p"), Some("n1"));
    assert_eq!(harness.place(pending("q", 600)), ["Unschedulable q, nominate for none"]);
}

#[test]
fn an_explanation_changes_neither_queue_nor_the_next_decision() {
    let nodes = [("n1", 1000), ("n2", 1000), ("n3", 1000)];
    let (mut asked, mut other) = (Harness::new(&nodes), Harness::new(&nodes));
    for harness in [&mut asked, &mut other] {
        harness.place(pending("large", 5000));
        harness.show(pending("p", 600));
    }
    for _ in 0..3 {
        let (feasible, message) = explain(&mut asked, pending("large", 5000)).unwrap();
        assert_eq!(feasible, [""; 0]);
        assert_eq!(message, "0/3 nodes are available: 3 Insufficient cpu. no victims");
        assert_eq!(asked.stage("large"), Some(QueueStage::Unschedulable));
        explain(&mut asked, pending("p", 600)).unwrap();
    }
    assert_eq!(asked.attempts("large"), other.attempts("large"));
    assert_eq!(asked.schedule(), other.schedule());
}

#[test]
fn nominated_pods_count_in_an_explanation() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.show(Pod { nominated_node: "n1".into(), ..important("p", 800, 10) });
    let (feasible, _) = explain(&mut harness, important("q", 600, 5)).unwrap();
    assert_eq!(feasible, [""; 0]);
    let (feasible, _) = explain(&mut harness, important("q", 600, 20)).unwrap();
    assert_eq!(feasible, ["n1"]);
    let (feasible, _) = explain(&mut harness, important("p", 800, 10)).unwrap();
    assert_eq!(feasible, ["n1"], "its own nomination does not count against it");
}

#[test]
fn reserve_and_permit_are_asked_about_the_chosen_node_and_nothing_stays_reserved() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    let rejection = Rejection::unschedulable("taken");
    harness.script.refusals.lock().insert(("ReserveB", "refused".to_owned()), rejection.clone());
    harness.wait_at("PermitB", "held", MINUTE);
    let now = harness.now;
    let mut asked = |name: &str| {
        let answer = harness.engine.explain(pending(name, 600), now, |_, profile, found| {
            let name = |plugin| profile.plugin_name(plugin).to_owned();
            let reserve = found.reserve.into_iter().map(|(plugin, no)| (name(plugin), no));
            let permit = found.permit.into_iter().map(|(plugin, answer)| (name(plugin), answer));
            (reserve.collect::<Vec<_>>(), permit.collect::<Vec<_>>())
        });
        answer.unwrap()
    };
    let reserved = |refusal| vec![("ReserveA".to_owned(), None), ("ReserveB".to_owned(), refusal)];
    assert_eq!(asked("refused"), (reserved(Some(rejection)), vec![]));
    let wait = Permit::Wait { timeout: MINUTE };
    let permit = vec![("PermitA".to_owned(), Permit::Allow), ("PermitB".to_owned(), wait)];
    assert_eq!(asked("held"), (reserved(None), permit));
    assert!(harness.script.reserved.lock().is_empty());
    assert_eq!(harness.place(pending("p", 900)), ["bind p to n1"]);
}
