//! Tests of InterPodAffinity: tables, and random clusters against a plain reading of the rules.

use std::collections::BTreeMap;

use api::config::args::InterPodAffinityArgs;
use engine::bitset::NodeSet;
use engine::framework::{Filter, Freshness};
use engine::index::{NodeIdx, PodIdx};
use engine::object::{Labels, Operator, Pod, PodAffinity, PodSpec, Requirement, Selector, Text};
use engine::testing::{
    add_pod, catch_up, class, final_scores, labels, node, node_event, pod, pod_event, remove_pod,
    scores, state, verdicts, with_namespace,
};
use proptest::prelude::*;

use super::*;

const HOSTNAME: &str = "kubernetes.io/hostname";
const SOUGHT: &str = "UnschedulableAndUnresolvable node(s) didn't match pod affinity rules";
const AVOIDED: &str = "Unschedulable node(s) didn't match pod anti-affinity rules";
const AVOIDING: &str = "Unschedulable node(s) didn't satisfy existing pods anti-affinity rules";

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

fn seeking(term: PodTerm) -> PodAffinity {
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

fn said(state: &State, what: &[(&str, &str)]) -> Vec<String> {
    let order = state.nodes.order().iter().map(|node| state.nodes.name(*node));
    let find = |name: &str| what.iter().find(|(n, _)| *n == name).map_or("ok", |(_, v)| *v);
    order.map(|name| format!("{name}: {}", find(name))).collect()
}

#[track_caller]
fn check(state: &mut State, class: Class, what: &[(&str, &str)]) {
    let expected = said(state, what);
    assert_eq!(verdicts(build(None), class, state), expected);
}

#[test]
fn sought_pods_must_be_in_the_domain() {
    let outside = [("b", SOUGHT), ("n", SOUGHT)];
    check(&mut cluster(), of_app("db", seeking(term(app("web"), "zone"))), &outside);
    let elsewhere = [("a2", SOUGHT), ("b", SOUGHT), ("n", SOUGHT)];
    check(&mut cluster(), of_app("db", seeking(term(app("web"), HOSTNAME))), &elsewhere);
}

#[test]
fn avoided_pods_must_not_be_in_the_domain() {
    let class = of_app("db", avoiding(term(app("web"), "zone")));
    check(&mut cluster(), class, &[("a1", AVOIDED), ("a2", AVOIDED)]);
}

#[test]
fn pods_keep_those_away_whom_they_avoid() {
    let mut state = cluster();
    add_pod(&mut state, pod_of_app("x", "x", "b", avoiding(term(app("web"), "zone"))));
    check(&mut state, of_app("web", PodAffinity::default()), &[("b", AVOIDING)]);
    check(&mut state, of_app("db", PodAffinity::default()), &[]);
    // Its own terms are named first.
    let class = of_app("web", avoiding(term(app("x"), "zone")));
    check(&mut state, class, &[("b", AVOIDED)]);
}

#[test]
fn the_first_of_a_group_may_begin_anywhere_in_a_domain() {
    let itself = |key: &str| of_app("new", seeking(term(app("new"), key)));
    check(&mut cluster(), itself("zone"), &[("n", SOUGHT)]);
    let none = ["a1", "a2", "b", "n"].map(|name| (name, SOUGHT));
    check(&mut cluster(), of_app("new", seeking(term(app("other"), "zone"))), &none);
    // A pod outside of all domains is nowhere; one in a domain of another key is somewhere.
    let mut state = cluster();
    add_pod(&mut state, pod_of_app("o", "new", "n", PodAffinity::default()));
    check(&mut state, itself("zone"), &[("n", SOUGHT)]);
    let named = Node { labels: labels(&[(HOSTNAME, "m")]), ..node("m") };
    let nodes = [node_in("a", "a"), named];
    let mut state =
        engine::testing::state(nodes, [pod_of_app("o", "new", "m", PodAffinity::default())]);
    let mut both = seeking(term(app("new"), "zone"));
    both.required = Box::new([term(app("new"), "zone"), term(app("new"), HOSTNAME)]);
    check(&mut state, of_app("new", both), &[("a", SOUGHT), ("m", SOUGHT)]);
}

#[test]
fn one_pod_must_match_all_sought_terms() {
    let mut state = cluster();
    let tier = Pod {
        labels: labels(&[("tier", "x")]),
        ..pod_of_app("t", "", "b", PodAffinity::default())
    };
    add_pod(&mut state, tier);
    let tier = requires("tier", Operator::In, &["x"]);
    let mut both = seeking(term(app("web"), "zone"));
    both.required = Box::new([term(app("web"), "zone"), term(tier.clone(), "zone")]);
    let none = ["a1", "a2", "b", "n"].map(|name| (name, SOUGHT));
    check(&mut state, of_app("db", both.clone()), &none);
    let labels = labels(&[("app", "web"), ("tier", "x")]);
    let both_labels = Pod { labels, ..pod_of_app("u", "", "b", PodAffinity::default()) };
    add_pod(&mut state, both_labels);
    check(&mut state, of_app("db", both), &[("a1", SOUGHT), ("a2", SOUGHT), ("n", SOUGHT)]);
}

#[test]
fn namespace_selectors_of_the_pod_are_resolved_unless_they_accept_no_labels() {
    let cluster = || {
        let state = with_namespace(cluster(), "default", &[("team", "a")]);
        with_namespace(state, "other", &[("team", "b")])
    };
    let from = |selector| PodTerm {
        namespaces: Box::default(),
        namespace_selector: Some(selector),
        ..term(app("web"), HOSTNAME)
    };
    let found = [("a1", AVOIDED)];
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
    // Terms of existing pods look at the labels of the namespace as they are.
    for (selector, what) in [
        (requires("team", Operator::In, &["a"]), &[("b", AVOIDING)][..]),
        (requires("team", Operator::NotIn, &["a"]), &[]),
    ] {
        let mut state = cluster();
        add_pod(&mut state, pod_of_app("x", "x", "b", avoiding(from(selector))));
        check(&mut state, of_app("web", PodAffinity::default()), what);
    }
}

#[test]
fn what_if_is_ignored_when_nothing_is_required() {
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
fn terms_that_appear_later_are_noticed() {
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
fn scores_fall_short_as_floats_do() {
    for (above, score) in [(29, 28), (57, 56), (58, 57), (50, 50), (100, 100)] {
        assert_eq!(score::share_of_range(above, 100), score);
    }
}

#[test]
fn preferences_of_both_sides_add_up() {
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

    let fond = of_app("db", preferring(10, term(app("web"), "zone")));
    let near = Some("a1: 100 a2: 100 b: 0 n: 0".to_owned());
    assert_eq!(score(&args(1, false), &fond, &mut cluster()), near);
    assert_eq!(score(&args(1, true), &fond, &mut cluster()), near);

    let mut shy = fond.clone();
    let preferred_anti = Box::new([(10, term(app("web"), "zone"))]);
    let affinity = PodAffinity { preferred_anti, ..PodAffinity::default() };
    shy.spec = PodSpec { pod_affinity: affinity, ..PodSpec::default() }.into();
    let far = Some("a1: 0 a2: 0 b: 100 n: 100".to_owned());
    assert_eq!(score(&args(1, false), &shy, &mut cluster()), far);

    let with = |pod_affinity| {
        let mut state = cluster();
        add_pod(&mut state, pod_of_app("x", "x", "a1", pod_affinity));
        state
    };
    let mut required = with(seeking(term(app("db"), "zone")));
    assert_eq!(score(&args(1, false), &plain, &mut required), near);
    assert_eq!(score(&args(0, false), &plain, &mut required), None);
    assert_eq!(score(&args(1, true), &plain, &mut required), None);
    let mut preferred = with(preferring(5, term(app("db"), "zone")));
    assert_eq!(score(&args(0, false), &plain, &mut preferred), near);
    // What adds up to nothing is still something.
    let mut torn = with(preferring(10, term(app("db"), "zone")));
    let nothing = Some("a1: 0 a2: 0 b: 0 n: 0".to_owned());
    assert_eq!(score(&args(1, false), &shy, &mut torn), nothing);
}

#[test]
fn hints_follow_pods_and_nodes_that_matter() {
    let plugin = build(None);
    let mut state = cluster();
    let none = PodAffinity::default();
    let [web, db] = ["web", "db"].map(|app| pod_of_app("p", app, "a1", none.clone()));
    let pending = pod_of_app("p", "web", "", none.clone());
    let seeker = of_app("x", seeking(term(app("web"), "zone")));
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
    assert!(added(&seeker, &web));
    assert!(!added(&seeker, &pending));
    assert!(!added(&seeker, &db));
    assert!(!added(&avoider, &web));
    assert!(deleted(&avoider, &web));
    assert!(!deleted(&avoider, &db));
    assert!(relabelled(&seeker, &db, &web));
    assert!(relabelled(&avoider, &web, &db));
    assert!(!relabelled(&avoider, &db, &web));
    let enemy = pod_of_app("p", "e", "a1", avoiding(term(app("x"), "zone")));
    assert!(deleted(&plain, &enemy));
    assert!(!deleted(&plain, &web));
    assert!(plugin.hint(
        &state,
        &plain,
        &pod_event(Action::UPDATE_POD_LABEL, Some(&pending), Some(&pending), true)
    ));

    let (inside, outside, beside) = (node_in("n", "a"), node("n"), node_in("n", "b"));
    let came = |class, node| plugin.hint(&state, class, &node_event(Action::ADD, None, node));
    assert!(came(&seeker, &inside));
    assert!(!came(&seeker, &outside));
    assert!(came(&avoider, &outside));
    assert!(came(&plain, &outside));
    let moved = |state: &State, class: &Class, old, new| {
        plugin.hint(state, class, &node_event(Action::UPDATE_NODE_LABEL, Some(old), new))
    };
    for class in [&seeker, &avoider] {
        assert!(moved(&state, class, &inside, &beside));
        assert!(!moved(&state, class, &inside, &inside));
    }
    assert!(!moved(&state, &plain, &inside, &beside));
    add_pod(&mut state, enemy);
    assert!(moved(&state, &plain, &inside, &beside));
}

fn filter_of(class: &Class, state: &mut State) -> Box<dyn Filter> {
    match build(None).prepare_filter(class, &mut Preparation::new(state)) {
        PreFilterResult::Filter(filter) => filter,
        _ => unreachable!("it always filters"),
    }
}

/// The rules read plainly: maps of strings, all pods looked at each time.
struct Plain<'a> {
    state: &'a State,
    class: &'a Class,
}

type Pairs = BTreeMap<(Text, Text), i64>;

impl Plain<'_> {
    /// A term of the class about a pod.
    fn own_matches(&self, term: &PodTerm, namespace: &str, labels: &Labels) -> bool {
        let named = term.namespaces.iter().any(|name| **name == *namespace);
        let selected = term.namespace_selector.as_ref().is_some_and(|selector| {
            let mut namespaces = self.state.namespaces();
            selector.matches(&Labels::default())
                || namespaces.any(|n| *n.name == *namespace && selector.matches(&n.labels))
        });
        (named || selected) && term.selector.as_ref().is_some_and(|s| s.matches(labels))
    }

    /// A term of a pod about the class.
    fn others_match(&self, term: &PodTerm) -> bool {
        let Class { namespace, labels, .. } = self.class;
        let namespace_labels = self.state.namespace_labels(namespace);
        let named = term.namespaces.iter().any(|name| name == namespace);
        let selected =
            term.namespace_selector.as_ref().is_some_and(|s| s.matches(namespace_labels));
        (named || selected) && term.selector.as_ref().is_some_and(|s| s.matches(labels))
    }

    fn note(&self, map: &mut Pairs, node: NodeIdx, key: &Text, weight: i64) {
        if let Some(value) = self.state.nodes.object(node).labels.get(key) {
            *map.entry((key.clone(), value.into())).or_insert(0) += weight;
        }
    }

    fn placed(&self) -> Vec<(PodIdx, NodeIdx)> {
        let pods = self.state.pods.iter().map(|(pod, record)| (pod, record.node));
        pods.filter(|(_, node)| self.state.nodes.present().contains(*node)).collect()
    }

    fn answers(&self, supposed: &[(PodIdx, NodeIdx, i64)]) -> Vec<u32> {
        let own = &self.class.spec.pod_affinity;
        let matches_all = |namespace: &str, labels: &Labels| {
            let all = |term| self.own_matches(term, namespace, labels);
            !own.required.is_empty() && own.required.iter().all(all)
        };
        let [mut sought, mut avoided, mut avoiding] = [Pairs::new(), Pairs::new(), Pairs::new()];
        let mut count = |pod: PodIdx, node: NodeIdx, change: i64| {
            let (namespace, labels) = (self.state.namespace(pod), self.state.labels(pod));
            if matches_all(namespace, labels) {
                own.required
                    .iter()
                    .for_each(|t| self.note(&mut sought, node, &t.topology_key, change));
            }
            for term in own.required_anti.iter().filter(|t| self.own_matches(t, namespace, labels))
            {
                self.note(&mut avoided, node, &term.topology_key, change);
            }
            for term in &self.state.spec(pod).pod_affinity.required_anti {
                if self.others_match(term) {
                    self.note(&mut avoiding, node, &term.topology_key, change);
                }
            }
            for map in [&mut sought, &mut avoided, &mut avoiding] {
                map.retain(|_, count| *count != 0);
            }
            avoiding.is_empty()
        };
        let mut nobody_avoids = true;
        for (pod, node) in self.placed() {
            nobody_avoids = count(pod, node, 1);
        }
        let skipped = nobody_avoids && own.required.is_empty() && own.required_anti.is_empty();
        if !skipped {
            for (pod, node, change) in supposed {
                count(*pod, *node, *change);
            }
        }
        let answer = |node: NodeIdx| {
            let labels = &self.state.nodes.object(node).labels;
            let pair = |term: &PodTerm| {
                let key = &term.topology_key;
                labels.get(key).map(|value| (key.clone(), Text::from(value)))
            };
            let in_domains = own.required.iter().all(|term| pair(term).is_some());
            let found =
                own.required.iter().all(|t| pair(t).is_some_and(|p| sought.contains_key(&p)));
            let begins =
                sought.is_empty() && matches_all(&self.class.namespace, &self.class.labels);
            if !in_domains || !found && !begins {
                1
            } else if own
                .required_anti
                .iter()
                .any(|t| pair(t).is_some_and(|p| avoided.contains_key(&p)))
            {
                2
            } else if labels.iter().any(|(k, v)| avoiding.contains_key(&(k.into(), v.into()))) {
                3
            } else {
                0
            }
        };
        self.state.nodes.present().iter().map(answer).collect()
    }

    /// Final scores of feasible nodes by slot, zero for others; `None` when skipped.
    fn scores(&self, feasible: &NodeSet) -> Option<Vec<i64>> {
        let own = &self.class.spec.pod_affinity;
        let mut map = Pairs::new();
        for (pod, node) in self.placed() {
            let (namespace, labels) = (self.state.namespace(pod), self.state.labels(pod));
            let theirs = &self.state.spec(pod).pod_affinity;
            for (sign, terms) in [(1, &own.preferred), (-1, &own.preferred_anti)] {
                for (weight, term) in terms {
                    if self.own_matches(term, namespace, labels) {
                        self.note(&mut map, node, &term.topology_key, i64::from(sign * weight));
                    }
                }
            }
            let required = theirs.required.iter().map(|term| (1, term));
            let preferred = theirs.preferred.iter().map(|(weight, term)| (*weight, term));
            let anti = theirs.preferred_anti.iter().map(|(weight, term)| (-weight, term));
            for (weight, term) in required.chain(preferred).chain(anti) {
                if self.others_match(term) {
                    self.note(&mut map, node, &term.topology_key, i64::from(weight));
                }
            }
        }
        if map.is_empty() {
            return None;
        }
        let raw: BTreeMap<NodeIdx, i64> = feasible
            .iter()
            .map(|node| {
                let labels = self.state.nodes.object(node).labels.iter();
                let found = labels.filter_map(|(k, v)| map.get(&(k.into(), v.into())));
                (node, found.sum())
            })
            .collect();
        let min = raw.values().min().copied().unwrap_or(0);
        let range = raw.values().max().copied().unwrap_or(0) - min;
        let mut scores = vec![0; self.state.nodes.slots()];
        for (node, raw) in raw {
            if range > 0 {
                scores[node.at()] = (100.0 * ((raw - min) as f64 / range as f64)) as i64;
            }
        }
        Some(scores)
    }
}

fn any_term() -> impl Strategy<Value = PodTerm> {
    let selector = prop_oneof![
        6 => Just(Some(app("web"))),
        4 => Just(Some(app("db"))),
        1 => Just(Some(requires("app", Operator::Exists, &[]))),
        1 => Just(Some(Selector::default())),
        1 => Just(None),
    ];
    let team = |operator, name| Some(requires("team", operator, &[name]));
    let namespaces = prop::sample::select(vec![
        (vec!["default"], None),
        (vec!["default"], None),
        (vec!["default"], None),
        (vec!["other"], None),
        (vec!["default", "other"], None),
        (vec![], Some(Selector::default())),
        (vec![], team(Operator::In, "a")),
        (vec!["default"], team(Operator::In, "b")),
        (vec![], team(Operator::NotIn, "b")),
    ]);
    let key = prop_oneof![Just("zone"), Just("rack"), Just("region"), Just(HOSTNAME)];
    (selector, namespaces, key).prop_map(|(selector, (namespaces, namespace_selector), key)| {
        PodTerm {
            selector,
            namespaces: namespaces.iter().map(|name| Text::from(*name)).collect(),
            namespace_selector,
            topology_key: key.into(),
        }
    })
}

fn any_affinity() -> impl Strategy<Value = PodAffinity> {
    let required = || prop::collection::vec(any_term(), 0..3);
    let preferred = || prop::collection::vec((1..101, any_term()), 0..3);
    let parts = (required(), required(), preferred(), preferred(), 0..16_u8);
    // Pods with terms of all kinds at once leave little to see.
    parts.prop_map(|(required, anti, preferred, preferred_anti, kinds)| PodAffinity {
        required: required.into_iter().filter(|_| kinds & 1 > 0).collect(),
        required_anti: anti.into_iter().filter(|_| kinds & 2 > 0).collect(),
        preferred: preferred.into_iter().filter(|_| kinds & 4 > 0).collect(),
        preferred_anti: preferred_anti.into_iter().filter(|_| kinds & 8 > 0).collect(),
        has_affinity: true,
        has_anti_affinity: true,
    })
}

fn any_pod() -> impl Strategy<Value = Pod> {
    let app = prop_oneof![4 => Just(Some("web")), 2 => Just(Some("db")), 1 => Just(None)];
    (app, any_affinity(), prop::bool::weighted(0.2)).prop_map(|(app, pod_affinity, elsewhere)| {
        Pod {
            labels: app.map(|app| ("app", app)).into_iter().collect(),
            namespace: if elsewhere { "other".into() } else { "default".into() },
            ..pod_of_app("", "", "", pod_affinity)
        }
    })
}

fn any_cluster() -> impl Strategy<Value = State> {
    let value = || prop_oneof![4 => Just(Some("a")), 4 => Just(Some("b")), 2 => Just(None)];
    let shape = (value(), value(), prop::bool::weighted(0.9));
    (prop::collection::vec(shape, 1..8), any::<bool>()).prop_map(|(nodes, region)| {
        let nodes = nodes.into_iter().enumerate().map(|(i, (zone, rack, named))| {
            let name = format!("n{i}");
            let pairs = [
                zone.map(|zone| ("zone", zone)),
                rack.map(|rack| ("rack", rack)),
                named.then_some((HOSTNAME, &*name)),
                // Often all nodes are in one domain.
                (region || i > 0).then_some(("region", "r")),
            ];
            Node { labels: pairs.into_iter().flatten().collect(), ..node(&name) }
        });
        let state = with_namespace(state(nodes, []), "default", &[("team", "a")]);
        with_namespace(state, "other", &[("team", "b")])
    })
}

#[derive(Clone, Debug)]
enum Step {
    Add { pod: usize, node: usize },
    Remove(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (any::<usize>(), any::<usize>()).prop_map(|(pod, node)| Step::Add { pod, node }),
        1 => any::<usize>().prop_map(Step::Remove),
    ]
}

fn take(step: &Step, number: usize, kinds: &[Pod], pods: &mut Vec<PodIdx>, state: &mut State) {
    match step {
        Step::Add { pod, node } => {
            let node = state.nodes.order()[node % state.nodes.count()];
            let pod = Pod {
                name: format!("p{number}").into(),
                uid: format!("u{number}").into(),
                node: state.nodes.name(node).into(),
                ..kinds[pod % kinds.len()].clone()
            };
            pods.push(add_pod(state, pod));
        }
        Step::Remove(at) if !pods.is_empty() => {
            remove_pod(state, pods.swap_remove(at % pods.len()));
        }
        Step::Remove(_) => {}
    }
}

fn class_of(pod: &Pod) -> Class {
    let class = class(PodSpec::clone(&pod.spec));
    Class { namespace: pod.namespace.clone(), labels: pod.labels.clone(), ..class }
}

proptest! {
    #[test]
    fn filters_stay_up_to_date(
        mut state in any_cluster(),
        kinds in prop::collection::vec(any_pod(), 1..4),
        steps in prop::collection::vec(any_step(), 1..15),
    ) {
        let class = class_of(&kinds[0]);
        // Pending, so that its terms are known.
        let pending = add_pod(&mut state, Pod { uid: "pending".into(), ..kinds[0].clone() });
        let mut filter = filter_of(&class, &mut state);
        let mut passing = state.nodes.present().clone();
        filter.filter(&state, &mut passing);
        let mut pods = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            take(step, number, &kinds, &mut pods, &mut state);
            let before = passing.clone();
            match filter.refresh(&state, &mut passing) {
                Freshness::Same => prop_assert_eq!(&passing, &before),
                Freshness::Changed => {}
                Freshness::Stale => {
                    filter = filter_of(&class, &mut state);
                    passing.copy_from(state.nodes.present());
                    filter.filter(&state, &mut passing);
                }
            }
            let plain = Plain { state: &state, class: &class };
            let nodes: Vec<NodeIdx> = state.nodes.present().iter().collect();
            let answers = |filter: &mut dyn Filter| -> Vec<u32> {
                nodes.iter().map(|node| filter.check(&state, *node).0).collect()
            };
            let expected = plain.answers(&[]);
            prop_assert_eq!(&answers(&mut *filter), &expected);
            for (node, answer) in nodes.iter().zip(&expected) {
                prop_assert_eq!(passing.contains(*node), *answer == 0);
            }
            let node = nodes[number % nodes.len()];
            filter.add_pod(&state, pending, node);
            prop_assert_eq!(&answers(&mut *filter), &plain.answers(&[(pending, node, 1)]));
            filter.remove_pod(&state, pending, node);
            if let Some(pod) = pods.first().copied() {
                let node = state.pods.get(pod).node;
                filter.remove_pod(&state, pod, node);
                prop_assert_eq!(&answers(&mut *filter), &plain.answers(&[(pod, node, -1)]));
                filter.add_pod(&state, pod, node);
            }
            prop_assert_eq!(&answers(&mut *filter), &expected);
        }
    }

    #[test]
    fn scores_stay_up_to_date(
        mut state in any_cluster(),
        kinds in prop::collection::vec(any_pod(), 1..4),
        steps in prop::collection::vec((any_step(), any::<u8>(), any::<bool>()), 1..15),
    ) {
        let class = class_of(&kinds[0]);
        let plugin = build(None);
        let mut feasible = state.nodes.present().clone();
        let mut changed = true;
        let mut raw = Vec::new();
        let mut pods = Vec::new();
        let prepare = |state: &mut State| {
            plugin.prepare_score(&class, &mut Preparation::new(state)).unwrap()
        };
        let mut scorer = prepare(&mut state);
        for (number, (step, mask, changes)) in steps.iter().enumerate() {
            take(step, number, &kinds, &mut pods, &mut state);
            if *changes {
                feasible.copy_from(state.nodes.present());
                feasible.retain(|node| mask >> node.at() & 1 == 1);
                changed = true;
            }
            if !catch_up(&mut *scorer, &state, &feasible, changed, &mut raw) {
                scorer = prepare(&mut state);
                prop_assert!(catch_up(&mut *scorer, &state, &feasible, true, &mut raw));
            }
            changed = false;
            let found = (!scorer.skipped()).then(|| final_scores(&*scorer, &feasible, &raw));
            let plain = Plain { state: &state, class: &class };
            prop_assert_eq!(found, plain.scores(&feasible));
        }
    }
}
