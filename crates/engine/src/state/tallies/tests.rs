//! Tests of tallies.

use super::*;
use crate::object::Pod;
use crate::state::State;
use crate::testing::{self, labels, node, pod_term, selector, state};

fn matching(pairs: &[(&str, &str)], live_only: bool) -> TallySource {
    let scope = NamespaceScope::Names(["default".into()].into());
    let matcher = Matcher { scope, selector: selector(pairs) };
    TallySource::Matching { matchers: [matcher].into(), live_only }
}

fn web(name: &str) -> Pod {
    Pod { labels: labels(&[("app", "web")]), ..testing::pod(name) }
}

fn changes(state: &State, tally: TallyRef) -> Vec<(u32, i32)> {
    let changes = state.tallies.since(tally, 0).unwrap();
    changes.iter().map(|(node, change)| (node.0, *change)).collect()
}

#[test]
fn a_matcher_looks_into_its_namespaces() {
    let names = NamespaceScope::Names(["a".into(), "c".into()].into());
    for (scope, namespaces) in
        [(NamespaceScope::All, [true, true, true]), (names, [true, false, true])]
    {
        let matcher = Matcher { scope, selector: selector(&[("app", "web")]) };
        let matches = ["a", "b", "c"].map(|name| matcher.matches(name, &labels(&[("app", "web")])));
        assert_eq!(matches, namespaces);
        assert!(!matcher.matches("a", &labels(&[("app", "db")])));
    }
}

#[test]
fn pods_that_come_and_go_are_recorded_also_those_of_label_sets_made_later() {
    let mut state = state([node("n1"), node("n2")], [web("before")]);
    let tally = state.tally(&matching(&[("app", "web")], false));
    testing::place(&mut state, "before", "n1");
    let other = Pod { labels: labels(&[("app", "web"), ("x", "y")]), ..testing::pod("after") };
    state.add_pod(Pod { node: "n2".into(), ..other });
    state.add_pod(Pod { node: "n2".into(), ..testing::pod("unlabelled") });
    let elsewhere = Pod { namespace: "other".into(), uid: "e".into(), ..web("elsewhere") };
    state.add_pod(Pod { node: "n2".into(), ..elsewhere });
    testing::displace(&mut state, "before");
    assert_eq!(changes(&state, tally), [(0, 1), (1, 1), (0, -1)]);
}

#[test]
fn all_matchers_must_match() {
    let mut state = state([node("n1")], []);
    let scope = NamespaceScope::All;
    let matchers = [&[("app", "web")], &[("tier", "front")]]
        .map(|pairs| Matcher { scope: scope.clone(), selector: selector(pairs) });
    let source = TallySource::Matching { matchers: matchers.into(), live_only: false };
    let tally = state.tally(&source);
    let both = labels(&[("app", "web"), ("tier", "front")]);
    state.add_pod(Pod { node: "n1".into(), ..web("one") });
    state.add_pod(Pod { node: "n1".into(), labels: both, ..testing::pod("both") });
    assert_eq!(changes(&state, tally), [(0, 1)]);
    let mut counted = Vec::new();
    state.for_each_counted_pod(&source, |pod, _| counted.push(state.full_name(pod)));
    assert_eq!(counted, ["default/both"]);
}

#[test]
fn a_pod_that_terminates_leaves_the_live_ones_once() {
    let mut state = state([node("n1")], [web("a"), web("b")]);
    let live = state.tally(&matching(&[("app", "web")], true));
    let all = state.tally(&matching(&[("app", "web")], false));
    let [a, b] = ["a", "b"].map(|name| state.find_pod("default", name).unwrap());
    testing::place(&mut state, "a", "n1");
    testing::terminate(&mut state, a);
    testing::terminate(&mut state, a);
    testing::remove_pod(&mut state, a);
    // One that terminates before it is placed never comes.
    testing::terminate(&mut state, b);
    testing::place(&mut state, "b", "n1");
    testing::displace(&mut state, "b");
    assert_eq!(changes(&state, live), [(0, 1), (0, -1)]);
    assert_eq!(changes(&state, all), [(0, 1), (0, -1), (0, 1), (0, -1)]);
}

#[test]
fn a_source_has_one_tally() {
    let mut state = state([node("n1")], []);
    let first = state.tally(&matching(&[("app", "web")], false));
    assert_eq!(state.tally(&matching(&[("app", "web")], false)), first);
    assert_ne!(state.tally(&matching(&[("app", "web")], true)), first);
    assert_ne!(state.tally(&matching(&[("app", "db")], false)), first);
}

#[test]
fn the_tally_of_a_term_goes_with_the_term() {
    let mut carrier = testing::pod("carrier");
    carrier.spec_mut().pod_affinity.required_anti = [pod_term("zone", &[("app", "web")])].into();
    let mut state = state([node("n1")], [carrier.clone()]);
    let source = TallySource::Carrying(TermIdx(0));
    let tally = state.tally(&source);
    testing::place(&mut state, "carrier", "n1");
    assert_eq!(changes(&state, tally), [(0, 1)]);
    let pod = state.find_pod("default", "carrier").unwrap();
    testing::remove_pod(&mut state, pod);
    assert_eq!(state.tallies.since(tally, 0), None);
    // The same slots are taken by another term, whose tally the old reference does not name.
    testing::add_pod(&mut state, carrier);
    let next = state.tally(&source);
    assert_eq!((next.index, state.tallies.end(tally)), (tally.index, None));
    assert_eq!(state.tallies.end(next), Some(0));
}

#[test]
fn a_reader_too_far_behind_must_start_anew() {
    let mut state = state([node("n1")], [web("a")]);
    let tally = state.tally(&matching(&[("app", "web")], false));
    for _ in 0..=TALLY_CHANGES_MAX {
        testing::place(&mut state, "a", "n1");
        testing::displace(&mut state, "a");
    }
    assert_eq!(state.tallies.since(tally, 0), None);
    let end = state.tallies.end(tally).unwrap();
    assert_eq!(end, 2 * (TALLY_CHANGES_MAX as u64 + 1));
    let recent = state.tallies.since(tally, end - TALLY_CHANGES_MAX as u64);
    assert_eq!(recent.map(<[_]>::len), Some(TALLY_CHANGES_MAX));
}

#[test]
fn of_too_many_tallies_the_least_recently_read_are_dropped() {
    let mut state = state([node("n1")], [web("a")]);
    let source = |number: usize| matching(&[("app", &number.to_string())], false);
    let web_tally = state.tally(&matching(&[("app", "web")], false));
    let tallies: Vec<TallyRef> =
        (0..TALLIES_MAX).map(|number| state.tally(&source(number))).collect();
    // The first ones are read again, so that others are the oldest.
    assert_eq!(state.tally(&matching(&[("app", "web")], false)), web_tally);
    assert_eq!(state.tally(&source(0)), tallies[0]);
    for number in TALLIES_MAX..TALLIES_MAX + TALLIES_DROP_BATCH {
        state.tally(&source(number));
    }
    let dropped: Vec<usize> =
        (0..TALLIES_MAX).filter(|number| state.tallies.end(tallies[*number]).is_none()).collect();
    assert_eq!(dropped, (1..=TALLIES_DROP_BATCH).collect::<Vec<_>>());
    assert_eq!(state.tallies.live, TALLIES_MAX + 1);
    testing::place(&mut state, "a", "n1");
    assert_eq!(changes(&state, web_tally), [(0, 1)]);
    assert!(state.tallies.find(&source(1)).is_none());
}
