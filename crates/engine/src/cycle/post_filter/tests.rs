//! Tests of asking PostFilter plugins.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::cycle::testing::{Stub, class, nodes, pods_on, profile, web};
use crate::framework::Rejection;
use crate::testing;

/// Answers of plugins, asked in order; the number of plugins asked is returned too.
fn ask(answers: Vec<fn() -> PostFilterOutcome>) -> (PostFilterReport, usize) {
    let asked = Arc::new(AtomicUsize::new(0));
    let stubs = answers.into_iter().map(|answer| {
        let asked = Arc::clone(&asked);
        Stub::post_filter("PostFilter", move |_| {
            asked.fetch_add(1, Ordering::Relaxed);
            answer()
        })
    });
    let profile = profile(stubs);
    let mut state = testing::state(nodes(2), [testing::pod("pod")]);
    let pod = state.find_pod("default", "pod").unwrap();
    let mut evaluation = Evaluation::new(&profile, class(), &mut state);
    let nominator = Nominator::default();
    let input = PostFilterInput::new(pod, &nominator, 0, 0);
    let diagnosis = Diagnosis::default();
    let report = post_filter(&profile, &mut evaluation, &mut state, &diagnosis, &input);
    (report, asked.load(Ordering::Relaxed))
}

fn says(reason: &'static str, clear_nomination: bool) -> PostFilterOutcome {
    PostFilterOutcome::Unschedulable { reasons: vec![reason.into()], clear_nomination }
}

fn finds() -> PostFilterOutcome {
    PostFilterOutcome::Nominate { node: NodeIdx(1), victims: vec![PodIdx(0)] }
}

#[test]
fn reasons_of_all_plugins_are_joined() {
    let silent = || PostFilterOutcome::Unschedulable { reasons: vec![], clear_nomination: false };
    assert_eq!(ask(vec![]), (PostFilterReport::default(), 0));
    let (report, asked) = ask(vec![|| says("a", false), silent, || says("b", true), silent]);
    let expected = PostFilterReport {
        message: "a, b".to_owned(),
        clear_nomination: true,
        ..PostFilterReport::default()
    };
    assert_eq!((report, asked), (expected, 4));
}

#[test]
fn the_first_plugin_that_finds_a_node_is_the_last_to_be_asked() {
    let (report, asked) = ask(vec![|| says("a", true), finds, || says("b", false)]);
    let expected = PostFilterReport {
        nominated: Some((NodeIdx(1), vec![PodIdx(0)])),
        plugin: Some(1),
        clear_nomination: true,
        ..PostFilterReport::default()
    };
    assert_eq!((report, asked), (expected, 2));
}

#[test]
fn a_plugin_that_fails_is_the_last_to_be_asked_and_the_only_one_to_be_quoted() {
    let (report, asked) =
        ask(vec![|| says("a", false), || PostFilterOutcome::Error("broken".into()), finds]);
    assert_eq!((report.message.as_str(), report.nominated, asked), ("broken", None, 2));
}

#[test]
fn candidates_for_extenders_end_the_question() {
    let (report, asked) = ask(vec![
        || {
            let candidate = Candidate { node: NodeIdx(1), victims: vec![PodIdx(0)], violations: 2 };
            PostFilterOutcome::AskExtenders(vec![candidate])
        },
        finds,
    ]);
    assert_eq!((report.candidates.len(), report.candidates[0].violations, asked), (1, 2, 1));
    assert_eq!((report.nominated, report.plugin), (None, None));
}

#[test]
fn a_plugin_can_ask_what_would_be_and_learns_what_ran() {
    let full = |state: &State, node| u32::from(pods_on(state, node) > 0);
    let limit = Stub::judge("Limit", full, &[Rejection::unschedulable("full")]);
    let preempts = Stub::post_filter("Preempts", |cycle| {
        assert!(cycle.ran_pre_filter("Limit") && !cycle.ran_pre_filter("Preempts"));
        assert_eq!((cycle.now, cycle.random, &*cycle.class().namespace), (11, 22, "default"));
        let victim = cycle.state().find_pod("default", "victim").unwrap();
        let mut what_if = cycle.what_if(NodeIdx(1));
        assert!(!what_if.passes());
        what_if.remove(victim);
        assert_eq!(what_if.fits(), Ok(()));
        drop(what_if);
        PostFilterOutcome::Nominate { node: NodeIdx(1), victims: vec![victim] }
    });
    let profile = profile([limit, preempts]);
    let mut state = testing::state(nodes(2), [testing::pod("pod"), web("victim", "n1")]);
    let pod = state.find_pod("default", "pod").unwrap();
    let mut evaluation = Evaluation::new(&profile, class(), &mut state);
    let nominator = Nominator::default();
    let input = PostFilterInput::new(pod, &nominator, 11, 22);
    let diagnosis = Diagnosis::new(&profile, &mut evaluation, &state);
    let report = post_filter(&profile, &mut evaluation, &mut state, &diagnosis, &input);
    assert_eq!(report.plugin, Some(1));
    assert_eq!(pods_on(&state, NodeIdx(1)), 1, "the victim is still there");
}
