//! Tests of InterPodAffinity: tables here, random clusters in [`random`].

mod random;
mod reference;

use api::config::args::InterPodAffinityArgs;
use engine::framework::{Filter, Freshness};
use engine::object::{Operator, Pod, PodAffinity, PodSpec, Requirement, Selector, Text};
use engine::testing::{
    add_pod, class, labels, node, node_event, pod, pod_event, scores, state, verdicts,
    with_namespace,
};

use super::*;

const HOSTNAME: &str = "kubernetes.io/hostname";
const AFFINITY: &str = "UnschedulableAndUnresolvable node(s) didn't match pod affinity rules";
const ANTI_AFFINITY: &str = "Unschedulable node(s) didn't match pod anti-affinity rules";
const EXISTING_ANTI_AFFINITY: &str =
    "Unschedulable node(s) didn't satisfy existing pods anti-affinity rules";

fn requires(key: &str, operator: Operator, values: &[&str]) -> Selector {
    let values = values.iter().map(|value| Text::from(*value)).collect();
    let requirement = Requirement { key: key.into(), operator, values };
    Selector { requirements: Box::new([requirement]) }
}

fn app(name: &str) -> Selector {
    requires("app", Operator::In, &[name])
}

fn term(selector: Selector, topology_key: &str) -> PodTerm {
    PodTerm {
        selector: Some(selector),
        namespaces: Box::new(["default".into()]),
        namespace_selector: None,
        topology_key: topology_key.into(),
    }
}

fn requiring(term: PodTerm) -> PodAffinity {
    PodAffinity { required: Box::new([term]), has_affinity: true, ..PodAffinity::default() }
}

fn avoiding(term: PodTerm) -> PodAffinity {
    PodAffinity {
        required_anti: Box::new([term]),
        has_anti_affinity: true,
        ..PodAffinity::default()
    }
}

fn preferring(weight: i32, term: PodTerm) -> PodAffinity {
    PodAffinity {
        preferred: Box::new([(weight, term)]),
        has_affinity: true,
        ..PodAffinity::default()
    }
}

fn of_app(name: &str, pod_affinity: PodAffinity) -> Class {
    let class = class(PodSpec { pod_affinity, ..PodSpec::default() });
    Class { labels: labels(&[("app", name)]), ..class }
}

fn pod_of_app(name: &str, app: &str, node: &str, pod_affinity: PodAffinity) -> Pod {
    let spec = PodSpec { pod_affinity, ..PodSpec::default() };
    Pod { labels: labels(&[("app", app)]), node: node.into(), spec: spec.into(), ..pod(name) }
}

fn node_in(name: &str, zone: &str) -> Node {
    Node { labels: labels(&[("zone", zone), (HOSTNAME, name)]), ..node(name) }
}

/// Nodes a1, a2 in zone a, b in zone b, and n in none; a `web` pod on a1.
fn cluster() -> State {
    let nodes = [node_in("a1", "a"), node_in("a2", "a"), node_in("b", "b"), node("n")];
    state(nodes, [pod_of_app("w", "web", "a1", PodAffinity::default())])
}

fn expected_verdicts(state: &State, rejected: &[(&str, &str)]) -> Vec<String> {
    let order = state.nodes.order().iter().map(|node| state.nodes.name(*node));
    let find = |name: &str| rejected.iter().find(|(n, _)| *n == name).map_or("ok", |(_, v)| *v);
    order.map(|name| format!("{name}: {}", find(name))).collect()
}

#[track_caller]
fn check(state: &mut State, class: Class, rejected: &[(&str, &str)]) {
    let expected = expected_verdicts(state, rejected);
    assert_eq!(verdicts(build(None), class, state), expected);
}

#[test]
fn required_pods_must_be_in_the_domain() {
    let outside = [("b", AFFINITY), ("n", AFFINITY)];
    check(&mut cluster(), of_app("db", requiring(term(app("web"), "zone"))), &outside);
    let elsewhere = [("a2", AFFINITY), ("b", AFFINITY), ("n", AFFINITY)];
    check(&mut cluster(), of_app("db", requiring(term(app("web"), HOSTNAME))), &elsewhere);
}

#[test]
fn pods_of_anti_affinity_must_not_be_in_the_domain() {
    let class = of_app("db", avoiding(term(app("web"), "zone")));
    check(&mut cluster(), class, &[("a1", ANTI_AFFINITY), ("a2", ANTI_AFFINITY)]);
}

#[test]
fn anti_affinity_of_existing_pods_rejects() {
    let mut state = cluster();
    add_pod(&mut state, pod_of_app("x", "x", "b", avoiding(term(app("web"), "zone"))));
    check(&mut state, of_app("web", PodAffinity::default()), &[("b", EXISTING_ANTI_AFFINITY)]);
    check(&mut state, of_app("db", PodAffinity::default()), &[]);
    // The terms of the pending pod are reported first.
    let class = of_app("web", avoiding(term(app("x"), "zone")));
    check(&mut state, class, &[("b", ANTI_AFFINITY)]);
}

#[test]
fn the_first_pod_of_a_group_may_go_to_any_domain() {
    let itself = |key: &str| of_app("new", requiring(term(app("new"), key)));
    check(&mut cluster(), itself("zone"), &[("n", AFFINITY)]);
    let none = ["a1", "a2", "b", "n"].map(|name| (name, AFFINITY));
    check(&mut cluster(), of_app("new", requiring(term(app("other"), "zone"))), &none);
    // A pod outside of all domains does not count; one in a domain of another key does.
    let mut state = cluster();
    add_pod(&mut state, pod_of_app("o", "new", "n", PodAffinity::default()));
    check(&mut state, itself("zone"), &[("n", AFFINITY)]);
    let named = Node { labels: labels(&[(HOSTNAME, "m")]), ..node("m") };
    let nodes = [node_in("a", "a"), named];
    let mut state =
        engine::testing::state(nodes, [pod_of_app("o", "new", "m", PodAffinity::default())]);
    let mut both = requiring(term(app("new"), "zone"));
    both.required = Box::new([term(app("new"), "zone"), term(app("new"), HOSTNAME)]);
    check(&mut state, of_app("new", both), &[("a", AFFINITY), ("m", AFFINITY)]);
}

#[test]
fn one_pod_must_match_all_required_terms() {
    let mut state = cluster();
    let tier = Pod {
        labels: labels(&[("tier", "x")]),
        ..pod_of_app("t", "", "b", PodAffinity::default())
    };
    add_pod(&mut state, tier);
    let tier = requires("tier", Operator::In, &["x"]);
    let mut both = requiring(term(app("web"), "zone"));
    both.required = Box::new([term(app("web"), "zone"), term(tier.clone(), "zone")]);
    let none = ["a1", "a2", "b", "n"].map(|name| (name, AFFINITY));
    check(&mut state, of_app("db", both.clone()), &none);
    let labels = labels(&[("app", "web"), ("tier", "x")]);
    let both_labels = Pod { labels, ..pod_of_app("u", "", "b", PodAffinity::default()) };
    add_pod(&mut state, both_labels);
    check(&mut state, of_app("db", both), &[("a1", AFFINITY), ("a2", AFFINITY), ("n", AFFINITY)]);
}

#[test]
fn namespace_selectors_of_the_pod_are_resolved_unless_they_accept_empty_labels() {
    let cluster = || {
        let state = with_namespace(cluster(), "default", &[("team", "a")]);
        with_namespace(state, "other", &[("team", "b")])
    };
    let from = |selector| PodTerm {
        namespaces: Box::default(),
        namespace_selector: Some(selector),
        ..term(app("web"), HOSTNAME)
    };
    let found = [("a1", ANTI_AFFINITY)];
    for (selector, what) in [
        (requires("team", Operator::In, &["a"]), &found[..]),
        (requires("team", Operator::In, &["b"]), &[]),
        (Selector::default(), &found[..]),
        // Does not select `default`, but would accept a namespace without labels.
        (requires("team", Operator::NotIn, &["a"]), &found[..]),
        (requires("team", Operator::DoesNotExist, &[]), &found[..]),
    ] {
        check(&mut cluster(), of_app("db", avoiding(from(selector))), what);
    }
    // Terms of existing pods are compared with the current labels of the namespace.
    for (selector, what) in [
        (requires("team", Operator::In, &["a"]), &[("b", EXISTING_ANTI_AFFINITY)][..]),
        (requires("team", Operator::NotIn, &["a"]), &[]),
    ] {
        let mut state = cluster();
        add_pod(&mut state, pod_of_app("x", "x", "b", avoiding(from(selector))));
        check(&mut state, of_app("web", PodAffinity::default()), what);
    }
}

#[test]
fn a_what_if_is_ignored_if_nothing_is_required() {
    let mut state = cluster();
    let avoider = pod_of_app("x", "x", "", avoiding(term(app("web"), "zone")));
    let avoider = add_pod(&mut state, avoider);
    let [a, b] = ["a1", "b"].map(|name| state.nodes.find(name).unwrap());
    let mut idle = filter_of(&of_app("web", PodAffinity::default()), &mut state);
    idle.add_pod(&state, avoider, b);
    assert!(idle.check(&state, b).passes());
    idle.remove_pod(&state, avoider, b);

    add_pod(&mut state, pod_of_app("y", "y", "a1", avoiding(term(app("web"), HOSTNAME))));
    let mut filter = filter_of(&of_app("web", PodAffinity::default()), &mut state);
    filter.add_pod(&state, avoider, b);
    assert!(!filter.check(&state, b).passes());
    filter.remove_pod(&state, avoider, b);
    assert!(filter.check(&state, b).passes());
    assert!(!filter.check(&state, a).passes());
}

#[test]
fn terms_that_appear_later_make_the_filter_stale() {
    let mut state = cluster();
    let class = of_app("web", PodAffinity::default());
    let mut filter = filter_of(&class, &mut state);
    let mut passing = state.nodes.present().clone();
    add_pod(&mut state, pod_of_app("x", "x", "b", avoiding(term(app("db"), "zone"))));
    assert_eq!(filter.refresh(&state, &mut passing), Freshness::Same);
    add_pod(&mut state, pod_of_app("y", "y", "b", avoiding(term(app("web"), "zone"))));
    assert_eq!(filter.refresh(&state, &mut passing), Freshness::Stale);
}

#[test]
fn scores_are_truncated_as_upstream_does() {
    for (above, score) in [(29, 28), (57, 56), (58, 57), (50, 50), (100, 100)] {
        assert_eq!(score::share_of_range(above, 100), score);
    }
}

#[test]
fn weights_of_the_pod_and_of_existing_pods_add_up() {
    let args = |weight, ignore| {
        PluginArgs::InterPodAffinity(InterPodAffinityArgs {
            hard_pod_affinity_weight: weight,
            ignore_preferred_terms_of_existing_pods: ignore,
        })
    };
    let score = |args: &PluginArgs, class: &Class, state: &mut State| {
        let mut scores = scores(&*build(Some(args)), class, state)?;
        scores.sort();
        Some(scores.join(" "))
    };
    let plain = of_app("db", PodAffinity::default());
    assert_eq!(score(&args(1, false), &plain, &mut cluster()), None);

    let attracted = of_app("db", preferring(10, term(app("web"), "zone")));
    let near = Some("a1: 100 a2: 100 b: 0 n: 0".to_owned());
    assert_eq!(score(&args(1, false), &attracted, &mut cluster()), near);
    assert_eq!(score(&args(1, true), &attracted, &mut cluster()), near);

    let mut repelled = attracted.clone();
    let preferred_anti = Box::new([(10, term(app("web"), "zone"))]);
    let affinity = PodAffinity { preferred_anti, ..PodAffinity::default() };
    repelled.spec = PodSpec { pod_affinity: affinity, ..PodSpec::default() }.into();
    let far = Some("a1: 0 a2: 0 b: 100 n: 100".to_owned());
    assert_eq!(score(&args(1, false), &repelled, &mut cluster()), far);

    let with = |pod_affinity| {
        let mut state = cluster();
        add_pod(&mut state, pod_of_app("x", "x", "a1", pod_affinity));
        state
    };
    let mut required = with(requiring(term(app("db"), "zone")));
    assert_eq!(score(&args(1, false), &plain, &mut required), near);
    assert_eq!(score(&args(0, false), &plain, &mut required), None);
    assert_eq!(score(&args(1, true), &plain, &mut required), None);
    let mut preferred = with(preferring(5, term(app("db"), "zone")));
    assert_eq!(score(&args(0, false), &plain, &mut preferred), near);
    // Weights that add up to zero still score, as opposed to no weights at all.
    let mut balanced = with(preferring(10, term(app("db"), "zone")));
    let zeros = Some("a1: 0 a2: 0 b: 0 n: 0".to_owned());
    assert_eq!(score(&args(1, false), &repelled, &mut balanced), zeros);
}

#[test]
fn pods_and_nodes_that_may_help_wake_the_pod() {
    let plugin = build(None);
    let mut state = cluster();
    let none = PodAffinity::default();
    let [web, db] = ["web", "db"].map(|app| pod_of_app("p", app, "a1", none.clone()));
    let pending = pod_of_app("p", "web", "", none.clone());
    let requirer = of_app("x", requiring(term(app("web"), "zone")));
    let avoider = of_app("x", avoiding(term(app("web"), "zone")));
    let plain = of_app("x", none.clone());
    let added =
        |class, pod| plugin.hint(&state, class, &pod_event(Action::ADD, None, Some(pod), false));
    let deleted =
        |class, pod| plugin.hint(&state, class, &pod_event(Action::DELETE, Some(pod), None, false));
    let relabelled = |class, old, new| {
        let event = pod_event(Action::UPDATE_POD_LABEL, Some(old), Some(new), false);
        plugin.hint(&state, class, &event)
    };
    assert!(added(&requirer, &web));
    assert!(!added(&requirer, &pending));
    assert!(!added(&requirer, &db));
    assert!(!added(&avoider, &web));
    assert!(deleted(&avoider, &web));
    assert!(!deleted(&avoider, &db));
    assert!(relabelled(&requirer, &db, &web));
    assert!(relabelled(&avoider, &web, &db));
    assert!(!relabelled(&avoider, &db, &web));
    let repelling = pod_of_app("p", "e", "a1", avoiding(term(app("x"), "zone")));
    assert!(deleted(&plain, &repelling));
    assert!(!deleted(&plain, &web));
    assert!(plugin.hint(
        &state,
        &plain,
        &pod_event(Action::UPDATE_POD_LABEL, Some(&pending), Some(&pending), true)
    ));

    let (inside, outside, beside) = (node_in("n", "a"), node("n"), node_in("n", "b"));
    let came = |class, node| plugin.hint(&state, class, &node_event(Action::ADD, None, node));
    assert!(came(&requirer, &inside));
    assert!(!came(&requirer, &outside));
    assert!(came(&avoider, &outside));
    assert!(came(&plain, &outside));
    let moved = |state: &State, class: &Class, old, new| {
        plugin.hint(state, class, &node_event(Action::UPDATE_NODE_LABEL, Some(old), new))
    };
    for class in [&requirer, &avoider] {
        assert!(moved(&state, class, &inside, &beside));
        assert!(!moved(&state, class, &inside, &inside));
    }
    assert!(!moved(&state, &plain, &inside, &beside));
    add_pod(&mut state, repelling);
    assert!(moved(&state, &plain, &inside, &beside));
}

fn filter_of(class: &Class, state: &mut State) -> Box<dyn Filter> {
    match build(None).prepare_filter(class, &mut Preparation::new(state)) {
        PreFilterResult::Filter(filter) => filter,
        _ => unreachable!("it always filters"),
    }
}
