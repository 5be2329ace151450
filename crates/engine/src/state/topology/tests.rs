//! Tests of label columns.

use super::*;
use crate::testing::labels;

fn zone(name: &str) -> Labels {
    labels(&[("zone", name)])
}

/// Domain value of each slot, and the nodes of each domain.
fn values(topology: &Topology, key: KeyIdx, slots: u32) -> Vec<Option<String>> {
    let column = topology.column(key);
    let value = |slot| {
        let domain = column.domain(NodeIdx(slot));
        let listed = (0..column.domain_count())
            .filter(|other| column.nodes(DomainIdx::from(*other)).contains(&NodeIdx(slot)));
        assert_eq!(listed.count(), usize::from(domain.is_some()), "listed under its domain only");
        domain.is_some().then(|| {
            assert!(column.nodes(domain).contains(&NodeIdx(slot)));
            assert_eq!(column.find(column.value(domain)), Some(domain));
            column.value(domain).to_owned()
        })
    };
    (0..slots).map(value).collect()
}

#[test]
fn a_column_made_late_has_the_nodes_that_are_there() {
    let mut topology = Topology::default();
    let (a, b, none) = (zone("a"), zone("b"), Labels::default());
    assert_eq!(topology.find("zone"), None);
    let nodes = [(NodeIdx(0), &a), (NodeIdx(2), &b), (NodeIdx(3), &none)];
    let key = topology.intern("zone", 4, nodes.into_iter());
    assert_eq!((topology.find("zone"), topology.column(key).key()), (Some(key), "zone"));
    let value = |value: &str| Some(value.to_owned());
    assert_eq!(values(&topology, key, 4), [value("a"), None, value("b"), None]);
    let again = topology.intern("zone", 4, std::iter::empty());
    assert_eq!((again, values(&topology, key, 4)[0].clone()), (key, value("a")));
}

#[test]
fn nodes_move_between_domains_which_keep_their_indexes() {
    let mut topology = Topology::default();
    let key = topology.intern("zone", 0, std::iter::empty());
    let other = topology.intern("host", 0, std::iter::empty());
    topology.set_node(NodeIdx(1), Some(&zone("a")));
    topology.set_node(NodeIdx(0), Some(&zone("a")));
    let a = topology.column(key).find("a").unwrap();
    assert_eq!(topology.column(key).nodes(a), [NodeIdx(1), NodeIdx(0)]);
    topology.set_node(NodeIdx(1), Some(&zone("b")));
    topology.set_node(NodeIdx(0), None);
    assert_eq!(values(&topology, key, 3), [None, Some("b".to_owned()), None]);
    assert_eq!(values(&topology, other, 3), [None, None, None]);
    assert_eq!(topology.column(key).domain_count(), 2, "no node has the first one any more");
    topology.set_node(NodeIdx(0), Some(&zone("a")));
    assert_eq!(topology.column(key).domain(NodeIdx(0)), a);
    assert_eq!(topology.column(key).domains(), [a, topology.column(key).find("b").unwrap()]);
}

#[test]
fn an_empty_value_is_a_domain_and_an_absent_label_is_not() {
    let mut topology = Topology::default();
    let key = topology.intern("zone", 2, std::iter::empty());
    topology.set_node(NodeIdx(0), Some(&zone("")));
    topology.set_node(NodeIdx(1), Some(&Labels::default()));
    assert_eq!(values(&topology, key, 2), [Some(String::new()), None]);
    assert!(!topology.column(key).domain(NodeIdx(99)).is_some(), "a slot made later");
}
