//! Tests of the choice among nodes that extenders let pass.

use super::*;
use crate::cycle::choose::next_random;
use crate::cycle::testing::{ByNode, Stub, class, nodes, number, profile};
use crate::framework::Extender;
use crate::testing;

fn scored_by(score: fn(&State, NodeIdx) -> i64) -> Profile {
    let mut profile = profile([Stub::score_by("Score", ByNode::new(score))]);
    profile.add_extenders(vec![Extender { filters: true, ..Extender::default() }]);
    profile
}

fn by_number() -> Profile {
    scored_by(|state, node| number(state, node, "number"))
}

fn follow(
    profile: &Profile,
    passed: &[(&str, i64)],
    failed: &[(&str, &str, bool)],
    random: u64,
) -> ShortlistOutcome {
    let mut state = testing::state(nodes(4), []);
    let evaluation = Evaluation::new(profile, class(), &mut state);
    let mut diagnosis = Diagnosis::default();
    diagnosis.node_count = 4;
    let feasible = (0..4).map(NodeIdx).collect();
    let advice = ExtenderVerdict {
        passed: passed.iter().map(|(node, score)| ((*node).into(), *score)).collect(),
        failed: failed
            .iter()
            .map(|(node, reason, unresolvable)| FailedNode {
                node: (*node).into(),
                reason: (*reason).into(),
                unresolvable: *unresolvable,
            })
            .collect(),
    };
    let shortlist = Shortlist { feasible, diagnosis, nominated: false };
    shortlist.follow(profile, &evaluation, &mut state, &advice, random)
}

#[test]
fn scores_of_extenders_add_to_those_of_plugins() {
    for (passed, expected) in [
        (&[("n0", 0), ("n1", 0), ("n2", 0)][..], (2, 3)),
        (&[("n0", 3), ("n1", 0), ("n2", 0)], (0, 3)),
        (&[("n0", i64::MAX), ("n2", i64::MIN)], (0, 2)),
        (&[("n1", -50)], (1, 1)),
        (&[("n1", 0), ("unknown", 100)], (1, 1)),
    ] {
        match follow(&by_number(), passed, &[], 0) {
            ShortlistOutcome::Decided(Decision::Node { node, feasible }) => {
                assert_eq!((node.0, feasible), expected, "{passed:?}");
            }
            _ => panic!("{passed:?}"),
        }
    }
}

#[test]
fn equally_good_nodes_are_drawn_by_the_random_number() {
    let (mut random, mut drawn) = (1, [0; 4]);
    for _ in 0..60 {
        let passed = [("n0", 9), ("n1", 8), ("n3", 6)];
        let outcome = follow(&by_number(), &passed, &[], next_random(&mut random));
        let ShortlistOutcome::Decided(Decision::Node { node, .. }) = outcome else { panic!() };
        drawn[node.at()] += 1;
    }
    assert!(drawn[0] > 5 && drawn[1] > 5 && drawn[3] > 5 && drawn[2] == 0, "{drawn:?}");
}

#[test]
fn nodes_turned_down_have_the_reasons_of_the_extender() {
    let failed =
        [("n0", "busy", false), ("n1", "broken", true), ("n2", "busy", false), ("n3", "", false)];
    let profile = by_number();
    let ShortlistOutcome::Decided(Decision::Unschedulable(diagnosis)) =
        follow(&profile, &[], &failed, 0)
    else {
        panic!("all nodes were turned down");
    };
    assert_eq!(diagnosis.text(""), "0/4 nodes are available: 1 broken, 2 busy.");
    assert_eq!(diagnosis.rejectors(), [profile.plugins.len() - 1]);
    assert_eq!(diagnosis.code(NodeIdx(1)), Code::UnschedulableAndUnresolvable);
    assert_eq!(diagnosis.count_of(Code::Unschedulable), 3);
}

#[test]
fn nodes_that_were_not_asked_about_are_asked_about_if_no_other_is_left() {
    let failed = [("n0", "busy", false)];
    assert!(matches!(follow(&by_number(), &[], &failed, 0), ShortlistOutcome::AskAgain));
    let outcome = follow(&by_number(), &[("n3", 0)], &failed, 0);
    assert!(matches!(outcome, ShortlistOutcome::Decided(Decision::Node { node: NodeIdx(3), .. })));
}

#[test]
fn scoring_may_fail() {
    let outcome = follow(&scored_by(|_, _| 101), &[("n0", 0), ("n1", 0)], &[], 0);
    let ShortlistOutcome::Decided(Decision::Error(text)) = outcome else { panic!() };
    assert!(text.contains("invalid score 101"), "{text}");
    let alone = follow(&scored_by(|_, _| 101), &[("n1", 0)], &[], 0);
    assert!(matches!(alone, ShortlistOutcome::Decided(Decision::Node { .. })), "nothing is scored");
}
