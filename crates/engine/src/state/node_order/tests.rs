//! Tests of the order in which nodes are visited.

use proptest::prelude::*;

use super::*;
use crate::testing::labels;

fn zone(name: &str) -> Labels {
    labels(&[("topology.kubernetes.io/zone", name)])
}

/// An order over nodes numbered from zero, with a zone for each.
fn order(zones: &[&str]) -> NodeOrder {
    let mut order = NodeOrder::default();
    for (node, name) in zones.iter().enumerate() {
        order.add(node.into(), &zone(name));
    }
    order.refresh();
    order
}

fn visited(order: &mut NodeOrder) -> Vec<u32> {
    order.refresh();
    order.nodes().iter().map(|node| node.0).collect()
}

#[test]
fn zones_take_turns_in_order_of_their_first_nodes() {
    for (zones, expected) in [
        (&[][..], &[][..]),
        (&["a", "a", "a"], &[0, 1, 2]),
        (&["b", "a", "b", "a"], &[0, 1, 2, 3]),
        (&["a", "a", "a", "b", "c", "b"], &[0, 3, 4, 1, 5, 2]),
    ] {
        assert_eq!(visited(&mut order(zones)), expected, "{zones:?}");
    }
}

#[test]
fn an_emptied_zone_comes_back_as_the_last() {
    let mut order = order(&["a", "b", "a"]);
    order.remove(NodeIdx(1), &zone("b"));
    assert_eq!(visited(&mut order), [0, 2]);
    order.add(NodeIdx(3), &zone("c"));
    order.add(NodeIdx(1), &zone("b"));
    assert_eq!(visited(&mut order), [0, 3, 1, 2]);
}

#[test]
fn a_node_that_changes_zones_keeps_its_place_until_a_node_comes_or_goes() {
    let mut order = order(&["a", "a", "b"]);
    assert_eq!(visited(&mut order), [0, 2, 1]);
    order.update(NodeIdx(0), &zone("a"), &zone("b"));
    assert_eq!(visited(&mut order), [0, 2, 1]);
    order.add(NodeIdx(3), &zone("a"));
    assert_eq!(visited(&mut order), [1, 2, 3, 0]);
}

#[test]
fn a_zone_is_made_of_region_and_zone_labels_with_the_older_names_first() {
    let beta_zone = ("failure-domain.beta.kubernetes.io/zone", "z");
    let beta_region = ("failure-domain.beta.kubernetes.io/region", "r");
    let (region, zone) =
        (("topology.kubernetes.io/region", "r"), ("topology.kubernetes.io/zone", "z"));
    let other_zone = ("topology.kubernetes.io/zone", "other");
    let equal = |one: &[(&str, &str)], other: &[(&str, &str)]| {
        zone_of(&labels(one)) == zone_of(&labels(other))
    };
    assert!(equal(&[], &[("zone", "z")]), "other labels make no zone");
    assert!(equal(&[zone], &[beta_zone]));
    assert!(equal(&[region, zone], &[beta_region, beta_zone]));
    assert!(equal(&[beta_zone, other_zone], &[zone]));
    assert!(!equal(&[zone], &[region, zone]));
    assert!(!equal(&[region], &[]));
    let swapped = [("topology.kubernetes.io/region", "z"), ("topology.kubernetes.io/zone", "r")];
    assert!(!equal(&[region, zone], &swapped));
}

#[test]
fn a_peek_shows_the_new_order_and_leaves_it_due() {
    let mut order = order(&["a", "b"]);
    order.add(NodeIdx(2), &zone("a"));
    let before = order.peek();
    assert_eq!(order.nodes().len(), 3);
    // What changes while the order is looked at is not lost either.
    order.update(NodeIdx(2), &zone("a"), &zone("c"));
    order.end_peek(before);
    assert!(order.stale);
    assert_eq!(visited(&mut order), [0, 1, 2]);
    let before = order.peek();
    order.end_peek(before);
    assert!(!order.stale, "nothing was due before the look");
}

#[test]
fn an_order_that_is_kept_stays_as_it_was() {
    let mut order = order(&["a", "b"]);
    let kept = Arc::clone(order.visit_order());
    order.remove(NodeIdx(0), &zone("a"));
    order.refresh();
    assert_eq!((kept.nodes.len(), order.nodes().len()), (2, 1));
}

proptest! {
    /// The model is a list of zones, each a list of nodes, which is walked round by round.
    #[test]
    fn the_order_walks_zones_round_by_round(
        steps in prop::collection::vec((0_u32..8, 0_usize..4), 1..60),
    ) {
        let names = ["", "a", "b", "c"];
        let mut order = NodeOrder::default();
        let mut zones: Vec<(usize, Vec<u32>)> = Vec::new();
        for (node, zone_index) in steps {
            let found = zones.iter().position(|(_, nodes)| nodes.contains(&node));
            if let Some(found) = found {
                order.remove(NodeIdx(node), &zone(names[zones[found].0]));
                zones[found].1.retain(|other| *other != node);
                zones.retain(|(_, nodes)| !nodes.is_empty());
            } else {
                order.add(NodeIdx(node), &zone(names[zone_index]));
                match zones.iter_mut().find(|(zone, _)| *zone == zone_index) {
                    Some((_, nodes)) => nodes.push(node),
                    None => zones.push((zone_index, vec![node])),
                }
            }
            let rounds = (0..8).flat_map(|round| zones.iter().filter_map(move |(_, nodes)| nodes.get(round)));
            let expected: Vec<u32> = rounds.copied().collect();
            prop_assert_eq!(visited(&mut order), expected.clone());
            let position_of = &order.visit_order().position_of;
            for node in 0..8 {
                let position = expected.iter().position(|other| *other == node);
                let kept = position_of.get(node as usize).copied().filter(|kept| *kept != u32::MAX);
                prop_assert_eq!(kept, position.map(|position| position as u32));
            }
        }
    }
}
