//! Tests of failures and of catching up; that a kept ranking equals a new one is tested with the cycle.

use super::*;
use crate::cycle::testing::{ByNode, Stub, class, nodes, number, pods_on, profile, web};
use crate::limits::NODE_CHANGES_MAX;
use crate::testing;

fn by_number() -> ByNode {
    ByNode::new(|state, node| number(state, node, "number"))
}

fn rank(profile: &Profile, state: &mut State, feasible: &NodeSet) -> Ranking {
    Ranking::new(profile, &class(), state, (feasible, 0), &mut ColumnPool::default()).0
}

fn failure(stubs: Vec<Stub>) -> Option<String> {
    let profile = profile(stubs);
    let mut state = testing::state(nodes(3), []);
    let feasible = state.nodes.present().clone();
    rank(&profile, &mut state, &feasible).failure(&profile).map(|ScoringError(text)| text)
}

#[test]
fn the_failures_are_those_of_scoring_a_list() {
    let failing = ByNode { failure: Some("no terms"), ..by_number() };
    for (stubs, text) in [
        (vec![Stub::score_by("Fine", by_number())], None),
        (
            vec![Stub::score_by("Far", ByNode::new(|_, _| 101))],
            Some(
                "plugin \"Far\" returns an invalid score 101, it should in the range of [0, 100] after normalizing",
            ),
        ),
        (
            vec![Stub::score_by("Fails", failing).at(&[Point::PreScore])],
            Some("running PreScore plugin \"Fails\": no terms"),
        ),
        (
            vec![
                Stub::score_by("Far", ByNode::new(|_, _| -1)),
                Stub::score_by("Fails", failing),
                Stub::score_by("Other", ByNode { failure: Some("later"), ..by_number() }),
            ],
            Some("running PreScore plugin \"Fails\": no terms"),
        ),
        (
            vec![
                Stub::score_by("Fails", failing),
                Stub::score_by("Needs", by_number())
                    .failing_without_pre("no state")
                    .at(&[Point::Score]),
            ],
            Some("running Score plugins: plugin \"Needs\" failed with: no state"),
        ),
    ] {
        assert_eq!(failure(stubs).as_deref(), text);
    }
}

#[test]
fn an_invalid_score_of_an_infeasible_node_does_not_matter() {
    let far = ByNode::new(|state, node| 101 * i64::from(number(state, node, "number") == 2));
    let profile = profile([Stub::score_by("Far", far)]);
    let mut state = testing::state(nodes(3), []);
    let mut feasible = state.nodes.present().clone();
    assert!(rank(&profile, &mut state, &feasible).failure(&profile).is_some());
    feasible.remove(NodeIdx(2));
    assert_eq!(rank(&profile, &mut state, &feasible).failure(&profile), None);
}

#[test]
fn the_best_node_follows_pods_and_feasibility() {
    let few_pods = ByNode::new(|state, node| 100 - pods_on(state, node));
    let stubs =
        [Stub::score_by("Few", few_pods), Stub::score_by("Number", by_number()).weighing(2)];
    let profile = profile(stubs);
    let mut state = testing::state(nodes(3), [web("a", ""), web("b", ""), web("c", "")]);
    let mut feasible = state.nodes.present().clone();
    let mut ranking = rank(&profile, &mut state, &feasible);
    let totals = |ranking: &Ranking| [0, 1, 2].map(|node| ranking.total(NodeIdx(node)));
    assert_eq!(totals(&ranking), [100, 102, 104]);
    assert_eq!(ranking.choose(TieBreak::First(0)), Some(NodeIdx(2)));
    for pod in ["a", "b", "c"] {
        testing::place(&mut state, pod, "n2");
    }
    assert!(ranking.refresh(&state, &feasible, 0));
    assert_eq!(totals(&ranking), [100, 102, 101]);
    assert_eq!(ranking.choose(TieBreak::First(0)), Some(NodeIdx(1)));
    feasible.remove(NodeIdx(1));
    assert!(ranking.refresh(&state, &feasible, 1));
    assert_eq!(ranking.choose(TieBreak::First(0)), Some(NodeIdx(2)));
    feasible.clear();
    assert!(ranking.refresh(&state, &feasible, 2));
    assert_eq!(ranking.choose(TieBreak::First(0)), None);
}

#[test]
fn a_ranking_too_far_behind_cannot_catch_up() {
    let profile = profile([Stub::score_by("Number", by_number())]);
    let mut state = testing::state(nodes(2), [web("a", "")]);
    let feasible = state.nodes.present().clone();
    let mut ranking = rank(&profile, &mut state, &feasible);
    for _ in 0..=NODE_CHANGES_MAX {
        testing::place(&mut state, "a", "n0");
        testing::displace(&mut state, "a");
    }
    assert!(!ranking.refresh(&state, &feasible, 0));
}

#[test]
fn columns_used_again_hold_nothing_of_the_ranking_before() {
    let mut pool = ColumnPool::default();
    let stubs = || {
        let normalised = by_number().normalised(crate::framework::scorer::proportional);
        [Stub::score_by("Plain", by_number()), Stub::score_by("Normalised", normalised)]
    };
    let profile = profile(stubs());
    let mut state = testing::state(nodes(5), []);
    let feasible = state.nodes.present().clone();
    let mut totals = || {
        let (ranking, _) = Ranking::new(&profile, &class(), &mut state, (&feasible, 0), &mut pool);
        let totals: Vec<i64> = feasible.iter().map(|node| ranking.total(node)).collect();
        ranking.recycle(&mut pool);
        totals
    };
    assert_eq!(totals(), [0, 26, 52, 78, 104]);
    assert_eq!(totals(), [0, 26, 52, 78, 104]);
}
