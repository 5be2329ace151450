//! Tests of the nominated pods that count against a pod.

use super::*;
use crate::object::Pod;
use crate::testing::{self, node};

#[test]
fn nominated_pods_count_against_pods_of_the_same_or_lower_priority() {
    let pods = [("low", 1), ("same", 5), ("high", 9), ("own", 5)];
    let pods = pods.map(|(name, priority)| Pod { priority, ..testing::pod(name) });
    let mut state = testing::state(["a", "b", "c"].map(node), pods);
    let [low, same, high, own] =
        ["low", "same", "high", "own"].map(|name| state.find_pod("default", name).unwrap());
    let [a, b, c] = ["a", "b", "c"].map(|name| state.nodes.find(name).unwrap());
    let mut nominator = Nominator::default();
    assert!(Rivals::of(&nominator, &state, own).are_none());
    for (pod, node) in [(high, a), (low, a), (same, a), (own, b), (low, c)] {
        nominator.nominate(pod, node);
    }
    let rivals = Rivals::of(&nominator, &state, own);
    assert_eq!(rivals.on(&state, a), [high, same], "in order of nomination");
    assert_eq!((rivals.on(&state, b), rivals.on(&state, c)), (vec![], vec![]));
    assert_eq!([a, b, c].map(|node| rivals.any_on(&state, node)), [true, false, false]);
    assert_eq!((rivals.own_node(), rivals.priority()), (Some(b), 5));
    assert_eq!(rivals.nodes(&state).iter().collect::<Vec<_>>(), [a]);
    // For other pods of its priority, the pod itself counts.
    let others = rivals.of_others();
    assert_eq!((others.on(&state, b), others.own_node()), (vec![own], None));
    assert_eq!(others.nodes(&state).iter().collect::<Vec<_>>(), [a, b]);
    let of_low = Rivals::of(&nominator, &state, low);
    assert_eq!(of_low.on(&state, a), [high, same]);
    state.remove_node("a");
    assert!(Rivals::of(&nominator, &state, own).nodes(&state).is_empty());
}
