//! Outcomes of one scheduling attempt.

use crate::engine::testing::*;

#[test]
fn a_pod_is_bound_to_the_feasible_node_with_the_highest_score() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    assert_eq!(harness.place(pending("p", 100)), ["bind p to n1"]);
}
