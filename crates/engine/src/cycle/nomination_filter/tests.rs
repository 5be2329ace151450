//! Tests of the feasible nodes that nominated pods leave open; that they are those of a decision from
//! scratch is tested with the cycle.

use super::*;
use crate::cycle::testing::{Stub, class, nodes, number, pods_on, profile, web};
use crate::framework::{Profile, Rejection};
use crate::index::PodIdx;
use crate::object::Pod;
use crate::queue::Nominator;
use crate::testing;

/// One pod per node; the last node fails once it has one.
fn one_pod() -> Profile {
    let judge = |state: &State, node| match pods_on(state, node) {
        0 => 0,
        _ if number(state, node, "number") == 3 => 2,
        _ => 1,
    };
    let rejections = [Rejection::unschedulable("full"), Rejection::error("broken")];
    profile([Stub::judge("OnePod", judge, &rejections)])
}

struct Bench {
    state: State,
    evaluation: Evaluation,
    nominator: Nominator,
    profile: Profile,
}

impl Bench {
    fn new() -> Self {
        let profile = one_pod();
        let pods = ["a", "b", "c"].map(|name| Pod { priority: 5, ..web(name, "") });
        let mut state = testing::state(nodes(4), pods);
        let evaluation = Evaluation::new(&profile, class(), &mut state);
        Self { state, evaluation, nominator: Nominator::default(), profile }
    }

    fn pod(&self, name: &str) -> PodIdx {
        self.state.find_pod("default", name).unwrap()
    }

    fn nominate(&mut self, name: &str, node: u32) {
        self.nominator.nominate(self.pod(name), NodeIdx(node));
    }

    /// Whether the open nodes hold for a pod of this priority, and which these are.
    fn open(&mut self, priority: i32) -> (bool, Vec<u32>) {
        let Self { state, evaluation, nominator, profile } = self;
        evaluation.refresh(profile, state);
        let holds = evaluation.apply_nominations(state, Rivals::of_any(nominator, priority));
        let open: Vec<u32> = evaluation.open().0.iter().map(|node| node.0).collect();
        assert_eq!(open.len(), evaluation.open_count());
        (holds, open)
    }
}

#[test]
fn nodes_that_nominated_pods_would_fill_are_closed() {
    let mut bench = Bench::new();
    assert_eq!(bench.open(0), (true, vec![0, 1, 2, 3]));
    bench.nominate("a", 1);
    assert_eq!(bench.open(0), (true, vec![0, 2, 3]));
    bench.nominate("b", 2);
    assert_eq!(bench.open(5), (true, vec![0, 3]));
    assert_eq!(bench.open(6), (true, vec![0, 1, 2, 3]), "they are less important");
    assert_eq!(bench.open(0), (true, vec![0, 3]));
    bench.nominate("a", 0);
    assert_eq!(bench.open(0), (true, vec![1, 3]));
    // A node that is full anyway is closed by its own pods.
    testing::place(&mut bench.state, "c", "n2");
    assert_eq!(bench.open(0), (true, vec![1, 3]));
    bench.nominator.remove_node(NodeIdx(0));
    bench.nominator.remove_node(NodeIdx(2));
    assert_eq!(bench.open(0), (true, vec![0, 1, 3]));
}

#[test]
fn a_node_that_fails_with_its_nominated_pods_is_for_the_attempt_to_find() {
    let mut bench = Bench::new();
    bench.nominate("a", 3);
    assert!(!bench.open(0).0);
    bench.nominate("a", 2);
    assert_eq!(bench.open(0), (true, vec![0, 1, 3]));
}

#[test]
fn the_open_nodes_do_not_hold_for_a_pod_nominated_for_a_feasible_node() {
    let mut bench = Bench::new();
    bench.nominate("a", 1);
    bench.nominate("b", 2);
    testing::place(&mut bench.state, "c", "n2");
    bench.evaluation.refresh(&bench.profile, &mut bench.state);
    for (pod, holds) in [("a", false), ("b", true)] {
        let rivals = Rivals::of(&bench.nominator, &bench.state, bench.pod(pod));
        assert_eq!(bench.evaluation.apply_nominations(&mut bench.state, rivals), holds, "{pod}");
    }
}

#[test]
fn the_version_tells_open_from_feasible_nodes() {
    let mut bench = Bench::new();
    bench.open(0);
    let all = bench.evaluation.open().1;
    assert_eq!(all, bench.evaluation.all_feasible().1);
    bench.nominate("a", 1);
    bench.open(0);
    let without_one = bench.evaluation.open().1;
    bench.open(0);
    assert_eq!(bench.evaluation.open().1, without_one, "nothing changed");
    bench.nominate("a", 2);
    bench.open(0);
    let without_two = bench.evaluation.open().1;
    assert!(all != without_one && all != without_two && without_one != without_two);
    assert_eq!(bench.evaluation.all_feasible().1, all);
}
