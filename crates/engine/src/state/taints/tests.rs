//! Tests of the lists of taints.

use super::*;
use crate::object::TaintEffect;

fn taints(keys: &[&str]) -> Vec<Taint> {
    let taint = |key: &&str| Taint {
        key: (*key).into(),
        value: "".into(),
        effect: TaintEffect::NoSchedule,
    };
    keys.iter().map(taint).collect()
}

#[test]
fn nodes_share_lists_that_live_as_long_as_they_are_used() {
    let mut lists = TaintLists::default();
    let nodes = [NodeIdx(0), NodeIdx(1), NodeIdx(2)];
    for _ in nodes {
        lists.add_slot();
    }
    lists.set(nodes[0], &taints(&["a"]));
    lists.set(nodes[1], &taints(&["a"]));
    lists.set(nodes[2], &taints(&["a", "b"]));
    assert_eq!(lists.of(nodes[0]), lists.of(nodes[1]));
    assert_eq!(lists.map_each(<[_]>::len), [1, 2]);
    lists.set(nodes[0], &[]);
    assert_eq!(lists.of(nodes[0]), TaintsIdx::NONE);
    assert_eq!(lists.map_each(<[_]>::len), [1, 2]);
    lists.set(nodes[1], &taints(&["a", "b"]));
    assert_eq!(lists.of(nodes[1]), lists.of(nodes[2]));
    assert_eq!(lists.map_each(<[_]>::len), [0, 2]);
    lists.set(nodes[0], &taints(&["c", "d", "e"]));
    assert_eq!(lists.map_each(<[_]>::len), [3, 2]);
    assert_eq!(lists.column(), [TaintsIdx(0), TaintsIdx(1), TaintsIdx(1)]);
}

mod properties {
    use proptest::prelude::*;

    use super::super::TaintLists;
    use super::taints;
    use crate::index::NodeIdx;

    proptest! {
        #[test]
        fn equal_lists_are_stored_once_and_unused_ones_not_at_all(
            steps in prop::collection::vec((0_u32..4, prop::sample::subsequence(vec!["a", "b", "c"], 0..=3)), 1..40),
        ) {
            let mut lists = TaintLists::default();
            let mut of_node = vec![Vec::new(); 4];
            (0..4).for_each(|_| lists.add_slot());
            for (node, keys) in steps {
                lists.set(NodeIdx(node), &taints(&keys));
                of_node[node as usize] = keys;
                let stored = lists.map_each(<[_]>::to_vec);
                for (node, keys) in of_node.iter().enumerate() {
                    let list = lists.of(node.into());
                    prop_assert_eq!(list.is_some(), !keys.is_empty());
                    if list.is_some() {
                        prop_assert_eq!(&stored[list.at()], &taints(keys));
                    }
                }
                let mut distinct = of_node.clone();
                distinct.retain(|keys| !keys.is_empty());
                distinct.sort();
                distinct.dedup();
                let used = stored.iter().filter(|list| !list.is_empty()).count();
                prop_assert_eq!(used, distinct.len());
            }
        }
    }
}
