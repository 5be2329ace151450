//! Tests of PodTopologySpread: tables here, random clusters in [`random`].

mod random;
mod reference;

use api::config::args::{PodTopologySpreadArgs, WhenUnsatisfiable as Listed};
use engine::framework::{Filter, Freshness};
use engine::object::{
    Operator, Owner, Pod, PodSpec, Requirement, Selector, Taint, TaintEffect, Text, Workload,
    WorkloadKind,
};
use engine::testing::{
    class, labels, node, node_event, pod, pod_event, scores, state, verdicts, with_workload,
};

use super::*;

const LABEL_MISSING: &str = "UnschedulableAndUnresolvable node(s) didn't match pod topology spread \
                       constraints (missing required label)";
const SKEW_EXCEEDED: &str = "Unschedulable node(s) didn't match pod topology spread constraints";

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

/// Zones a (2 pods), b (1 pod) and c (no pod), and a node outside of all zones.
fn three_zones() -> State {
    state(
        [node_in("a", "a"), node_in("b", "b"), node_in("c", "c"), node("d")],
        [web_pod("1", "a"), web_pod("2", "a"), web_pod("3", "b")],
    )
}

#[test]
fn domains_above_the_allowed_skew_are_full() {
    let ok = |name: &str| format!("{name}: ok");
    for (max_skew, min_domains, full) in
        [(1, 1, "ab"), (2, 1, "a"), (3, 1, ""), (2, 4, "a"), (3, 4, "")]
    {
        let class = web([SpreadConstraint { max_skew, min_domains, ..hard("zone") }]);
        let expected: Vec<String> = ["a", "b", "c"]
            .iter()
            .map(|n| if full.contains(n) { format!("{n}: {SKEW_EXCEEDED}") } else { ok(n) })
            .chain([format!("d: {LABEL_MISSING}")])
            .collect();
        assert_eq!(verdicts(build(None), class, &mut three_zones()), expected, "{max_skew}");
    }
}

#[test]
fn too_few_domains_make_the_minimum_zero() {
    let pods = ["a", "b"].map(|node| web_pod(node, node));
    let mut state = state([node_in("a", "a"), node_in("b", "b")], pods);
    for (min_domains, verdict) in [(2, "ok"), (3, SKEW_EXCEEDED)] {
        let class = web([SpreadConstraint { min_domains, ..hard("zone") }]);
        let verdicts = verdicts(build(None), class, &mut state);
        assert_eq!(verdicts, [format!("a: {verdict}"), format!("b: {verdict}")]);
    }
}

#[test]
fn an_empty_selector_counts_only_the_pod_itself() {
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
        ["a: ok".to_owned(), "b: ok".to_owned(), format!("x: {LABEL_MISSING}")]
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
    let full =
        || [format!("a: {SKEW_EXCEEDED}"), format!("b: {SKEW_EXCEEDED}"), "c: ok".to_owned()];
    let free = || ["a: ok", "b: ok", "c: ok"].map(str::to_owned);
    assert_eq!(verdicts(build(None), ignoring, &mut state), full());
    assert_eq!(verdicts(build(None), honoring, &mut state), free());
    assert_eq!(verdicts(build(None), selecting(true), &mut state), free());
    assert_eq!(verdicts(build(None), selecting(false), &mut state), full());
}

#[test]
fn terminating_pods_count_only_in_a_what_if() {
    let terminating = Pod { terminating: true, ..web_pod("terminating", "a") };
    let mut state = state([node_in("a", "a"), node_in("b", "b")], [terminating, web_pod("1", "a")]);
    let mut filter = filter_of(&web([hard("zone")]), &mut state);
    let [a, b] = ["a", "b"].map(|name| state.nodes.find(name).unwrap());
    let passing = |filter: &mut dyn Filter| [a, b].map(|node| filter.check(&state, node).passes());
    assert_eq!(passing(&mut *filter), [false, true]);
    let terminating = state.find_pod("default", "terminating").unwrap();
    let staying = state.find_pod("default", "1").unwrap();
    filter.remove_pod(&state, staying, a);
    assert_eq!(passing(&mut *filter), [true, true]);
    // The count of a falls to -1, and so does the minimum.
    filter.remove_pod(&state, terminating, a);
    assert_eq!(passing(&mut *filter), [true, false]);
    filter.add_pod(&state, terminating, a);
    filter.add_pod(&state, staying, a);
    assert_eq!(passing(&mut *filter), [false, true]);
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
fn equal_raw_scores_normalise_to_the_highest_score() {
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
        ..Workload::default()
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
        ..Workload::default()
    };
    let mut state = with_workload(three_zones(), service);
    let verdicts = verdicts(build(Some(&args)), web([]), &mut state);
    assert_eq!(
        verdicts[..3],
        [&*format!("a: {SKEW_EXCEEDED}"), &*format!("b: {SKEW_EXCEEDED}"), "c: ok"]
    );
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
fn counted_pods_and_nodes_with_all_keys_wake_the_pod() {
    let state = State::default();
    let plugin = build(None);
    let class = web([SpreadConstraint { honor_taints: true, ..hard("zone") }]);
    let hint = |event: &Event| plugin.hint(&state, &class, event);

    let (there, pending) = (web_pod("p", "a"), web_pod("p", ""));
    let other = Pod { labels: labels(&[("app", "db")]), ..there.clone() };
    let elsewhere = Pod { namespace: "other".into(), ..there.clone() };
    for (pod, helps) in [(&there, true), (&pending, false), (&other, false), (&elsewhere, false)] {
        assert_eq!(hint(&pod_event(Action::ADD, None, Some(pod), false)), helps);
        assert_eq!(hint(&pod_event(Action::DELETE, Some(pod), None, false)), helps);
    }
    let relabelled =
        |old, new| hint(&pod_event(Action::UPDATE_POD_LABEL, Some(old), Some(new), false));
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
    assert!(hint(&pod_event(action, Some(&pending), Some(&tolerant), true)));
    assert!(!hint(&pod_event(action, Some(&pending), Some(&pending), true)));

    let (inside, outside, beside) = (node_in("n", "a"), node("n"), node_in("n", "b"));
    assert!(hint(&node_event(Action::ADD, None, &inside)));
    assert!(!hint(&node_event(Action::ADD, None, &outside)));
    let relabelled = |old, new| hint(&node_event(Action::UPDATE_NODE_LABEL, Some(old), new));
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
