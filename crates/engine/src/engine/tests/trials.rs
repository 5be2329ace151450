//! Trials and plans: what they decide, that they leave nothing behind, and what a commit does.

use crate::bitset::NodeSet;
use crate::cycle::decide::Decision;
use crate::engine::testing::*;
use crate::engine::{Committed, Move, Plan, Trial};
use crate::framework::{Permit, Rejection};
use crate::index::{NodeIdx, PodIdx};
use crate::object::{Pod, Text};
use crate::queue::QueueStage;

fn pod(trial: &Trial, name: &str) -> PodIdx {
    trial.state().pods.find(&name.into()).unwrap()
}

fn node(trial: &Trial, name: &str) -> NodeIdx {
    trial.state().nodes.find(name).unwrap()
}

/// The node that is decided for a pod, if any, without the excluded nodes.
fn decide(trial: &mut Trial, name: &str, excluded: &[&str]) -> Option<String> {
    let mut set = NodeSet::new(trial.state().nodes.slots());
    set.extend(excluded.iter().map(|name| node(trial, name)));
    match trial.decide(pod(trial, name), &set) {
        Decision::Node { node, .. } => Some(trial.state().nodes.name(node).to_owned()),
        _ => None,
    }
}

fn place(trial: &mut Trial, name: &str, on: &str) {
    trial.place(pod(trial, name), node(trial, on)).unwrap();
}

fn to(name: &str, from: &str, to: &str) -> Move {
    let pod = crate::command::PodRef {
        namespace: "default".into(),
        name: name.into(),
        uid: name.into(),
        scheduler: "default-scheduler".into(),
        ..crate::command::PodRef::default()
    };
    Move { pod, from: from.into(), to: to.into() }
}

impl Harness {
    /// Commits a plan, checks the engine and returns what became of it and the commands as texts.
    #[track_caller]
    fn commit(&mut self, plan: &Plan) -> (Committed, Vec<String>) {
        let mut committed = Committed::default();
        let briefs = self.step(|engine, now, commands| {
            committed = engine.commit(plan, now, commands);
        });
        (committed, briefs)
    }
}

#[test]
fn a_decision_sees_the_steps_before_it_and_the_next_one_does_not_see_a_trial_that_ended() {
    let mut harness = Harness::new(&[("n1", 1000), ("n2", 1000)]);
    harness.show(running("a", "n1", 800));
    harness.show(running("b", "n2", 800));
    harness.show(pending("p", 600));
    let before = harness.engine.content();
    let mut trial = harness.engine.trial();
    assert_eq!(decide(&mut trial, "p", &[]), None);
    let a = pod(&trial, "a");
    trial.remove(a);
    assert_eq!(decide(&mut trial, "p", &[]).as_deref(), Some("n1"));
    place(&mut trial, "p", "n1");
    assert_eq!(decide(&mut trial, "a", &[]), None);
    drop(trial);
    assert_eq!(harness.engine.content(), before);
    assert_eq!(decide(&mut harness.engine.trial(), "p", &[]), None);
    assert_eq!(harness.schedule(), ["Unschedulable p, nominate for none"]);
}

#[test]
fn excluded_nodes_are_no_candidates_in_one_decision_only() {
    let mut harness = Harness::new(&[("n1", 1000), ("n2", 1000), ("n3", 1000)]);
    harness.show(pending("p", 600));
    let mut trial = harness.engine.trial();
    for _ in 0..2 {
        assert_eq!(decide(&mut trial, "p", &[]).as_deref(), Some("n1"));
        assert_eq!(decide(&mut trial, "p", &["n1"]).as_deref(), Some("n2"));
        assert_eq!(decide(&mut trial, "p", &["n1", "n2"]).as_deref(), Some("n3"));
        assert_eq!(decide(&mut trial, "p", &["n1", "n2", "n3"]), None);
    }
    let all = NodeSet::full(trial.state().nodes.slots());
    let Decision::Unschedulable(diagnosis) = trial.decide(pod(&trial, "p"), &all) else {
        panic!("all nodes are excluded");
    };
    assert_eq!(diagnosis.text(""), "0/3 nodes are available: feasible nodes were excluded.");
}

#[test]
fn a_check_names_the_plugin_and_its_reasons() {
    let mut harness = Harness::new(&[("n1", 1000), ("n2", 100)]);
    harness.show(pending("p", 600));
    let mut trial = harness.engine.trial();
    let (p, n1, n2) = (pod(&trial, "p"), node(&trial, "n1"), node(&trial, "n2"));
    assert_eq!(trial.check(p, n1), Ok(()));
    let rejected = trial.check(p, n2).unwrap_err();
    assert_eq!(rejected.rejection, Rejection::unschedulable("Insufficient cpu"));
    assert_eq!(trial.profiles()[0].plugin_name(rejected.plugin.unwrap()), "Fit");
}

#[test]
fn an_inner_trial_rolls_back_alone_or_leaves_its_changes_to_the_outer_one() {
    let mut harness = Harness::new(&[("n1", 1000), ("n2", 1000)]);
    harness.show(running("a", "n1", 800));
    harness.show(running("b", "n2", 800));
    harness.show(pending("p", 600));
    let before = harness.engine.content();
    let mut trial = harness.engine.trial();
    let (a, b) = (pod(&trial, "a"), pod(&trial, "b"));
    trial.remove(a);
    {
        let mut nested = trial.nest();
        nested.remove(b);
        place(&mut nested, "p", "n2");
        let mut inner = nested.nest();
        let p = pod(&inner, "p");
        inner.remove(p);
        inner.keep();
        assert_eq!(decide(&mut nested, "p", &["n1"]).as_deref(), Some("n2"));
    }
    assert_eq!(decide(&mut trial, "p", &["n1"]), None, "b is back on n2");
    let mut nested = trial.nest();
    place(&mut nested, "p", "n1");
    nested.keep();
    assert_eq!(trial.into_plan().moves, [to("a", "n1", ""), to("p", "", "n1")]);
    assert_eq!(harness.engine.content(), before);
    assert_eq!(harness.log().len() % 2, 0, "whatever was reserved is released");
}

#[test]
fn a_rejection_by_reserve_undoes_the_placement() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.show(Pod { nominated_node: "n1".into(), ..pending("p", 600) });
    let rejection = Rejection::unschedulable("taken");
    harness.script.refusals.lock().insert(("ReserveB", "p".to_owned()), rejection.clone());
    let before = harness.engine.content();
    let mut trial = harness.engine.trial();
    let (p, n1) = (pod(&trial, "p"), node(&trial, "n1"));
    assert_eq!(trial.place(p, n1), Err(rejection));
    assert!(!trial.state().pods.get(p).node.is_some());
    assert_eq!(trial.state().pods.get(p).nominated, n1);
    assert_eq!(trial.into_plan(), Plan::default());
    assert_eq!(harness.engine.content(), before);
}

#[test]
fn a_commit_binds_what_fits_and_nominates_what_needs_the_space_of_evicted_pods() {
    let mut harness = Harness::new(&[("n1", 1000), ("n2", 1000)]);
    harness.show(running("a", "n1", 800));
    harness.show(pending("p", 600));
    harness.show(pending("q", 900));
    let plan = {
        let mut trial = harness.engine.trial();
        let a = pod(&trial, "a");
        trial.remove(a);
        place(&mut trial, "p", "n1");
        place(&mut trial, "q", "n2");
        trial.into_plan()
    };
    let (committed, commands) = harness.commit(&plan);
    assert_eq!(committed.evictions, [to("a", "n1", "")]);
    assert_eq!(committed.refused, []);
    assert_eq!(commands, ["Unschedulable p, nominate for n1", "bind q to n2"]);
    assert_eq!(harness.nominated("p"), Some("n1"));
    assert_eq!(harness.after(SECOND), [""; 0]);
    harness.now += MINUTE;
    assert_eq!(harness.tell(gone("a")), [""; 0]);
    assert_eq!(harness.schedule(), ["bind p to n1"]);
}

#[test]
fn a_commit_goes_through_permit() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.show(pending("p", 600));
    harness.wait_at("PermitA", "p", MINUTE);
    let plan = Plan { moves: vec![to("p", "", "n1")] };
    assert_eq!(harness.commit(&plan).1, ["nominate p for n1"]);
    assert_eq!(harness.stage("p"), Some(QueueStage::InFlight));
}

#[test]
fn a_commit_refuses_what_no_longer_applies() {
    let mut harness = Harness::new(&[("n1", 1000), ("n2", 1000)]);
    harness.show(running("moved", "n2", 100));
    harness.show(terminating(running("leaving", "n1", 100)));
    harness.show(Pod { gates: ["later".into()].into(), ..pending("gated", 100) });
    harness.show(pending("p", 100));
    let moves = vec![
        to("unknown", "", "n1"),
        to("moved", "n1", "n2"),
        to("leaving", "n1", ""),
        to("gated", "", "n1"),
        to("p", "", "n9"),
        to("moved", "", "n1"),
    ];
    let (committed, commands) = harness.commit(&Plan { moves: moves.clone() });
    assert_eq!(committed, Committed { evictions: Vec::new(), refused: moves });
    assert_eq!(commands, [""; 0]);
}

#[test]
fn a_plan_made_on_a_fork_is_committed_by_the_engine() {
    let mut harness = Harness::new(&[("n1", 1000), ("n2", 1000)]);
    harness.show(pending("p", 600));
    let mut fork = harness.engine.fork();
    let mut trial = fork.trial();
    place(&mut trial, "p", "n2");
    let plan = trial.into_plan();
    assert_eq!(harness.commit(&plan).1, ["bind p to n2"]);
    assert_eq!(fork.state().pods.iter().filter(|(_, pod)| pod.node.is_some()).count(), 0);
}

#[test]
fn permit_plugins_answer_for_a_placed_pod() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.show(pending("p", 600));
    let denial = Permit::Deny(Rejection::unschedulable("no"));
    harness.permit("PermitA", "p", denial.clone());
    let mut trial = harness.engine.trial();
    place(&mut trial, "p", "n1");
    let answers = trial.permit(pod(&trial, "p"));
    let names = answers.iter().map(|(plugin, _)| trial.profiles()[0].plugin_name(*plugin));
    assert_eq!(names.collect::<Vec<_>>(), ["PermitA"], "a denial is the last");
    assert_eq!(answers[0].1, denial);
}

#[test]
fn a_supposed_pod_goes_with_the_trial() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.show(running("a", "n1", 100));
    let before = harness.engine.content();
    let mut trial = harness.engine.trial();
    for index in 0..3 {
        let name = Text::from(format!("s{index}"));
        let supposed = trial.add(pending(&name, 400 + index));
        let decision = trial.decide(supposed, &NodeSet::default());
        assert_eq!(matches!(decision, Decision::Node { .. }), index < 2);
        if let Decision::Node { node, .. } = decision {
            trial.place(supposed, node).unwrap();
        }
    }
    drop(trial);
    assert_eq!(harness.engine.content(), before);
    assert_eq!(harness.place(pending("p", 900)), ["bind p to n1"]);
}
