//! Tests of one decision: how many nodes are looked at, where the visit begins, and what comes of it.

use super::*;
use crate::bitset::NodeSet;
use crate::cycle::testing::{ByNode, Stub, class, nodes, number, pods_on, profile, web};
use crate::framework::{Extender, PreFilterResult};
use crate::object::Pod;
use crate::testing;

/// Scores all nodes alike.
fn even() -> Stub {
    Stub::score_by("Even", ByNode::new(|_, _| 50))
}

fn by_number() -> Stub {
    Stub::score_by("Number", ByNode::new(|state, node| number(state, node, "number") % 101))
}

/// Turns the nodes before this number down.
fn from(first: i64) -> Stub {
    let judge = move |state: &State, node| u32::from(number(state, node, "number") < first);
    Stub::judge("From", judge, &[Rejection::unschedulable("too low")])
}

/// Narrows the choice to the nodes before this number.
fn before(end: i64) -> Stub {
    Stub::filter("Before", move |_, preparation| {
        let state = &preparation.state;
        let mut nodes = state.nodes.present().clone();
        nodes.retain(|node| number(state, node, "number") < end);
        PreFilterResult::Narrow(nodes, None)
    })
}

/// A cluster, a profile, and the caches that persist between decisions.
struct Bench {
    profile: Profile,
    state: State,
    evaluation: Evaluation,
    nominator: Nominator,
    start: usize,
    pool: ColumnPool,
}

impl Bench {
    fn new(count: usize, stubs: impl IntoIterator<Item = Stub>) -> Self {
        let profile = profile(stubs);
        let mut state = testing::state(nodes(count), [testing::pod("pod")]);
        let evaluation = Evaluation::new(&profile, class(), &mut state);
        let (nominator, pool) = (Nominator::default(), ColumnPool::default());
        Self { profile, state, evaluation, nominator, start: 0, pool }
    }

    fn sampling(mut self, percentage: i32) -> Self {
        self.profile.percentage_of_nodes_to_score = Some(percentage);
        self
    }

    fn decide(&mut self, draw: Option<u64>) -> Decision {
        let pod = self.state.find_pod("default", "pod").unwrap();
        let mut inputs = DecisionInputs {
            nominator: &self.nominator,
            excluded: None,
            start: &mut self.start,
            draw,
            column_pool: &mut self.pool,
        };
        decide(&self.profile, &mut self.evaluation, &mut self.state, pod, &mut inputs)
    }

    /// The node chosen and the number of feasible ones.
    #[track_caller]
    fn node(&mut self) -> (u32, usize) {
        match self.decide(None) {
            Decision::Node { node, feasible } => (node.0, feasible),
            other => panic!("{other:?}"),
        }
    }

    fn sample(&self) -> Option<usize> {
        nodes_to_find(&self.profile, &self.evaluation, &self.state)
    }
}

#[test]
fn the_share_of_nodes_to_find_is_that_of_upstream() {
    for (count, percentage, expected) in [
        (5, Some(0), None),
        (99, Some(1), None),
        (100, Some(0), None),
        (101, Some(1), Some(100)),
        (150, Some(0), Some(100)),
        (1000, Some(0), Some(420)),
        (5000, Some(0), Some(500)),
        (5625, Some(0), Some(281)),
        (6000, Some(0), Some(300)),
        (1000, Some(1), Some(100)),
        (1000, Some(33), Some(330)),
        (1000, Some(100), None),
        (1000, None, None),
    ] {
        let mut bench = Bench::new(count, [even()]);
        bench.profile.percentage_of_nodes_to_score = percentage;
        assert_eq!(bench.sample(), expected, "{count} nodes, {percentage:?}");
    }
}

#[test]
fn one_node_is_enough_where_nothing_scores() {
    for (count, expected) in [(1, None), (2, Some(1)), (500, Some(1))] {
        assert_eq!(Bench::new(count, []).sampling(100).sample(), expected, "{count}");
    }
    for (extender, expected) in [
        (Extender { filters: true, ..Extender::default() }, None),
        (Extender { scores: true, ..Extender::default() }, None),
        (Extender { binds: true, ..Extender::default() }, Some(1)),
    ] {
        let mut bench = Bench::new(50, []);
        bench.profile.percentage_of_nodes_to_score = Some(100);
        bench.profile.add_extenders(vec![extender]);
        assert_eq!(bench.sample(), expected);
    }
}

#[test]
fn a_narrowed_choice_is_sampled_by_its_own_size() {
    assert_eq!(Bench::new(1000, [before(300), even()]).sampling(50).sample(), Some(150));
    assert_eq!(Bench::new(1000, [before(90), even()]).sampling(50).sample(), None);
}

#[test]
fn a_sample_begins_where_the_one_before_ended() {
    let mut bench = Bench::new(250, [by_number()]).sampling(10);
    // The last node in the sample has the highest number, except where they wrap around.
    for (start, node) in [(100, 99), (200, 100), (50, 201), (150, 100)] {
        assert_eq!((bench.node(), bench.start), ((node, 100), start));
    }
}

#[test]
fn rejected_nodes_count_among_those_looked_at() {
    let mut bench = Bench::new(250, [from(40), by_number()]).sampling(10);
    assert_eq!((bench.node(), bench.start), ((100, 100), 140));
    // 140..=239, then 240.
    assert_eq!((bench.node(), bench.start), ((201, 100), 240));
    // 240..=249, 40 rejected, 40..=129.
    assert_eq!((bench.node(), bench.start), ((100, 100), 130));
}

#[test]
fn a_visit_of_all_nodes_ends_where_it_began_and_decides_ties_from_there() {
    let mut bench = Bench::new(7, [even()]);
    for start in 0..7 {
        bench.start = start as usize;
        assert_eq!((bench.node(), bench.start), ((start, 7), start as usize));
    }
    bench.start = 9;
    assert_eq!(bench.node(), (2, 7), "a place from before nodes went");
}

#[test]
fn a_narrowed_visit_moves_on_by_the_nodes_it_looked_at() {
    let mut bench = Bench::new(7, [before(3), even()]);
    for (node, start) in [(0, 3), (0, 6), (0, 2)] {
        assert_eq!((bench.node().0, bench.start), (node, start));
    }
}

#[test]
fn a_random_number_draws_among_the_best_only() {
    let best = |state: &State, node: NodeIdx| number(state, node, "number") % 2;
    let mut bench = Bench::new(6, [Stub::score_by("Odd", ByNode::new(best))]);
    let mut drawn = NodeSet::new(6);
    for random in 0..64_u64 {
        let Decision::Node { node, feasible: 6 } = bench.decide(Some(random << 58)) else {
            panic!("all nodes are feasible");
        };
        drawn.insert(node);
    }
    assert_eq!(drawn.iter().map(|node| node.0).collect::<Vec<_>>(), [1, 3, 5]);
}

#[test]
fn decisions_without_a_choice_need_no_scores() {
    let broken = || Stub::score_by("Broken", ByNode::new(|_, _| -1));
    assert_eq!(Bench::new(4, [from(3), broken()]).node(), (3, 1));
    assert!(matches!(Bench::new(0, [broken()]).decide(None), Decision::NoNodes));
    let Decision::Error(text) = Bench::new(4, [from(2), broken()]).decide(None) else {
        panic!("the scores are out of range");
    };
    assert!(text.starts_with("plugin \"Broken\" returns an invalid score -1"), "{text}");
}

#[test]
fn a_filter_that_fails_fails_the_attempt_if_its_node_is_looked_at() {
    let fails = || {
        let judge = |state: &State, node| u32::from(number(state, node, "number") == 150);
        Stub::judge("Fails", judge, &[Rejection::error("broken")])
    };
    let Decision::Error(text) = Bench::new(200, [fails(), even()]).decide(None) else {
        panic!("node 150 fails");
    };
    assert_eq!(text, "running \"Fails\" filter plugin: broken");
    let mut sampled = Bench::new(200, [fails(), even()]).sampling(10);
    assert_eq!((sampled.node(), sampled.start), ((0, 100), 100));
    assert!(matches!(sampled.decide(None), Decision::Error(_)));
    assert_eq!(sampled.start, 100, "a failed attempt begins there again");
}

#[test]
fn a_pod_fits_nowhere_with_all_reasons() {
    let mut bench = Bench::new(3, [from(9), even()]);
    let Decision::Unschedulable(diagnosis) = bench.decide(None) else { panic!("no node fits") };
    assert_eq!(diagnosis.text(""), "0/3 nodes are available: 3 too low.");
    assert_eq!(bench.start, 0);
}

#[test]
fn the_nominated_node_is_taken_first_if_it_fits() {
    let full = |state: &State, node| u32::from(pods_on(state, node) > 0);
    let limit = Stub::judge("Full", full, &[Rejection::unschedulable("full")]);
    let mut bench = Bench::new(4, [limit, by_number()]);
    let pod = bench.state.find_pod("default", "pod").unwrap();
    bench.nominator.nominate(pod, NodeIdx(1));
    assert_eq!(bench.node(), (1, 1));
    bench.state.add_pod(web("other", "n1"));
    assert_eq!(bench.node(), (3, 3), "it does not fit any more");
    bench.state.remove_node("n1");
    assert_eq!(bench.node(), (3, 3), "it does not exist any more");
}

#[test]
fn a_node_is_left_to_nominated_pods_of_the_same_or_higher_priority() {
    let full = |state: &State, node| u32::from(pods_on(state, node) > 1);
    let limit = Stub::judge("Full", full, &[Rejection::unschedulable("full")]);
    let mut bench = Bench::new(4, [limit, by_number()]);
    bench.state.add_pod(web("there", "n3"));
    for (priority, node) in [(-1, 3), (0, 2), (5, 2)] {
        let name = format!("rival{priority}");
        let rival = bench.state.add_pod(Pod { priority, ..web(&name, "") });
        bench.nominator.nominate(rival, NodeIdx(3));
        assert_eq!(bench.node().0, node, "priority {priority}");
        bench.nominator.remove(rival);
    }
    assert_eq!(bench.node(), (3, 4));
}

#[test]
fn a_ranking_is_kept_from_the_second_decision_on() {
    let mut bench = Bench::new(4, [by_number()]);
    for kept in [false, true, true] {
        bench.decide(None);
        assert_eq!(bench.evaluation.ranking.is_some(), kept);
    }
}

#[test]
fn a_nominated_node_that_was_left_out_has_its_own_reason() {
    let mut bench = Bench::new(4, [before(2), from(9), even()]);
    let pod = bench.state.find_pod("default", "pod").unwrap();
    for (nominated, text) in [
        (3, "1 node(s) didn't satisfy plugin(s) [Before From], 3 too low."),
        (1, "2 node(s) didn't satisfy plugin(s) [Before From], 2 too low."),
    ] {
        bench.nominator.nominate(pod, NodeIdx(nominated));
        let Decision::Unschedulable(diagnosis) = bench.decide(None) else { panic!("no node fits") };
        assert_eq!(diagnosis.text(""), format!("0/4 nodes are available: {text}"));
    }
    bench.nominator.remove(pod);
    let Decision::Unschedulable(diagnosis) = bench.decide(None) else { panic!("no node fits") };
    let text = "2 node(s) didn't satisfy plugin(s) [Before], 2 too low.";
    assert_eq!(diagnosis.text(""), format!("0/4 nodes are available: {text}"));
}
