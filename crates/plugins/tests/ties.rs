//! Equally good nodes: with a seed, pods spread over them; without one, upstream's rule chooses.

use std::collections::BTreeSet;

use engine::change::Change;
use engine::command::Command;
use engine::engine::{Engine, Settings};
use engine::object::{Node, Pod, PodSpec, Resources, Text};
use plugins::registry::Registry;

const MIB: i64 = 1 << 20;
const NODES: usize = 50;
const PODS: usize = 100;

/// Where small pods go, one after the other, on nodes so large that none of them changes a score. They
/// request the same share of cpu and memory, so that nodes with pods are no less balanced than others.
fn placements(seed: Option<u64>) -> Vec<Text> {
    let config = api::config::defaults(api::config::Gates::default());
    let profiles = Registry::default().profiles(&config).expect("the defaults are right");
    let mut engine = Engine::new(profiles, Settings { seed, ..Settings::default() });
    let mut commands = Vec::new();
    for number in 0..NODES {
        let allocatable =
            Resources { cpu: 1_000_000, memory: 1_000_000 * MIB, ..Resources::default() };
        let name = format!("n{number:02}");
        let node = Node { allocatable, allowed_pods: 500, ..engine::testing::node(&name) };
        engine.apply(Change::Node(node.into()), 0, &mut commands);
    }
    let requests = Resources { cpu: 1, memory: MIB, ..Resources::default() };
    let spec = PodSpec {
        scheduler_name: "default-scheduler".into(),
        requests_for_score: requests.clone(),
        requests_on_node: requests.clone(),
        non_zero_cpu: requests.cpu,
        non_zero_memory: requests.memory,
        requests,
        ..PodSpec::default()
    };
    for number in 0..PODS {
        let name = format!("p{number:02}");
        let pod = Pod { spec: spec.clone().into(), ..engine::testing::pod(&name) };
        engine.apply(Change::Pod(Box::new(pod)), 0, &mut commands);
    }
    engine.apply(Change::Schedule { limit: PODS }, 0, &mut commands);
    let bound = commands.into_iter().filter_map(|command| match command {
        Command::Bind { node, .. } => Some(node),
        _ => None,
    });
    let bound: Vec<Text> = bound.collect();
    assert_eq!(bound.len(), PODS);
    engine.audit().expect("incremental state equals state from scratch");
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
