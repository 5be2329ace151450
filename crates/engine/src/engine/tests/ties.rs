//! Equally good nodes: with a seed, pods spread over them; without one, upstream's rule chooses.

use std::collections::BTreeSet;

use crate::command::Command;
use crate::engine::Settings;
use crate::engine::testing::*;
use crate::object::{Node, Text};

const NODES: usize = 50;
const PODS: usize = 100;

/// Where small pods go, one after the other, on nodes so large that none of them is ever full.
fn placements(seed: Option<u64>) -> Vec<Text> {
    let settings = Settings { seed, ..Settings::default() };
    let mut harness = Harness::with(Vec::new(), settings, &[]);
    for number in 0..NODES {
        let name = format!("n{number:02}");
        harness.set_node(Node { allowed_pods: 500, ..node_with(&name, 1_000_000) });
    }
    for number in 0..PODS {
        harness.show(pending(&format!("p{number:02}"), 1));
    }
    harness.attempt(PODS);
    let bound = harness.commands.iter().filter_map(|command| match command {
        Command::Bind { node, .. } => Some(node.clone()),
        _ => None,
    });
    let bound: Vec<Text> = bound.collect();
    assert_eq!(bound.len(), PODS);
    bound
}

fn distinct(placements: &[Text]) -> usize {
    placements.iter().collect::<BTreeSet<_>>().len()
}

#[test]
fn with_a_seed_equal_pods_spread_over_equal_nodes() {
    for seed in 0..10 {
        let used = distinct(&placements(Some(seed)));
        // 43 are expected of 100 independent draws.
        assert!(used >= 30, "seed {seed}: {used} of {NODES} nodes");
    }
}

#[test]
fn two_schedulers_with_different_seeds_seldom_choose_the_same_node() {
    let (one, other) = (placements(Some(1)), placements(Some(2)));
    let same = one.iter().zip(&other).filter(|(one, other)| one == other).count();
    // Two are expected of 100.
    assert!(same < 15, "{same} of {PODS} pods");
}

#[test]
fn equal_seeds_give_equal_placements() {
    assert_eq!(placements(Some(7)), placements(Some(7)));
}

#[test]
fn without_a_seed_upstreams_rule_chooses_the_first_of_equal_nodes() {
    assert_eq!(placements(None), vec![Text::from("n00"); PODS]);
}

#[test]
fn a_seed_does_not_choose_a_node_with_a_lower_score() {
    for seed in 0..20 {
        let settings = Settings { seed: Some(seed), ..Settings::default() };
        let nodes = [("n1", 4000), ("n2", 4000), ("n3", 4000)];
        let mut harness = Harness::with(Vec::new(), settings, &nodes);
        let labels = crate::testing::labels(&[("score", "51")]);
        harness.set_node(Node { labels, ..node_with("n2", 4000) });
        assert_eq!(harness.place(pending("p", 100)), ["bind p to n2"], "seed {seed}");
    }
}
