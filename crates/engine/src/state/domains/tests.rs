//! Tests of the numbers of pods per topology domain.

use std::collections::BTreeSet;

use super::*;
use crate::object::{Labels, Node, Pod, Text};
use crate::state::tallies::{Matcher, NamespaceScope};
use crate::testing::{self, labels, node, selector, state};

fn source(app: &str) -> TallySource {
    let matcher = Matcher { scope: NamespaceScope::All, selector: selector(&[("app", app)]) };
    TallySource::Matching { matchers: [matcher].into(), live_only: false }
}

fn app(name: &str, app: &str, node: &str) -> Pod {
    Pod { labels: labels(&[("app", app)]), node: node.into(), ..testing::pod(name) }
}

/// Nodes `a1` and `a2` of zone `a`, `b1` of zone `b`, and `none` without a zone.
fn cluster(pods: &[(&str, &str, &str)]) -> State {
    let in_zone = |name: &str| {
        let zone: Labels = match name {
            "none" => Labels::default(),
            name => [("zone", Text::from(&name[..1]))].into_iter().collect(),
        };
        Node { labels: zone, ..node(name) }
    };
    let pods: Vec<Pod> = pods.iter().map(|(name, of, node)| app(name, of, node)).collect();
    state(["a1", "a2", "b1", "none"].map(in_zone), pods)
}

fn sums(sums: &DomainSums, state: &State) -> Vec<(String, i64)> {
    let column = state.topology.column(sums.key());
    let domains = (0..column.domain_count()).map(DomainIdx::from);
    domains.map(|domain| (column.value(domain).to_owned(), sums.sum(domain))).collect()
}

fn refresh(sums: &mut DomainSums, state: &State) -> Option<BTreeSet<String>> {
    let column = state.topology.column(sums.key());
    let mut changed = BTreeSet::new();
    let current = sums.refresh(state, |domain| {
        changed.insert(column.value(domain).to_owned());
    });
    current.then_some(changed)
}

fn named(pairs: &[(&str, i64)]) -> Vec<(String, i64)> {
    pairs.iter().map(|(name, sum)| ((*name).to_owned(), *sum)).collect()
}

#[test]
fn pods_count_where_they_are_and_as_they_come_and_go() {
    let mut state = cluster(&[
        ("p1", "web", "a1"),
        ("p2", "web", "a2"),
        ("p3", "db", "b1"),
        ("p4", "web", "none"),
    ]);
    let mut zones = DomainSums::new(&mut state, "zone", None);
    assert!(zones.is_unused());
    zones.follow(&mut state, &source("web"), 1);
    assert!(!zones.is_unused());
    assert_eq!((sums(&zones, &state), zones.pods()), (named(&[("a", 2), ("b", 0)]), 2));
    testing::add_pod(&mut state, app("p5", "web", "b1"));
    testing::add_pod(&mut state, app("p6", "db", "a1"));
    testing::displace(&mut state, "p1");
    testing::displace(&mut state, "p4");
    assert_eq!(refresh(&mut zones, &state), Some(["a", "b"].map(str::to_owned).into()));
    assert_eq!((sums(&zones, &state), zones.pods()), (named(&[("a", 1), ("b", 1)]), 2));
    assert_eq!(refresh(&mut zones, &state), Some(BTreeSet::new()), "there is nothing new");
}

#[test]
fn sources_have_weights_and_add_up() {
    let mut state = cluster(&[("p1", "web", "a1"), ("p2", "db", "a2"), ("p3", "db", "b1")]);
    let mut zones = DomainSums::new(&mut state, "zone", None);
    zones.follow(&mut state, &source("web"), 10);
    zones.follow(&mut state, &source("db"), -3);
    assert_eq!(sums(&zones, &state), named(&[("a", 7), ("b", -3)]));
    testing::displace(&mut state, "p2");
    refresh(&mut zones, &state);
    assert_eq!((sums(&zones, &state), zones.pods()), (named(&[("a", 10), ("b", -3)]), 2));
}

#[test]
fn nodes_left_out_count_for_nothing() {
    let mut state = cluster(&[("p1", "web", "a1"), ("p2", "web", "a2")]);
    let [a1, a2, b1, none] = ["a1", "a2", "b1", "none"].map(|name| state.nodes.find(name).unwrap());
    let mut counted = NodeSet::new(state.nodes.slots());
    counted.extend([a1, b1, none]);
    let mut zones = DomainSums::new(&mut state, "zone", Some(counted));
    zones.follow(&mut state, &source("web"), 1);
    assert_eq!((sums(&zones, &state), zones.pods()), (named(&[("a", 1), ("b", 0)]), 1));
    testing::displace(&mut state, "p2");
    assert_eq!(refresh(&mut zones, &state), Some(BTreeSet::new()));
    assert_eq!(zones.add(&state, a2, 5), None);
    assert_eq!(zones.add(&state, none, 5), None);
    let domain = zones.add(&state, b1, 5);
    assert_eq!(domain, state.topology.column(zones.key()).find("b"));
    assert_eq!((zones.sums(), zones.pods()), (&[1, 5][..], 1), "what-if changes sums only");
}

#[test]
fn a_dropped_tally_must_be_followed_anew() {
    let mut carrier = testing::pod("carrier");
    carrier.spec_mut().pod_affinity.required_anti = [testing::pod_term("zone", &[])].into();
    let mut state = cluster(&[]);
    let pod = testing::add_pod(&mut state, carrier);
    let mut zones = DomainSums::new(&mut state, "zone", None);
    zones.follow(&mut state, &TallySource::Carrying(crate::index::TermIdx(0)), 1);
    assert_eq!(refresh(&mut zones, &state), Some(BTreeSet::new()));
    testing::remove_pod(&mut state, pod);
    assert_eq!(refresh(&mut zones, &state), None);
}

#[test]
fn too_many_changes_must_be_counted_anew() {
    let mut state = cluster(&[("p1", "web", "a1")]);
    let mut zones = DomainSums::new(&mut state, "zone", None);
    zones.follow(&mut state, &source("web"), 1);
    for _ in 0..=crate::limits::TALLY_CHANGES_MAX {
        testing::displace(&mut state, "p1");
        testing::place(&mut state, "p1", "b1");
    }
    assert_eq!(refresh(&mut zones, &state), None);
    let mut anew = DomainSums::new(&mut state, "zone", None);
    anew.follow(&mut state, &source("web"), 1);
    assert_eq!(sums(&anew, &state), named(&[("a", 0), ("b", 1)]));
}
