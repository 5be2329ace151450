//! Tests of PodTopologySpread: tables, and random clusters against a plain reading of the rules.

use std::collections::{BTreeMap, BTreeSet};

use api::config::args::{PodTopologySpreadArgs, WhenUnsatisfiable as Listed};
use engine::bitset::NodeSet;
use engine::framework::{Filter, Freshness};
use engine::index::{NodeIdx, PodIdx};
use engine::object::{
    Operator, Owner, Pod, PodSpec, Requirement, Selector, Taint, TaintEffect, Text, Workload,
    WorkloadKind,
};
use engine::testing::{
    add_pod, catch_up, class, final_scores, labels, node, node_event, pod, pod_event, remove_pod,
    scores, state, terminate, verdicts, with_workload,
};
use proptest::prelude::*;

use super::*;
use crate::node_affinity::RequiredNodeAffinity;
use crate::tolerations::tolerates_all_hard;

const MISSING: &str = "UnschedulableAndUnresolvable node(s) didn't match pod topology spread \
                       constraints (missing required label)";
const UNEVEN: &str = "Unschedulable node(s) didn't match pod topology spread constraints";

fn equals(key: &str, value: &str) -> Selector {
    let requirement = Requirement {
        key: key.into(),
        operator: Operator::In,
        values: Box::new([Text::from(value)]),
    };
    Selector { requirements: Box::new([requirement]) }
}

fn constraint(topology_key: &str, kind: WhenUnsatisfiable) -> SpreadConstraint {
    SpreadConstraint {
        max_skew: 1,
        when_unsatisfiable: kind,
        selector: Some(equals("app", "web")),
        ..system_default(topology_key, 1)
    }
}

fn hard(topology_key: &str) -> SpreadConstraint {
    constraint(topology_key, WhenUnsatisfiable::DoNotSchedule)
}

fn soft(topology_key: &str) -> SpreadConstraint {
    constraint(topology_key, WhenUnsatisfiable::ScheduleAnyway)
}

fn web(constraints: impl IntoIterator<Item = SpreadConstraint>) -> Class {
    let spec = PodSpec { spread: constraints.into_iter().collect(), ..PodSpec::default() };
    Class { labels: labels(&[("app", "web")]), ..class(spec) }
}

fn node_in(name: &str, zone: &str) -> Node {
    Node { labels: labels(&[("zone", zone), (HOSTNAME, name)]), ..node(name) }
}

fn web_pod(name: &str, node: &str) -> Pod {
    Pod { labels: labels(&[("app", "web")]), node: node.into(), ..pod(name) }
}

/// Zones a (2 pods), b (1 pod) and c (none), and a node outside of all zones.
fn three_zones() -> State {
    state(
        [node_in("a", "a"), node_in("b", "b"), node_in("c", "c"), node("d")],
        [web_pod("1", "a"), web_pod("2", "a"), web_pod("3", "b")],
    )
}

#[test]
fn domains_above_the_minimum_are_full() {
    let ok = |name: &str| format!("{name}: ok");
    for (max_skew, min_domains, full) in
        [(1, 1, "ab"), (2, 1, "a"), (3, 1, ""), (2, 4, "a"), (3, 4, "")]
    {
        let class = web([SpreadConstraint { max_skew, min_domains, ..hard("zone") }]);
        let expected: Vec<String> = ["a", "b", "c"]
            .iter()
            .map(|n| if full.contains(n) { format!("{n}: {UNEVEN}") } else { ok(n) })
            .chain([format!("d: {MISSING}")])
            .collect();
        assert_eq!(verdicts(build(None), class, &mut three_zones()), expected, "{max_skew}");
    }
}

#[test]
fn too_few_domains_make_the_minimum_zero() {
    let pods = ["a", "b"].map(|node| web_pod(node, node));
    let mut state = state([node_in("a", "a"), node_in("b", "b")], pods);
    for (min_domains, verdict) in [(2, "ok"), (3, UNEVEN)] {
        let class = web([SpreadConstraint { min_domains, ..hard("zone") }]);
        let verdicts = verdicts(build(None), class, &mut state);
        assert_eq!(verdicts, [format!("a: {verdict}"), format!("b: {verdict}")]);
    }
}

#[test]
fn an_empty_selector_counts_nobody_but_the_pod_itself() {
    for (selector, max_skew) in [(Some(Selector::default()), 1), (None, 1)] {
        let class = web([SpreadConstraint { selector, max_skew, ..hard("zone") }]);
        let verdicts = verdicts(build(None), class, &mut three_zones());
        assert_eq!(verdicts[..3], ["a: ok", "b: ok", "c: ok"]);
    }
}

#[test]
fn nodes_without_the_keys_of_all_constraints_are_not_counted() {
    let outside = Node { labels: labels(&[("zone", "a")]), ..node("x") };
    let mut state = state(
        [node_in("a", "a"), node_in("b", "b"), outside],
        [web_pod("1", "x"), web_pod("2", "x"), web_pod("3", "x")],
    );
    assert_eq!(
        verdicts(build(None), web([hard("zone"), hard(HOSTNAME)]), &mut state),
        ["a: ok".to_owned(), "b: ok".to_owned(), format!("x: {MISSING}")]
    );
}

#[test]
fn inclusion_policies_decide_which_nodes_count() {
    let taint = Taint { key: "k".into(), value: "".into(), effect: TaintEffect::NoSchedule };
    let tainted = Node { taints: Box::new([taint]), ..node_in("c", "c") };
    let nodes = [node_in("a", "a"), node_in("b", "b"), tainted];
    let mut state = state(nodes, [web_pod("1", "a"), web_pod("2", "b")]);
    let ignoring = web([hard("zone")]);
    let honoring = web([SpreadConstraint { honor_taints: true, ..hard("zone") }]);
    let selecting = |honor_affinity| {
        let mut class = web([SpreadConstraint { honor_affinity, ..hard("zone") }]);
        let terms = ["a", "b"].map(|zone| engine::object::NodeTerm {
            expressions: equals("zone", zone).requirements,
            fields: Box::default(),
            malformed: false,
        });
        let mut spec = (*class.spec).clone();
        spec.node_affinity.required = Some(Box::new(terms));
        class.spec = spec.into();
        class
    };
    let full = || [format!("a: {UNEVEN}"), format!("b: {UNEVEN}"), "c: ok".to_owned()];
    let free = || ["a: ok", "b: ok", "c: ok"].map(str::to_owned);
    assert_eq!(verdicts(build(None), ignoring, &mut state), full());
    assert_eq!(verdicts(build(None), honoring, &mut state), free());
    assert_eq!(verdicts(build(None), selecting(true), &mut state), free());
    assert_eq!(verdicts(build(None), selecting(false), &mut state), full());
}

#[test]
fn terminating_pods_count_only_in_what_if() {
    let going = Pod { terminating: true, ..web_pod("going", "a") };
    let mut state = state([node_in("a", "a"), node_in("b", "b")], [going, web_pod("1", "a")]);
    let mut filter = filter_of(&web([hard("zone")]), &mut state);
    let [a, b] = ["a", "b"].map(|name| state.nodes.find(name).unwrap());
    let answers = |filter: &mut dyn Filter| [a, b].map(|node| filter.check(&state, node).passes());
    assert_eq!(answers(&mut *filter), [false, true]);
    let going = state.find_pod("default", "going").unwrap();
    let staying = state.find_pod("default", "1").unwrap();
    filter.remove_pod(&state, staying, a);
    assert_eq!(answers(&mut *filter), [true, true]);
    // The count of a falls to -1 and with it the minimum.
    filter.remove_pod(&state, going, a);
    assert_eq!(answers(&mut *filter), [true, false]);
    filter.add_pod(&state, going, a);
    filter.add_pod(&state, staying, a);
    assert_eq!(answers(&mut *filter), [false, true]);
}

#[test]
fn raw_scores_are_rounded_and_normalised_as_integers() {
    let plugin = build(None);
    let class = web([soft("zone")]);
    let scores = scores(&*plugin, &class, &mut three_zones()).unwrap();
    // The node outside is ignored.
    assert_eq!(scores, ["a: 0", "b: 33", "c: 100", "d: 0"]);
}

#[test]
fn equal_scores_are_all_the_best() {
    let nodes = ["a", "b"].map(|name| node_in(name, name));
    let mut state = state(nodes, []);
    for max_skew in [1, 3] {
        let class = web([SpreadConstraint { max_skew, ..soft("zone") }]);
        assert_eq!(scores(&*build(None), &class, &mut state).unwrap(), ["a: 100", "b: 100"]);
    }
}

#[test]
fn pods_without_constraints_are_spread_by_their_services_and_controllers() {
    let zoned = |name: &str, zone: &str| Node {
        labels: labels(&[(ZONE, zone), (HOSTNAME, name)]),
        ..node(name)
    };
    let cluster = || {
        let nodes = [zoned("a", "1"), zoned("b", "1"), zoned("c", "2")];
        state(nodes, [web_pod("1", "a"), web_pod("2", "b")])
    };
    let plain = web([]);
    let plugin = build(None);
    assert_eq!(scores(&*plugin, &plain, &mut cluster()), None);

    let workload = |kind, name: &str| Workload {
        kind,
        namespace: "default".into(),
        name: name.into(),
        selector: Some(equals("app", "web")),
    };
    let served = with_workload(cluster(), workload(WorkloadKind::Service, "s"));
    // hostname: ln 5 × (1, 1, 0) + 2; zone: ln 4 × (2, 2, 0) + 4: 10, 10, 6 after rounding.
    let expected = Some(["a: 60", "c: 100", "b: 60"].map(str::to_owned).to_vec());
    assert_eq!(scores(&*plugin, &plain, &mut served.clone()), expected);

    let mut other = plain.clone();
    other.labels = labels(&[("app", "db")]);
    assert_eq!(scores(&*plugin, &other, &mut served.clone()), None);

    let mut controlled = web([]);
    let owner = Owner {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: "r".into(),
        uid: "".into(),
    };
    controlled.spec = PodSpec { owner: Some(owner), ..PodSpec::default() }.into();
    let mut owned = with_workload(cluster(), workload(WorkloadKind::ReplicaSet, "r"));
    assert_eq!(scores(&*plugin, &controlled, &mut owned), expected);
    let mut unowned = with_workload(cluster(), workload(WorkloadKind::StatefulSet, "r"));
    assert_eq!(scores(&*plugin, &controlled, &mut unowned), None);
}

#[test]
fn listed_defaults_can_be_hard() {
    let args = PodTopologySpreadArgs {
        default_constraints: vec![TopologySpreadConstraint {
            max_skew: 1,
            topology_key: "zone".into(),
            when_unsatisfiable: Listed::DoNotSchedule,
            min_domains: None,
            node_affinity_policy: None,
            node_taints_policy: None,
            match_label_keys: Vec::new(),
        }],
        defaulting_type: DefaultingType::List,
    };
    let args = PluginArgs::PodTopologySpread(args);
    let service = Workload {
        kind: WorkloadKind::Service,
        namespace: "default".into(),
        name: "s".into(),
        selector: Some(equals("app", "web")),
    };
    let mut state = with_workload(three_zones(), service);
    let verdicts = verdicts(build(Some(&args)), web([]), &mut state);
    assert_eq!(verdicts[..3], [&*format!("a: {UNEVEN}"), &*format!("b: {UNEVEN}"), "c: ok"]);
    assert_eq!(scores(&*build(Some(&args)), &web([]), &mut state), None);
}

#[test]
fn rounding_is_half_up() {
    let numbers = [0.0, 0.3, 0.5, 1.5, 2.5, 2.499_999_999, 0.499_999_999_999_999_94, 1e9 + 0.5];
    for number in numbers {
        assert_eq!(score::round_half_up(number), number.round() as i64, "{number}");
    }
}

#[test]
fn hints_follow_pods_that_count_and_nodes_that_have_all_keys() {
    let state = State::default();
    let plugin = build(None);
    let class = web([SpreadConstraint { honor_taints: true, ..hard("zone") }]);
    let asks = |event: &Event| plugin.hint(&state, &class, event);

    let (there, pending) = (web_pod("p", "a"), web_pod("p", ""));
    let other = Pod { labels: labels(&[("app", "db")]), ..there.clone() };
    let elsewhere = Pod { namespace: "other".into(), ..there.clone() };
    for (pod, helps) in [(&there, true), (&pending, false), (&other, false), (&elsewhere, false)] {
        assert_eq!(asks(&pod_event(Action::ADD, None, Some(pod), false)), helps);
        assert_eq!(asks(&pod_event(Action::DELETE, Some(pod), None, false)), helps);
    }
    let relabelled =
        |old, new| asks(&pod_event(Action::UPDATE_POD_LABEL, Some(old), Some(new), false));
    assert!(relabelled(&there, &other));
    assert!(!relabelled(&there, &there));
    let mut tolerant = pending.clone();
    tolerant.spec_mut().tolerations = Box::new([engine::object::Toleration {
        key: "".into(),
        operator: engine::object::TolerationOperator::Exists,
        value: "".into(),
        effect: None,
    }]);
    let action = Action::UPDATE_POD_TOLERATION;
    assert!(asks(&pod_event(action, Some(&pending), Some(&tolerant), true)));
    assert!(!asks(&pod_event(action, Some(&pending), Some(&pending), true)));

    let (inside, outside, beside) = (node_in("n", "a"), node("n"), node_in("n", "b"));
    assert!(asks(&node_event(Action::ADD, None, &inside)));
    assert!(!asks(&node_event(Action::ADD, None, &outside)));
    let relabelled = |old, new| asks(&node_event(Action::UPDATE_NODE_LABEL, Some(old), new));
    assert!(relabelled(&inside, &outside));
    assert!(relabelled(&outside, &inside));
    assert!(relabelled(&inside, &beside));
    assert!(!relabelled(&inside, &inside));
    assert!(!relabelled(&outside, &outside));
}

fn filter_of(class: &Class, state: &mut State) -> Box<dyn Filter> {
    match build(None).prepare_filter(class, &mut Preparation::new(state)) {
        PreFilterResult::Filter(filter) => filter,
        _ => unreachable!("the class has hard constraints"),
    }
}

/// The rules read plainly: maps of strings, all pods looked at each time.
struct Plain<'a> {
    state: &'a State,
    class: &'a Class,
    constraints: &'a [SpreadConstraint],
}

impl Plain<'_> {
    fn label(&self, node: NodeIdx, key: &str) -> Option<&str> {
        self.state.nodes.object(node).labels.get(key)
    }

    fn has_all_keys(&self, node: NodeIdx) -> bool {
        self.constraints.iter().all(|c| self.label(node, &c.topology_key).is_some())
    }

    fn counts(&self, node: NodeIdx, constraint: &SpreadConstraint) -> bool {
        let object = self.state.nodes.object(node);
        let spec = &self.class.spec;
        (!constraint.honor_affinity || RequiredNodeAffinity::new(spec).matches(object))
            && (!constraint.honor_taints || tolerates_all_hard(&spec.tolerations, &object.taints))
    }

    fn pods_on(&self, node: NodeIdx, constraint: &SpreadConstraint) -> i64 {
        let Some(selector) = constraint.selector.as_ref().filter(|s| !s.is_empty()) else {
            return 0;
        };
        let counted = self.state.nodes.pods(node).iter().filter(|pod| {
            !self.state.pods.get(**pod).terminating
                && *self.state.namespace(**pod) == *self.class.namespace
                && selector.matches(self.state.labels(**pod))
        });
        counted.count() as i64
    }

    /// Answers of the filter, with these pods on these nodes as well (1) or not (-1).
    fn answers(&self, supposed: &[(PodIdx, NodeIdx, i64)]) -> Vec<u32> {
        let mut maps = vec![BTreeMap::new(); self.constraints.len()];
        let nodes: Vec<NodeIdx> = self.state.nodes.present().iter().collect();
        for node in nodes.iter().filter(|node| self.has_all_keys(**node)) {
            for (map, constraint) in maps.iter_mut().zip(self.constraints) {
                if !self.counts(*node, constraint) {
                    continue;
                }
                let value = self.label(*node, &constraint.topology_key).unwrap().to_owned();
                let mut count = self.pods_on(*node, constraint);
                for (pod, at, change) in supposed {
                    let matches = |s: &Selector| s.matches(self.state.labels(*pod));
                    if at == node
                        && *self.state.namespace(*pod) == *self.class.namespace
                        && constraint.selector.as_ref().is_some_and(matches)
                    {
                        count += change;
                    }
                }
                *map.entry(value).or_insert(0) += count;
            }
        }
        let answer = |node: NodeIdx| {
            for (map, constraint) in maps.iter().zip(self.constraints) {
                let Some(value) = self.label(node, &constraint.topology_key) else { return 1 };
                let minimum = if (map.len() as i64) < i64::from(constraint.min_domains) {
                    0
                } else {
                    map.values().min().copied().unwrap_or(i64::from(i32::MAX))
                };
                let matches = |s: &Selector| s.matches(&self.class.labels);
                let itself = i64::from(constraint.selector.as_ref().is_some_and(matches));
                let count = map.get(value).copied().unwrap_or(0);
                if count + itself - minimum > i64::from(constraint.max_skew) {
                    return 2;
                }
            }
            0
        };
        nodes.into_iter().map(answer).collect()
    }

    /// Final scores of feasible nodes by slot, zero for others.
    fn scores(&self, feasible: &NodeSet, all_keys_needed: bool) -> Vec<i64> {
        let scored: Vec<NodeIdx> =
            feasible.iter().filter(|node| !all_keys_needed || self.has_all_keys(*node)).collect();
        let mut raw: BTreeMap<NodeIdx, f64> = scored.iter().map(|node| (*node, 0.0)).collect();
        for constraint in self.constraints {
            let key = &constraint.topology_key;
            let value = |node| self.label(node, key).unwrap_or("");
            let values: BTreeSet<&str> = scored.iter().map(|node| value(*node)).collect();
            let hostname = **key == *HOSTNAME;
            let size = if hostname { scored.len() } else { values.len() };
            let weight = ((size + 2) as f64).ln();
            let total = |wanted: &str| -> i64 {
                let nodes = self.state.nodes.present().iter();
                nodes
                    .filter(|n| !all_keys_needed || self.has_all_keys(*n))
                    .filter(|n| self.counts(*n, constraint) && value(*n) == wanted)
                    .map(|n| self.pods_on(n, constraint))
                    .sum()
            };
            for (node, raw) in &mut raw {
                let Some(value) = self.label(*node, key) else { continue };
                let count = if hostname { self.pods_on(*node, constraint) } else { total(value) };
                *raw += count as f64 * weight + f64::from(constraint.max_skew - 1);
            }
        }
        let raw: BTreeMap<NodeIdx, i64> =
            raw.into_iter().map(|(node, raw)| (node, raw.round() as i64)).collect();
        let min = raw.values().min().copied().unwrap_or(0);
        let max = raw.values().max().copied().unwrap_or(0);
        let mut scores = vec![0; self.state.nodes.slots()];
        for (node, raw) in raw {
            scores[node.at()] = if max == 0 { 100 } else { 100 * (max + min - raw) / max };
        }
        scores
    }
}

/// What happens to the cluster.
#[derive(Clone, Debug)]
enum Step {
    Add { node: usize, web: bool, elsewhere: bool },
    Remove(usize),
    Terminate(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<usize>(), prop::bool::weighted(0.8), prop::bool::weighted(0.1))
            .prop_map(|(node, web, elsewhere)| Step::Add { node, web, elsewhere }),
        2 => any::<usize>().prop_map(Step::Remove),
        1 => any::<usize>().prop_map(Step::Terminate),
    ]
}

fn any_node() -> impl Strategy<Value = Node> {
    let value = prop_oneof![6 => Just(Some("a")), 6 => Just(Some("b")), 4 => Just(Some("c")),
        1 => Just(Some("")), 2 => Just(None)];
    let tainted = prop::bool::weighted(0.2);
    let named = prop::bool::weighted(0.9);
    (value.clone(), value, named, tainted).prop_map(|(zone, rack, named, tainted)| {
        let zone = zone.map(|zone| [("zone", zone), (ZONE, zone)]).into_iter().flatten();
        let rack = rack.map(|rack| ("rack", rack));
        let host = named.then_some((HOSTNAME, "host"));
        let taint = Taint { key: "k".into(), value: "".into(), effect: TaintEffect::NoSchedule };
        Node {
            labels: zone.chain(rack).chain(host).collect(),
            taints: tainted.then_some(taint).into_iter().collect(),
            ..node("")
        }
    })
}

fn any_constraint(kind: WhenUnsatisfiable) -> impl Strategy<Value = SpreadConstraint> {
    let selector = prop_oneof![
        8 => Just(Some(equals("app", "web"))),
        1 => Just(Some(Selector::default())),
        1 => Just(None),
    ];
    let key = prop_oneof![Just("zone"), Just("rack"), Just(HOSTNAME)];
    (key, 1..4, selector, 1..5, any::<bool>(), any::<bool>()).prop_map(
        move |(key, max_skew, selector, min_domains, honor_affinity, honor_taints)| {
            SpreadConstraint {
                max_skew,
                selector,
                min_domains,
                honor_affinity,
                honor_taints,
                ..constraint(key, kind)
            }
        },
    )
}

/// A state with nodes named by their position.
fn cluster(nodes: Vec<Node>) -> State {
    let named = nodes.into_iter().enumerate().map(|(i, node)| {
        let name: Text = format!("n{i}").into();
        let mut pairs: Vec<(Text, Text)> =
            node.labels.iter().map(|(k, v)| (k.into(), v.into())).collect();
        for (key, value) in &mut pairs {
            if **key == *HOSTNAME {
                *value = name.clone();
            }
        }
        Node { name, labels: pairs.into_iter().collect(), ..node }
    });
    state(named, [])
}

fn take(step: &Step, number: usize, pods: &mut Vec<PodIdx>, state: &mut State) {
    match step {
        Step::Add { node, web, elsewhere } => {
            let at = state.nodes.order()[node % state.nodes.count()];
            let mut pod = web_pod(&format!("p{number}"), state.nodes.name(at));
            if !web {
                pod.labels = Labels::default();
            }
            if *elsewhere {
                pod.namespace = "other".into();
            }
            pods.push(add_pod(state, pod));
        }
        Step::Remove(at) if !pods.is_empty() => {
            remove_pod(state, pods.swap_remove(at % pods.len()));
        }
        Step::Terminate(at) if !pods.is_empty() => terminate(state, pods[at % pods.len()]),
        Step::Remove(_) | Step::Terminate(_) => {}
    }
}

fn random_class(constraints: Vec<SpreadConstraint>, zone: Option<&'static str>) -> Class {
    let mut class = web(constraints);
    let mut spec = (*class.spec).clone();
    spec.node_selector = zone.map(|zone| labels(&[("zone", zone)]));
    class.spec = spec.into();
    class
}

proptest! {
    #[test]
    fn filters_stay_up_to_date(
        nodes in prop::collection::vec(any_node(), 1..8),
        constraints in
            prop::collection::vec(any_constraint(WhenUnsatisfiable::DoNotSchedule), 1..4),
        zone in prop::option::weighted(0.3, Just("a")),
        steps in prop::collection::vec(any_step(), 1..20),
    ) {
        let mut state = cluster(nodes);
        let class = random_class(constraints, zone);
        let mut pods = Vec::new();
        let mut filter = filter_of(&class, &mut state);
        let mut passing = state.nodes.present().clone();
        filter.filter(&state, &mut passing);
        for (number, step) in steps.iter().enumerate() {
            take(step, number, &mut pods, &mut state);
            let before = passing.clone();
            let freshness = filter.refresh(&state, &mut passing);
            prop_assert!(freshness != Freshness::Same || before == passing);
            let mut fresh = state.nodes.present().clone();
            filter_of(&class, &mut state).filter(&state, &mut fresh);
            prop_assert_eq!(&passing, &fresh);
            let plain = Plain { state: &state, class: &class, constraints: &class.spec.spread };
            let answers = |filter: &mut dyn Filter| -> Vec<u32> {
                state.nodes.present().iter().map(|node| filter.check(&state, node).0).collect()
            };
            prop_assert_eq!(answers(&mut *filter), plain.answers(&[]));
            let expected: Vec<bool> = plain.answers(&[]).iter().map(|a| *a == 0).collect();
            let found: Vec<bool> =
                state.nodes.present().iter().map(|node| passing.contains(node)).collect();
            prop_assert_eq!(found, expected);
            if let Some(pod) = pods.first().copied() {
                let node = state.pods.get(pod).node;
                filter.remove_pod(&state, pod, node);
                prop_assert_eq!(answers(&mut *filter), plain.answers(&[(pod, node, -1)]));
                filter.add_pod(&state, pod, node);
                filter.add_pod(&state, pod, node);
                prop_assert_eq!(answers(&mut *filter), plain.answers(&[(pod, node, 1)]));
                filter.remove_pod(&state, pod, node);
            }
        }
    }

    #[test]
    fn scores_stay_up_to_date(
        nodes in prop::collection::vec(any_node(), 1..8),
        own in prop::collection::vec(any_constraint(WhenUnsatisfiable::ScheduleAnyway), 1..4),
        system_default in prop::bool::weighted(0.3),
        zone in prop::option::weighted(0.3, Just("a")),
        steps in prop::collection::vec((any_step(), any::<u8>(), any::<bool>()), 1..20),
    ) {
        let service = Workload {
            kind: WorkloadKind::Service,
            namespace: "default".into(),
            name: "s".into(),
            selector: Some(equals("app", "web")),
        };
        let mut state = with_workload(cluster(nodes), service);
        let class = random_class(if system_default { Vec::new() } else { own }, zone);
        let constraints = if system_default {
            let selector = Some(equals("app", "web"));
            [super::system_default(HOSTNAME, 3), super::system_default(ZONE, 5)]
                .map(|c| SpreadConstraint { selector: selector.clone(), ..c })
                .to_vec()
        } else {
            class.spec.spread.to_vec()
        };
        let plugin = build(None);
        let mut pods = Vec::new();
        let mut scorer = plugin.prepare_score(&class, &mut Preparation::new(&mut state)).unwrap();
        let mut raw = Vec::new();
        let mut feasible = state.nodes.present().clone();
        let mut changed = true;
        for (number, (step, mask, changes)) in steps.iter().enumerate() {
            take(step, number, &mut pods, &mut state);
            if *changes {
                let before = feasible.clone();
                feasible.copy_from(state.nodes.present());
                feasible.retain(|node| mask >> node.at() & 1 == 1);
                changed |= feasible != before;
            }
            prop_assert!(catch_up(&mut *scorer, &state, &feasible, changed, &mut raw));
            changed = false;
            let found = final_scores(&*scorer, &feasible, &raw);
            let plain = Plain { state: &state, class: &class, constraints: &constraints };
            prop_assert_eq!(found, plain.scores(&feasible, !system_default));
        }
    }
}
