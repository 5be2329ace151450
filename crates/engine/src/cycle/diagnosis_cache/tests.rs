//! Tests of the diagnosis that is kept for equal pods.

use super::*;
use crate::cycle::testing::{
    Judge, Stub, ZoneLimit, class, labelled, nodes, pods_on, profile, web,
};
use crate::framework::{PreFilterResult, Rejection};
use crate::queue::Nominator;
use crate::testing;

/// Refuses nodes with pods for one reason and nodes without for another.
fn by_pods(varies: bool) -> Stub {
    Stub::filter("ByPods", move |_, _| {
        let judge = |state: &State, node| if pods_on(state, node) > 0 { 1 } else { 2 };
        let rejections = vec![Rejection::unschedulable("taken"), Rejection::unresolvable("free")];
        PreFilterResult::Filter(Box::new(Judge { judge, rejections, varies }))
    })
}

fn diagnose(evaluation: &mut Evaluation, profile: &Profile, state: &mut State) -> Arc<Diagnosis> {
    evaluation.refresh(profile, state);
    let nominator = Nominator::default();
    evaluation.diagnose(profile, state, Rivals::of_any(&nominator, 0))
}

#[test]
fn an_unchanged_diagnosis_is_shared_and_a_changed_one_is_not_altered_in_place() {
    let profile = profile([by_pods(false)]);
    let mut state = testing::state(nodes(3), [web("a", ""), web("b", "")]);
    let mut evaluation = Evaluation::new(&profile, class(), &mut state);
    let first = diagnose(&mut evaluation, &profile, &mut state);
    assert!(Arc::ptr_eq(&first, &diagnose(&mut evaluation, &profile, &mut state)));
    testing::place(&mut state, "a", "n1");
    let second = diagnose(&mut evaluation, &profile, &mut state);
    assert_eq!(first.text(""), "0/3 nodes are available: 3 free.");
    assert_eq!(second.text(""), "0/3 nodes are available: 1 taken, 2 free.");
    testing::displace(&mut state, "a");
    let third = diagnose(&mut evaluation, &profile, &mut state);
    assert_eq!((third.text(""), third.refusal_count()), (first.text(""), 2));
    assert!(third.nodes().eq(first.nodes()));
}

#[test]
fn a_diagnosis_with_too_many_refusals_is_not_kept() {
    for (count, kept) in [(CACHED_REJECTIONS_MAX, true), (CACHED_REJECTIONS_MAX + 1, false)] {
        let profile = profile([by_pods(true)]);
        let mut state = testing::state(nodes(count), []);
        let mut evaluation = Evaluation::new(&profile, class(), &mut state);
        let diagnosis = diagnose(&mut evaluation, &profile, &mut state);
        assert_eq!(diagnosis.refusal_count(), count);
        assert_eq!(evaluation.failure.is_some(), kept, "{count}");
    }
}

#[test]
fn a_change_that_affects_other_nodes_is_diagnosed_anew() {
    let profile = profile([ZoneLimit::plugin(0)]);
    let in_zone = |name: &str, zone: &str| labelled(name, &[("zone", zone)]);
    let nodes = [in_zone("n0", "a"), in_zone("n1", "a"), testing::node("n2")];
    let mut state = testing::state(nodes, []);
    let mut evaluation = Evaluation::new(&profile, class(), &mut state);
    let first = diagnose(&mut evaluation, &profile, &mut state);
    assert_eq!(
        first.text(""),
        "0/3 nodes are available: 1 node(s) had no zone, 2 zone(s) were full."
    );
    state.set_node(&in_zone("n2", "a").into());
    let second = diagnose(&mut evaluation, &profile, &mut state);
    assert_eq!(second.text(""), "0/3 nodes are available: 3 zone(s) were full.");
}

#[test]
fn a_rejection_by_pre_filter_is_not_kept() {
    let reject =
        Stub::filter("Reject", |_, _| PreFilterResult::Reject(Rejection::unresolvable("no")));
    let profile = profile([reject]);
    let mut state = testing::state(nodes(3), []);
    let mut evaluation = Evaluation::new(&profile, class(), &mut state);
    let diagnosis = diagnose(&mut evaluation, &profile, &mut state);
    assert_eq!(diagnosis.text(""), "0/3 nodes are available: no.");
    assert!(evaluation.failure.is_none());
}

#[test]
fn a_pod_that_fills_a_zone_changes_the_reason_of_its_other_nodes() {
    let never = Stub::judge("Never", |_: &State, _| 1, &[Rejection::unschedulable("never")]);
    let profile = profile([ZoneLimit::plugin(1), never]);
    let in_zone = |name: &str, zone: &str| labelled(name, &[("zone", zone)]);
    let nodes = [in_zone("n0", "a"), in_zone("n1", "a"), in_zone("n2", "b")];
    let mut state = testing::state(nodes, [web("a", "")]);
    let mut evaluation = Evaluation::new(&profile, class(), &mut state);
    let mut text = |state: &mut State| diagnose(&mut evaluation, &profile, state).text("");
    assert_eq!(text(&mut state), "0/3 nodes are available: 3 never.");
    testing::place(&mut state, "a", "n0");
    assert_eq!(text(&mut state), "0/3 nodes are available: 1 never, 2 zone(s) were full.");
    testing::displace(&mut state, "a");
    assert_eq!(text(&mut state), "0/3 nodes are available: 3 never.");
}
