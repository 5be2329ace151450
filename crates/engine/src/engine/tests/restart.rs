//! A restarted scheduler reads nodes, pods and nominations in any order.

use crate::change::Change;
use crate::engine::testing::*;
use crate::object::Pod;

/// All orders of some numbers.
fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(count - 1);
    let longer = shorter.iter().flat_map(|order| {
        (0..count).map(|place| {
            let mut order = order.clone();
            order.insert(place, count - 1);
            order
        })
    });
    longer.collect()
}

#[test]
fn a_nomination_holds_in_whichever_order_the_objects_arrive() {
    let objects = || -> Vec<Change> {
        let preemptor = Pod { nominated_node: "n1".into(), ..important("p", 4000, 10) };
        let victim = Pod { preempted: true, ..terminating(running("v", "n1", 4000)) };
        vec![
            Change::Node(node_with("n1", 4000).into()),
            Change::Pod(Box::new(preemptor)),
            Change::Pod(Box::new(victim)),
            Change::Pod(Box::new(pending("small", 1000))),
        ]
    };
    let orders = permutations(objects().len());
    assert_eq!(orders.len(), 24);
    for order in orders {
        let mut harness = Harness::new(&[]);
        for place in &order {
            let change = objects().swap_remove(*place);
            assert_eq!(harness.tell(change), [""; 0], "{order:?}");
        }
        assert_eq!(harness.nominated("p"), Some("n1"), "{order:?}");
        assert_eq!(
            harness.schedule(),
            ["Unschedulable p", "Unschedulable small, nominate for none"],
            "{order:?}: the victim terminates already"
        );
        harness.tell(gone("v"));
        let commands = harness.after(20 * SECOND);
        assert!(commands.contains(&"bind p to n1".to_owned()), "{order:?}: {commands:?}");
        assert_eq!(harness.node_of("small"), None, "{order:?}: the place was kept free");
    }
}

#[test]
fn assigned_pods_count_in_whichever_order_they_and_their_nodes_arrive() {
    let objects = || -> Vec<Change> {
        vec![
            Change::Node(node_with("n1", 1000).into()),
            Change::Node(node_with("n2", 1000).into()),
            Change::Pod(Box::new(running("a", "n1", 800))),
            Change::Pod(Box::new(running("b", "n2", 300))),
            Change::Pod(Box::new(pending("p", 600))),
        ]
    };
    for order in permutations(objects().len()) {
        let mut harness = Harness::new(&[]);
        for place in &order {
            let change = objects().swap_remove(*place);
            harness.tell(change);
        }
        assert_eq!(harness.schedule(), ["bind p to n2"], "{order:?}");
    }
}

#[test]
fn a_pod_that_was_bound_before_the_restart_is_not_scheduled_again() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    // A list read from a cache may be older than the watch that follows.
    harness.show(pending("p", 600));
    harness.show(running("p", "n1", 600));
    assert_eq!(harness.schedule(), [""; 0]);
    harness.show(pending("p", 600));
    assert_eq!(harness.node_of("p"), Some("n1"), "the API server never takes a node away");
    assert_eq!(harness.schedule(), [""; 0]);
}
