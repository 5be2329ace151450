//! Tests of scores of a list of nodes.

use super::*;
use crate::cycle::testing::{ByNode, Stub, class, nodes, number, profile};
use crate::framework::scorer::{proportional, proportional_reversed};
use crate::testing;

fn by_number() -> ByNode {
    ByNode::new(|state, node| number(state, node, "number"))
}

fn score(stubs: impl IntoIterator<Item = Stub>, nodes_scored: &[u32]) -> Result<Scores, String> {
    let mut state = testing::state(nodes(6), []);
    let nodes: Vec<NodeIdx> = nodes_scored.iter().copied().map(NodeIdx).collect();
    let scores = Scores::new(&profile(stubs), &class(), &mut state, &nodes);
    scores.map_err(|ScoringError(text)| text)
}

#[test]
fn weighted_scores_of_all_plugins_add_up() {
    let fixed = ByNode { constant: Some(5), ..by_number() };
    let stubs = [
        Stub::score_by("Plain", by_number()).weighing(2),
        Stub::score_by("Fixed", fixed).weighing(3),
        Stub::score_by("Normalised", by_number().normalised(proportional)),
    ];
    let scores = score(stubs, &[4, 1, 2]).unwrap();
    assert_eq!(scores.plugins, [(0, vec![8, 2, 4]), (1, vec![15, 15, 15]), (2, vec![100, 25, 50])]);
    assert_eq!((&*scores.totals, scores.winner()), (&[123, 42, 69][..], Some(0)));
}

#[test]
fn raw_scores_are_normalised_over_the_listed_nodes_only() {
    for (nodes, proportion, reversed) in [
        (&[1, 2, 5][..], &[20, 40, 100][..], &[80, 60, 0][..]),
        (&[1, 2], &[50, 100], &[50, 0]),
        (&[3], &[100], &[0]),
        (&[0], &[0], &[100]),
        (&[], &[], &[]),
    ] {
        let normalised = |normalise| {
            let stub = Stub::score_by("N", by_number().normalised(normalise));
            score([stub], nodes).unwrap().totals
        };
        assert_eq!(normalised(proportional), proportion, "{nodes:?}");
        assert_eq!(normalised(proportional_reversed), reversed, "{nodes:?}");
    }
}

#[test]
fn an_excluded_node_counts_for_no_extreme_and_gets_zero() {
    let excluding = ByNode::new(|state, node| match number(state, node, "number") {
        0 => EXCLUDED,
        number => number,
    });
    let spread = |raw: i64, extremes: Extremes| {
        (raw - extremes.min) * SCORE_MAX / (extremes.max - extremes.min).max(1)
    };
    let stub = || Stub::score_by("N", excluding.normalised(spread));
    assert_eq!(score([stub()], &[0, 1, 3, 2]).unwrap().totals, [0, 0, 100, 50]);
    assert_eq!(score([stub()], &[0]).unwrap().totals, [0], "no node counts");
}

#[test]
fn plugins_that_sit_out_give_no_score() {
    let stubs = [
        Stub::scorer("None", |_, _| None),
        Stub::score_by("Skipped", ByNode { skips: true, ..by_number() }),
        Stub::score_by("Plain", by_number()),
    ];
    let scores = score(stubs, &[1, 2]).unwrap();
    assert_eq!((scores.plugins, scores.totals), (vec![(2, vec![1, 2])], vec![1, 2]));
}

#[test]
fn without_scorers_every_node_has_one_point() {
    let scores = score([], &[1, 2]).unwrap();
    assert_eq!((scores.plugins.len(), &*scores.totals, scores.winner()), (0, &[1, 1][..], Some(0)));
    assert_eq!(score([], &[]).unwrap().winner(), None);
}

#[test]
fn a_final_score_outside_the_range_fails() {
    for (scorer, failing) in [
        (by_number(), None),
        (ByNode::new(|_, _| 100), None),
        (ByNode::new(|_, _| 0), None),
        (ByNode::new(|_, _| 101), Some(101)),
        (ByNode::new(|_, _| -1), Some(-1)),
        (ByNode { constant: Some(101), ..by_number() }, Some(101)),
        (by_number().normalised(|raw, _| raw + 99), Some(101)),
    ] {
        let scored = score([Stub::score_by("Far", scorer)], &[1, 2]);
        let text = failing.map(|score| {
            format!(
                "plugin \"Far\" returns an invalid score {score}, it should in the range of [0, 100] after normalizing"
            )
        });
        assert_eq!(scored.err(), text);
    }
}

#[test]
fn failures_have_the_texts_of_upstream() {
    let failing = ByNode { failure: Some("no terms"), ..by_number() };
    let needs = || Stub::score_by("Needs", by_number()).failing_without_pre("no state");
    for (case, stub, text) in [
        (
            "PreScore fails",
            Stub::score_by("Fails", failing),
            Some("running PreScore plugin \"Fails\": no terms"),
        ),
        (
            "PreScore alone fails",
            Stub::score_by("Fails", failing).at(&[Point::PreScore]),
            Some("running PreScore plugin \"Fails\": no terms"),
        ),
        ("PreScore alone", Stub::score_by("Alone", by_number()).at(&[Point::PreScore]), None),
        (
            "Score without its PreScore",
            needs().at(&[Point::Score]),
            Some("running Score plugins: plugin \"Needs\" failed with: no state"),
        ),
        ("Score with its PreScore", needs(), None),
        (
            "Score that can do without",
            Stub::score_by("Plain", by_number()).at(&[Point::Score]),
            None,
        ),
    ] {
        let failed = score([stub], &[1, 2]).err();
        assert_eq!(failed.as_deref(), text, "{case}");
    }
}
